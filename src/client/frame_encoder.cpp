#include "client/frame_encoder.h"

#include "client/crc32c.h"
#include "client/line.h"
#include "client/messages.h"
#include "simbridge/base/check.h"

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>

namespace simbridge::client {
namespace {

constexpr std::uint32_t kLengthDelimited = 2;
// A part's fields before its data, and the message around it, at their longest.
constexpr std::size_t kPartOverheadMax = 96;

void put_varint(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7U) out.push_back(static_cast<char>(number | 0x80U));
  out.push_back(static_cast<char>(number));
}

/// The tag and the length of what follows.
std::string delimited(int field, std::uint64_t length) {
  std::string out;
  put_varint(out, static_cast<std::uint32_t>(field) << 3U | kLengthDelimited);
  put_varint(out, length);
  return out;
}

/// frame: all but its payload; inside: the payload's message without its data, encoded.
EncodedFrame assemble(v1::Frame& frame,
                      int payload_field,
                      const std::string& inside,
                      std::string_view data,
                      bool checksum) {
  if (checksum) frame.set_crc32c(crc32c(data));
  constexpr int kDataField = 100;  // of every payload, and last in each
  const auto data_head = data.empty() ? std::string() : delimited(kDataField, data.size());
  const auto payload_head =
      delimited(payload_field, inside.size() + data_head.size() + data.size());
  auto bytes = std::make_shared<std::string>();
  bytes->reserve(frame.ByteSizeLong() + payload_head.size() + inside.size() + data_head.size() +
                 data.size());
  frame.AppendToString(bytes.get());
  *bytes += payload_head;
  *bytes += inside;
  *bytes += data_head;
  const auto data_at = bytes->size();
  bytes->append(data);
  return {.channel = frame.channel(),
          .sequence = frame.sequence(),
          .bytes = std::move(bytes),
          .data_at = data_at};
}

}  // namespace

EncodedFrame encode_cloud(const FrameHeader& header, const PointCloudData& cloud) {
  v1::Frame frame;
  fill_header(frame, header);
  fill_layout(frame, cloud);
  const auto inside = frame.cloud().SerializeAsString();
  frame.clear_cloud();
  return assemble(frame, v1::Frame::kCloudFieldNumber, inside, cloud.data, header.checksum);
}

EncodedFrame encode_opaque(const FrameHeader& header, std::string_view data) {
  v1::Frame frame;
  fill_header(frame, header);
  return assemble(frame, v1::Frame::kOpaqueFieldNumber, "", data, header.checksum);
}

void send_encoded(Line& line,
                  const EncodedFrame& frame,
                  std::uint64_t max_message_bytes,
                  std::uint64_t& transfer) {
  auto head = delimited(v1::ClientMessage::kFrameFieldNumber, frame.bytes->size());
  if (head.size() + frame.bytes->size() <= max_message_bytes) {
    line.send(std::move(head), frame.bytes, 0, frame.bytes->size());
    return;
  }
  SB_CHECK(max_message_bytes > 2 * kPartOverheadMax, "a bridge accepts messages that carry parts");
  // Part 0 is what stands before the data, so that the frame is judged before its data comes.
  const auto data_in_part = max_message_bytes - kPartOverheadMax;
  const auto parts = 1 + (frame.data_bytes() + data_in_part - 1) / data_in_part;
  v1::FramePart part;
  part.set_transfer(++transfer);
  part.set_count(static_cast<std::uint32_t>(parts));
  part.set_total_bytes(frame.bytes->size());
  part.set_channel(frame.channel);
  part.set_sequence(frame.sequence);
  std::size_t at = 0;
  for (std::uint32_t index = 0; index < parts; ++index) {
    part.set_index(index);
    const auto length =
        index == 0 ? frame.data_at : std::min<std::size_t>(data_in_part, frame.bytes->size() - at);
    const auto inside = part.SerializeAsString();
    const auto data_head = delimited(v1::FramePart::kDataFieldNumber, length);
    auto message =
        delimited(v1::ClientMessage::kPartFieldNumber, inside.size() + data_head.size() + length);
    message += inside;
    message += data_head;
    line.send(std::move(message), frame.bytes, at, length);
    at += length;
  }
}

}  // namespace simbridge::client
