#pragma once
// What: protobuf's wire format, written by hand in canonical order, as proto3 does: zero values are
// left out. The same code counts (Counter) and writes (Writer).   Owner: the call.   Threads: one.
#include "wire/reader.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace simbridge::wire {

constexpr std::uint64_t varint_bytes(std::uint64_t value) {
  const auto bits = static_cast<unsigned>(std::bit_width(value | 1U));
  return (bits * 9U + 64U) / 64U;  // ceil(bits / 7), for 1 to 64
}

/// Bytes of a field's tag and its varint, or 0 when the value is.
constexpr std::uint64_t varint_field_bytes(std::uint32_t number, std::uint64_t value) {
  if (value == 0) return 0;
  return varint_bytes(tag_of(number, WireType::kVarint)) + varint_bytes(value);
}

/// An enum's or int32's value as it goes on the wire: extended with its sign to 64 bits.
constexpr std::uint64_t sign_extended(std::uint32_t value) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::bit_cast<std::int32_t>(value)));
}

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value < 0 ? -1 : 0);
}

/// The sink that only counts.
class Counter {
 public:
  void varint(std::uint64_t value) { count_ += varint_bytes(value); }
  void raw(const void* /*bytes*/, std::size_t size) { count_ += size; }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  std::uint64_t count_ = 0;
};

/// The sink that writes. The caller has counted: there is room.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : begin_(out.data()), at_(out.data()) {}
  void varint(std::uint64_t value) {
    while (value >= 0x80U) {
      *at_++ = static_cast<std::byte>(value | 0x80U);
      value >>= 7U;
    }
    *at_++ = static_cast<std::byte>(value);
  }
  void raw(const void* bytes, std::size_t size) {
    if (size == 0) return;
    std::memcpy(at_, bytes, size);
    at_ += size;
  }
  [[nodiscard]] std::uint64_t count() const { return static_cast<std::uint64_t>(at_ - begin_); }

 private:
  std::byte* begin_;
  std::byte* at_;
};

// ---- fields, on either sink ----

template <typename Sink>
void put_varint(Sink& out, std::uint32_t number, std::uint64_t value) {
  if (value == 0) return;
  out.varint(tag_of(number, WireType::kVarint));
  out.varint(value);
}

template <typename Sink>
void put_fixed64(Sink& out, std::uint32_t number, std::uint64_t value) {
  if (value == 0) return;
  out.varint(tag_of(number, WireType::kFixed64));
  out.raw(&value, sizeof value);
}

/// Left out when all bits are zero: -0.0 is sent.
template <typename Sink>
void put_double(Sink& out, std::uint32_t number, double value) {
  put_fixed64(out, number, std::bit_cast<std::uint64_t>(value));
}

template <typename Sink>
void put_length(Sink& out, std::uint32_t number, std::uint64_t length) {
  out.varint(tag_of(number, WireType::kLength));
  out.varint(length);
}

template <typename Sink>
void put_string(Sink& out, std::uint32_t number, std::string_view text) {
  if (text.empty()) return;
  put_length(out, number, text.size());
  out.raw(text.data(), text.size());
}

/// A message field, present even when empty. put_content(sink) is called twice: to count, to write.
template <typename Sink, typename PutContent>
void put_message(Sink& out, std::uint32_t number, PutContent put_content) {
  Counter content;
  put_content(content);
  put_length(out, number, content.count());
  put_content(out);
}

}  // namespace simbridge::wire
