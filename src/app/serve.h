#pragma once
// What: `simbridge serve`: the process around the bridge: signals, limits, what is printed, the
// exit code. Owner: main.   Threads: the main thread, which becomes the housekeeper.
#include "app/config.h"

namespace simbridge::app {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitConfiguration = 2;

/// Blocks the signals that serve() answers: one that comes from now on waits until the bridge has
/// started. For the first line of main; serve() does it too.
void hold_signals();

/// Returns when the bridge was told to stop and has drained: 0. 2: it could not start, standard
/// error says why in one sentence. A second SIGTERM or SIGINT ends the process at once with 1.
[[nodiscard]] int serve(const Given& given);

}  // namespace simbridge::app
