#include <nlohmann/json.hpp>

#include "muster/cli/commands.h"
#include "muster/cli/planning.h"
#include "muster/cli/request.h"
#include "muster/cluster/adapter.h"
#include "muster/plan/mode.h"

namespace muster::cli {
namespace {

using cluster::Surroundings;
using plan::ModeChoice;
using Json = nlohmann::ordered_json;

constexpr auto kAskTime = std::chrono::seconds(5);

struct TimeLeft {
  bool known = false;
  std::optional<Duration> time;  // none: without limit
  std::string problem;           // why it is not known
};

TimeLeft ask_time_left(const Surroundings& here) {
  if (here.job_id.empty()) return {};
  auto left = here.adapter->time_left(here, Deadline::in(kAskTime));
  if (!left) return {false, std::nullopt, left.error().message};
  return {true, *left, {}};
}

std::string time_text(const TimeLeft& left) {
  if (!left.known) return fmt::format("not known ({})", left.problem);
  if (!left.time) return "without limit";
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(*left.time).count();
  constexpr int kHour = 60;
  if (minutes >= kHour) return fmt::format("{} h {} min", minutes / kHour, minutes % kHour);
  return fmt::format("{} min {} s", minutes, std::chrono::duration_cast<std::chrono::seconds>(*left.time).count() % 60);
}

constexpr std::string_view kNoSense = "what is set here makes no sense";

bool makes_sense(const ModeChoice& choice) { return choice.row != 0; }

// Where even the surroundings cannot be told: `muster run` is refused for the same reason.
ModeChoice senseless(const Error& error) {
  return {.row = 0, .mode = std::nullopt, .why = error.message, .would = "is refused: " + error.text()};
}

std::string as_text(const std::optional<Surroundings>& here, const ModeChoice& choice) {
  if (!makes_sense(choice))
    return fmt::format("{}\nmode: {} ({})\n`muster run train.py` {}.\n", kNoSense, plan::mode_name(choice.mode),
                       choice.why, choice.would);
  std::string text = here ? here->what + "\n" : "no scheduler, and nothing preset\n";
  if (here) {
    for (const cluster::Clue& clue : here->clues)
      text += fmt::format("  {}={}{}{}\n", clue.name, clue.value, clue.meaning.empty() ? "" : ": ", clue.meaning);
    if (!here->nodes.empty()) text += fmt::format("nodes: {}\n", plan::node_list(here->nodes));
    if (here->node_rank) {
      const std::string name = here->node_name.empty() ? "" : here->node_name + ", ";
      text += fmt::format("this node: {}number {}\n", name, *here->node_rank);
    }
    if (!here->job_id.empty()) text += fmt::format("time left: {}\n", time_text(ask_time_left(*here)));
  }
  text += fmt::format("mode: {} (row {}: {})\n", plan::mode_name(choice.mode), choice.row, choice.why);
  return text + fmt::format("`muster run train.py` {}.\n", choice.would);
}

Json seconds(const TimeLeft& left) {
  if (!left.known || !left.time) return nullptr;
  return std::chrono::duration_cast<std::chrono::seconds>(*left.time).count();
}

std::string as_json(const std::optional<Surroundings>& here, const ModeChoice& choice) {
  Json json;
  json["adapter"] = here ? Json(here->adapter->name()) : Json();
  json["what"] = here ? Json(here->what) : makes_sense(choice) ? Json() : Json(kNoSense);
  json["clues"] = Json::array();
  json["nodes"] = Json::array();
  if (here) {
    for (const cluster::Clue& clue : here->clues)
      json["clues"].push_back({{"name", clue.name}, {"value", clue.value}, {"meaning", clue.meaning}});
    for (const cluster::Host& node : here->nodes) json["nodes"].push_back(node.name);
    json["job_id"] = here->job_id.empty() ? Json() : Json(here->job_id);
    json["job_name"] = here->job_name.empty() ? Json() : Json(here->job_name);
    json["step_id"] = here->step_id.empty() ? Json() : Json(here->step_id);
    json["allocated"] = here->allocated;
    json["node_rank"] = here->node_rank ? Json(*here->node_rank) : Json();
    json["node_name"] = here->node_name.empty() ? Json() : Json(here->node_name);
    json["tasks_here"] = here->tasks_here;
    json["local_task"] = here->local_task;
    const TimeLeft left = ask_time_left(*here);
    json["time_left"] = seconds(left);
    json["time_left_known"] = left.known;
  }
  json["row"] = makes_sense(choice) ? Json(choice.row) : Json();
  json["mode"] = choice.mode ? Json(plan::mode_name(choice.mode)) : Json();
  json["why"] = choice.why;
  json["would"] = choice.would;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Of `muster run` without options, but for a program that every machine has. Opens no port, not even to look whether it
// is free: a job that starts meanwhile may want it.
Result<plan::JobPlan> plan_of_run(plan::Facts& facts) {
  const std::vector<std::string> words = {"--dry-run", "--no-python", "/bin/sh"};
  MUSTER_TRY(Parsed parsed, parse_arguments(Verb::kRun, words, environment_variable));
  parsed.setting(Opt::kModule) = {};  // PET_MODULE is about the program that is not named yet
  MUSTER_TRY(const Asking asking, make_request(Verb::kRun, parsed, environment_variable));
  return make_plan(asking.request, facts, {.answer = [](const plan::Question& question) {
                     const bool port = question.topic == plan::Topic::kPortIsFree;
                     return port ? plan::Answer(true) : answer(question);
                   }});
}

}  // namespace

int where_command(const Parsed& parsed) {
  plan::Facts facts = own_facts();
  const auto detected = facts.here;
  const std::optional<Surroundings> here = detected ? *detected : std::nullopt;
  const std::string workers = environment_variable(pet_variable(option(Opt::kNprocPerNode))).value_or("");
  const ModeChoice choice =
      detected ? plan::describe_mode(here, plan_of_run(facts), workers) : senseless(detected.error());
  return print(parsed.flag(Opt::kJson) ? as_json(here, choice) : as_text(here, choice));
}

}  // namespace muster::cli
