#pragma once
// What: the commands of the peer's side: send, watch, info, health. Each parses nothing: app's main
// fills the structs from the command line, the flag stands beside each member. Owner: nobody, free
// functions.   Threads: one command a process; they take SIGINT and SIGTERM while they run.
#include "simbridge/client/quality.h"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace simbridge::client {

/// What every command returns; scripts rely on the numbers.
enum class Exit : int {
  kDone = 0,
  kFailed = 1,
  kConfiguration = 2,
  kUnreachable = 3,
  kRefused = 4,
};

/// Where a command writes, and when it is told to stop beside the signals. Tests replace both.
struct Console {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  std::function<bool()> should_stop;  // asked at least every 100 ms; empty = signals only
};

/// simbridge send --to URL --channel NAME (FILES… | --simulate lidar | --telemetry BYTES)
struct SendOptions {
  std::string to;                  // --to URL (required): ws://host:port[/v1/connect]
  std::string channel;             // --channel NAME (required)
  std::vector<std::string> files;  // FILES…: .pcd, sent in this order
  std::string simulate;            // --simulate lidar
  std::uint64_t telemetry_bytes =
      0;               // --telemetry BYTES: opaque frames; beside another source on NAME/telemetry
  double rate_hz = 0;  // --rate HZ, 0.001 to 1e6; 0 = 10 for --simulate and --telemetry, as fast
                       // as the window for files
  std::uint64_t count =
      0;              // --count N frames; 0 = each file once, or for ever with --loop / simulated
  bool loop = false;  // --loop
  std::string state_file;  // --state FILE: peer_key, epoch, last acknowledged sequence
  std::string policy;      // --policy drop-oldest|backpressure; empty = the bridge's default
  bool latched = false;    // --latched
  std::string name = "simbridge-send";  // --name: of the peer, for logs
  std::string frame_id;                 // --frame-id; empty = "lidar" for clouds
  std::string token;                    // --token
  std::uint64_t seed = 1;               // --seed of the simulation
  std::uint32_t rings = 64;             // --rings of the simulated lidar
  std::uint32_t azimuths = 1024;        // --azimuths of the simulated lidar
  bool checksum = false;                // --checksum: CRC-32C in every frame
  bool json =
      false;  // --json: summary as one object on stdout (the sentence goes to stderr anyway)
  bool quiet = false;        // --quiet: no sentences but errors
  double connect_for_s = 0;  // --connect-for SECONDS: try the first connection that long; 0 = once
  double give_up_after_s = 60;  // --give-up-after SECONDS without a connection, later on; 0 = never
  bool reconnect = false;       // --reconnect: a bridge whose first answer is "later" (503 while it
                                // drains, or full) is waited for; broken connections always are
};

/// simbridge watch --from URL GLOB…
struct WatchOptions {
  std::string from;                // --from URL (required)
  std::vector<std::string> globs;  // GLOB…; empty = "**"
  bool json = false;               // --json: one object a line
  bool sha256 = false;             // --sha256 of the payload data, in JSON lines
  std::vector<std::string>
      history;        // --history none|last|all|from POSITION…  as the words after the flag, e.g.
                      // {"from", "EPOCH:SEQ"}; with several channels "NAME=EPOCH:SEQ"; empty = last
  double max_hz = 0;  // --max-hz
  QualityWords quality;   // --leaf, --max-points, --sampling, --region, --min-range, --max-range,
                          // --output
  std::string out;        // --out DIR: every cloud that arrives as a PCD file there
  bool reliable = false;  // --reliable
  std::uint32_t credit = 0;        // --credit N
  std::uint32_t max_age_ms = 0;    // --max-age-ms
  std::uint32_t queue_frames = 0;  // --queue-frames
  std::uint64_t queue_bytes = 0;   // --queue-bytes
  std::uint64_t count = 0;         // --count N frames, then the end
  double for_s = 0;                // --for SECONDS, then the end
  bool reconnect = false;          // --reconnect: and go on from the last positions; a bridge
                                   // whose first answer is 503 is waited for
  double give_up_after_s = 60;     // --give-up-after SECONDS without a connection; 0 = never
  double connect_for_s = 0;  // --connect-for SECONDS: try the first connection that long; 0 = once
  std::uint64_t max_message_bytes =
      0;  // --max-message-bytes that we accept; 0 = the bridge's limit
  std::string name = "simbridge-watch";  // --name
  std::string token;                     // --token
};

/// simbridge info URL: ws:// prints Welcome and Channels, http:// prints /api/v1/limits.
struct InfoOptions {
  std::string url;       // URL (required)
  bool json = false;     // --json
  double timeout_s = 5;  // --timeout
  std::string token;     // --token
};

/// simbridge health [URL]: GET /readyz, or /healthz where the URL says so. 0 ready, 1 not ready or
/// no bridge, 2 another path, 3 unreachable.
struct HealthOptions {
  std::string url = "http://127.0.0.1:8090";  // URL
  double timeout_s = 3;                       // --timeout
};

// Each returns one of Exit as a number, after it has said what was wrong on console.err.
[[nodiscard]] int run_send(const SendOptions& options, const Console& console = {});
[[nodiscard]] int run_watch(const WatchOptions& options, const Console& console = {});
[[nodiscard]] int run_info(const InfoOptions& options, const Console& console = {});
[[nodiscard]] int run_health(const HealthOptions& options, const Console& console = {});

}  // namespace simbridge::client
