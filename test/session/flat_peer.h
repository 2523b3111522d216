#pragma once
// What: a peer of the flat road without a network: feeds a real session text and flat messages,
// whole or cut anywhere, and reads what it says.   Owner: the test.   Threads: one plays the
// strand.
#include "session/fake_peer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::test {

class FlatPeer final : public session::Peer {
 public:
  explicit FlatPeer(TestBridge& bridge, bool hello = true);
  FlatPeer(const FlatPeer&) = delete;
  FlatPeer& operator=(const FlatPeer&) = delete;
  ~FlatPeer() override;

  // ---- Peer
  void output_ready() override { output_ready_ = true; }
  void resume_input() override { resumed_ = true; }
  void close(const session::CloseReason& reason) override { closed = reason; }
  void wake_at(Monotonic time) override { wake_at_ = time; }
  void set_socket_bytes(std::uint64_t) override {}

  // ---- the peer's side
  session::Flow text(std::string_view json) { return send(json, session::MessageType::kText); }
  session::Flow frame(std::string_view bytes) { return send(bytes, session::MessageType::kBinary); }
  /// In pieces that end at the cuts.
  session::Flow pieces(std::string_view bytes,
                       const std::vector<std::size_t>& cuts,
                       session::MessageType type,
                       bool total_known,
                       bool direct);
  void pump();
  void disconnect();

  // ---- what came
  std::vector<v1::ServerMessage> control;
  std::vector<std::string> frames;  // flat messages
  std::optional<session::CloseReason> closed;
  /// Of all rejects and acknowledgements since the last call, in a line each.
  std::string answers();

 private:
  session::Flow send(std::string_view bytes, session::MessageType type);
  bool take_batch();

  TestBridge& bridge_;
  std::shared_ptr<std::atomic<bool>> woken_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<session::Session> session_;
  bool output_ready_ = false;
  bool resumed_ = false;
  std::optional<Monotonic> wake_at_;
};

/// A flat sensor sends, a peer of the protobuf road reads it unchanged; for many messages one after
/// the other, each on a channel of its own.
class FlatRoad {
 public:
  FlatRoad();
  struct Outcome {
    std::string answers;
    std::string frame;  // as the reader gets it, less what differs from one time to the other
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  /// What send(sensor) leads to. The books balance after it.
  Outcome play(const std::function<void(FlatPeer&)>& send);

 private:
  TestBridge bridge_;
  FakePeer reader_;
  int channel_ = 0;
};

}  // namespace simbridge::test
