#pragma once
// What: the one parser of Frame and FramePart. It merges into what it is given, as protobuf does;
// with kPrefix it stops where the payload's data begins, if nothing stands behind that data.
// Owner: the parse call.   Threads: one.
#include "simbridge/wire/frame_head.h"
#include "wire/reader.h"

#include <cstdint>

namespace simbridge::wire {

enum class ParseMode : std::uint8_t { kWhole, kPrefix };

enum class Parsed : std::uint8_t {
  kEnd,           // to the end of the message
  kData,          // kPrefix: the data is next, and is the rest of the message
  kFailed,        // the reader knows why
  kNotCanonical,  // kPrefix: something stands behind the data
};

/// The reader stands at the content of a Frame and its end is the frame's.
Parsed parse_frame_content(Reader& in, ParseMode mode, FrameHead& head);

/// The same of a FramePart. data_offset, data_bytes: where its data is, in the reader's bytes.
Parsed parse_part_content(
    Reader& in, ParseMode mode, Part& part, std::uint64_t& data_offset, std::uint64_t& data_bytes);

/// The pieces of a stored head: fields of a payload alone.
bool parse_payload_content(Reader& in, PayloadKind kind, FrameHead& head);

}  // namespace simbridge::wire
