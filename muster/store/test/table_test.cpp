#include "muster/store/table.h"

#include <gtest/gtest.h>

namespace muster::store {
namespace {

struct Client : Waiter {
  int released = 0;
};

class Observer final : public Table::Observer {
 public:
  void released(Waiter& waiter) override { ++static_cast<Client&>(waiter).released; }
  void changed(Waiter&, Change, std::string_view, std::string_view, std::string_view) override {}
};

class TablePromises : public testing::Test {
 protected:
  TablePromises() { put_string(list_, "q"); }
  ~TablePromises() override {
    for (Client* client : {&first_, &second_}) table_.forget(*client);
  }
  bool wait(Client& client) { return table_.wait(client, StringList(1, list_)); }

  std::string list_;
  Observer observer_;
  Table table_{observer_};
  Client first_, second_;
};

TEST_F(TablePromises, AClientThatOnlyWaitedDoesNotKeepTheItem) {
  table_.push("q", "a");
  ASSERT_TRUE(wait(first_));
  ASSERT_FALSE(wait(second_));
  EXPECT_FALSE(table_.pop("q"));
  table_.expire_promises();
  EXPECT_EQ(second_.released, 0);
  table_.expire_promises();
  EXPECT_EQ(second_.released, 1);  // and has a young promise of its own
  table_.expire_promises();
  EXPECT_FALSE(table_.pop("q"));
  table_.expire_promises();
  EXPECT_EQ(table_.pop("q"), "a");
  EXPECT_FALSE(table_.has_promises());
}

TEST_F(TablePromises, AClientThatLeavesHandsItsItemOn) {
  table_.push("q", "a");
  ASSERT_TRUE(wait(first_));
  ASSERT_FALSE(wait(second_));
  table_.forget(first_);
  EXPECT_EQ(second_.released, 1);
  Request pop;
  pop.op = Op::kQueuePop;
  pop.key = "q";
  table_.next_request(second_, pop);
  EXPECT_EQ(table_.pop("q"), "a");
  EXPECT_EQ(table_.queue_size("q"), 0u);
}

TEST_F(TablePromises, AValueOfTheSameNamePromisesNothing) {
  table_.push("q", "a");
  table_.set("q", "value");
  ASSERT_TRUE(wait(first_));
  EXPECT_FALSE(table_.has_promises());
  EXPECT_EQ(table_.pop("q"), "a");
}

TEST(Table, AKeyThatWasUsedLastMayGoAway) {
  Observer observer;
  Table table(observer);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(table.add("a", 1), 1);
    EXPECT_EQ(table.add("a", 1), 2);
    EXPECT_TRUE(table.remove("a"));
    EXPECT_EQ(table.get("a"), nullptr);
    EXPECT_EQ(table.size(), 0u);
  }
  table.push("q", "item");
  EXPECT_EQ(table.pop("q"), "item");
  EXPECT_EQ(table.queue_size("q"), 0u);
  table.set("b", "value");
  EXPECT_EQ(table.queue_size("q"), 0u);
  ASSERT_NE(table.get("b"), nullptr);
}

}  // namespace
}  // namespace muster::store
