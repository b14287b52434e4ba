// store_client HOST PORT KEY [VALUE]: sets a key of a store where a value is given, then waits for it and prints it.
#include <cstdlib>
#include <iostream>

#include "muster/store/client.h"

muster::Result<std::string> ask(char** words) {
  const auto deadline = muster::Deadline::in(std::chrono::seconds(30));
  const auto port = static_cast<uint16_t>(std::atoi(words[1]));
  MUSTER_TRY(auto client, muster::store::Client::connect(words[0], port, deadline));
  if (words[3] != nullptr) MUSTER_TRY_VOID(client.set(words[2], words[3], deadline));
  return client.get(words[2], deadline);
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::cerr << "usage: store_client HOST PORT KEY [VALUE]\n";
    return 2;
  }
  const auto answer = ask(argv + 1);
  (answer ? std::cout << *answer : std::cerr << answer.error().text()) << '\n';
  return answer ? 0 : 1;
}
