#pragma once

#include <string>
#include <vector>

#include "muster/rendezvous/membership.h"

// What the decisions of membership.h rest on, in words for people.
namespace muster::rendezvous {

std::string cause_text(const Loss& loss);                           // "no word for 2.5 s"
std::string loss_text(const Loss& loss);                            // "n2 is lost: no word for 2.5 s"
std::vector<std::string> loss_texts(const std::vector<Loss>& all);  // one sentence each

// "3 of 4 nodes; waiting for n17, 12.5 s left"
std::string reason_text(const Decision& decision, TimePoint now);

}  // namespace muster::rendezvous
