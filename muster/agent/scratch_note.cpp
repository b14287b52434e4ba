#include "muster/agent/scratch_note.h"

#include <sys/mman.h>

#include <cstring>

namespace muster::agent {
namespace {

constexpr size_t kSize = 4096;

}  // namespace

ScratchNote::ScratchNote() {
  void* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared_ = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

ScratchNote::~ScratchNote() {
  if (shared_ != nullptr) ::munmap(shared_, kSize);
}

// The first byte last: whoever dies in between has noted nothing.
void ScratchNote::set(const std::string& directory) {
  if (shared_ == nullptr || directory.empty() || directory.size() >= kSize) return;
  std::memcpy(shared_ + 1, directory.data() + 1, directory.size() - 1);
  shared_[0] = directory[0];
}

std::string ScratchNote::directory() const {
  return shared_ == nullptr ? std::string() : std::string(shared_, ::strnlen(shared_, kSize));
}

}  // namespace muster::agent
