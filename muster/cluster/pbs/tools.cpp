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
  auto find = [&](const std::string& name) -> std::string {
    if (auto path = find_program(name)) return *path;
    for (const std::string& folder : folders)
      if (auto path = find_program(folder + name)) return *path;
    return {};
  };
  return {find("pbs_tmrsh"), find("pbs_attach")};
}

}  // namespace muster::cluster::pbs
