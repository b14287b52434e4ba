#pragma once

#include <string>

namespace muster::agent {

// Where the agent notes its temporary directory, so that the warden can remove it after an agent that was killed: one
// page of memory that both have, made before they part.
class ScratchNote {
 public:
  ScratchNote();
  ~ScratchNote();
  ScratchNote(const ScratchNote&) = delete;
  ScratchNote& operator=(const ScratchNote&) = delete;

  // A path too long for the page is not noted.
  void set(const std::string& directory);
  std::string directory() const;  // empty: none noted

 private:
  char* shared_;
};

}  // namespace muster::agent
