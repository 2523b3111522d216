#pragma once
// What: what a connection read, handed to its session: whole messages, pieces, arena memory to read
// into, pauses. No socket. Owner: one connection.   Threads: the session's strand.
#include "simbridge/session/session.h"
#include "transport/ws_codec.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace simbridge::transport::ws {

/// From here on a frame's payload is worth a read of its own into its destination.
inline constexpr std::size_t kDirectFrom = 16U << 10U;

class Inbound {
 public:
  /// What is not for the session. Called from inside feed() and resume().
  class Control {
   public:
    virtual void on_ping(std::span<const std::byte> payload) = 0;
    virtual void on_message_read() = 0;
    /// The peer's close frame; nothing is read after it. code as it came, kNoneGiven for none.
    virtual void on_peer_close(std::uint16_t code, std::string_view reason) = 0;
    /// The peer broke a rule; code is what to close with.
    virtual void on_failure(CloseCode code, std::string_view reason) = 0;

   protected:
    Control() = default;
    ~Control() = default;
    Control(const Control&) = default;
    Control& operator=(const Control&) = default;
  };

  /// Where a session takes no text, such a message ends it with 1003.
  Inbound(session::Session& session, bool takes_text, Control& control)
      : session_(session), takes_text_(takes_text), control_(control), reader_(Role::kServer) {}

  /// Bytes that came, changed in place. What a paused session did not take is kept inside.
  void feed(std::span<std::byte> input);
  /// Where the next bytes of the socket may go; empty: into staging. Valid until the next call.
  [[nodiscard]] std::span<std::byte> direct();
  void direct_filled(std::span<std::byte> bytes);

  /// The session has no room: nothing is to be read from the socket.
  [[nodiscard]] bool paused() const { return paused_; }
  void resume();
  /// From here on messages are thrown away; control frames still count.
  void discard() { discarding_ = true; }
  /// A large message came lately: read little ahead, so that the next one's payload goes direct
  /// too.
  [[nodiscard]] bool expect_large() const { return expect_large_; }

 private:
  enum class Mode : std::uint8_t { kWhole, kPieces, kDiscard };

  void begin(const Event& event, std::size_t at_hand);
  void payload(std::span<std::byte> bytes, std::span<std::byte> rest);
  void end(std::span<std::byte> rest);
  void obey(session::Flow flow);
  void hold(std::span<const std::byte> offered, std::span<const std::byte> rest);
  [[nodiscard]] bool offer_again(std::span<const std::byte> offered);

  session::Session& session_;
  const bool takes_text_;
  Control& control_;
  Reader reader_;
  Mode mode_ = Mode::kDiscard;
  session::MessageType type_ = session::MessageType::kBinary;  // of the message that is being read
  bool paused_ = false;
  bool discarding_ = false;
  bool expect_large_ = false;
  std::span<std::byte> whole_;   // kWhole: the message, in the caller's buffer
  std::vector<std::byte> held_;  // paused: offered and not taken, then not yet read
  std::size_t offered_ = 0;      // of held_
};

}  // namespace simbridge::transport::ws
