#pragma once

namespace muster::process {

// Asks the kernel to run this thread soon after it wakes, for shorter turns in exchange: it does little at a time, and
// what it does must not wait behind busy workers. Needs no privilege and takes no processor time from anybody; kernels
// before 6.12 ignore it. Children do not inherit it.
void prefer_short_turns();

// Keeps the memory of this process from being paged out, as far as RLIMIT_MEMLOCK allows: what it does on time must not
// wait for a disk. Children do not inherit it.
void lock_memory();

}  // namespace muster::process
