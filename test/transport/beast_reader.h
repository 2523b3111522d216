#pragma once
// What: the same stream as read by Boost.Beast's WebSocket stream, and the comparison of the two
// readings. Owner: values.   Threads: any.
#include "transport/ws_peer.h"

#include <optional>
#include <string>
#include <string_view>

namespace simbridge::test {

/// Beast over a stream in memory, server's role, deflate off.
Transcript read_with_beast(std::string_view stream, std::uint64_t limit);

/// Nothing, or in what the product's reader and Beast's differ.
std::optional<std::string> difference(std::string_view stream, std::uint64_t limit);

/// A stream of frames made from the bytes of a fuzzer or of a random generator: mostly right, each
/// part wrong now and then.
std::string stream_from(std::string_view program);

}  // namespace simbridge::test
