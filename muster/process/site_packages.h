#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"
#include "muster/process/python.h"

namespace muster::process {

// The folders that an interpreter searches for installed packages, in its order, found without running it: PYTHONPATH,
// the virtual environment, the user's site, the installation. Nothing if the interpreter is a script that chooses
// another interpreter in an unknown way.
std::optional<std::vector<std::string>> site_folders(const std::string& python, const GetEnv& getenv);

// The pure parts.

// The value of a "key = value" line of pyvenv.cfg; keys are compared without case.
std::optional<std::string> venv_setting(std::string_view text, std::string_view key);

// "3.11" for "3.11.2", "3.11.2.final.0" and "python3.11"; nothing for "python3".
std::optional<std::string> python_minor(std::string_view text);

// The version that torch/version.py assigns to __version__.
std::optional<std::string> assigned_version(std::string_view text);

// "2.13.0+cpu" for "torch-2.13.0+cpu.dist-info", "1.7.1" for "torch-1.7.1-py3.8.egg-info".
std::optional<std::string> metadata_version(std::string_view name);

std::optional<TorchVersion> parse_torch_version(std::string_view text);

}  // namespace muster::process
