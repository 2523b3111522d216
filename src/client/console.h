#pragma once
// What: how the commands speak: sentences to err, results to out, each line whole and at once.
// Owner: nobody, functions.   Threads: one at a time.
#include "simbridge/base/result.h"
#include "simbridge/client/commands.h"

#include <fmt/core.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace simbridge::client {

inline constexpr std::string_view kAgent = "simbridge-client/0.1";

template <typename... Args>
void say(const Console& console, fmt::format_string<Args...> text, Args&&... args) {
  fmt::print(console.err, "{}\n", fmt::format(text, std::forward<Args>(args)...));
  static_cast<void>(std::fflush(console.err));  // nobody to tell
}

/// The error says why the reader of our output gets no more: it is gone, or its disk is full.
[[nodiscard]] inline Result<void> write_out(const Console& console, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), console.out) == text.size() &&
      std::fflush(console.out) == 0)
    return {};
  return fail(ErrorCode::kSystem, fmt::format("cannot write the output: {}", errno_text()));
}

/// One line to the output. false: it could not be written, which is said.
[[nodiscard]] inline bool print(const Console& console,
                                std::string_view command,
                                std::string_view line) {
  const auto written = write_out(console, fmt::format("{}\n", line));
  if (!written) say(console, "simbridge {}: {}", command, written.error().detail);
  return written.has_value();
}

}  // namespace simbridge::client
