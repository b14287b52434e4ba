#include "muster/base/strings.h"
#include "muster/cli/job_planner.h"

// --container and what goes with it. The agent stays on the node; its workers run inside.
namespace muster::cli {
namespace {

using container::Mount;

// For a job of this node alone; where a launcher waits, it waits as long as it waits for nodes.
constexpr Duration kPatience = std::chrono::hours(2);

bool is_shown(const container::Spec& spec, const std::string& directory, const std::string& path) {
  if (!path.starts_with('/')) return spec.directory == directory;
  std::vector<Mount> mounts = spec.mounts;
  const size_t before = mounts.size();
  container::show(mounts, path);
  return mounts.size() == before;
}

// What cannot be seen from here is judged by its name.
PathKind kind_by_name(const std::string& path) {
  if (path.ends_with(".py")) return PathKind::kFile;
  return path.find('/') == std::string::npos ? PathKind::kMissing : PathKind::kExecutable;
}

// What was given must not get lost; of the node's own variables such a one means nothing inside.
Result<void> check_lines(const container::Spec& spec, const Environment& environment,
                         const std::set<std::string>& given) {
  if (spec.kind != container::Kind::kEnroot) return {};
  for (const auto& [name, value] : environment)
    if (given.contains(name) && value.find('\n') != std::string::npos)
      return Error{ErrorKind::kUsage,
                   fmt::format("--env: {} has several lines, and enroot takes one line per variable", name),
                   "put it into a file that workers read, or use another --container-runtime"};
  return {};
}

}  // namespace

Result<void> Planner::plan_container() {
  if (!parsed_.given(Opt::kContainer) && !parsed_.given(Opt::kContainerName)) {
    for (Opt id : {Opt::kContainerRuntime, Opt::kContainerRoot, Opt::kContainerWritable, Opt::kMount,
                   Opt::kContainerWorkdir, Opt::kContainerOption})
      if (parsed_.given(id))
        return Error{ErrorKind::kUsage, fmt::format("{} needs a container", dashed(option(id))),
                     "name its image with --container"};
    return {};
  }
  note_ignored({Opt::kVenv, Opt::kConda}, "workers find the Python of the image", "without effect in a container");
  MUSTER_TRY(container::Spec spec, read_container());
  container::Prepared ready;
  if (fan_out() != nullptr) {  // those who run the workers prepare
    ready.plan.spec = spec;
    ready.python = facts_.getenv("PYTHON_EXEC").value_or("python");
  } else {
    MUSTER_TRY_VOID(check_lines(spec, environment_, given_variables_));
    MUSTER_TRY(ready, prepare_container(spec));
  }
  job_.container = std::move(ready.plan);
  look_inside(ready.python);
  return {};
}

Result<container::Spec> Planner::read_container() {
  const std::string directory = facts_.working_directory();
  container::Spec spec;
  if (parsed_.given(Opt::kContainer) && text(Opt::kContainer).empty())
    return about(Opt::kContainer, {ErrorKind::kUsage, "it is empty", "name an image"});
  // Which runtime there is, and whether it can do this, is known on the nodes.
  if (!elsewhere()) {
    MUSTER_TRY(container::Found runtime, container::find_runtime(text(Opt::kContainerRuntime), facts_.find_program));
    spec.kind = runtime.kind;
    spec.program = runtime.program;
    if (!parsed_.given(Opt::kContainerRuntime))
      note(LogLevel::kInfo,
           fmt::format("workers run in {}, the first container runtime on PATH", container::name_of(spec.kind)));
  }
  spec.image = text(Opt::kContainer);
  spec.name = text(Opt::kContainerName);
  spec.root = parsed_.flag(Opt::kContainerRoot);
  spec.writable = parsed_.flag(Opt::kContainerWritable);
  for (const std::string& word : parsed_.list(Opt::kMount)) {
    auto mount = container::parse_mount(word, directory);
    if (!mount) return about(Opt::kMount, mount.error());
    spec.mounts.push_back(*std::move(mount));
  }
  container::show(spec.mounts, directory);
  container::show(spec.mounts, temporary_directory_of_node());
  for (const std::string& log_dir : log_directories()) container::show(spec.mounts, log_dir);
  spec.directory = parsed_.given(Opt::kContainerWorkdir) ? text(Opt::kContainerWorkdir) : directory;
  if (!spec.directory.starts_with('/'))
    return about(Opt::kContainerWorkdir,
                 {ErrorKind::kUsage, fmt::format("'{}' is not a directory inside", spec.directory),
                  "write a path that begins with /"});
  spec.options = parsed_.list(Opt::kContainerOption);
  if (!elsewhere()) MUSTER_TRY_VOID(container::check(spec));
  return spec;
}

// Error files and timers of the workers are there.
std::string Planner::temporary_directory_of_node() const {
  const std::string given = facts_.getenv("TMPDIR").value_or("");
  return given.starts_with('/') && facts_.is_directory(given) ? given : "/tmp";
}

std::vector<std::string> Planner::log_directories() const {
  const std::string& given = text(Opt::kLogDir);
  if (given.empty() || given == "/dev/null") return {};
  return {given.starts_with('/') ? given : fmt::format("{}/{}", facts_.working_directory(), given)};
}

Result<container::Prepared> Planner::prepare_container(const container::Spec& spec) {
  MUSTER_TRY(const Duration join, seconds(Opt::kJoinTimeout, 1));
  container::Request request{.spec = spec,
                             .host = job_.host,
                             .environment = environment_,
                             .given_variables = given_variables_,
                             .directories = log_directories(),
                             .python = facts_.getenv("PYTHON_EXEC").value_or(""),
                             .dry = parsed_.flag(Opt::kDryRun),
                             .deadline = Deadline::in(alone() ? kPatience : join)};
  return facts_.prepare_container(request, job_.log_threshold);
}

// From here on PROGRAM and Python are those inside.
void Planner::look_inside(const std::string& python) {
  inside_ = facts_;
  inside_->find_python = [python]() -> Result<std::string> {
    if (!python.empty()) return python;
    return Error{ErrorKind::kUsage, "the image has neither python nor python3 on its PATH",
                 "set PYTHON_EXEC to the one that it has, or run the program itself with --no-python"};
  };
  inside_->find_program = [](const std::string& name) -> Result<std::string> { return name; };
  inside_->find_torch = [](const std::string&) { return std::nullopt; };
  inside_->path_kind = [this, spec = job_.container->spec](const std::string& path) {
    return is_shown(spec, facts_.working_directory(), path) ? facts_.path_kind(path) : kind_by_name(path);
  };
}

}  // namespace muster::cli
