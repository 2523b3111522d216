#include "wire/reader.h"

#include "simbridge/base/check.h"
#include "wire/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace simbridge::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "fixed fields are copied as they lie");

// protobuf refuses lengths this near to 2 GiB (its own buffer arithmetic needs the 16 bytes).
constexpr std::uint64_t kMaxLength = std::numeric_limits<std::int32_t>::max() - 16;

constexpr std::uint32_t number_of(std::uint32_t tag) {
  return tag >> 3U;
}
constexpr WireType type_of(std::uint32_t tag) {
  return static_cast<WireType>(tag & 7U);
}

}  // namespace

Reader::Reader(std::span<const std::byte> available, std::uint64_t end)
    : data_(available.data()),
      available_(std::min<std::uint64_t>(available.size(), end)),
      end_(end) {}

std::string Reader::describe_failure() const {
  return fmt::format("byte {}: {}", position_, reason_);
}

bool Reader::fail(const char* reason) {
  failure_ = Failure::kMalformed;
  reason_ = reason;
  return false;
}

// No byte is left where one is due: because the message ends, or because the rest is not here yet.
bool Reader::ran_out() {
  if (available_ >= end_) return fail("the message ends within a field");
  failure_ = Failure::kShort;
  return false;
}

bool Reader::read(std::uint64_t& value) {
  const std::uint64_t stop = std::min(available_, end_);
  // Nearly all tags, lengths and numbers of a header are one byte.
  if (position_ < stop && static_cast<std::uint64_t>(data_[position_]) < 0x80U) [[likely]] {
    value = static_cast<std::uint64_t>(data_[position_++]);
    return true;
  }
  std::uint64_t result = 0;
  std::uint64_t at = position_;
  for (unsigned shift = 0; shift < 70; shift += 7, ++at) {
    if (at >= stop) return ran_out();
    const auto byte = static_cast<std::uint64_t>(data_[at]);
    result |= (byte & 0x7FU) << shift;  // bits past 64 fall off, as in protobuf
    if (byte < 0x80U) {
      position_ = at + 1;
      value = result;
      return true;
    }
  }
  return fail("a varint of more than 10 bytes");
}

bool Reader::read(std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!read(wide)) return false;
  value = static_cast<std::uint32_t>(wide);
  return true;
}

bool Reader::read(bool& value) {
  std::uint64_t wide = 0;
  if (!read(wide)) return false;
  value = wide != 0;
  return true;
}

bool Reader::read_zigzag(std::int64_t& value) {
  std::uint64_t wide = 0;
  if (!read(wide)) return false;
  value = static_cast<std::int64_t>((wide >> 1U) ^ (~(wide & 1U) + 1U));
  return true;
}

bool Reader::read_raw_tag(std::uint32_t& tag) {
  const std::uint64_t start = position_;
  std::uint64_t wide = 0;
  if (!read(wide)) {
    // Ten bytes need not be here to see that a tag has more than five.
    if (failure_ == Failure::kShort && available_ - start >= 5)
      return fail("a tag of more than 5 bytes");
    return false;
  }
  if (position_ - start > 5) return fail("a tag of more than 5 bytes");
  tag = static_cast<std::uint32_t>(wide);
  return true;
}

bool Reader::read_tag(std::uint32_t& tag) {
  if (!read_raw_tag(tag)) return false;
  if (number_of(tag) == 0) return fail("a field of number 0");
  if (type_of(tag) == WireType::kEndGroup) return fail("the end of a group that was not begun");
  return true;
}

template <typename T>
bool Reader::read_little_endian(T& value) {
  if (end_ - position_ < sizeof(T)) return fail("the message ends within a field");
  if (available_ - position_ < sizeof(T)) return ran_out();
  std::memcpy(&value, data_ + position_, sizeof(T));
  position_ += sizeof(T);
  return true;
}

bool Reader::read_fixed(std::uint32_t& value) {
  return read_little_endian(value);
}
bool Reader::read_fixed(std::uint64_t& value) {
  return read_little_endian(value);
}
bool Reader::read_fixed(std::int64_t& value) {
  return read_little_endian(value);
}
bool Reader::read_fixed(double& value) {
  return read_little_endian(value);
}

bool Reader::read_length(std::uint64_t& length) {
  const std::uint64_t start = position_;
  std::uint64_t wide = 0;
  if (!read(wide)) {
    if (failure_ == Failure::kShort && available_ - start >= 5)
      return fail("a length of more than 5 bytes");
    return false;
  }
  if (position_ - start > 5) return fail("a length of more than 5 bytes");
  if (wide > kMaxLength) return fail("a length of 2 GiB or more");
  if (wide > end_ - position_) return fail("a length past the end of what encloses it");
  length = wide;
  return true;
}

bool Reader::skip_bytes(std::uint64_t length) {
  if (length > available_ - position_) return ran_out();
  position_ += length;
  return true;
}

bool Reader::read_bytes(std::string_view& bytes) {
  std::uint64_t length = 0;
  if (!read_length(length)) return false;
  if (length > available_ - position_) return ran_out();
  bytes = {reinterpret_cast<const char*>(data_ + position_), length};
  position_ += length;
  return true;
}

bool Reader::read_string(std::string_view& text) {
  std::string_view bytes;
  if (!read_bytes(bytes)) return false;
  if (!is_utf8(bytes)) return fail("a string before here is not UTF-8");
  text = bytes;
  return true;
}

bool Reader::skip_scalar(std::uint32_t tag) {
  std::uint64_t ignored = 0;
  std::uint32_t narrow = 0;
  switch (type_of(tag)) {
    case WireType::kVarint:
      return read(ignored);
    case WireType::kFixed64:
      return read_fixed(ignored);
    case WireType::kLength:
      return read_length(ignored) && skip_bytes(ignored);
    case WireType::kFixed32:
      return read_fixed(narrow);
    case WireType::kStartGroup:
    case WireType::kEndGroup:
      break;
  }
  return fail("a wire type that does not exist");
}

bool Reader::skip_field(std::uint32_t tag) {
  return type_of(tag) == WireType::kStartGroup ? skip_group(tag) : skip_scalar(tag);
}

bool Reader::skip_group(std::uint32_t tag) {
  std::array<std::uint32_t, kMaxDepth> open{};
  std::size_t count = 0;
  while (true) {
    if (number_of(tag) == 0) return fail("a field of number 0");
    switch (type_of(tag)) {
      case WireType::kStartGroup:
        if (static_cast<int>(count) >= depth_left_) return fail("nested too deeply");
        open.at(count++) = tag;
        break;
      case WireType::kEndGroup:
        if (number_of(tag) != number_of(open.at(count - 1)))
          return fail("the end of another group than the one begun");
        if (--count == 0) return true;
        break;
      default:
        if (!skip_scalar(tag)) return false;
    }
    if (!read_raw_tag(tag)) return false;
  }
}

bool Reader::enter(std::uint64_t& outer_end) {
  std::uint64_t length = 0;
  if (!read_length(length)) return false;
  if (depth_left_ == 0) return fail("nested too deeply");
  --depth_left_;
  outer_end = end_;
  end_ = position_ + length;
  return true;
}

void Reader::leave(std::uint64_t outer_end) {
  SB_CHECK(position_ == end_, "a message within another is left at its end");
  end_ = outer_end;
  ++depth_left_;
}

}  // namespace simbridge::wire
