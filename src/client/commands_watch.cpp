#include "client/channel_name.h"
#include "client/console.h"
#include "client/frame_files.h"
#include "client/stop_signals.h"
#include "client/watch_output.h"
#include "client/watcher.h"
#include "simbridge/client/commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

namespace simbridge::client {
namespace {

constexpr milliseconds kLastWordWait{5000};
constexpr milliseconds kGoodbyeWait{2000};
constexpr std::size_t kSubscriptionsMax = 64;

Monotonic now() {
  return std::chrono::steady_clock::now();
}

bool to_number(std::string_view word, std::uint64_t& number) {
  const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && stopped == word.data() + word.size();
}

/// "[NAME=]EPOCH:SEQ"; NAME may hold '=' and ':' itself.
std::optional<SubscribeFrom> parse_position(std::string_view word) {
  SubscribeFrom position;
  const auto equals = word.rfind('=');
  if (equals != std::string_view::npos) {
    position.channel = word.substr(0, equals);
    word.remove_prefix(equals + 1);
  }
  const auto colon = word.find(':');
  if (colon == std::string_view::npos || !to_number(word.substr(0, colon), position.epoch) ||
      !to_number(word.substr(colon + 1), position.sequence))
    return std::nullopt;
  return position;
}

class WatchCommand {
 public:
  WatchCommand(const WatchOptions& options, const Console& console)
      : options_(options), console_(console) {}

  int run();

 private:
  std::optional<Exit> check();
  std::optional<Exit> check_history();
  Exit wrong(std::string_view text) const;
  [[nodiscard]] std::vector<SubscribeOptions> subscriptions() const;
  void start();
  void watch();
  void on_frame(const WatchedFrame& frame);
  Exit end();
  void on_error(const Error& error);
  void flush();
  [[nodiscard]] bool over();
  [[nodiscard]] bool stop() const;

  WatchOptions options_;
  const Console& console_;
  SystemClock clock_;
  HistoryMode history_ = HistoryMode::kLast;
  Quality quality_;
  std::optional<FrameFiles> files_;
  std::vector<SubscribeFrom> from_;
  std::unique_ptr<WatchOutput> output_;
  std::unique_ptr<Watcher> watcher_;
  Monotonic until_ = Monotonic::max();
  std::uint64_t shown_ = 0;
  std::uint64_t written_ = 0;  // files
  bool all_written_ = true;
  std::string_view reason_;  // why it is over; empty while it is not
  Exit exit_ = Exit::kDone;
};

Exit WatchCommand::wrong(std::string_view text) const {
  say(console_, "simbridge watch: {}", text);
  return Exit::kConfiguration;
}

std::optional<Exit> WatchCommand::check() {
  const auto url = parse_url(options_.from);
  if (!url) return wrong(url.error().detail);
  if (!url->is_bridge()) return wrong("--from is a ws:// or grpc:// address");
  if (options_.globs.empty()) options_.globs = {"**"};
  if (options_.globs.size() > kSubscriptionsMax)
    return wrong(fmt::format("at most {} patterns", kSubscriptionsMax));
  for (const auto& glob : options_.globs) {
    if (const auto fault = fault_of_pattern(glob); !fault.empty()) return wrong("pattern " + fault);
  }
  if (!std::isfinite(options_.max_hz) || options_.max_hz < 0)
    return wrong("--max-hz is a number of frames a second, 0 or more");
  if (!std::isfinite(options_.for_s) || options_.for_s < 0)
    return wrong("--for is a number of seconds, 0 or more");
  if (options_.sha256 && !options_.json) return wrong("--sha256 goes with --json");
  const auto quality = parse_quality(options_.quality);
  if (!quality) return wrong(quality.error().detail);
  quality_ = *quality;
  if (!options_.out.empty()) {
    auto files = FrameFiles::open(options_.out);
    if (!files) return wrong(files.error().detail);
    files_ = std::move(*files);
  }
  return check_history();
}

std::optional<Exit> WatchCommand::check_history() {
  if (options_.history.empty()) return std::nullopt;
  const auto& word = options_.history.front();
  if (word == "none")
    history_ = HistoryMode::kNone;
  else if (word == "last")
    history_ = HistoryMode::kLast;
  else if (word == "all")
    history_ = HistoryMode::kAllKept;
  else if (word == "from")
    history_ = HistoryMode::kFrom;
  else
    return wrong(fmt::format("--history is none, last, all or from, not \"{}\"", word));
  if ((history_ == HistoryMode::kFrom) != (options_.history.size() > 1))
    return wrong("--history from EPOCH:SEQ…; the others stand alone");
  for (std::size_t i = 1; i < options_.history.size(); ++i) {
    auto position = parse_position(options_.history[i]);
    if (!position)
      return wrong(
          fmt::format("--history from: \"{}\" is not [NAME=]EPOCH:SEQ", options_.history[i]));
    if (position->channel.empty()) {
      // The positions without a name belong to the patterns, in their order.
      const auto index = from_.size();
      if (index >= options_.globs.size() ||
          options_.globs[index].find_first_of("*?") != std::string::npos)
        return wrong(fmt::format("--history from: \"{}\" needs a channel: NAME=EPOCH:SEQ",
                                 options_.history[i]));
      position->channel = options_.globs[index];
    }
    from_.push_back(std::move(*position));
  }
  return std::nullopt;
}

std::vector<SubscribeOptions> WatchCommand::subscriptions() const {
  std::vector<SubscribeOptions> subscriptions;
  subscriptions.reserve(options_.globs.size());
  for (const auto& glob : options_.globs)
    subscriptions.push_back({.channel = glob,
                             .history = history_,
                             .from = from_,
                             .max_hz = options_.max_hz,
                             .quality = quality_,
                             .reliable = options_.reliable,
                             .credit = options_.credit,
                             .max_age_ms = options_.max_age_ms,
                             .queue_frames = options_.queue_frames,
                             .queue_bytes = options_.queue_bytes});
  return subscriptions;
}

void WatchCommand::start() {
  const auto patience = [](double seconds) {
    return milliseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9) * 1000));
  };
  output_ = options_.json ? make_json_output(console_, options_.sha256)
                          : make_table_output(console_, clock_);
  LinkOptions link{.peer = {.url = options_.from,
                            .name = options_.name,
                            .agent = std::string(kAgent),
                            .token = options_.token,
                            .max_message_bytes = options_.max_message_bytes},
                   .reconnect = {.enabled = options_.reconnect,
                                 .wait_when_told = options_.reconnect,
                                 .connect_for = patience(options_.connect_for_s),
                                 .give_up_after = patience(options_.give_up_after_s)},
                   .say =
                       [this](std::string_view text) {
                         if (options_.json) say(console_, "simbridge watch: {}", text);
                       },
                   .waiting =
                       [this](std::string_view text) {
                         output_->status("WARNING", "waiting", text);
                       }};
  WatchCallbacks callbacks{
      .frame = [this](const WatchedFrame& frame) { on_frame(frame); },
      .gap = [this](const WatchedGap& gap) { output_->gap(gap); },
      .status = [this](
                    auto level, auto code, auto detail) { output_->status(level, code, detail); },
      .drain =
          [this](const WatchedDrain& drain) {
            output_->drain(drain);
          }};
  watcher_ = std::make_unique<Watcher>(std::move(link), subscriptions(), std::move(callbacks));
  if (options_.count != 0) watcher_->want(options_.count);
  if (options_.for_s > 0) until_ = now() + patience(options_.for_s);
}

