#pragma once
// What: protobuf's wire format, read by hand exactly as protobuf's C++ parser reads it, from bytes
// that may be only the beginning of the message.   Owner: the parse call.   Threads: one.
//
// Every reading function returns false on failure and leaves the reason: the message goes on past
// what is here (kShort), or it is malformed whatever may follow (kMalformed).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace simbridge::wire {

enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr std::uint32_t tag_of(std::uint32_t number, WireType type) {
  return (number << 3U) | static_cast<std::uint32_t>(type);
}

class Reader {
 public:
  enum class Failure : std::uint8_t { kNone, kShort, kMalformed };
  /// As protobuf's default: messages and groups within each other.
  static constexpr int kMaxDepth = 100;

  /// available: what is here; end: where the message ends, at or beyond that.
  Reader(std::span<const std::byte> available, std::uint64_t end);

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] bool at_end() const { return position_ == end_; }
  [[nodiscard]] int depth_left() const { return depth_left_; }
  [[nodiscard]] Failure failure() const { return failure_; }
  /// A sentence with the offset; after kMalformed.
  [[nodiscard]] std::string describe_failure() const;

  /// Where a message whose length was not known is now known to end.
  void set_end(std::uint64_t end) { end_ = end; }

  /// The tag of a field: never one that ends a group, never number 0.
  bool read_tag(std::uint32_t& tag);
  bool read(std::uint64_t& value);  // varint
  bool read(std::uint32_t& value);
  bool read(bool& value);
  bool read_zigzag(std::int64_t& value);
  bool read_fixed(std::uint32_t& value);
  bool read_fixed(std::uint64_t& value);
  bool read_fixed(std::int64_t& value);
  bool read_fixed(double& value);
  /// A length that fits what encloses it; its content is next, perhaps not here.
  bool read_length(std::uint64_t& length);
  bool read_bytes(std::string_view& bytes);
  bool read_string(std::string_view& text);  // with the UTF-8 check
  /// Passes over length bytes that read_length allowed.
  bool skip_bytes(std::uint64_t length);
  /// Passes over the field whose tag was read.
  bool skip_field(std::uint32_t tag);

  /// Into a message within this one, and back out at its end.
  bool enter(std::uint64_t& outer_end);
  void leave(std::uint64_t outer_end);

 private:
  bool fail(const char* reason);
  bool ran_out();
  bool read_raw_tag(std::uint32_t& tag);
  bool skip_scalar(std::uint32_t tag);
  bool skip_group(std::uint32_t tag);
  template <typename T>
  bool read_little_endian(T& value);

  const std::byte* data_;
  std::uint64_t available_;
  std::uint64_t position_ = 0;
  std::uint64_t end_;
  int depth_left_ = kMaxDepth;
  Failure failure_ = Failure::kNone;
  const char* reason_ = "";
};

}  // namespace simbridge::wire
