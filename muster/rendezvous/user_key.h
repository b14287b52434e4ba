#pragma once

#include <optional>
#include <string>

#include "muster/base/result.h"

namespace muster::rendezvous {

// ~/.config/muster/key of the user that runs this.
std::string user_key_path();

// The secret that the tokens of a user's jobs are derived from. Nothing when there is no such file and none is to be
// made. Made with 32 random bytes and for its owner alone; of several processes that make it at once, on several nodes
// with one home directory, all get the same. A file that others could read or that is not ours is an error.
Result<std::optional<std::string>> read_user_key(const std::string& path, bool make);

// The secret in a file that the user names, without white space around it. It must be a file of this user or of root
// that no other user can read or change, and must not be empty.
Result<std::string> read_token_file(const std::string& path);

}  // namespace muster::rendezvous
