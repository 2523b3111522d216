#pragma once
// What: frames as bytes, encoded once and kept until they are acknowledged: the same bytes are sent
// again after a broken connection. The payload is copied once; around it stand the few bytes that
// protobuf would write, in its canonical order.
// Owner: nobody, values.   Threads: any.
#include "simbridge/client/peer.h"
#include "simbridge/client/point_cloud.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace simbridge::client {

class Line;

struct EncodedFrame {
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::shared_ptr<const std::string> bytes;  // of the Frame, without the ClientMessage around it
  std::size_t data_at = 0;  // where the payload's data begins; it reaches to the end

  [[nodiscard]] std::uint64_t data_bytes() const { return bytes->size() - data_at; }
};

[[nodiscard]] EncodedFrame encode_cloud(const FrameHeader& header, const PointCloudData& cloud);
[[nodiscard]] EncodedFrame encode_opaque(const FrameHeader& header, std::string_view data);

/// Queues the frame as one message, or as parts where it is larger than the bridge accepts.
/// transfer is the number of the last transfer of parts and counts on.
void send_encoded(Line& line,
                  const EncodedFrame& frame,
                  std::uint64_t max_message_bytes,
                  std::uint64_t& transfer);

}  // namespace simbridge::client
