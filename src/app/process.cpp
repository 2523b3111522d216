#include "app/process.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

namespace simbridge::app {
namespace {

std::uint64_t microseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(time.tv_usec);
}

}  // namespace

ProcessFigures process_figures() {
  ProcessFigures figures;
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> resident) {
    figures.resident_bytes = resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    figures.cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
  }
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end;
       entry.increment(error)) {
    ++figures.open_descriptors;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.descriptor_limit = limit.rlim_cur;
  return figures;
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = raised.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

std::uint64_t random_boot_id() {
  std::random_device device;
  const std::uint64_t id = (std::uint64_t{device()} << 32U) | device();
  return std::max<std::uint64_t>(id, 1);
}

unsigned cpus_here() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails only where the machine has more CPUs than the set holds; one thread a CPU is then no
  // longer wise anyway.
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 64;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace simbridge::app
