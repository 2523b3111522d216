#pragma once
// What: the process as the kernel sees it.   Owner: nobody.   Threads: any.
#include <cstdint>

namespace simbridge::app {

struct ProcessFigures {
  std::uint64_t resident_bytes = 0;
  std::uint64_t cpu_us = 0;
  std::uint64_t open_descriptors = 0;
  std::uint64_t descriptor_limit = 0;
};
/// What cannot be read is 0.
[[nodiscard]] ProcessFigures process_figures();

/// Raises the descriptor limit to what the process may have; returns it.
std::uint64_t raise_descriptor_limit();

/// New at every start; never 0.
[[nodiscard]] std::uint64_t random_boot_id();

/// CPUs that this process may run on.
[[nodiscard]] unsigned cpus_here();

}  // namespace simbridge::app
