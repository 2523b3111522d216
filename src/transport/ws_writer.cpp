#include "transport/ws_writer.h"

#include "simbridge/base/check.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace simbridge::transport::ws {
namespace {

// A message's own header up to this size is copied behind the frame's, so that both are one entry.
constexpr std::size_t kCopyUpTo = 512;

// What lies between from and from + bytes of a message, of a piece that stands at `at` in it.
std::span<const std::byte> cut(std::span<const std::byte> piece,
                               std::uint64_t from,
                               std::uint64_t bytes,
                               std::uint64_t at = 0) {
  const std::uint64_t first = std::clamp<std::uint64_t>(from, at, at + piece.size()) - at;
  const std::uint64_t last = std::clamp<std::uint64_t>(from + bytes, at, at + piece.size()) - at;
  return piece.subspan(first, last - first);
}

void* address(std::span<const std::byte> bytes) {
  return const_cast<std::byte*>(bytes.data());  // iovec knows no const; a gathered write only reads
}

}  // namespace

Writer::Control::Control(Opcode what, std::span<const std::byte> bytes)
    : opcode(what), size(static_cast<std::uint8_t>(bytes.size())) {
  SB_CHECK(bytes.size() <= kMaxControlBytes, "a control frame holds at most 125 bytes");
  std::copy(bytes.begin(), bytes.end(), payload.begin());
}

void Writer::load(std::span<const session::OutMessage> batch) {
  SB_CHECK(batch_done(), "one batch is written before the next is lent");
  if (closing_) return;  // nothing follows a close
  batch_ = batch;
  planned_ = 0;
  sent_ = 0;
}

void Writer::ping(std::span<const std::byte> payload) {
  if (!closing_) ping_.emplace(Opcode::kPing, payload);
}

void Writer::pong(std::span<const std::byte> payload) {
  if (closing_) return;
  if (pongs_.size() == kMaxPongs) pongs_.erase(pongs_.begin());
  pongs_.emplace_back(Opcode::kPong, payload);
}

void Writer::close(std::uint16_t code, std::string_view reason) {
  if (closing_) return;
  closing_ = true;
  std::array<std::byte, kMaxControlBytes> payload{};
  const std::size_t size = write_close_payload(payload, code, reason);
  close_.emplace(Opcode::kClose, std::span(payload).first(size));
  if (pending().empty())
    batch_ = {};  // else settle() drops it, when what is being written is through
}

bool Writer::idle() const {
  return pending().empty() && !ping_ && pongs_.empty() && !close_ && batch_.empty();
}

std::span<const iovec> Writer::pending() const {
  if (!write_) return {};
  return std::span(write_->entries).subspan(write_->first, write_->count - write_->first);
}

std::span<const iovec> Writer::gather() {
  if (pending().empty()) plan();
  return pending();
}

void Writer::plan() {
  if (idle()) return;
  if (!write_) write_ = std::make_unique_for_overwrite<Write>();
  write_->first = write_->count = 0;
  write_->frames = 0;
  write_->bytes = 0;
  write_->small_used = 0;
  write_->kept = {};
  // They come first, so that no frame takes their room.
  for (const Control& pong : std::exchange(pongs_, {})) plan_control(pong);
  for (auto* control : {&ping_, &close_}) {
    if (!*control) continue;
    plan_control(**control);
    control->reset();
  }
  if (closing_) return;
  while (planned_ < batch_.size() && plan_frame()) {
  }
}

void Writer::plan_control(const Control& control) {
  std::array<std::byte, kMaxHeaderBytes> head{};
  const std::size_t size =
      write_head(head, {.opcode = control.opcode, .payload_bytes = control.size});
  add_small(std::span(head).first(size));
  add_small(std::span(control.payload).first(control.size));
}

