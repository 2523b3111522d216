#pragma once
// What: what `send` sends: recordings, the simulated lidar, telemetry. The content of a frame
// depends on its sequence alone, so that a sender that was killed goes on exactly where it was.
// Owner: send.   Threads: one at a time.
#include "client/frame_encoder.h"
#include "client/lidar.h"
#include "simbridge/base/result.h"
#include "simbridge/client/peer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace simbridge::client {

class FrameSource {
 public:
  virtual ~FrameSource() = default;
  FrameSource(const FrameSource&) = delete;
  FrameSource& operator=(const FrameSource&) = delete;

  /// Payload bytes of the frame of this sequence, known before it is made.
  [[nodiscard]] virtual std::uint64_t data_bytes(std::uint64_t sequence) const = 0;
  [[nodiscard]] virtual Result<EncodedFrame> make(const FrameHeader& header) = 0;
  /// How many frames make one round; 0 = there is no end.
  [[nodiscard]] virtual std::uint64_t round() const = 0;

 protected:
  FrameSource() = default;
};

/// All files are read and judged here; the error names file and line or byte. kUnavailable: one is
/// not there. Small sets stay in memory, large ones are read again each time.
[[nodiscard]] Result<std::unique_ptr<FrameSource>> make_file_source(std::vector<std::string> files);
[[nodiscard]] std::unique_ptr<FrameSource> make_lidar_source(const LidarOptions& options);
/// Opaque frames of so many bytes: sequence, then bytes that follow from it.
[[nodiscard]] std::unique_ptr<FrameSource> make_telemetry_source(std::uint64_t bytes);

}  // namespace simbridge::client
