#include "muster/container/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "muster/base/fd.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/container/failure.h"
#include "muster/container/inside.h"
#include "muster/container/mount_points.h"
#include "muster/container/node.h"
#include "muster/container/storage.h"
#include "muster/container/turn.h"
#include "muster/process/command.h"
#include "muster/process/signals.h"

namespace muster::container {
namespace {

namespace fs = std::filesystem;

class Preparation {
 public:
  explicit Preparation(const Request& request) : request_(request) {
    plan_.spec = request.spec;
    plan_.node = this_node(request.spec.kind);
    plan_.given_variables = request.given_variables;
    plan_.label = random_uuid();
  }

  Result<Prepared> run() {
    MUSTER_TRY_VOID(find_image());
    if (request_.dry) return look_from_outside();
    MUSTER_TRY_VOID(check_mounts());
    if (spec().name.empty()) {
      MUSTER_TRY_VOID(fetch_image());
    } else {
      MUSTER_TRY_VOID(have_kept_one());
      MUSTER_TRY_VOID(find_kept_one());
    }
    look_for_environment_file();
    MUSTER_TRY_VOID(have_file_points());
    return look_inside();
  }

 private:
  Spec& spec() { return plan_.spec; }
  std::string runtime() { return std::string(name_of(spec().kind)); }

  void say(const std::string& text) const {
    if (request_.say) request_.say(text);
  }

  Error error(const std::string& what, std::string_view words, const Words& command) const {
    return failure(request_.host, what, words, command);
  }

  Result<process::CommandOutput> run(const Words& command, const Environment& environment, const std::string& what) {
    auto said = process::run_kept_command(command, environment, request_.deadline, request_.launcher);
    if (said || said.error().kind == ErrorKind::kPeer) return said;
    if (said.error().kind != ErrorKind::kInterrupted) return error(what, said.error().message, command);
    Error interrupted = said.error();
    interrupted.message = fmt::format("{}: {} interrupted the set-up, at `{}`", request_.host,
                                      process::signal_name(interrupted.signal), shell_quote(command));
    return interrupted;
  }

  // A command of the runtime, by its exit code; its errors are those of `what`.
  Result<process::CommandOutput> ask(const Words& command, const std::string& what) {
    return run(command, runtime_environment(), what);
  }

  Result<process::CommandOutput> insist(const Words& command, const std::string& what) {
    MUSTER_TRY(process::CommandOutput said, ask(command, what));
    if (!said.status.success()) return error(what, said.errors.empty() ? said.output : said.errors, command);
    return said;
  }

  Environment runtime_environment() {
    Environment environment = request_.environment;
    if (!environment.has("USER")) environment.set("USER", plan_.node.user);  // charliecloud insists
    return environment;
  }

  // A path, where it is written as one or there is one; else a name that the runtime may know.
  Result<void> find_image() {
    std::string& image = spec().image;
    if (image.empty()) return {};
    plan_.place = {Place::Form::kName, image};
    // podman's names look like relative paths.
    if (!is_written_as_path(spec().kind, image) && (spec().kind == Kind::kPodman || !exists(image))) return {};
    if (!exists(image)) return container_may_exist() ? Result<void>() : missing(image);
    std::error_code ignored;
    image = fs::absolute(image, ignored).string();
    plan_.place = {fs::is_directory(image, ignored) ? Place::Form::kDirectory : Place::Form::kFile, image};
    if (spec().kind == Kind::kEnroot && plan_.place.form == Place::Form::kDirectory)
      return Error{ErrorKind::kUsage,
                   fmt::format("{}: enroot runs image files, and {} is a directory", request_.host, image),
                   fmt::format("make one: mksquashfs {0} {0}.sqsh", shell_quote(image))};
    return {};
  }

  // A kept container that exists needs its image no more.
  bool container_may_exist() { return !spec().name.empty(); }

  Error missing(const std::string& image) const {
    return {ErrorKind::kUsage, fmt::format("{}: there is no image {}: no such file", request_.host, image),
            "give a file or directory that every node sees"};
  }

  Result<void> check_mounts() const {
    std::error_code ignored;  // whoever writes there says it better
    for (const std::string& directory : request_.directories) fs::create_directories(directory, ignored);
    for (const Mount& mount : plan_.spec.mounts)
      if (!exists(mount.source))
        return Error{ErrorKind::kUsage,
                     fmt::format("{}: {} cannot be mounted: it does not exist", request_.host, mount.source),
                     "name what every node has"};
    return {};
  }

