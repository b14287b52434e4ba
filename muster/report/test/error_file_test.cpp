#include "muster/report/error_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::report {
namespace {

using testing::HasSubstr;

constexpr std::string_view kRecorded =
    R"({"message": {"message": "ValueError: bad batch \u00e4", "extraInfo": {"py_callstack": )"
    R"("Traceback (most recent call last):\n  File \"a\"\nValueError: bad batch\n", "timestamp": "1794737093"}}})";

TEST(ErrorFile, AsRecordWritesIt) {
  auto file = parse_error_file(kRecorded);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->structured);
  EXPECT_EQ(file->message, "ValueError: bad batch ä");
  EXPECT_EQ(file->callstack, "Traceback (most recent call last):\n  File \"a\"\nValueError: bad batch\n");
  EXPECT_EQ(file->timestamp, 1794737093);
}

TEST(ErrorFile, PlainForm) {
  auto file = parse_error_file(R"({"message": "gone", "timestamp": 12})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE(file->structured);
  EXPECT_EQ(file->message, "gone");
  EXPECT_EQ(file->timestamp, 12);
}

TEST(ErrorFile, TimestampInAnyFormOrNone) {
  auto timestamp = [](const std::string& value) {
    return parse_error_file(R"({"message": "x", "timestamp": )" + value + "}")->timestamp;
  };
  EXPECT_EQ(timestamp("\"12\""), 12);
  EXPECT_EQ(timestamp("12.9"), 12);
  for (const char* none : {"\"soon\"", "null", "[]", "-1", "1e300", "99999999999999999999", "18446744073709551615"})
    EXPECT_EQ(timestamp(none), std::nullopt) << none;
  EXPECT_EQ(parse_error_file(R"({"message": "x"})")->timestamp, std::nullopt);
}

TEST(ErrorFile, SurvivesWrongTypesWhereItCan) {
  auto file =
      parse_error_file(R"({"message": {"message": 3, "extraInfo": {"py_callstack": "here", "timestamp": []}}})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->message, "");
  EXPECT_EQ(file->callstack, "here");
  EXPECT_TRUE(parse_error_file(R"({"message": {"message": "x", "extraInfo": 7}})"));
}

TEST(ErrorFile, SaysWhatIsWrong) {
  auto error = [](std::string_view text) {
    auto file = parse_error_file(text);
    return file ? std::string("accepted") : file.error().message;
  };
  EXPECT_EQ(error(""), "it is not valid JSON");
  EXPECT_EQ(error("{\"message\": \"cut"), "it is not valid JSON");
  EXPECT_EQ(error("{\"message\": \"\xff\"}"), "it is not valid JSON");
  EXPECT_EQ(error("[1]"), "it is not an object but of type array");
  EXPECT_EQ(error("{}"), "it has no \"message\"");
  EXPECT_EQ(error(R"({"message": 3})"), "its \"message\" is neither text nor an object but of type number");
  EXPECT_THAT(error(R"({"message": {}})"), HasSubstr("neither a \"message\" nor"));
  EXPECT_EQ(error("{\"message\": " + std::string(100'000, '[')), "it is nested more than 100 levels deep");
  EXPECT_EQ(error("{\"message\": \"" + std::string(5 << 20, 'x') + "\"}"), "it is larger than 4 MiB");
}

TEST(ErrorFile, LoneSurrogatesAreReplaced) {
  auto file = parse_error_file(R"({"message": "a\udcff \ud83d\ude80 \\udcff"})");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->message, "a\uFFFD \U0001F680 \\udcff");
}

TEST(ErrorFileWithCode, AddsTheCodeAsPyTorchDoes) {
  auto text = error_file_with_code(kRecorded, 1);
  ASSERT_TRUE(text);
  std::string expected(kRecorded);
  expected.insert(expected.size() - 2, R"(, "errorCode": 1)");
  EXPECT_EQ(*text, expected);
}

TEST(ErrorFileWithCode, LeavesThePlainFormAlone) {
  EXPECT_EQ(*error_file_with_code(R"({ "message":"gone","timestamp":12 })", 1),
            R"({"message": "gone", "timestamp": 12})");
  EXPECT_FALSE(error_file_with_code("{}", 1));
}

}  // namespace
}  // namespace muster::report
