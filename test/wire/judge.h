#pragma once
// What: judges that compare the wire module with protobuf's own parser. Each returns what differs,
// or nothing.   Owner: nobody.   Threads: any.
#include "simbridge/wire/frame_head.h"

#include "simbridge/v1/bridge.pb.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace simbridge::wire::test {

std::span<const std::byte> as_bytes(std::string_view text);

/// The Frame that head and its data stand for.
v1::Frame to_proto(const FrameHead& head, std::span<const std::byte> data);
/// A control message or part as protobuf has it.
v1::ClientMessage to_proto(const ClientMessage& message);

/// The bytes are a ClientMessage: parse() agrees with protobuf on whether they are one, on its kind
/// and on every value; peek() of each of the first prefixes (all, up to max_prefixes) agrees with
/// parse().
std::string judge_message(std::span<const std::byte> message, std::size_t max_prefixes);

/// The bytes are a Frame: the same for parse_frame() and peek_frame(); and what is stored, loaded
/// and written anew is the frame that came.
std::string judge_frame(std::span<const std::byte> frame, std::size_t max_prefixes);

/// A consumer gets the frame as it was sent, but for what the bridge sets.
std::string judge_pass_through(const FrameHead& head, std::span<const std::byte> data);

/// What check_payload accepts can be read without leaving the data, by arithmetic of its own.
std::string judge_accepted_payload(const FrameHead& head, const FrameLimits& limits);

}  // namespace simbridge::wire::test
