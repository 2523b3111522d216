#pragma once
// What: SIGINT and SIGTERM as a question. While one of these lives, the first signal asks to stop,
// the second ends the process at once as if nobody had caught it.
// Owner: a command, one at a time in a process.   Threads: any.

namespace simbridge::client {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] static bool asked();
};

}  // namespace simbridge::client
