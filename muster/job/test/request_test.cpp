#include "muster/job/request.h"

#include <gmock/gmock.h>

namespace muster::job {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Request full() {
  Request request;
  request.flavor = Flavor::kLaunch;
  request.log_threshold = LogLevel::kDebug;
  request.words = {"train.py", "--lr", "1 \n"};
  request.nproc.value = {Countable::kGpu, 1};
  request.nproc.origin = Origin::kVariable;
  request.binding = process::Binding::kExclusive;
  request.nnodes.fill({2, 4, true});
  request.hosts.value = {{"n1", 4}, {"n2", std::nullopt}};
  request.hosts.origin = Origin::kOption;
  request.join_timeout.value = 2500ms;
  request.crash_loop = 0;
  request.ports = {4000, 4010};
  request.conf.value.keep_alive_attempts = 3;
  request.conf.value.is_host = false;
  request.master_port.value = 29500;
  request.store = StoreHost::kWorker;
  request.env = {{"A", "1"}, {"B", std::nullopt}};
  request.container.image.fill("torch:2");
  request.container.mounts.value = {"/a:/b"};
  request.redirects.value = {std::nullopt, {{0, 3}, {7, 1}}};
  request.console_ranks.value = {0, 2};
  request.label = LabelKind::kHostRank;
  request.stdin_wish.value = StdinWish{StdinWish::Kind::kRank, 3};
  request.output_cap = UINT64_MAX;
  request.signals = {2, 15};
  request.worker_variables = {{"X", "y"}};
  request.processes = 5;
  request.ranked = false;
  request.accelerate = {{"cpu", "True"}, {"gpu_ids", std::nullopt}};
  return request;
}

TEST(RequestCodec, WhatIsWrittenIsRead) {
  Request plain;
  plain.words = {"train.py"};
  for (const Request& request : {plain, full()}) {
    auto again = decode_request(encode(request));
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_TRUE(*again == request);
  }
}

TEST(RequestCodec, WhatIsCutIsRefused) {
  const std::string bytes = encode(full());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_request(bytes.substr(0, size))) << size;
  EXPECT_FALSE(decode_request(bytes + "x"));
}

TEST(RequestCodec, AnotherVersionIsNamed) {
  std::string bytes = encode(full());
  bytes[0] = 77;
  EXPECT_THAT(decode_request(bytes).error().text(), HasSubstr("of version 77, and this muster reads version 1"));
}

TEST(RequestCodec, ValuesThatNoRequestHasAreRefused) {
  Request request = full();
  request.nnodes.value = {4, 2};
  EXPECT_FALSE(decode_request(encode(request)));
  request = full();
  request.words.clear();
  EXPECT_FALSE(decode_request(encode(request)));
  request.env_diff = true;
  EXPECT_TRUE(decode_request(encode(request))) << "it needs no program";
}

TEST(Source, IsNamedInAMessage) {
  Request request;
  const Error error{ErrorKind::kUsage, "wrong", "right"};
  EXPECT_EQ(request.node_rank.about(error).text(), "--node-rank: wrong; right");
  request.node_rank.origin = Origin::kVariable;
  EXPECT_EQ(request.node_rank.about(error).text(), "PET_NODE_RANK: wrong; right");
  EXPECT_FALSE(request.nnodes.given());
}

}  // namespace
}  // namespace muster::job
