#pragma once
// What: the LZF compression that binary_compressed PCD files use; own code, both ways.
// Owner: nobody, pure functions.   Threads: any.
#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

namespace simbridge::client {

/// Where in the compressed bytes it went wrong, and how.
struct LzfFault {
  std::size_t at = 0;
  std::string_view why;
};

/// Exactly raw_size bytes come out, or it is a fault. A raw size that so few bytes cannot reach is
/// refused before it is reserved.
[[nodiscard]] std::expected<std::string, LzfFault> lzf_decompress(std::string_view compressed,
                                                                  std::size_t raw_size);
[[nodiscard]] std::string lzf_compress(std::string_view raw);

}  // namespace simbridge::client
