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
/// answers with LAYOUT in its turn. data_offset and data_bytes say where the payload lies: for a
/// cloud from the first block to the end of the last, with the fields' offsets counted from there.
std::optional<Malformed> parse_flat(std::span<const std::byte> message, FrameHead& head);

/// What the first bytes of a flat message tell. kFrame: header and table are complete, the payload
/// lies between head.data_offset and a tail of head.tail_bytes, which holds a #meta (or nothing) up
/// to the message's end. kWhole: must be had whole (its length is not known, blocks that are not to
/// be sent on lie within or between, a #meta is not the last; it may turn out malformed there).
PeekResult peek_flat(std::span<const std::byte> prefix,
                     std::optional<std::uint64_t> message_bytes,
                     FrameHead& head);
/// The tail of a message that peek_flat gave as kFrame: sets frame_id, depth's intrinsics and
/// encoding, the cloud's time field in head, where it has a #meta. Views then point into head's own
/// memory.
std::optional<Malformed> read_flat_tail(std::span<const std::byte> tail, FrameHead& head);

// ---- frames out
// -----------------------------------------------------------------------------------------------

/// Whether a stored frame has a flat form: SOA clouds of raw data whose blocks are as §5 wants
/// them, opaque payloads, depth images of raw data with tight rows.
bool has_flat_form(std::span<const std::byte> stored, std::uint64_t data_bytes);
/// Bytes that flat_prefix may need at most for this stored head.
std::uint64_t flat_prefix_max(std::span<const std::byte> stored);
/// The #meta of a frame: the Frame without its payload's data as JSON. unchanging leaves out what
/// differs from frame to frame (sequence, times, result): equal texts, equal meta.
std::string flat_meta(std::span<const std::byte> stored,
                      const Outgoing& outgoing,
                      bool unchanging = false);
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
