#pragma once
// What: one message as it came: pieces of memory that gRPC holds, until it is destroyed. Owner: who
// took it.   Threads: one at a time.
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace grpc {
class ByteBuffer;
}

namespace simbridge::transport::rpc {

class Received {
 public:
  Received();
  explicit Received(grpc::ByteBuffer& message);  // which is empty afterwards
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  Received(Received&&) noexcept;
  Received& operator=(Received&&) noexcept;
  ~Received();

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t pieces() const;
  [[nodiscard]] std::span<const std::byte> piece(std::size_t index) const;
  /// All of it in one; for the small ones.
  [[nodiscard]] std::string text() const;

 private:
  struct Slices;
  std::unique_ptr<Slices> slices_;
  std::size_t bytes_ = 0;
};

}  // namespace simbridge::transport::rpc
