#include "app/version.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace simbridge::app {

std::string_view version() {
  return SIMBRIDGE_VERSION;
}

std::string_view compiler() {
#if defined(__clang__)
  return "clang++ " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string version_text() {
  return fmt::format("simbridge {} ({})\n", version(), compiler());
}

std::string version_json() {
  const nlohmann::ordered_json json{{"name", "simbridge"},
                                    {"version", version()},
                                    {"compiler", compiler()},
                                    {"subprotocols", {"simbridge.v1", "simbridge.flat.v1"}}};
  return json.dump() + "\n";
}

}  // namespace simbridge::app
