#include "muster/plan/script.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::plan {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A traceback begins in the script.
constexpr const char* kRunFile = R"(def _muster_script():
    import sys
    global __file__
    __file__ = sys.argv[1]
    del sys.argv[:2]
    shown = sys.excepthook
    def show(kind, error, trace):
        while trace and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        shown(kind, error.with_traceback(trace), trace)
    sys.excepthook = show
    with open(__file__, "rb") as file:
        return compile(file.read(), __file__, "exec")
exec(_muster_script()))";

// As a process of multiprocessing ends: threads are joined, streams flushed, and then os._exit(). After an interrupt the
// process ends by SIGINT, as Python's own do.
constexpr const char* kRunPath = R"(def _muster_script():
    import atexit, os, runpy, signal, sys, threading
    def whatever_happens(action, *arguments):
        try:
            action(*arguments)
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
    del sys.argv[0]
    if os.path.isfile(sys.argv[0]):
        sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
    code = 0
    interrupted = False
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = 0 if end.code is None else end.code
        if not isinstance(code, int):
            whatever_happens(lambda: print(code, file=sys.stderr))
            code = 1
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        code = 130 if interrupted else 1
        whatever_happens(lambda: sys.excepthook(*sys.exc_info()))
    whatever_happens(threading._shutdown)
    whatever_happens(atexit._run_exitfuncs)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 255)
_muster_script())";

}  // namespace

bool starts_muster(std::string_view beginning, std::string_view own_name) {
  if (!beginning.starts_with("#!")) return false;
  std::string line(beginning.substr(2, beginning.find('\n') - 2));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\t' || c == '\r' || c == '"' || c == '\''; }, ' ');
  const std::vector<std::string_view> words = split(line, ' ');
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    for (std::string_view option : {"-S", "--split-string="})
      if (word.starts_with(option)) word.remove_prefix(option.size());
    const std::string_view name = word.substr(word.rfind('/') + 1);
    return name == "muster" || (!name.empty() && name == own_name);
  });
}

bool is_spooled(const std::string& program, const Environment& environment) {
  return file_name(program) == "slurm_script" && environment.has("SLURM_JOB_ID");
}

std::string script_file(const std::string& temporary, const std::string& id, const std::string& program) {
  const std::string_view name = program == kStdinProgram ? "stdin" : file_name(program);
  return fmt::format("{}/muster_script_{}/{}", temporary, id, name);
}

std::vector<std::string> words_for_file(const std::string& python, const std::string& file) {
  return {python, "-u", "-c", kRunFile, file};
}

std::vector<std::string> words_for_run_path(const std::string& python) { return {python, "-u", "-c", kRunPath}; }

}  // namespace muster::plan
