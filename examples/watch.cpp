// Subscribes to everything that a bridge has and prints each frame and each gap.
//   example_watch [URL] [COUNT]      default ws://127.0.0.1:8080, without end
#include "simbridge/client/peer.h"

#include "simbridge/v1/bridge.pb.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

int main(int argc, char** argv) {
  const std::string url = argc > 1 ? argv[1] : "ws://127.0.0.1:8080";
  long left = argc > 2 ? std::atol(argv[2]) : -1;

  auto peer = simbridge::client::Peer::connect({.url = url, .name = "example"});
  if (!peer) {
    std::cerr << peer.error().detail << "\n";
    return 3;
  }
  std::cout << "bridge " << (*peer)->welcome().bridge << " " << (*peer)->welcome().version << "\n";
  (*peer)->subscribe({.id = 1, .channel = "**", .history = simbridge::client::HistoryMode::kLast});

  std::map<std::uint32_t, std::string> names;
  while (left != 0) {
    const auto message = (*peer)->next(simbridge::milliseconds(30'000));
    if (!message) {
      std::cerr << message.error().detail << "\n";
      return 1;
    }
    const simbridge::v1::ServerMessage& m = **message;
    for (const auto& channel : m.channels().channel()) names[channel.id()] = channel.name();
    if (m.has_frame()) {
      std::cout << names[m.frame().channel()] << " #" << m.frame().sequence() << ": "
                << m.frame().cloud().width() << " points a row\n";
      --left;
    } else if (m.has_gap()) {
      std::cout << names[m.gap().channel()] << ": " << m.gap().frames() << " frames lost, "
                << simbridge::v1::GapReason_Name(m.gap().reason()) << "\n";
    }
  }
  return 0;
}
