#include "muster/plan/known.h"

// --container and what goes with it. The agent stays on the node; its workers run inside.
namespace muster::plan {
namespace {

using container::Spec;
using job::Request;

// For a job of this node alone; where a launcher waits, it waits as long as it waits for nodes.
constexpr Duration kPatience = std::chrono::hours(2);

std::vector<std::string> log_directories(const Request& request, const std::string& directory) {
  const std::string& given = request.log_dir;
  if (given.empty() || given == "/dev/null") return {};
  return {given.starts_with('/') ? given : fmt::format("{}/{}", directory, given)};
}

// What was given must not get lost; of the node's own variables such a one means nothing inside.
Result<void> check_lines(const Spec& spec, const Environment& environment, const std::set<std::string>& given) {
  if (spec.kind != container::Kind::kEnroot) return {};
  for (const auto& [name, value] : environment)
    if (given.contains(name) && value.find('\n') != std::string::npos)
      return Error{ErrorKind::kUsage,
                   fmt::format("--env: {} has several lines, and enroot takes one line per variable", name),
                   "put it into a file that workers read, or use another --container-runtime"};
  return {};
}

}  // namespace

Result<Spec> plan_container(const Request& request, const Position& position, const Known& known, Notes& notes) {
  const job::ContainerWish& wish = request.container;
  notes.ignored({&request.venv, &request.conda}, "workers find the Python of the image",
                "without effect in a container");
  const std::string& directory = known.plain().working_directory;
  Spec spec;
  // Which runtime there is, and whether it can do this, is known on the nodes.
  if (!position.elsewhere) {
    MUSTER_TRY(container::Found runtime, container::find_runtime(*wish.runtime, [&](const std::string& name) {
                 return known.find_program(name);
               }));
    spec.kind = runtime.kind;
    spec.program = runtime.program;
    if (!wish.runtime.given())
      notes.add(LogLevel::kInfo,
                fmt::format("workers run in {}, the first container runtime on PATH", container::name_of(spec.kind)));
  }
  spec.image = *wish.image;
  spec.name = *wish.name;
  spec.root = wish.root;
  spec.writable = wish.writable;
  for (const std::string& word : *wish.mounts) {
    auto mount = container::parse_mount(word, directory);
    if (!mount) return wish.mounts.about(mount.error());
    spec.mounts.push_back(*std::move(mount));
  }
  container::show(spec.mounts, directory);
  container::show(spec.mounts, known.temporary_directory());
  for (const std::string& log_dir : log_directories(request, directory)) container::show(spec.mounts, log_dir);
  spec.directory = wish.directory.given() ? *wish.directory : directory;
  spec.options = wish.options;
  if (!position.elsewhere) MUSTER_TRY_VOID(container::check(spec));
  return spec;
}

Result<MakeContainer> container_to_make(const Request& request, const Spec& spec, const std::string& host,
                                        const Position& position, const Environment& set, const Known& known) {
  std::set<std::string> given;
  for (const auto& [name, value] : set) given.insert(name);
  MUSTER_TRY_VOID(check_lines(spec, known.environment(), given));
  return MakeContainer{{.spec = spec,
                        .host = host,
                        .environment = known.environment(),
                        .given_variables = given,
                        .directories = log_directories(request, known.plain().working_directory),
                        .python = known.variable("PYTHON_EXEC").value_or(""),
                        .dry = request.dry_run},
                       position.alone ? kPatience : *request.join_timeout,
                       request.log_threshold};
}

}  // namespace muster::plan
