#include "muster/cluster/pbs/tools.h"

#include "muster/base/strings.h"

namespace muster::cluster::pbs {

std::string pbs_exec(std::string_view conf) {
  constexpr std::string_view kName = "PBS_EXEC=";
  std::string value;
  for (std::string_view line : split(conf, '\n'))
    if (line = trim(line); line.starts_with(kName)) value = trim(line.substr(kName.size()));
  return value;
}

Tools find_tools(const GetEnv& getenv, const FindProgram& find_program, const ReadFile& read_file) {
  std::vector<std::string> folders;
  if (auto exec = getenv("PBS_EXEC"); exec && !exec->empty()) folders.push_back(*exec + "/bin/");
  if (auto conf = read_file(getenv("PBS_CONF_FILE").value_or("/etc/pbs.conf")))
    if (const std::string exec = pbs_exec(*conf); !exec.empty()) folders.push_back(exec + "/bin/");
  folders.emplace_back("/opt/pbs/bin/");
  Tools tools;
  for (const std::string name : {"pbs_tmrsh", "pbs_attach"}) {
    auto path = find_program(name);
    for (auto folder = folders.begin(); !path && folder != folders.end(); ++folder) path = find_program(*folder + name);
    if (path) tools.paths[name] = *path;
  }
  tools.words = tools.paths.contains("pbs_tmrsh")    ? "pbs_tmrsh"
                : tools.paths.contains("pbs_attach") ? "ssh and pbs_attach"
                                                     : "ssh";
  if (tools.paths.empty())
    tools.warning =
        "there is neither pbs_tmrsh nor pbs_attach, on PATH or where PBS is: nodes are reached over plain ssh, and PBS "
        "does not know of what runs there";
  return tools;
}

}  // namespace muster::cluster::pbs
