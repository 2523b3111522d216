#pragma once
// What: how the commands speak: sentences to err, results to out, each line whole and at once.
// Owner: nobody, functions.   Threads: one at a time.
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

/// False once the reader of our output is gone.
inline bool print(const Console& console, std::string_view line) {
  return std::fwrite(line.data(), 1, line.size(), console.out) == line.size() &&
         std::fputc('\n', console.out) != EOF && std::fflush(console.out) == 0;
}

}  // namespace simbridge::client
