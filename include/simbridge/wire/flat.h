#pragma once
// What: the flat road's two forms (protocol.md §5): flat binary messages, for programs without
// protobuf, and control messages as JSON text. A flat frame that came in is the same FrameHead as
// one of the protobuf road (a SOA cloud, a depth image, an opaque payload), so it is judged, stored
// and sent on by the same functions.   Owner: nobody; views of a FrameHead point into the parsed
// bytes.   Threads: values; functions are pure, any.
#include "simbridge/wire/frame_head.h"

namespace simbridge::wire {

// ---- frames in
// ------------------------------------------------------------------------------------------------

/// A whole flat message. What is not MALFORMED is parsed, as far as channel, sequence and epoch at
/// least: other faults of header, table and blocks are in head.flat_fault, which check_payload
/// answers with LAYOUT in its turn. data_offset and data_bytes say where the payload lies: of a
/// cloud from the header's end to the end of the last block, with the fields' offsets counted from
/// there; of others their one block.
std::optional<Malformed> parse_flat(std::span<const std::byte> message, FrameHead& head);

/// What the first bytes of a flat message tell. kFrame: header and table are complete, the payload
/// lies between head.data_offset and a tail of head.tail_bytes up to the message's end. A message
/// with a fault is kFrame too: there is nothing in it to wait for. kWhole: must be had whole (its
/// length is not known, a #meta lies before or between the blocks; it may turn out malformed).
PeekResult peek_flat(std::span<const std::byte> prefix,
                     std::optional<std::uint64_t> message_bytes,
                     FrameHead& head);
/// The tail of a message that peek_flat gave as kFrame: sets what a #meta has in head; its views
/// then point into head's own memory. stored_head_bytes() had room for that, so the head may be
/// stored again in the same place.
std::optional<Malformed> read_flat_tail(std::span<const std::byte> tail, FrameHead& head);

// ---- frames out
// -----------------------------------------------------------------------------------------------

/// Whether a stored frame has a flat form: SOA clouds of raw data whose blocks are as §5 wants
/// them, opaque payloads, depth images of raw data with tight rows.
bool has_flat_form(std::span<const std::byte> stored, std::uint64_t data_bytes);
/// Bytes that flat_prefix may need at most for this stored head.
std::uint64_t flat_prefix_max(std::span<const std::byte> stored);
/// The #meta of a frame: the Frame without its payload's data as JSON.
std::string flat_meta(std::span<const std::byte> stored, const Outgoing& outgoing);
/// Writes header and block table; data follows, then, where meta_bytes is above 0, zeros up to a
/// multiple of 8 and the meta. Returns its length, a multiple of 8.
std::uint64_t flat_prefix(std::span<const std::byte> stored,
                          const Outgoing& outgoing,
                          std::uint64_t meta_bytes,
                          std::span<std::byte> out);

// ---- control
// ------------------------------------------------------------------------------------------------

/// A ClientMessage in protobuf's JSON mapping, read strictly (§5, "JSON control"). FrameBody and
/// Part: the text has such a body, of which nothing more was read.
ClientMessage parse_json(std::string_view text);
/// Every field, camelCase, appended to out.
void encode_json(const ServerMessage& message, std::string& out);

}  // namespace simbridge::wire
