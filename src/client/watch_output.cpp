#include "client/watch_output.h"

#include "client/console.h"
#include "client/json_line.h"
#include "client/sha256.h"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace simbridge::client {
namespace {

constexpr milliseconds kRedrawEvery{500};
constexpr milliseconds kLinesEvery{1000};

double rounded(double number) {
  return std::round(number * 1000) / 1000;
}

class JsonOutput final : public WatchOutput {
 public:
  JsonOutput(const Console& console, bool sha256) : console_(console), sha256_(sha256) {}

  void frame(const WatchedFrame& frame) override {
    JsonLine line("frame");
    line.add("channel", frame.channel)
        .add_as_string("epoch", frame.epoch)
        .add("sequence", frame.sequence)
        .add("points_in", frame.points_in)
        .add("points_out", frame.points_out)
        .add("decimator", frame.decimator)
        .add("leaf", frame.leaf)
        .add("bytes", frame.data.size())
        .add("age_ms", rounded(frame.age_ms));
    if (!frame.file.empty()) line.add("file", frame.file);
    if (sha256_) line.add("sha256", sha256_hex(frame.data));
    put(line);
  }
  void gap(const WatchedGap& gap) override {
    put(JsonLine("gap")
            .add("channel", gap.channel)
            .add_as_string("epoch", gap.epoch)
            .add("first", gap.first)
            .add("last", gap.last)
            .add("frames", gap.frames)
            .add("reason", gap.reason));
  }
  void status(std::string_view level, std::string_view code, std::string_view detail) override {
    put(JsonLine("status").add("level", level).add("code", code).add("detail", detail));
  }
  void drain(const WatchedDrain& drain) override {
    put(JsonLine("drain")
            .add("reason", drain.reason)
            .add("deadline_ms", drain.deadline_ms)
            .add("retry_after_ms", drain.retry_after_ms));
  }
  void end(const WatchEnd& end) override;
  Result<void> flush() override {
    if (pending_.empty()) return {};
    return write_out(console_, std::exchange(pending_, {}));
  }

 private:
  void put(const JsonLine& line) {
    pending_ += line.str();
    pending_ += '\n';
  }

  const Console& console_;
  bool sha256_;
  std::string pending_;  // whole lines, written together
};

void JsonOutput::end(const WatchEnd& end) {
  std::uint64_t frames = 0;
  std::uint64_t gaps = 0;
  std::uint64_t lost = 0;
  std::string subscriptions;
  for (const auto& watched : *end.subscriptions) {
    frames += watched.received;
    gaps += watched.gaps;
    lost += watched.lost;
    subscriptions += subscriptions.empty() ? "[" : ",";
    subscriptions += JsonLine()
                         .add("subscription", watched.options.id)
                         .add("channel", watched.options.channel)
                         .add("promised", watched.counters.promised)
                         .add("delivered", watched.counters.delivered)
                         .add("skipped", watched.counters.skipped)
                         .add("lost", watched.counters.lost)
                         .add("received", watched.received)
                         .add("received_this_session", watched.received_session)
                         .add("surplus", watched.surplus)
                         .add("ended", watched.ended)
                         .str();
  }
  put(JsonLine("end")
          .add("reason", end.reason)
          .add("frames", frames)
          .add("gaps", gaps)
          .add("lost", lost)
          .add("reconnects", end.reconnects)
          .add_raw("subscriptions", subscriptions + "]"));
}

class TableOutput final : public WatchOutput {
 public:
  TableOutput(const Console& console, const Clock& clock)
      : console_(console), clock_(clock), terminal_(::isatty(::fileno(console.out)) == 1) {}

  void frame(const WatchedFrame& frame) override {
    auto& row = row_of(frame.channel);
    row.arrived = clock_.now();
    row.meter.add(row.arrived, frame.data.size());
    row.points = frame.points_out;
    row.age_ms = frame.age_ms;
    row.any = true;
  }
  void gap(const WatchedGap& gap) override {
    auto& row = row_of(gap.channel);
    row.lost += gap.frames;
    if (gap.frames > 0) row.reason = gap.reason;
  }
  void status(std::string_view level, std::string_view code, std::string_view detail) override {
    note(fmt::format("{}: {}: {}", level, code, detail));
  }
  void drain(const WatchedDrain& drain) override {
    note(fmt::format("the bridge is going away: {}", drain.reason));
  }
  void end(const WatchEnd& end) override;
  Result<void> flush() override {
    if (ended_) return *ended_;
    if (clock_.now() < due_) return {};
    due_ = clock_.now() + (terminal_ ? kRedrawEvery : kLinesEvery);
    return draw();
  }

 private:
  struct Row {
    RateMeter meter;
    std::uint64_t points = 0, lost = 0;
    double age_ms = 0;  // of the newest frame when it arrived
    Monotonic arrived;
    bool any = false;  // a frame; a gap alone makes a row too
    std::string reason;
  };

