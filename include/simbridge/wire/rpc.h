#pragma once
// What: the messages that only the gRPC road has: GetInfo, the health protocol, reflection. Bytes
// in, bytes out; none is on the road of a frame.   Owner: nobody, functions.   Threads: any.
#include "simbridge/wire/messages.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace simbridge::wire {

struct Limits {
  std::uint64_t memory_bytes = 0;  // 0 = none
  std::uint64_t memory_intent_bytes = 0;
  double cpus = 0;
  std::uint64_t frame_budget_bytes = 0, frame_bytes = 0;
  std::uint32_t io_threads = 0, decimate_threads = 0;
  std::string decimator;
  std::uint64_t shrinkable_to_bytes = 0;
};

struct Info {
  Welcome welcome;  // session 0: there is none
  Limits limits;
  std::vector<ChannelInfo> channels;
  std::uint64_t sessions = 0;
  std::int64_t started_ns = 0;
};

/// Whether these bytes are a GetInfoRequest.
[[nodiscard]] bool is_info_request(std::span<const std::byte> bytes);
[[nodiscard]] std::string info_response(const Info& info);

/// The service that a HealthCheckRequest asks for; nothing where it does not parse.
[[nodiscard]] std::optional<std::string> health_request(std::span<const std::byte> bytes);
enum class Health : std::uint8_t { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };
[[nodiscard]] std::string health_response(Health health);

/// The answer to a ServerReflectionRequest; nothing where it does not parse. Knows the files of
/// this protocol and of the two above.
[[nodiscard]] std::optional<std::string> reflection_response(std::span<const std::byte> bytes);

}  // namespace simbridge::wire
