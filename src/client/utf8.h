#pragma once
// What: where a character of UTF-8 ends.   Owner: nobody, a function.   Threads: any.
#include <cstddef>
#include <string_view>

namespace simbridge::client {

/// The length of the well-formed UTF-8 character at the front; 0 = there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

}  // namespace simbridge::client
