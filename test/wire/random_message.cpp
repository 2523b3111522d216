#include "wire/random_message.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace simbridge::wire::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::uint64_t below(Random& random, std::uint64_t bound) {
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
}

std::uint64_t any_number(Random& random) {
  switch (below(random, 6)) {
    case 0:
      return 0;
    case 1:
      return below(random, 128);
    case 2:
      return below(random, 1 << 20U);
    case 3:
      return std::numeric_limits<std::uint64_t>::max() - below(random, 3);
    case 4:
      return std::uint64_t{1} << below(random, 64);
    default:
      return random();
  }
}

double any_double(Random& random) {
  constexpr std::array kSpecial{0.0,
                                -0.0,
                                1.0,
                                -2.5,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::denorm_min(),
                                std::numeric_limits<double>::max()};
  if (below(random, 2) == 0) return kSpecial.at(below(random, kSpecial.size()));
  return std::uniform_real_distribution<double>(-1000, 1000)(random);
}

std::string any_text(Random& random) {
  static const std::vector<std::string> kPieces{
      "x", "y", "z", "xyz", "lidar", "_", "", "/", "é", "點", "\xF0\x9F\x9A\x97", "16UC1", "a b"};
  std::string text;
  for (std::uint64_t i = below(random, 4); i > 0; --i)
    text += kPieces.at(below(random, kPieces.size()));
  return text;
}

std::string any_bytes(Random& random) {
  std::string bytes(below(random, 4) == 0 ? below(random, 400) : below(random, 20), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void set_scalar(Message& message, const FieldDescriptor& field, Random& random) {
  const Reflection& reflection = *message.GetReflection();
  const bool add = field.is_repeated();
  const std::uint64_t number = any_number(random);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto value = static_cast<std::uint32_t>(number);
      add ? reflection.AddUInt32(&message, &field, value)
          : reflection.SetUInt32(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64:
      reflection.SetUInt64(&message, &field, number);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      reflection.SetInt64(&message, &field, static_cast<std::int64_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection.SetDouble(&message, &field, any_double(random));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      reflection.SetFloat(&message, &field, static_cast<float>(any_double(random) / 1e300));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field, (number & 1U) != 0);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection.SetEnumValue(&message,
                              &field,
                              below(random, 3) == 0 ? static_cast<std::int32_t>(number)
                                                    : static_cast<std::int32_t>(number % 12));
      break;
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string value =
          field.type() == FieldDescriptor::TYPE_BYTES ? any_bytes(random) : any_text(random);
      add ? reflection.AddString(&message, &field, std::move(value))
          : reflection.SetString(&message, &field, std::move(value));
      break;
    }
    default:
      break;  // the protocol has no int32 and no other
  }
}

void append_varint(std::string& out, std::uint64_t value, std::size_t at_least) {
  std::size_t length = 0;
  while (value >= 0x80U || length + 1 < at_least) {
    out.push_back(static_cast<char>(value | 0x80U));
    value >>= 7U;
    ++length;
  }
  out.push_back(static_cast<char>(value));
}

// A varint at a position, passing it; the encodings here come from protobuf and are whole.
std::uint64_t take_varint(const std::string& in, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(in.at(at++));
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80U) return value;
  }
}

struct Piece {
  std::uint64_t tag = 0;
  std::string content;  // without tag and length
};

std::vector<Piece> pieces_of(const std::string& encoded) {
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < encoded.size();) {
    Piece piece{.tag = take_varint(encoded, at), .content = {}};
    std::size_t length = 0;
    switch (piece.tag & 7U) {
      case 0: {
        std::size_t end = at;
        take_varint(encoded, end);
        length = end - at;
        break;
      }
      case 1:
        length = 8;
        break;
      case 2:
        length = take_varint(encoded, at);
        break;
      default:
        length = 4;
        break;
    }
    piece.content = encoded.substr(at, length);
    at += length;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string unknown_field(Random& random) {
  std::string out;
  const std::uint64_t number = 200 + below(random, 3000);
  switch (below(random, 5)) {
    case 0:
      append_varint(out, number << 3U, 0);
      append_varint(out, random(), 0);
      break;
    case 1:
      append_varint(out, (number << 3U) | 1U, 0);
      out.append(8, 'u');
      break;
    case 2:
      append_varint(out, (number << 3U) | 2U, 0);
      append_varint(out, 3, 0);
      out += "new";
      break;
    case 3:
      append_varint(out, (number << 3U) | 5U, 0);
      out.append(4, 'u');
      break;
    default: {
      append_varint(out, (number << 3U) | 3U, 0);
      for (std::uint64_t i = below(random, 3); i > 0; --i) out += unknown_field(random);
      append_varint(out, (number << 3U) | 4U, 0);
      break;
    }
  }
  return out;
}

}  // namespace

void fill_random(Message& message, Random& random) {
  const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const auto* oneof = field.real_containing_oneof();
    const auto choices = oneof == nullptr ? 2 : static_cast<std::uint64_t>(oneof->field_count());
    if (below(random, choices) != 0) continue;
    const std::uint64_t times = field.is_repeated() ? below(random, 5) : 1;
    for (std::uint64_t time = 0; time < times; ++time) {
      if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
        set_scalar(message, field, random);
      else
        fill_random(*(field.is_repeated() ? reflection.AddMessage(&message, &field)
                                          : reflection.MutableMessage(&message, &field)),
                    random);
    }
  }
}

std::string scramble(const std::string& encoded,
                     const google::protobuf::Descriptor& type,
                     Random& random) {
  std::vector<Piece> pieces = pieces_of(encoded);
  if (below(random, 2) == 0) std::ranges::shuffle(pieces, random);
  if (!pieces.empty() && below(random, 3) == 0)
    pieces.push_back(pieces.at(below(random, pieces.size())));
  std::string out;
  const auto put = [&](std::uint64_t tag, const std::string& content) {
    if (below(random, 8) == 0) out += unknown_field(random);
    append_varint(out, tag, below(random, 8) == 0 ? 1 + below(random, 5) : 0);
    if ((tag & 7U) == 2)
      append_varint(out, content.size(), below(random, 8) == 0 ? 1 + below(random, 5) : 0);
    out += content;
  };
  for (const Piece& piece : pieces) {
    const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(piece.tag >> 3U));
    if (field == nullptr || field->message_type() == nullptr) {
      put(piece.tag, piece.content);
      continue;
    }
    const std::string content = scramble(piece.content, *field->message_type(), random);
    if (below(random, 4) == 0)
      put(piece.tag, scramble(piece.content, *field->message_type(), random));
    put(piece.tag, content);
  }
  if (below(random, 8) == 0) out += unknown_field(random);
  return out;
}

std::string damage(std::string encoded, Random& random) {
  for (std::uint64_t times = 1 + below(random, 3); times > 0; --times) {
    if (encoded.empty()) return encoded;
    const std::size_t at = below(random, encoded.size());
    switch (below(random, 5)) {
      case 0:
        encoded[at] = static_cast<char>(random());
        break;
      case 1:
        encoded[at] = static_cast<char>(encoded[at] ^ (1 << below(random, 8)));
        break;
      case 2:
        encoded.insert(at, 1, static_cast<char>(random()));
        break;
      case 3:
        encoded.erase(at, 1);
        break;
      default:
        encoded.resize(at);
        break;
    }
  }
  return encoded;
}

}  // namespace simbridge::wire::test
