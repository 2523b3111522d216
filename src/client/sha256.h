#pragma once
// What: SHA-256 (FIPS 180-4), for `watch --sha256`.   Threads: any.
#include <string>
#include <string_view>

namespace simbridge::client {

/// The processor's own instructions where it has them, or the portable code (for tests).
enum class Sha256Code { kBest, kPortable };

/// In lower-case hex.
[[nodiscard]] std::string sha256_hex(std::string_view data, Sha256Code code = Sha256Code::kBest);

}  // namespace simbridge::client
