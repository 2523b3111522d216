// scripts/bench.sh [group] [--json FILE]: prints a table of values beside their peers'. Asserts
// nothing.
#include "grpc_callback.h"
#include "report.h"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

int main(int argc, char** argv) {
  using namespace simbridge::bench;  // NOLINT(google-build-using-namespace): main of a program
  const std::vector<std::pair<std::string, std::function<void(const Settings&, Report&)>>> groups{
      {"ring", ring},
      {"memory", memory},
      {"ingest", ingest},
      {"fanout", fan_out},
      {"latency", latency},
      {"idle", idle},
      {"decimation", decimation},
      {"grpc", grpc_road}};  // last: what forks after it would have its threads gone
  Settings settings;
  settings.simbridge = SIMBRIDGE_BINARY;
  std::string wanted, json;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : "";
    if (word == kServeCallback) serve_callback();
    if (word == "--json") {
      json = next;
      ++i;
    } else if (word == "--repetitions") {
      settings.repetitions = std::max(1, std::atoi(next));
      ++i;
    } else if (word == "--seconds") {
      settings.seconds = std::max(0.05, std::atof(next));
      ++i;
    } else if (word.starts_with("-")) {
      fmt::print(stderr,
                 "bench [ring|memory|ingest|fanout|latency|idle|decimation|grpc] [--json FILE] "
                 "[--repetitions N] "
                 "[--seconds S]\n");
      return 2;
    } else {
      wanted = word;
    }
  }
  Report report;
  bool known = false;
  for (const auto& [name, run] : groups) {
    if (!wanted.empty() && wanted != name) continue;
    known = true;
    fmt::print(stderr, "{} …\n", name);
    try {
      run(settings, report);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", name, error.what());
      return 1;
    }
  }
  if (!known) {
    fmt::print(stderr, "no such group: {}\n", wanted);
    return 2;
  }
  report.print();
  if (!json.empty()) report.write_json(json);
  return 0;
}
