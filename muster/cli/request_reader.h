#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/cli/argument_parser.h"
#include "muster/cli/values.h"
#include "muster/job/request.h"

// For request.cpp and request_more.cpp alone.
namespace muster::cli {

struct RequestReader {
  bool ours;  // muster run
  const Parsed& parsed;
  const GetEnv& getenv;

  const std::string& text(Opt id) const { return parsed.text(id); }
  job::Source source(Opt id) const;
  // The error of an option's value, with the option's name, or that of the variable it came from, in front.
  Error about(Opt id, const Error& error) const;
  Result<int> integer(Opt id, int64_t min, int64_t max) const;
  Result<Duration> seconds(Opt id, double min) const;

  // An enum lists its values in the order of the option's choices.
  template <typename E>
  E choice(Opt id) const {
    const auto choices = split(option(id).choices, '|');
    const auto found = std::find(choices.begin(), choices.end(), text(id));
    return found == choices.end() ? E() : static_cast<E>(found - choices.begin());
  }

  void take(job::Asked<std::string>& field, Opt id) const {
    field.origin = source(id).origin;
    field.value = text(id);
  }
  // `parse`: Result<T>(const std::string& text)
  template <typename T, typename Parse>
  Result<void> take(job::Asked<T>& field, Opt id, Parse parse) const {
    field.origin = source(id).origin;
    auto value = parse(text(id));
    if (!value) return field.about(value.error());
    field.value = *std::move(value);
    return {};
  }
  Result<void> take_integer(job::Asked<int>& field, Opt id, int64_t min, int64_t max) const {
    field.origin = source(id).origin;
    MUSTER_TRY(field.value, integer(id, min, max));
    return {};
  }
  Result<void> take_seconds(job::Asked<Duration>& field, Opt id, double min) const {
    field.origin = source(id).origin;
    MUSTER_TRY(field.value, seconds(id, min));
    return {};
  }
};

Result<void> read_rendezvous(const RequestReader& in, job::Request& request);
Result<void> read_environment(const RequestReader& in, job::Request& request);
Result<void> read_container(const RequestReader& in, job::Request& request);
Result<void> read_output(const RequestReader& in, job::Request& request);

}  // namespace muster::cli
