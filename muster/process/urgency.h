#pragma once

namespace muster::process {

// Asks the kernel to run this thread soon after it wakes, with shorter time slices in exchange. The thread does little
// at a time, and must not wait behind busy workers. Needs no privilege and takes no processor time from other
// processes; kernels before 6.12 ignore it. Children do not inherit it.
void prefer_short_turns();

// Keeps the memory of this process from being paged out, as far as RLIMIT_MEMLOCK allows: timely work must not wait for
// a disk. Children do not inherit it.
void lock_memory();

}  // namespace muster::process