  Result<void> fetch_image() {
    if (spec().kind == Kind::kCharliecloud && plan_.place.form == Place::Form::kFile &&
        !spec().image.ends_with(".sqfs") && !spec().image.ends_with(".squashfs"))
      return Error{ErrorKind::kUsage,
                   fmt::format("charliecloud runs directories and SquashFS files, not {}", spec().image),
                   "add --container-name NAME: then it is unpacked once"};
    const Fetching fetch = fetching(plan_);
    if (fetch.command.empty()) return {};
    const std::string what = fmt::format("{} cannot fetch {}", runtime(), spec().image);
    if (!fetch.known.empty()) {
      MUSTER_TRY(process::CommandOutput known, ask(fetch.known, what));
      if (known.status.success()) return {};
    }
    say(fmt::format("fetching the image {}", spec().image));
    MUSTER_TRY(process::CommandOutput said, insist(fetch.command, what));
    // "Loaded image: localhost/torch:2"
    if (plan_.place.form == Place::Form::kFile) {
      const std::string line = process::last_line(said.output);
      plan_.place = {Place::Form::kName, line.substr(line.rfind(' ') + 1)};
    }
    return {};
  }

  // Where named containers lie. muster's own directory exists afterwards: it has the lock if that place cannot have one.
  Result<void> find_storage() {
    own_storage_ = plan_.node.storage;
    MUSTER_TRY_VOID(make_own_directory(fs::path(own_storage_).parent_path().string()));
    MUSTER_TRY_VOID(make_own_directory(own_storage_));
    const Words question = storage_question(plan_);
    if (question.empty()) return {};
    const std::string what = fmt::format("{} does not say where it keeps containers", runtime());
    MUSTER_TRY(process::CommandOutput answer, ask(question, what));
    plan_.node.storage = read_storage(spec().kind, answer);
    if (plan_.node.storage.empty()) return error(what, answer.errors, question);
    return {};
  }

  Result<bool> kept_one_exists() {
    const Existence query = existence(plan_);
    if (!query.path.empty()) return exists(query.path);
    MUSTER_TRY(process::CommandOutput said,
               ask(query.command, fmt::format("{} does not say which containers there are", runtime())));
    return said.status.success();
  }

  std::vector<std::string> leftovers() {
    return container::leftovers(plan_.node.storage, making_name(plan_), spec().name);
  }

  Result<Fd> take_turn() {
    const std::string file = fmt::format("/.{}.lock", spec().name);
    Turn turn{.lock = plan_.node.storage + file,
              .container = spec().name,
              .host = request_.host,
              .deadline = request_.deadline,
              .launcher = request_.launcher,
              .waiting = [this](const std::string& holder) {
                say(fmt::format("waiting for {} to finish making the container {}", holder, spec().name));
              }};
    MUSTER_TRY(Fd held, take(turn));
    if (held) return held;
    turn.lock = own_storage_ + file;  // keeps the musters of this node apart; give_name() does the rest
    return take(turn);
  }

  // A container that has its name is whole.
  Result<void> have_kept_one() {
    if (spec().kind == Kind::kPodman && plan_.place.form == Place::Form::kDirectory)
      return Error{ErrorKind::kUsage, "podman runs a root file system where it is, under no other name",
                   "leave --container-name out, and add --container-writable if changes are to stay"};
    MUSTER_TRY_VOID(find_storage());
    MUSTER_TRY(const bool there, kept_one_exists());
    if (there && leftovers().empty()) return {};
    MUSTER_TRY(const Fd turn, take_turn());
    for (const std::string& rest : leftovers()) MUSTER_TRY_VOID(remove(rest));
    MUSTER_TRY(const bool there_now, kept_one_exists());
    if (there_now) return {};
    if (spec().image.empty())
      return Error{ErrorKind::kUsage, fmt::format("{}: {} has no container {}", request_.host, runtime(), spec().name),
                   "name the image to make it of with --container"};
    if (plan_.place.form == Place::Form::kName && is_written_as_path(spec().kind, spec().image))
      return missing(spec().image);
    return make_kept_one();
  }

  Result<void> remove(const std::string& making) {
    auto removed = insist(removal(plan_, making), fmt::format("cannot remove the unfinished container {}", making));
    return removed ? Result<void>() : removed.error();
  }

  Result<void> make_kept_one() {
    const std::string what = fmt::format("{} cannot make the container {} of {}", runtime(), spec().name, spec().image);
    if (spec().kind == Kind::kPodman) {
      MUSTER_TRY_VOID(fetch_image());
      MUSTER_TRY_VOID(remove(making_name(plan_)));  // leftovers() sees directories only
    }
    say(fmt::format("making the container {} of {}", spec().name, spec().image));
    for (const Words& step : creation(plan_)) {
      if (auto made = insist(step, what); !made) return made.error();
    }
    return name_kept_one(what);
  }

