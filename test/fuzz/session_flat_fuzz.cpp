// Any bytes as one message of a flat session: whole and cut up they have the same end, with every
// book balanced. The first bytes say how it is cut.
#include "session/flat_peer.h"
#include "simbridge/base/check.h"
#include "wire/quiet_protobuf.h"

#include <algorithm>
#include <iostream>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using simbridge::session::MessageType;
  using simbridge::test::FlatPeer;
  using simbridge::test::FlatRoad;
  static const simbridge::wire::test::QuietProtobuf kQuiet;
  if (size < 4) return 0;
  const std::uint8_t how = data[0];
  const std::string_view message(reinterpret_cast<const char*>(data) + 4, size - 4);
  const MessageType type = (how & 1U) == 0 ? MessageType::kBinary : MessageType::kText;
  FlatRoad road;
  std::vector<std::size_t> cuts;
  if (message.size() > 1) {
    cuts = {data[1] % message.size(), (data[1] + 2U * data[2]) % message.size()};
    std::ranges::sort(cuts);
  }
  const auto whole = road.play([&](FlatPeer& peer) {
    if (type == MessageType::kText) {
      peer.text(message);
    } else {
      peer.frame(message);
    }
  });
  const auto cut_up = road.play(
      [&](FlatPeer& peer) { peer.pieces(message, cuts, type, (how & 2U) == 0, (how & 4U) == 0); });
  if (!(whole == cut_up))
    std::cerr << "whole: " << whole.answers << whole.frame << "\ncut up: " << cut_up.answers
              << cut_up.frame << '\n';
  SB_CHECK(whole == cut_up, "a message has the same end however it is cut");
  return 0;
}
