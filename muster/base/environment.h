#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// The variables of a process, in their order. A name that occurs twice has its first value, as for getenv().
class Environment {
 public:
  using Variable = std::pair<std::string, std::string>;
  using value_type = Variable;  // the names of a standard container, for generic code
  using const_iterator = std::vector<Variable>::const_iterator;

  Environment() = default;
  Environment(std::initializer_list<Variable> variables) : variables_(variables) {}

  const std::string* find(std::string_view name) const;  // null: it is not set
  std::optional<std::string> get(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // Like setenv(): in the place of the old value, or after all others. After this the name occurs once.
  void set(std::string_view name, std::string value);
  // The same for each of `others`, in their order.
  void set_all(const Environment& others);
  void erase(std::string_view name);
  template <typename Predicate>  // bool(const std::string& name)
  void erase_if(Predicate predicate) {
    std::erase_if(variables_, [&](const Variable& variable) { return predicate(variable.first); });
  }
  // Adds it after all others; for callers that know that the name is new.
  void add(std::string_view name, std::string_view value) { variables_.emplace_back(name, value); }
  void add(Variable variable) { variables_.push_back(std::move(variable)); }

  const_iterator begin() const { return variables_.begin(); }
  const_iterator end() const { return variables_.end(); }
  size_t size() const { return variables_.size(); }
  bool empty() const { return variables_.empty(); }
  bool operator==(const Environment&) const = default;

 private:
  std::vector<Variable> variables_;
};

// The environment of this process, as it is now.
Environment own_environment();

// Reads a variable, in code for which tests supply their own variables; nothing if it is unset.
using GetEnv = std::function<std::optional<std::string>(const std::string& name)>;

// A variable of this process.
std::optional<std::string> environment_variable(const std::string& name);

// The directory for temporary files: $TMPDIR if it is a directory, else /tmp.
std::string temporary_directory();
bool is_directory(const std::string& path);
// The warning about a $TMPDIR that is set but is not a directory.
std::string no_temporary_directory(const std::string& given);

}  // namespace muster
