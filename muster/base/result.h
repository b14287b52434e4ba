#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "muster/base/error.h"

namespace muster {

// Either a value or an Error. Expected failures are returned, never thrown.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    MUSTER_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    MUSTER_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    MUSTER_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    MUSTER_CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    MUSTER_CHECK(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

// Success without a value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    MUSTER_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace muster

#define MUSTER_CONCAT_(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_(a, b)

// MUSTER_TRY(auto x, call()); returns the error of call() from this function, or declares x.
#define MUSTER_TRY(declaration, expression) \
  MUSTER_TRY_(MUSTER_CONCAT(muster_result_, __LINE__), declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses
#define MUSTER_TRY_(result, declaration, expression) \
  auto result = (expression);                        \
  if (!result) return std::move(result).error();     \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

// The same for Result<void>.
#define MUSTER_TRY_VOID(expression)                                                      \
  do {                                                                                   \
    if (auto muster_result = (expression); !muster_result) return muster_result.error(); \
  } while (false)
