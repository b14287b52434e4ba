#include "muster/container/inside.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace muster::container {

bool belongs_outside(std::string_view name) {
  constexpr std::array<std::string_view, 31> kNames = {
      "PATH",      "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT",   "HOME",        "SHELL",      "PWD",
      "OLDPWD",    "SHLVL",           "_",          "HOSTNAME",   "USER",        "LOGNAME",    "MAIL",
      "TERMINFO",  "BASH_ENV",        "ENV",        "PYTHONHOME", "VIRTUAL_ENV", "MODULEPATH", "LOADEDMODULES",
      "_LMFILES_", "MODULESHOME",     "MANPATH",    "LS_COLORS",  "DISPLAY",     "XAUTHORITY", "PYTHON_EXEC",
      "CPATH",     "LIBRARY_PATH",    "container"};
  constexpr std::array<std::string_view, 13> kBeginnings = {
      "CONDA_",    "LMOD_",       "XDG_", "DBUS_",       "SSH_",           "BASH_FUNC_", "ENROOT_",
      "APPTAINER", "SINGULARITY", "CH_",  "CONTAINERS_", "CONTAINER_HOST", "PYENV_"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](auto begin) { return name.starts_with(begin); });
}

bool is_workers_own(const Plan& plan, const Worker& worker, const Environment::Variable& variable) {
  if (plan.given_variables.contains(variable.first)) return true;
  const std::string* of_node = worker.from_node.find(variable.first);
  return of_node == nullptr || *of_node != variable.second;
}

bool goes_inside(const Plan& plan, const Worker& worker, const Environment::Variable& variable) {
  if (is_workers_own(plan, worker, variable)) return true;
  return !worker.bare && !belongs_outside(variable.first) && !plan.image_variables.contains(variable.first);
}

bool is_name_character(char c) {
  return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

bool is_plain_name(std::string_view name) {
  auto plain = [](char c) { return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), plain);
}

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

}  // namespace muster::container
