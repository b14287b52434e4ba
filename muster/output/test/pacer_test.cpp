#include "muster/output/pacer.h"

#include <gtest/gtest.h>

namespace muster::output {
namespace {

TEST(Pacer, ASlowReaderSlowsNobody) {
  Pacer pacer;
  pacer.reader_took(Pacer::kFastReader - 1);
  pacer.tick();
  pacer.workers_wrote(size_t{1} << 40);
  EXPECT_TRUE(pacer.has_room());
}

TEST(Pacer, WithAFastReaderTheBacklogShrinks) {
  Pacer pacer;
  pacer.reader_took(10 * Pacer::kFastReader);
  pacer.tick();
  pacer.workers_wrote(4 * Pacer::kFastReader);
  EXPECT_TRUE(pacer.has_room());
  pacer.workers_wrote(Pacer::kFastReader);
  EXPECT_FALSE(pacer.has_room());
  pacer.tick();  // it has stopped: no limit any more
  EXPECT_TRUE(pacer.has_room());
}

}  // namespace
}  // namespace muster::output
