#pragma once
// What: the system calls on a connection's socket, by descriptor.   Owner: values.   Threads: any.
#include "simbridge/base/clock.h"

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace simbridge::transport::ws {

/// Closes a descriptor unless it was released.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool valid() const { return number_ >= 0; }
  int release();

 private:
  int number_ = -1;
};

struct Transfer {
  enum class State : std::uint8_t { kMoved, kWouldBlock, kEnd, kBroken } state = State::kMoved;
  std::size_t bytes = 0;
};
/// kEnd: the peer sends no more.
[[nodiscard]] Transfer read_into(int descriptor, std::span<const iovec> buffers);
[[nodiscard]] Transfer write_from(int descriptor, std::span<const iovec> buffers);

/// What every connection has: no Nagle (batching is ours), little unsent data in the kernel (what
/// is stale is dropped in the ring, not sent), an end to what is never acknowledged.
void set_options(int descriptor, milliseconds ping_interval);
/// Send buffer and window clamp.
void set_socket_bytes(int descriptor, std::uint64_t bytes_each_way);
/// close() will reset the connection.
void set_reset(int descriptor);
void send_no_more(int descriptor);

/// "127.0.0.1:50412", "[::1]:50412".
[[nodiscard]] std::string peer_address(int descriptor);

}  // namespace simbridge::transport::ws
