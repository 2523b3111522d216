#pragma once
// What: a file of the tree that must equal what the program says now. SIMBRIDGE_UPDATE_GOLDEN=1
// writes it anew.
#include "support/source_dir.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace simbridge::test {

inline void compare_with_file(const std::string& relative, const std::string& now) {
  const std::string path = (source_dir() / relative).string();
  if (std::getenv("SIMBRIDGE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << now;
  }
  std::ostringstream kept;
  kept << std::ifstream(path).rdbuf();
  INFO(relative
       << " is stale; run this test with SIMBRIDGE_UPDATE_GOLDEN=1 and look at the difference");
  CHECK(kept.str() == now);
}

}  // namespace simbridge::test