void WatchCommand::on_frame(const WatchedFrame& frame) {
  ++shown_;
  if (!files_) return output_->frame(frame);
  auto shown = frame;
  const auto path = files_->write(frame.channel, *frame.message);
  const std::string file = path ? path->string() : std::string();
  shown.file = file;
  output_->frame(shown);
  if (!file.empty()) {
    ++written_;
  } else if (path && std::exchange(all_written_, false)) {
    output_->status("WARNING",
                    "not_written",
                    fmt::format("{}: a PCD file cannot hold this frame", frame.channel));
  } else if (!path && exit_ == Exit::kDone) {
    say(console_, "simbridge watch: {}", path.error().detail);
    reason_ = "failed";
    exit_ = Exit::kFailed;
  }
}

bool WatchCommand::stop() const {
  return StopSignals::asked() || (console_.should_stop && console_.should_stop());
}

bool WatchCommand::over() {
  if (stop()) {
    reason_ = "signal";
  } else if (options_.count != 0 && shown_ >= options_.count) {
    reason_ = "count";
  } else if (now() >= until_) {
    reason_ = "time";
  }
  return !reason_.empty();
}

void WatchCommand::on_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnavailable:
      // A bridge that said why it goes has not failed us.
      reason_ = watcher_->draining() ? "drained" : "lost";
      exit_ = watcher_->draining() ? Exit::kDone : Exit::kUnreachable;
      break;
    case ErrorCode::kRefused:
      reason_ = "refused";
      exit_ = Exit::kRefused;
      break;
    default:
      reason_ = "failed";
      exit_ = Exit::kFailed;
      break;
  }
  if (exit_ != Exit::kDone) say(console_, "simbridge watch: {}", error.detail);
}

void WatchCommand::watch() {
  while (!over()) {
    if (auto stepped = watcher_->step(std::min(until_, now() + std::chrono::milliseconds(100)));
        !stepped)
      on_error(stepped.error());
    flush();
  }
}

void WatchCommand::flush() {
  const auto written = output_->flush();
  if (written || reason_ == "output") return;
  say(console_, "simbridge watch: {}", written.error().detail);
  reason_ = "output";
  if (exit_ == Exit::kDone) exit_ = Exit::kFailed;
}

Exit WatchCommand::end() {
  const bool cut_off = reason_ == "lost" || reason_ == "drained" || reason_ == "output";
  if (!cut_off) {
    // Lost or refused by now, it has no last word; what was counted stands.
    if (const auto last = watcher_->unsubscribe(now() + kLastWordWait);
        !last && exit_ == Exit::kDone)
      say(console_, "simbridge watch: {}", last.error().detail);
  }
  watcher_->goodbye(reason_, now() + kGoodbyeWait);
  output_->end({.reason = reason_,
                .reconnects = watcher_->reconnects(),
                .subscriptions = &watcher_->subscriptions()});
  flush();
  if (files_) say(console_, "simbridge watch: {} files in {}", written_, options_.out);
  if (exit_ == Exit::kDone && !watcher_->ever_connected()) {
    say(console_, "simbridge watch: {} was never reached", options_.from);
    return Exit::kUnreachable;
  }
  const bool short_of_count = options_.count != 0 && shown_ < options_.count;
  if (exit_ == Exit::kDone && short_of_count && reason_ != "signal") return Exit::kFailed;
  return exit_;
}

int WatchCommand::run() {
  const StopSignals signals;
  if (const auto failed = check()) return static_cast<int>(*failed);
  start();
  watch();
  return static_cast<int>(end());
}

}  // namespace

int run_watch(const WatchOptions& options, const Console& console) {
  return WatchCommand(options, console).run();
}

}  // namespace simbridge::client
