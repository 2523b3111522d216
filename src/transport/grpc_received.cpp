#include "transport/grpc_received.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <utility>
#include <vector>

namespace simbridge::transport::rpc {

struct Received::Slices {
  std::vector<grpc::Slice> all;
};

namespace {

constexpr std::size_t kPooledSlices = 1024;

}  // namespace

// The list of a thread's last message: most messages are through before the next one comes.
template <typename Slices>
std::unique_ptr<Slices>& spare() {
  thread_local std::unique_ptr<Slices> list;
  return list;
}

Received::Received() = default;
Received::Received(Received&& other) noexcept
    : slices_(std::move(other.slices_)), bytes_(std::exchange(other.bytes_, 0)) {}
Received& Received::operator=(Received&& other) noexcept {
  std::swap(slices_, other.slices_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Received::Received(grpc::ByteBuffer& message)
    : slices_(std::move(spare<Slices>())), bytes_(message.Length()) {
  if (!slices_) slices_ = std::make_unique<Slices>();
  static_cast<void>(message.Dump(&slices_->all));
  message.Clear();
}

Received::~Received() {
  if (!slices_) return;
  slices_->all.clear();
  if (slices_->all.capacity() <= kPooledSlices) spare<Slices>() = std::move(slices_);
}

std::size_t Received::pieces() const {
  return slices_ ? slices_->all.size() : 0;
}

std::span<const std::byte> Received::piece(std::size_t index) const {
  const grpc::Slice& slice = slices_->all[index];
  return std::as_bytes(std::span(slice.begin(), slice.size()));
}

std::string Received::text() const {
  std::string text;
  text.reserve(bytes_);
  for (std::size_t i = 0; i < pieces(); ++i) {
    const auto bytes = piece(i);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return text;
}

}  // namespace simbridge::transport::rpc
