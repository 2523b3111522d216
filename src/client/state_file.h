#pragma once
// What: what `send --state` keeps over restarts: the peer's key, and of each channel the epoch and
// the last acknowledged sequence. A text file, replaced as a whole by rename.
// Owner: send.   Threads: one at a time.
#include "simbridge/base/result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace simbridge::client {

struct SendState {
  struct Channel {
    std::uint64_t epoch = 0;
    std::uint64_t sequence = 0;  // acknowledged

    friend bool operator==(const Channel&, const Channel&) = default;
  };
  std::string peer_key;  // bytes, not hex
  std::map<std::string, Channel> channels;

  friend bool operator==(const SendState&, const SendState&) = default;
};

/// 16 random bytes.
[[nodiscard]] std::string new_peer_key();

/// Whether a state can be kept under this path: a regular file, or nothing yet. A stream would open
/// a directory without complaint, and saving would replace a device by a file.
[[nodiscard]] Result<void> check_state_path(const std::string& path);
/// The error names the line. nullopt: there is no such file.
[[nodiscard]] Result<std::optional<SendState>> load_state(const std::string& path);
[[nodiscard]] Result<SendState> parse_state(std::string_view text);
/// Written beside and renamed: whoever is killed leaves the old file or the new one.
[[nodiscard]] Result<void> save_state(const std::string& path, const SendState& state);
[[nodiscard]] std::string format_state(const SendState& state);

}  // namespace simbridge::client
