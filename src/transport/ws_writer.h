#pragma once
// What: what a server's connection writes next: batches of lent messages as one gathered write,
// large messages in fragments, control frames ahead of what waits. Pure: it plans writes, it does
// not write. Owner: one connection has one Writer.   Threads: one at a time.
#include "simbridge/session/peer.h"
#include "transport/ws_codec.h"

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace simbridge::transport::ws {

inline constexpr std::size_t kMaxGather = 64;  // entries of one write
inline constexpr std::size_t kMaxWriteBytes =
    128U << 10U;  // of one write, unless one frame alone is larger
inline constexpr std::size_t kMaxPongs = 16;
inline constexpr std::size_t kFragmentAbove = 1U << 20U;  // messages up to here leave in one frame
inline constexpr std::size_t kFragmentBytes = 256U << 10U;

/// Use: load() a batch; then gather(), write, advance() until idle(). A control frame may be asked
/// for at any time. Memory for a write in progress is taken when it begins and given back when it
/// is through.
class Writer {
 public:
  /// Lends the messages, and what they point to, until batch_done(). Only when batch_done().
  void load(std::span<const session::OutMessage> batch);
  /// All bytes of the batch were written (or dropped, because a close was asked for).
  [[nodiscard]] bool batch_done() const { return batch_.empty(); }

  /// A later ping replaces one that has not left. Every pong leaves, in order, up to kMaxPongs that
  /// wait; beyond, the oldest are left out (RFC 6455 5.5.3), so nothing piles up for a peer that
  /// does not read.
  void ping(std::span<const std::byte> payload);
  void pong(std::span<const std::byte> payload);
  /// The last frame: it leaves next, messages that have not begun to leave stay behind. The first
  /// close counts.
  void close(std::uint16_t code, std::string_view reason);
  [[nodiscard]] bool closing() const { return closing_; }
  /// The close frame is in the kernel's hands in full.
  [[nodiscard]] bool closed() const { return closing_ && !close_ && pending().empty(); }

  /// Nothing waits to be written.
  [[nodiscard]] bool idle() const;
  /// The next write, empty when idle; the same bytes again until advance().
  [[nodiscard]] std::span<const iovec> gather();
  /// So many bytes of gather() were written.
  void advance(std::size_t bytes);
  /// The socket takes no more now. Where what is left of the batch is all in gather() and at most
  /// so many bytes, it is copied, and batch_done() from here on: a slow peer then holds no frames.
  void keep_rest(std::size_t most_bytes);

 private:
  struct Control {
    Control(Opcode what, std::span<const std::byte> bytes);
    Opcode opcode;
    std::uint8_t size;
    std::array<std::byte, kMaxControlBytes> payload{};
  };
  // The write in progress: entries, and the small bytes that some of them point to.
  // 24 KiB that are written before they count.
  struct Write {  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::array<iovec, kMaxGather> entries;
    std::size_t first = 0;
    std::size_t count = 0;
    std::size_t frames = 0;  // messages or fragments, control frames not counted
    std::size_t bytes = 0;   // planned in all
    std::array<std::byte, 8U << 10U> small;
    std::size_t small_used = 0;
    std::vector<std::byte> kept;  // by keep_rest(); then the only entry
  };

  [[nodiscard]] std::span<const iovec> pending() const;
  void plan();
  void plan_control(const Control& control);
  [[nodiscard]] bool plan_frame();
  void add(std::span<const std::byte> bytes);
  void add_small(std::span<const std::byte> bytes);
  void settle();

  std::optional<Control> ping_;
  std::vector<Control> pongs_;
  std::optional<Control> close_;
  bool closing_ = false;
  std::span<const session::OutMessage> batch_;  // not yet done
  std::size_t planned_ = 0;                     // messages of batch_ that are planned in full
  std::uint64_t sent_ = 0;  // payload bytes of batch_[planned_] that are planned
  std::unique_ptr<Write> write_;
};

}  // namespace simbridge::transport::ws
