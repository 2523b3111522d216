#pragma once
// What: numbers that name things; distinct types, so that they cannot be swapped.   Threads:
// values, any.
#include <cstdint>

namespace simbridge {

enum class ChannelId : std::uint32_t { kNone = 0 };  // the bridge's number, as in ChannelInfo.id
enum class SessionId : std::uint64_t { kNone = 0 };

constexpr std::uint32_t value(ChannelId id) {
  return static_cast<std::uint32_t>(id);
}
constexpr std::uint64_t value(SessionId id) {
  return static_cast<std::uint64_t>(id);
}

}  // namespace simbridge
