#pragma once

#include <gtest/gtest.h>

#include "muster/net/socket.h"

namespace muster::net::test {

// Both ends of a TCP connection within this machine.
struct Connection {
  Fd client, server;
  Address peer;  // the client's, as the server sees it
};

inline Connection connect_to_ourselves(const std::string& host = "127.0.0.1") {
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  Connection connection;
  auto listener = listen_tcp({});
  EXPECT_TRUE(listener.ok());
  auto client = connect_tcp(host, listener->port, deadline);
  EXPECT_TRUE(client.ok());
  if (client) connection.client = *std::move(client);
  while (!connection.server && !deadline.passed()) {
    auto accepted = accept_tcp(listener->fd.get(), &connection.peer);
    if (accepted) connection.server = *std::move(accepted);
  }
  EXPECT_TRUE(connection.server);
  return connection;
}

}  // namespace muster::net::test
