#include "muster/base/shared_library.h"

#include <gmock/gmock.h>

namespace muster {
namespace {

using testing::HasSubstr;

constexpr const char* kThere = "libm.so.6";
constexpr const char* kNotThere = "libmuster-test-missing.so.1";

TEST(SharedLibrary, OpensTheFirstNameThatIsThere) {
  auto library = SharedLibrary::open({kNotThere, kThere});
  ASSERT_TRUE(library.ok()) << library.error().message;
  double (*root)(double) = nullptr;
  double (*power)(double, double) = nullptr;
  ASSERT_TRUE(library->find("sqrt", root, "pow", power).ok());
  EXPECT_EQ(root(9), 3);
  EXPECT_EQ(power(2, 3), 8);
}

TEST(SharedLibrary, StaysOpenWhenItIsMoved) {
  auto library = SharedLibrary::open({kThere});
  ASSERT_TRUE(library.ok());
  const SharedLibrary moved = *std::move(library);
  auto* root = moved.function<double(double)>("sqrt");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root(4), 2);
}

TEST(SharedLibrary, NamesEveryLibraryThatItTried) {
  auto library = SharedLibrary::open({kNotThere, "libmuster-test-missing.so"});
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(library.error().message, HasSubstr("cannot load libmuster-test-missing.so.1: "));
  EXPECT_THAT(library.error().message, HasSubstr("; libmuster-test-missing.so: "));
}

TEST(SharedLibrary, NamesTheFunctionThatIsMissing) {
  auto library = SharedLibrary::open({kThere});
  ASSERT_TRUE(library.ok());
  double (*root)(double) = nullptr;
  void (*other)() = nullptr;
  auto found = library->find("sqrt", root, "muster_missing", other);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message, "libm.so.6 does not have the function muster_missing");
  EXPECT_EQ(library->function<void()>("muster_missing"), nullptr);
}

}  // namespace
}  // namespace muster
