#pragma once
// What: from the client's plain structs to messages of the generated protobuf code and back.
// Owner: nobody, functions.   Threads: any.
#include "simbridge/base/clock.h"
#include "simbridge/client/peer.h"
#include "simbridge/client/point_cloud.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace simbridge::v1 {
class Advertise;
class Frame;
class Hello;
class Quality;
class Reject;
class Subscribe;
class Welcome;
}  // namespace simbridge::v1

namespace simbridge::client {

void fill_hello(v1::Hello& hello, const PeerOptions& options);
void fill_advertise(v1::Advertise& advertise, const AdvertiseOptions& options);
void fill_quality(v1::Quality& message, double max_hz, const Quality& quality);
void fill_subscribe(v1::Subscribe& subscribe, const SubscribeOptions& options);
[[nodiscard]] WelcomeInfo welcome_info(const v1::Welcome& welcome);

/// Everything but the payload; sent_ns is the wall clock now, the stamp it where none is given.
void fill_header(v1::Frame& frame, const FrameHeader& header);
/// Everything of the cloud but its data. Padding fields ("_") are left out: gaps say the same.
void fill_layout(v1::Frame& frame, const PointCloudData& cloud);
/// The layout and the data.
void fill_cloud(v1::Frame& frame, const PointCloudData& cloud);
/// Sets the checksum over the payload's data as it stands.
void fill_checksum(v1::Frame& frame);

/// The data of whatever payload the frame has; empty where it has none.
[[nodiscard]] std::string_view payload_data(const v1::Frame& frame);
/// "FIELD: x ends at 20, the point at 16", with the enum's name without its prefix.
[[nodiscard]] std::string describe(const v1::Reject& reject);
[[nodiscard]] std::string reject_name(int code);
[[nodiscard]] std::string gap_reason_name(int reason);
[[nodiscard]] std::string level_name(int level);

[[nodiscard]] std::int64_t wall_ns();

}  // namespace simbridge::client
