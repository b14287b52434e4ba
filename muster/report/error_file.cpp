#include "muster/report/error_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "muster/base/detached_thread.h"
#include "muster/base/fd.h"
#include "muster/base/strings.h"
#include "muster/report/python_json.h"

namespace muster::report {
namespace {

constexpr size_t kMaxSize = 4 << 20;
constexpr int64_t kMaxTimestamp = 253402300799;  // the end of the year 9999

Error broken(std::string message) { return {ErrorKind::kPeer, std::move(message), {}}; }

Result<Json> parse_object(std::string_view text) {
  if (text.size() > kMaxSize) return broken(fmt::format("it is larger than {} MiB", kMaxSize >> 20));
  MUSTER_TRY(Json json, parse_python_json(text));
  if (!json.is_object()) return broken(fmt::format("it is not an object but of type {}", json.type_name()));
  if (!json.contains("message")) return broken("it has no \"message\"");
  const Json& message = json["message"];
  if (!message.is_string() && !message.is_object())
    return broken(fmt::format("its \"message\" is neither text nor an object but of type {}", message.type_name()));
  return json;
}

// A number or text; what is neither a whole number nor a possible time counts as absent.
std::optional<int64_t> timestamp_of(const Json& holder) {
  if (!holder.is_object() || !holder.contains("timestamp")) return std::nullopt;
  const Json& value = holder["timestamp"];
  std::optional<int64_t> seconds;
  if (value.is_string()) {
    seconds = parse_int(trim(value.get_ref<const std::string&>()));
  } else if (value.is_number_float()) {
    double number = value.get<double>();
    if (number >= 0 && number <= static_cast<double>(kMaxTimestamp)) seconds = static_cast<int64_t>(number);
  } else if (value.is_number_integer()) {
    seconds = value.get<int64_t>();
  }
  if (!seconds || *seconds < 0 || *seconds > kMaxTimestamp) return std::nullopt;
  return seconds;
}

std::string text_of(const Json& holder, const char* name) {
  if (!holder.is_object() || !holder.contains(name) || !holder[name].is_string()) return {};
  return holder[name].get<std::string>();
}

}  // namespace

Result<ErrorFile> parse_error_file(std::string_view text) {
  MUSTER_TRY(const Json json, parse_object(text));
  const Json& message = json["message"];
  ErrorFile file;
  if (message.is_string()) {
    file.message = message.get<std::string>();
    file.timestamp = timestamp_of(json);
    return file;
  }
  const Json extra = message.contains("extraInfo") ? message["extraInfo"] : Json();
  file.structured = true;
  file.message = text_of(message, "message");
  file.callstack = text_of(extra, "py_callstack");
  file.timestamp = timestamp_of(extra);
  if (file.message.empty() && file.callstack.empty())
    return broken("its \"message\" has neither a \"message\" nor an \"extraInfo\" with a \"py_callstack\"");
  return file;
}

Result<std::string> error_file_with_code(std::string_view text, int code) {
  MUSTER_TRY(Json json, parse_object(text));
  // The plain form has no place for it; PyTorch copies such a file as it is.
  if (json["message"].is_object() && code != 0) json["message"]["errorCode"] = code;
  return python_json(json);
}

Result<std::optional<std::string>> read_error_file(const std::string& path, Deadline deadline) {
  using Text = Result<std::optional<std::string>>;
  if (path.empty()) return std::optional<std::string>();
  auto text = call_with_deadline<Text>(deadline, [path]() -> Text {
    if (::access(path.c_str(), F_OK) != 0) return std::optional<std::string>();
    MUSTER_TRY(std::string all, read_regular_file(path));
    return std::optional<std::string>(std::move(all));
  });
  if (!text) return Error{ErrorKind::kTimeout, "its file system does not respond", {}};
  return *std::move(text);
}

}  // namespace muster::report
