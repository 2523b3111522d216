#include "simbridge/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace simbridge {

void check_failed(const char* file, int line, const char* condition, const char* message) {
  (void)std::fprintf(
      stderr, "simbridge: broken invariant: %s (%s) at %s:%d\n", message, condition, file, line);
  (void)std::fflush(stderr);
  std::abort();
}

}  // namespace simbridge