  /// Names come from peers: what a terminal would obey is not shown to it.
  static std::string harmless(std::string_view text) {
    std::string out(text);
    for (auto& c : out) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
    }
    return out;
  }
  Row& row_of(std::string_view channel) {
    const auto found = rows_.find(channel);
    return found != rows_.end() ? found->second : rows_[harmless(channel)];
  }
  /// A sentence above the table.
  void note(std::string_view text) {
    erase();
    say(console_, "{}", harmless(text));
    due_ = {};
  }
  void erase() {
    if (drawn_ > 0) fmt::print(console_.out, "\x1b[{}F\x1b[J", drawn_);
    static_cast<void>(std::fflush(console_.out));  // write() tells of a reader that is gone
    drawn_ = 0;
  }
  [[nodiscard]] std::string line_of(const std::string& name, const Row& row) const {
    const auto now = clock_.now();
    const auto rate = row.meter.rate(now);
    // The newest frame goes on ageing while no other comes: that is how a dead sensor shows.
    const double age_ms =
        row.age_ms + std::chrono::duration<double, std::milli>(now - row.arrived).count();
    return fmt::format("{:<32} {:>8} {:>9} {:>9} {:>9} {:>9}{}\n",
                       name,
                       rate ? fmt::format("{:.1f}", rate->hz) : "-",
                       row.points,
                       rate ? fmt::format("{:.2f}", rate->bytes_per_s / 1e6) : "-",
                       row.any ? fmt::format("{:.1f}", age_ms) : "-",
                       row.lost,
                       row.reason.empty() ? "" : " " + row.reason);
  }
  static std::string heading() {
    return fmt::format("{:<32} {:>8} {:>9} {:>9} {:>9} {:>9}\n",
                       "channel",
                       "Hz",
                       "points",
                       "MB/s",
                       "age ms",
                       "gaps");
  }
  Result<void> draw() {
    if (!terminal_ && rows_.empty()) return {};
    std::string text = terminal_ || !headed_ ? heading() : "";
    headed_ = true;
    for (const auto& [name, row] : rows_) text += line_of(name, row);
    if (rows_.empty()) text += "(no frames yet)\n";
    if (terminal_) {
      erase();
      drawn_ = std::ranges::count(text, '\n');
    }
    return write_out(console_, text);
  }

  const Console& console_;
  const Clock& clock_;
  bool terminal_;
  std::map<std::string, Row, std::less<>> rows_;
  Monotonic due_;
  std::ptrdiff_t drawn_ = 0;
  bool headed_ = false;
  std::optional<Result<void>> ended_;  // how the last table went
};

void TableOutput::end(const WatchEnd& end) {
  ended_ = draw();
  for (const auto& watched : *end.subscriptions) {
    say(console_,
        "{}: {} frames, {} gaps, {} lost{}; the bridge: {} promised = {} delivered + {} skipped + "
        "{} lost",
        harmless(watched.options.channel),
        watched.received,
        watched.gaps,
        watched.lost,
        watched.surplus == 0 ? "" : fmt::format(", {} came after the last", watched.surplus),
        watched.counters.promised,
        watched.counters.delivered,
        watched.counters.skipped,
        watched.counters.lost);
  }
}

}  // namespace

std::int64_t RateMeter::bucket_number(Monotonic at) const {
  return at.time_since_epoch() / kBucket;
}

void RateMeter::add(Monotonic at, std::uint64_t bytes) {
  if (!any_) first_ = at;
  any_ = true;
  const auto number = bucket_number(at);
  auto& bucket = buckets_[static_cast<std::size_t>(number) % kBuckets];
  if (bucket.number != number) bucket = {.number = number};
  ++bucket.frames;
  bucket.bytes += bytes;
}

std::optional<RateMeter::Rate> RateMeter::rate(Monotonic at) const {
  if (!any_) return std::nullopt;
  // Full buckets only, so that the rate does not saw: neither the first nor the one that fills now.
  const auto current = bucket_number(at);
  const auto oldest =
      std::max(current - static_cast<std::int64_t>(kBuckets) + 1, bucket_number(first_) + 1);
  if (current - oldest < kKnownAfter) return std::nullopt;
  double frames = 0;
  double bytes = 0;
  for (const auto& bucket : buckets_) {
    if (bucket.number < oldest || bucket.number >= current) continue;
    frames += static_cast<double>(bucket.frames);
    bytes += static_cast<double>(bucket.bytes);
  }
  const double seconds = std::chrono::duration<double>((current - oldest) * kBucket).count();
  return Rate{.hz = frames / seconds, .bytes_per_s = bytes / seconds};
}

std::unique_ptr<WatchOutput> make_json_output(const Console& console, bool sha256) {
  return std::make_unique<JsonOutput>(console, sha256);
}

std::unique_ptr<WatchOutput> make_table_output(const Console& console, const Clock& clock) {
  return std::make_unique<TableOutput>(console, clock);
}

}  // namespace simbridge::client
