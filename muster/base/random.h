#pragma once

#include <span>
#include <string>

namespace muster {

// Random bytes from the kernel, for unique names. Not for secrets: if the kernel gives none (a sandbox forbids the
// call), time and pid are used instead.
void fill_random(std::span<unsigned char> bytes);

// "1b4e28ba-2fa1-41d2-883f-0016d3cca427": version 4, as Python's uuid4().
std::string random_uuid();

// "1b4e28ba2fa141d2": different for every job.
std::string random_job_id();

}  // namespace muster
