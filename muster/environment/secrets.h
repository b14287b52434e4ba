#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/process/spawn.h"

namespace muster::environment {

// What must not end in a file or on a screen. By looks: a name that says so (API_KEY, HF_TOKEN …), a password in a URL,
// the shape of well-known tokens. All pure.

inline constexpr std::string_view kMask = "***";

bool is_secret_name(std::string_view name);

// The value of a variable as it may be shown.
std::string masked(std::string_view name, std::string_view value);

// Words of a command line: --token=x, --api-key x, NAME=x, http://user:x@host.
std::vector<std::string> masked_words(const std::vector<std::string>& words);

// What git diff prints: URLs and tokens.
std::string masked_text(std::string_view text);

// What a scheduler prints, and variables that name others with their values (SLURM_EXPORT_ENV): also VALUE of NAME=VALUE
// and of --name VALUE, anywhere in it.
std::string masked_assignments(std::string_view text);

}  // namespace muster::environment