  Result<void> name_kept_one(const std::string& what) {
    const std::string making = making_name(plan_);
    const Words command = naming(plan_);
    if (command.empty()) {
      MUSTER_TRY(const bool named, give_name(plan_.node.storage, making, spec().name));
      return named ? Result<void>() : remove(making);
    }
    MUSTER_TRY(process::CommandOutput said, ask(command, what));
    if (said.status.success()) return {};
    MUSTER_TRY(const bool of_another, kept_one_exists());
    return of_another ? remove(making) : error(what, said.errors, command);
  }

  Result<void> find_kept_one() {
    const std::string what = fmt::format("{} does not show the files of the container {}", runtime(), spec().name);
    const Location where = location(plan_);
    plan_.place = where.place;
    if (!where.command.empty()) {
      MUSTER_TRY(process::CommandOutput said, insist(where.command, what));
      plan_.place.text = process::last_line(said.output);
    }
    if (where.variables.empty()) return {};
    MUSTER_TRY(process::CommandOutput said, insist(where.variables, what));
    for (std::string_view line : split(said.output, '\n')) {
      const size_t equals = line.find('=');
      if (equals != std::string_view::npos && is_plain_name(line.substr(0, equals)))
        plan_.image_environment.add(line.substr(0, equals), line.substr(equals + 1));
    }
    return {};
  }

  bool runs_directory_as_it_is() const {
    return plan_.spec.kind == Kind::kCharliecloud && plan_.place.form == Place::Form::kDirectory;
  }

  void look_for_environment_file() {
    if (!runs_directory_as_it_is()) return;
    plan_.has_environment_file = exists(plan_.place.text + "/ch/environment");
  }

  Result<void> have_file_points() const {
    if (!runs_directory_as_it_is()) return {};
    for (const std::string& path : make_system_points(plan_.place.text))
      say(fmt::format("the image {0} has no {1} and cannot get one: workers do not see the node's {1}",
                      plan_.place.text, path));
    auto made = make_file_points(plan_.place.text, plan_.spec.mounts);
    if (!made) return Error{ErrorKind::kUsage, request_.host + ": " + made.error().message, made.error().hint};
    return {};
  }

  bool lacks_mount_points() const {
    if (!runs_directory_as_it_is()) return false;
    auto lacks = [&](const std::string& target) { return target != "/" && !exists(plan_.place.text + target); };
    return std::any_of(plan_.spec.mounts.begin(), plan_.spec.mounts.end(),
                       [&](const Mount& mount) { return !mount.target.starts_with("/tmp/") && lacks(mount.target); });
  }

  Prepared look_from_outside() {
    if (!spec().name.empty()) {
      plan_.place = location(plan_).place;
      if (plan_.place.text.empty()) plan_.place.text = spec().name;
    }
    return {std::move(plan_), request_.python.empty() ? "python" : request_.python};
  }

  // The first run inside: it fetches what the runtime fetches by itself, makes mount points, and shows whether all that
  // workers need works here.
  Result<Prepared> look_inside() {
    plan_.makes_mount_points = lacks_mount_points();
    const CommandLine line = probe_command(plan_, runtime_environment(), request_.python);
    plan_.makes_mount_points = false;
    const std::string what = fmt::format("{} cannot run workers in {}", runtime(),
                                         spec().name.empty() ? spec().image : "the container " + spec().name);
    MUSTER_TRY(process::CommandOutput said, run(line.argv, line.environment, what));
    if (!said.status.success()) return error(what, said.errors.empty() ? said.output : said.errors, line.argv);
    Probe probe = read_probe(said.output);
    plan_.image_variables = std::move(probe.variables);
    return Prepared{std::move(plan_), std::move(probe.python)};
  }

  const Request& request_;
  Plan plan_;
  std::string own_storage_;  // muster's own directory on this node
};

}  // namespace

Result<Prepared> prepare(const Request& request) { return Preparation(request).run(); }

void clean_up(const Plan& plan, const Environment& environment, Deadline deadline) {
  const Words list = list_leftovers(plan);
  if (list.empty()) return;
  auto said = process::run_command(list, environment, deadline);
  if (!said) return;
  Words ids;
  for (std::string_view line : split(said->output, '\n'))
    if (!trim(line).empty()) ids.emplace_back(trim(line));
  if (!ids.empty()) (void)process::run_command(remove_leftovers(plan, ids), environment, deadline);
  if (const Words last = release(plan); !last.empty()) (void)process::run_command(last, environment, deadline);
}

}  // namespace muster::container
