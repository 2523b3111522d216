#pragma once
// What: messages that a call read, handed to its session: whole, in pieces, again after a pause. No
// gRPC. Owner: one connection.   Threads: the session's strand.
#include "simbridge/session/session.h"
#include "transport/grpc_received.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace simbridge::transport::rpc {

class Inbound {
 public:
  explicit Inbound(session::Session& session) : session_(session) {}

  enum class Took : std::uint8_t {
    kYes,
    kPaused,    // the session has no room: resume() later, read nothing before
    kTooLarge,  // too_large() says what and why
  };
  Took take(Received message);
  Took resume();
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] const std::string& too_large() const { return too_large_; }

 private:
  Took go_on();
  Took pause();
  [[nodiscard]] bool offer_pieces();

  session::Session& session_;
  Received message_;        // while it is not taken in full
  std::size_t piece_ = 0;   // of it: the next to offer
  std::size_t offset_ = 0;  // in that piece
  bool in_pieces_ = false;
  bool ended_ = true;  // the session has had all of it
  bool paused_ = false;
  bool discarding_ = false;
  std::string too_large_;
};

}  // namespace simbridge::transport::rpc
