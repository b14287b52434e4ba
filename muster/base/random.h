#pragma once

#include <span>
#include <string>

namespace muster {

// The kernel's random bytes, for names that nobody else has. Not for secrets: where the kernel gives none (a sandbox
// that forbids the call) time and pid take their place.
void fill_random(std::span<unsigned char> bytes);

// "1b4e28ba-2fa1-41d2-883f-0016d3cca427": version 4, as Python's uuid4().
std::string random_uuid();

// "1b4e28ba2fa141d2": no other job has it.
std::string random_job_id();

}  // namespace muster
