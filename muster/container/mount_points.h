#pragma once

#include <string>

#include "muster/container/spec.h"

namespace muster::container {

// charliecloud makes what is missing of a mount point in a directory image, but always as a directory. This makes the
// empty file that a file needs, in the image at `root`; whatever else cannot become a mount is refused (kUsage, with the
// way out) before anything is made. Nothing is taken away again: a job on another node may run on it.
Result<void> make_file_points(const std::string& root, const std::vector<Mount>& mounts);

// charliecloud shows the node's files of hosts, name servers, users and groups inside, but the first two only if the image
// has something at that place: without them a worker does not find the other nodes by name. This makes empty files in the
// image at `root`. Returns the paths that the image lacks and that cannot be made.
std::vector<std::string> make_system_points(const std::string& root);

}  // namespace muster::container
