#pragma once

#include "muster/plan/facts.h"

namespace muster::cli {

// This process, this machine: what costs nothing to know, and where it is (cluster::detect()).
plan::Facts own_facts();

// The answer to one question. May block: a resolver, a file system, what comes on stdin.
plan::Answer answer(const plan::Question& question);

// Of this whole process: what is planned, found on PATH and given to workers follows from it.
void use_environment(const Environment& environment);

// Sees to it that this process may open so many descriptors; returns the limit it could get.
uint64_t raise_descriptor_limit(uint64_t needed);

// A small text file.
Result<std::string> read_text(const std::string& path);

}  // namespace muster::cli
