#include "client/watch_output.h"

#include "client/console.h"
#include "client/json_line.h"
#include "client/sha256.h"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>

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
  bool flush() override {
    if (pending_.empty()) return true;
    const bool written =
        std::fwrite(pending_.data(), 1, pending_.size(), console_.out) == pending_.size() &&
        std::fflush(console_.out) == 0;
    pending_.clear();
    return written;
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
  explicit TableOutput(const Console& console)
      : console_(console), terminal_(::isatty(::fileno(console.out)) == 1) {}

  void frame(const WatchedFrame& frame) override {
    auto& row = row_of(frame.channel);
    row.meter.add(now(), frame.data.size());
    row.points = frame.points_out;
    row.age_ms = frame.age_ms;
    ++row.frames;
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
  bool flush() override {
    if (now() < due_) return true;
    due_ = now() + (terminal_ ? kRedrawEvery : kLinesEvery);
    return terminal_ ? redraw() : lines();
  }

 private:
  struct Row {
    RateMeter meter;
    std::uint64_t frames = 0, points = 0, lost = 0;
    double age_ms = 0;
    std::string reason;
  };

  static Monotonic now() { return std::chrono::steady_clock::now(); }
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
    const auto rate = row.meter.rate(now());
    return fmt::format("{:<32} {:>8.1f} {:>9} {:>9.2f} {:>9.1f} {:>9}{}\n",
                       name,
                       rate.hz,
                       row.points,
                       rate.bytes_per_s / 1e6,
                       row.age_ms,
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
  bool redraw() {
    std::string text = heading();
    for (const auto& [name, row] : rows_) text += line_of(name, row);
    if (rows_.empty()) text += "(no frames yet)\n";
    erase();
    drawn_ = std::ranges::count(text, '\n');
    return write(text);
  }
  bool lines() {
    if (rows_.empty()) return true;
    std::string text = headed_ ? "" : heading();
    headed_ = true;
    for (const auto& [name, row] : rows_) text += line_of(name, row);
    return write(text);
  }
  [[nodiscard]] bool write(const std::string& text) const {
    return std::fwrite(text.data(), 1, text.size(), console_.out) == text.size() &&
           std::fflush(console_.out) == 0;
  }

  const Console& console_;
  bool terminal_;
  std::map<std::string, Row, std::less<>> rows_;
  Monotonic due_;
  std::ptrdiff_t drawn_ = 0;
  bool headed_ = false;
};

void TableOutput::end(const WatchEnd& end) {
  if (terminal_) {
    redraw();
  } else {
    lines();
  }
  for (const auto& watched : *end.subscriptions) {
    say(console_,
        "{}: {} frames, {} gaps, {} lost; the bridge: {} promised = {} delivered + {} skipped + {} "
        "lost",
        harmless(watched.options.channel),
        watched.received,
        watched.gaps,
        watched.lost,
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

RateMeter::Rate RateMeter::rate(Monotonic at) const {
  if (!any_) return {};
  // The bucket that fills now is left out, so that the rate does not saw; but it is all there is at
  // the beginning.
  const auto current = bucket_number(at);
  const auto oldest =
      std::max(current - static_cast<std::int64_t>(kBuckets) + 1, bucket_number(first_));
  const bool beginning = oldest >= current;
  double frames = 0;
  double bytes = 0;
  for (const auto& bucket : buckets_) {
    if (bucket.number < oldest || bucket.number > current) continue;
    if (bucket.number == current && !beginning) continue;
    frames += static_cast<double>(bucket.frames);
    bytes += static_cast<double>(bucket.bytes);
  }
  const auto begin = std::max(first_, Monotonic(oldest * kBucket));
  const auto end = beginning ? at : Monotonic(current * kBucket);
  const double seconds = std::chrono::duration<double>(end - begin).count();
  if (seconds <= 0) return {};
  return {.hz = frames / seconds, .bytes_per_s = bytes / seconds};
}

std::unique_ptr<WatchOutput> make_json_output(const Console& console, bool sha256) {
  return std::make_unique<JsonOutput>(console, sha256);
}

std::unique_ptr<WatchOutput> make_table_output(const Console& console) {
  return std::make_unique<TableOutput>(console);
}

}  // namespace simbridge::client
