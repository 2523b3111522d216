#pragma once
// What: where the shared test data lies. Absent data is said loudly, never passed over in silence.
#include "support/source_dir.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

namespace simbridge::test {

/// A path below the data folder, or nothing, after telling what will be skipped.
inline std::optional<std::filesystem::path> data(const std::string& relative) {
  const char* given = std::getenv("SIMBRIDGE_TEST_DATA");
  const std::filesystem::path root =
      given != nullptr && *given != '\0' ? given : source_dir() / ".." / "shared";
  auto path = root / relative;
  if (std::filesystem::exists(path)) return path;
  std::cerr << "\n*** SKIPPED: no test data at " << path << "; set SIMBRIDGE_TEST_DATA ***\n";
  return std::nullopt;
}

}  // namespace simbridge::test
