#pragma once
// What: what was built.   Owner: nobody, constants.   Threads: any.
#include <string>
#include <string_view>

namespace simbridge::app {

[[nodiscard]] std::string_view version();   // "0.1.0"
[[nodiscard]] std::string_view compiler();  // "g++ 12.2.0"
[[nodiscard]] std::string version_text();
[[nodiscard]] std::string version_json();

}  // namespace simbridge::app
