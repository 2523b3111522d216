#pragma once
// What: which channel names and patterns a bridge takes, so that a slip is told before anybody is
// asked. Written from the protocol's page alone, not shared with the daemon.
// Owner: nobody, functions.   Threads: any.
#include <string>
#include <string_view>

namespace simbridge::client {

/// Empty, or a sentence that quotes the name and says what is wrong with it and what is allowed.
[[nodiscard]] std::string fault_of_name(std::string_view name);
/// The same for a pattern of channels.
[[nodiscard]] std::string fault_of_pattern(std::string_view pattern);

}  // namespace simbridge::client
