#pragma once
// What: flat messages and JSON control (protocol.md §5) written and read a second time, from the
// page alone: a writer as a program with numpy is one, a reader that shares no line with src/wire,
// and judges that hold both against it.   Owner: nobody.   Threads: any.
#include "wire/judge.h"
#include "wire/random_message.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::wire::test {

struct FlatBlock {
  std::string name;
  std::uint8_t type = 0, components = 1;
  std::string bytes;
};

/// What a sensor says in one flat message.
struct FlatMessage {
  std::uint32_t channel = 1;
  std::uint64_t sequence = 1, epoch = 7;
  std::int64_t stamp_ns = 0, sent_ns = 0;
  std::uint32_t points = 0, flags = 0, height = 0;
  std::array<double, 3> origin{};
  std::array<double, 7> pose{};
  std::size_t grown_bytes = 0;  // that a later version has behind the table
  std::vector<FlatBlock> blocks;

  [[nodiscard]] std::string encode() const;
};

/// One number after the other, little-endian.
template <typename Number>
std::string packed(std::initializer_list<Number> numbers) {
  std::string out;
  for (const Number number : numbers)
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  return out;
}
/// Overwrites what stands at a place of a message.
template <typename Number>
void poke(std::string& message, std::size_t at, Number number) {
  message.replace(at, sizeof number, packed({number}));
}
/// Where a block's entry begins in the table.
constexpr std::size_t entry_at(std::size_t block) {
  return 208 + 32 * block;
}

/// Well-formed, of any kind, now and then with blocks that are not due.
FlatMessage random_flat(Random& random);

/// Any bytes: parse_flat() and the second reader agree; peek_flat() at each of the first prefixes,
/// read_flat_tail(), and storing before and after it lead to the same head; what is accepted and
/// has a flat form goes out as the message that came.
std::string judge_flat(std::span<const std::byte> message, std::size_t max_prefixes);

/// Any text: what parse_json() takes protobuf's own parser takes, with the same values; and what it
/// says otherwise can be sent to the peer.
std::string judge_json(std::string_view text);

}  // namespace simbridge::wire::test
