#pragma once
// What: SB_CHECK, for defects: an invariant of ours is broken and going on would corrupt.
// Always on. Anything a peer, an operator or the kernel can cause is not a defect: use Result.

namespace simbridge {
[[noreturn]] void check_failed(const char* file,
                               int line,
                               const char* condition,
                               const char* message);
}  // namespace simbridge

#define SB_CHECK(condition, message)                                      \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::simbridge::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)

#define SB_UNREACHABLE(message) ::simbridge::check_failed(__FILE__, __LINE__, "reached", message)
