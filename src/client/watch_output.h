#pragma once
// What: what `watch` shows: JSON lines, or a table of the channels, drawn over itself on a terminal
// and as plain lines elsewhere.
// Owner: watch.   Threads: one at a time.
#include "client/watcher.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"
#include "simbridge/client/commands.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace simbridge::client {

/// The last word of a watch.
struct WatchEnd {
  std::string_view reason;  // "count", "time", "signal", "drained", "lost", "refused"
  std::uint64_t reconnects = 0;
  const std::vector<Watched>* subscriptions = nullptr;
};

class WatchOutput {
 public:
  virtual ~WatchOutput() = default;
  WatchOutput(const WatchOutput&) = delete;
  WatchOutput& operator=(const WatchOutput&) = delete;

  virtual void frame(const WatchedFrame& frame) = 0;
  virtual void gap(const WatchedGap& gap) = 0;
  virtual void status(std::string_view level, std::string_view code, std::string_view detail) = 0;
  virtual void drain(const WatchedDrain& drain) = 0;
  virtual void end(const WatchEnd& end) = 0;
  /// Hands over what is due. The error says why the reader gets no more.
  virtual Result<void> flush() = 0;

 protected:
  WatchOutput() = default;
};

[[nodiscard]] std::unique_ptr<WatchOutput> make_json_output(const Console& console, bool sha256);
[[nodiscard]] std::unique_ptr<WatchOutput> make_table_output(const Console& console,
                                                             const Clock& clock);

/// Frames and bytes of the last seconds, as a rate.
class RateMeter {
 public:
  void add(Monotonic at, std::uint64_t bytes);
  struct Rate {
    double hz = 0;
    double bytes_per_s = 0;
  };
  /// nullopt until a second has been seen. What comes with the first frame does not count: it is
  /// history as often as not, and says nothing of the sensor.
  [[nodiscard]] std::optional<Rate> rate(Monotonic at) const;

 private:
  static constexpr milliseconds kBucket{250};
  static constexpr std::size_t kBuckets = 12;     // three seconds
  static constexpr std::int64_t kKnownAfter = 4;  // buckets: one second
  struct Bucket {
    std::int64_t number = -1;
    std::uint64_t frames = 0, bytes = 0;
  };
  [[nodiscard]] std::int64_t bucket_number(Monotonic at) const;

  std::array<Bucket, kBuckets> buckets_{};
  Monotonic first_;
  bool any_ = false;
};

}  // namespace simbridge::client
