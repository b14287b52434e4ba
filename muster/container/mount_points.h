#pragma once

#include <string>

#include "muster/container/spec.h"

namespace muster::container {

// charliecloud creates a missing mount point in a directory image, but always as a directory. This creates the empty
// file that the mount of a file needs, in the image at `root`. Error kUsage, before anything is created: a mount is
// impossible. Nothing is removed again, because a job on another node may use it.
Result<void> make_file_points(const std::string& root, const std::vector<Mount>& mounts);

// charliecloud shows the node's files for hosts, name servers, users and groups inside, but the first two only if the
// image has a file there. Without them a worker cannot look up the other nodes. This creates empty files in the image
// at `root`. Returns the paths that the image does not have and that cannot be created.
std::vector<std::string> make_system_points(const std::string& root);

}  // namespace muster::container
