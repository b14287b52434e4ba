#include "muster/report/python_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace muster::report {
namespace {

TEST(PythonJson, NumbersAreWrittenAsPythonDoes) {
  EXPECT_EQ(python_json(Json(0.1)), "0.1");
  EXPECT_EQ(python_json(Json(3.0)), "3.0");
  EXPECT_EQ(python_json(Json(0.1 + 0.2)), "0.30000000000000004");
  EXPECT_EQ(python_json(Json(1e-5)), "1e-05");
  EXPECT_EQ(python_json(Json(1e16)), "1e+16");
  EXPECT_EQ(python_json(Json(5e-324)), "5e-324");
  EXPECT_EQ(python_json(Json(9007199254740993.0)), "9007199254740992.0");
  EXPECT_EQ(python_json(Json(7)), "7");
  EXPECT_EQ(python_json(Json(std::nan(""))), "null");
}

TEST(PythonJson, ContainersHaveBlanksAndStringsAreAscii) {
  EXPECT_EQ(python_json(Json::parse(R"({"a": [1, "gr\u00fcn"], "b": null})")), R"({"a": [1, "gr\u00fcn"], "b": null})");
}

}  // namespace
}  // namespace muster::report
