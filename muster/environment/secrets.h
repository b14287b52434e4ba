#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/process/spawn.h"

namespace muster::environment {

// Masks secrets, so that they do not get into a file or onto a screen. A secret is recognised by its name (API_KEY,
// HF_TOKEN …), as a password in a URL, or by the form of well-known tokens. All pure.

inline constexpr std::string_view kMask = "***";

bool is_secret_name(std::string_view name);

// The value of a variable, masked if it is a secret.
std::string masked(std::string_view name, std::string_view value);

// Masks x in the words of a command line: --token=x, --api-key x, NAME=x, http://user:x@host.
std::vector<std::string> masked_words(const std::vector<std::string>& words);

// Masks URLs and tokens in free text, such as the output of git diff.
std::string masked_text(std::string_view text);

// Also masks VALUE in NAME=VALUE and --name VALUE anywhere in the text. For the output of a scheduler, and for
// variables that contain others (SLURM_EXPORT_ENV).
std::string masked_assignments(std::string_view text);

}  // namespace muster::environment
