#include "support/source_dir.h"

namespace simbridge::test {

std::filesystem::path source_dir() {
  return SIMBRIDGE_SOURCE_DIR;
}

}  // namespace simbridge::test
