#pragma once
// What: the UTF-8 check that protobuf makes on string fields.   Owner: nobody.   Threads: any.
#include <cstddef>
#include <string>
#include <string_view>

namespace simbridge::wire {

/// Bytes of the well-formed character at the start of text (1 to 4), or 0: no overlong forms, no
/// surrogates, nothing above U+10FFFF.
std::size_t utf8_character(std::string_view text);
bool is_utf8(std::string_view text);
/// Appends text with '?' in place of each byte that is not part of a well-formed character.
void append_utf8(std::string_view text, std::string& out);

}  // namespace simbridge::wire
