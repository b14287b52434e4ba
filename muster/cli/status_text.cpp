#include "muster/cli/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "muster/base/strings.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

Json parse(std::string_view document) { return Json::parse(document, nullptr, false); }

std::string text_of(const Json& json, const char* key) {
  auto found = json.find(key);
  if (found == json.end() || found->is_null()) return "-";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

int64_t number_of(const Json& json, const char* key) {
  auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<int64_t>() : 0;
}

// "12 s", "3 min", "5 h", "2 d"
std::string age(const Json& json, double now) {
  auto since = json.find("since");
  if (since == json.end() || !since->is_number()) return "-";
  const auto seconds = static_cast<int64_t>(std::clamp(now - since->get<double>(), 0.0, 1e12));
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (seconds < 2 * kMinute) return fmt::format("{} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{} min", seconds / kMinute);
  return seconds < 2 * kDay ? fmt::format("{} h", seconds / kHour) : fmt::format("{} d", seconds / kDay);
}

// One number of each worker, as ranges: "0-3".
std::string ranges(const Json& node, const char* key) {
  std::vector<int> numbers;
  auto workers = node.find("workers");
  if (workers != node.end() && workers->is_array())
    for (const Json& worker : *workers)
      if (worker.is_object()) numbers.push_back(static_cast<int>(number_of(worker, key)));
  std::sort(numbers.begin(), numbers.end());
  return numbers.empty() ? "-" : number_ranges(numbers, ",");
}

using Row = std::array<std::string, 8>;

std::string table(const std::vector<Row>& rows) {
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], count_characters(row[i]));
  std::string text;
  for (const Row& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i)
      line += " " + row[i] + std::string(widths[i] + 1 - count_characters(row[i]), ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

Result<JobNames> job_names(std::string_view document) {
  const Json json = parse(document);
  if (!json.is_object() || !json.contains("job") || !json["job"].is_string())
    return Error{ErrorKind::kPeer, "the answer is not the status of a job", {}};
  return JobNames{json["job"].get<std::string>(), text_of(json, "run_id")};
}

bool is_named(const JobNames& names, std::string_view wanted) {
  return !wanted.empty() && (names.job.starts_with(wanted) || names.run_id == wanted);
}

std::string status_text(std::string_view document, double now) {
  const Json json = parse(document);
  std::string text =
      fmt::format("job {}  {}  round {}, {} of {} restarts  {}, pid {}  for {}\n", text_of(json, "job"),
                  text_of(json, "state"), number_of(json, "round"), number_of(json, "restarts"),
                  number_of(json, "max_restarts"), text_of(json, "mode"), number_of(json, "pid"), age(json, now));
  if (const std::string name = text_of(json, "run_id"); name != "-" && name != text_of(json, "job"))
    text += fmt::format("  id {}\n", name);
  if (const std::string message = text_of(json, "message"); message != "-" && !message.empty())
    text += fmt::format("  {}\n", message);
  std::vector<Row> rows = {{"NODE", "HOST", "STATE", "ADDRESS", "RANKS", "PIDS", "AGENT", "FOR"}};
  if (auto nodes = json.find("nodes"); nodes != json.end() && nodes->is_array())
    for (const Json& node : *nodes)
      if (node.is_object())
        rows.push_back({text_of(node, "group_rank"), text_of(node, "host"), text_of(node, "state"),
                        text_of(node, "address"), ranges(node, "rank"), ranges(node, "pid"), text_of(node, "agent_pid"),
                        age(node, now)});
  if (rows.size() > 1) text += table(rows);
  if (auto lost = json.find("lost"); lost != json.end() && lost->is_array())
    for (const Json& sentence : *lost)
      if (sentence.is_string()) text += fmt::format("  lost: {}\n", sentence.get<std::string>());
  return text;
}

std::string status_json(const std::vector<std::string>& documents) {
  Json all = Json::array();
  for (const std::string& document : documents) all.push_back(parse(document));
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