// One more frame into the write: a message, or a fragment of a large one. False: it must wait.
bool Writer::plan_frame() {
  const session::OutMessage& message = batch_[planned_];
  const std::uint64_t total = message.size();
  const std::uint64_t left = total - sent_;
  const bool fragmented = total > kFragmentAbove;
  const std::uint64_t bytes = fragmented ? std::min<std::uint64_t>(left, kFragmentBytes) : left;

  const auto own_header = cut(message.prefix, sent_, bytes);
  const std::uint64_t data_from = message.prefix.size();
  const auto own_data = cut(message.data, sent_, bytes, data_from);
  const auto own_suffix = cut(message.suffix, sent_, bytes, data_from + message.data.size());
  const bool copied = own_header.size() <= kCopyUpTo;
  const std::size_t small = kMaxHeaderBytes + (copied ? own_header.size() : 0);
  const std::size_t entries =
      (copied ? 1U : 2U) + (own_data.empty() ? 0U : 1U) + (own_suffix.empty() ? 0U : 1U);
  // The first frame always goes, after the control frames and however large; for those is always
  // room.
  const bool fits = write_->frames == 0 || (write_->count + entries <= kMaxGather &&
                                            write_->small_used + small <= write_->small.size() &&
                                            write_->bytes + small + bytes <= kMaxWriteBytes);
  if (!fits) return false;
  ++write_->frames;

  const Opcode opcode =
      message.type == session::MessageType::kText ? Opcode::kText : Opcode::kBinary;
  std::array<std::byte, kMaxHeaderBytes> head{};
  const std::size_t head_size = write_head(head,
                                           {.opcode = sent_ == 0 ? opcode : Opcode::kContinuation,
                                            .final = bytes == left,
                                            .payload_bytes = bytes});
  add_small(std::span(head).first(head_size));
  if (copied) {
    add_small(own_header);
  } else {
    add(own_header);
  }
  add(own_data);
  add(own_suffix);
  sent_ += bytes;
  if (sent_ == total) {
    ++planned_;
    sent_ = 0;
  }
  return true;
}

void Writer::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  write_->entries[write_->count++] = {.iov_base = address(bytes), .iov_len = bytes.size()};
  write_->bytes += bytes.size();
}

void Writer::add_small(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::byte* to = write_->small.data() + write_->small_used;
  std::memcpy(to, bytes.data(), bytes.size());
  write_->small_used += bytes.size();
  if (write_->count != 0) {  // neighbours in memory are one entry
    iovec& last = write_->entries[write_->count - 1];
    if (static_cast<std::byte*>(last.iov_base) + last.iov_len == to) {
      last.iov_len += bytes.size();
      write_->bytes += bytes.size();
      return;
    }
  }
  add({to, bytes.size()});
}

void Writer::advance(std::size_t bytes) {
  while (bytes != 0) {
    SB_CHECK(write_ && write_->first < write_->count, "no more is written than was planned");
    iovec& entry = write_->entries[write_->first];
    const std::size_t takes = std::min(bytes, entry.iov_len);
    entry.iov_base = static_cast<std::byte*>(entry.iov_base) + takes;
    entry.iov_len -= takes;
    bytes -= takes;
    if (entry.iov_len == 0) ++write_->first;
  }
  if (pending().empty()) settle();
}

void Writer::keep_rest(std::size_t most_bytes) {
  if (batch_.empty() || planned_ != batch_.size()) return;
  std::size_t bytes = 0;
  for (const iovec& entry : pending()) bytes += entry.iov_len;
  if (bytes == 0 || bytes > most_bytes) return;
  std::vector<std::byte> kept;
  kept.reserve(bytes);
  for (const iovec& entry : pending()) {
    const auto* from = static_cast<const std::byte*>(entry.iov_base);
    kept.insert(kept.end(), from, from + entry.iov_len);
  }
  write_->kept = std::move(kept);
  write_->first = 0;
  write_->count = 1;
  write_->entries[0] = {.iov_base = write_->kept.data(), .iov_len = bytes};
  batch_ = {};
  planned_ = 0;
  sent_ = 0;
}

void Writer::settle() {
  if (closing_ || planned_ == batch_.size()) {
    batch_ = {};
    planned_ = 0;
    sent_ = 0;
  }
  if (idle()) write_.reset();
}

}  // namespace simbridge::transport::ws
