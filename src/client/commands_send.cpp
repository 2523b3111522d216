#include "client/channel_name.h"
#include "client/console.h"
#include "client/frame_sources.h"
#include "client/json_line.h"
#include "client/messages.h"
#include "client/sender.h"
#include "client/state_file.h"
#include "client/state_lock.h"
#include "client/stop_signals.h"
#include "simbridge/client/commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace simbridge::client {
namespace {

constexpr double kDefaultRate = 10;
constexpr double kRateMin = 0.001;
constexpr double kRateMax = 1'000'000;
constexpr milliseconds kSaveEvery{200};
constexpr milliseconds kLastAcksWait{5000};
constexpr milliseconds kGoodbyeWait{2000};
// Behind by more than this, the beat starts anew instead of being caught up with.
constexpr std::chrono::seconds kCatchUpMax{1};
constexpr std::uint64_t kTelemetryBytesMax = 1U << 30;
constexpr std::uint64_t kLidarPointsMax = 1U << 22;

Monotonic now() {
  return std::chrono::steady_clock::now();
}

struct Stream {
  std::unique_ptr<FrameSource> source;
  std::string name;
  std::string frame_id;
  std::uint64_t count = 0;  // frames of this run; 0 = no end
  std::uint64_t made = 0;
  double rate_hz = 0;  // 0 = as fast as the window
  std::uint32_t channel = 0;
  Monotonic due;

  [[nodiscard]] bool done() const { return count != 0 && made >= count; }
};

/// One run of the command. Each part says itself what went wrong, and with which number to exit.
class SendCommand {
 public:
  SendCommand(const SendOptions& options, const Console& console)
      : options_(options), console_(console) {}

  int run();

 private:
  std::optional<Exit> check();
  std::optional<Exit> add_sources();
  [[nodiscard]] std::string telemetry_channel() const;
  std::optional<Exit> lock();
  std::optional<Exit> load();
  void start();
  std::optional<Exit> stream();
  std::optional<Exit> send_due(Monotonic& wake);
  std::optional<Exit> send_one(Stream& stream);
  std::optional<Exit> last_acks();
  std::optional<Exit> save(bool always);
  Exit end(std::optional<Exit> failed);
  [[nodiscard]] bool summary(Exit exit) const;
  Exit say_error(const Error& error) const;
  [[nodiscard]] bool stop() const;

  SendOptions options_;
  const Console& console_;
  SendPolicy policy_ = SendPolicy::kDefault;
  std::vector<Stream> streams_;
  StateLock lock_;
  SendState state_;
  SendState saved_;
  Monotonic save_due_;
  std::unique_ptr<Sender> sender_;
  Monotonic began_ = now();
};

/// Beside another source telemetry has a channel of its own.
std::string SendCommand::telemetry_channel() const {
  const bool beside = !options_.files.empty() || !options_.simulate.empty();
  return options_.telemetry_bytes > 0 && beside ? options_.channel + "/telemetry"
                                                : options_.channel;
}

std::optional<Exit> SendCommand::check() {
  const auto wrong = [&](std::string_view text) {
    say(console_, "simbridge send: {}", text);
    return Exit::kConfiguration;
  };
  const auto url = parse_url(options_.to);
  if (!url) return wrong(url.error().detail);
  if (!url->is_bridge()) return wrong("--to is a ws:// or grpc:// address");
  for (const auto& name : {options_.channel, telemetry_channel()}) {
    if (const auto fault = fault_of_name(name); !fault.empty()) return wrong("--channel " + fault);
  }
  if (!options_.simulate.empty() && options_.simulate != "lidar")
    return wrong(fmt::format("--simulate knows lidar, not \"{}\"", options_.simulate));
  if (!options_.files.empty() && !options_.simulate.empty())
    return wrong("files and --simulate exclude each other");
  if (options_.files.empty() && options_.simulate.empty() && options_.telemetry_bytes == 0)
    return wrong("nothing to send: name PCD files, or give --simulate lidar or --telemetry BYTES");
  if (options_.telemetry_bytes > kTelemetryBytesMax)
    return wrong(fmt::format("--telemetry: at most {}", kTelemetryBytesMax));
  // Not a number is in no range either.
  const bool in_range = options_.rate_hz >= kRateMin && options_.rate_hz <= kRateMax;
  if (options_.rate_hz != 0 && !in_range)
    return wrong(
        fmt::format("--rate is from {} to {} frames a second, or 0 for the default; not {}",
                    kRateMin,
                    kRateMax,
                    options_.rate_hz));
  if (options_.rings == 0 || options_.azimuths == 0 ||
      std::uint64_t{options_.rings} * options_.azimuths > kLidarPointsMax)
    return wrong(fmt::format("--rings times --azimuths is from 1 to {}", kLidarPointsMax));
  if (options_.policy == "drop-oldest")
    policy_ = SendPolicy::kDropOldest;
  else if (options_.policy == "backpressure")
    policy_ = SendPolicy::kBackpressure;
  else if (!options_.policy.empty())
    return wrong(
        fmt::format("--policy is drop-oldest or backpressure, not \"{}\"", options_.policy));
  return std::nullopt;
}

std::optional<Exit> SendCommand::add_sources() {
  const auto cloud_frame_id = options_.frame_id.empty() ? "lidar" : options_.frame_id;
  const auto simulated_rate = options_.rate_hz > 0 ? options_.rate_hz : kDefaultRate;
  if (!options_.files.empty()) {
    auto source = make_file_source(options_.files);
    if (!source) {
      // Nobody was asked for anything yet: a file that is broken is as wrong as one not there.
      say(console_, "simbridge send: {}", source.error().detail);
      return Exit::kConfiguration;
    }
    const auto once = options_.loop ? 0 : (*source)->round();
    streams_.push_back({.source = std::move(*source),
                        .name = options_.channel,
                        .frame_id = cloud_frame_id,
                        .count = options_.count != 0 ? options_.count : once,
                        .rate_hz = options_.rate_hz});
  } else if (!options_.simulate.empty()) {
    streams_.push_back({.source = make_lidar_source({.rings = options_.rings,
                                                     .azimuths = options_.azimuths,
                                                     .seed = options_.seed,
                                                     .rate_hz = simulated_rate}),
                        .name = options_.channel,
                        .frame_id = cloud_frame_id,
                        .count = options_.count,
                        .rate_hz = simulated_rate});
  }
  if (options_.telemetry_bytes > 0) {
    const bool alone = streams_.empty();
    streams_.push_back({.source = make_telemetry_source(options_.telemetry_bytes),
                        .name = telemetry_channel(),
                        .frame_id = options_.frame_id,
                        .count = alone ? options_.count : streams_.front().count,
                        .rate_hz = alone || options_.rate_hz > 0 ? simulated_rate : kDefaultRate});
  }
  return std::nullopt;
}

std::optional<Exit> SendCommand::lock() {
  const auto wrong = [&](const Error& error) {
    say(console_, "simbridge send: --state: {}", error.detail);
    return Exit::kConfiguration;
  };
  if (const auto fit = check_state_path(options_.state_file); !fit) return wrong(fit.error());
  auto lock = StateLock::take(options_.state_file,
                              fmt::format("simbridge send --channel {}", options_.channel));
  if (!lock) return wrong(lock.error());
  lock_ = std::move(*lock);
  return std::nullopt;
}

std::optional<Exit> SendCommand::load() {
  if (!options_.state_file.empty()) {
    if (const auto failed = lock()) return failed;
    auto loaded = load_state(options_.state_file);
    if (!loaded) {
      say(console_, "simbridge send: --state: {}", loaded.error().detail);
      return Exit::kConfiguration;
    }
    auto& kept = *loaded;
    if (kept) state_ = std::move(*kept);
  }
  if (state_.peer_key.empty()) state_.peer_key = new_peer_key();
  for (const auto& stream : streams_) {
    auto& channel = state_.channels[stream.name];
    if (channel.epoch == 0) channel.epoch = static_cast<std::uint64_t>(wall_ns());
  }
  return save(true);  // a path that cannot be written is told before the first frame
}

void SendCommand::start() {
  const auto patience = [](double seconds) {
    return milliseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9) * 1000));
  };
  LinkOptions sender{.peer = {.url = options_.to,
                              .name = options_.name,
                              .agent = std::string(kAgent),
                              .peer_key = state_.peer_key,
                              .token = options_.token},
                     .reconnect = {.wait_when_told = options_.reconnect,
                                   .connect_for = patience(options_.connect_for_s),
                                   .give_up_after = patience(options_.give_up_after_s)}};
  if (!options_.quiet)
    sender.say = [this](std::string_view text) {
      say(console_, "simbridge send: {}", text);
    };
  sender_ = std::make_unique<Sender>(std::move(sender));
  for (auto& stream : streams_) {
    const auto& channel = state_.channels.at(stream.name);
    stream.channel = sender_->add_channel({.name = stream.name,
                                           .epoch = channel.epoch,
                                           .frame_id = stream.frame_id,
                                           .policy = policy_,
                                           .latched = options_.latched},
                                          channel.sequence);
  }
}

bool SendCommand::stop() const {
  return StopSignals::asked() || (console_.should_stop && console_.should_stop());
}

std::optional<Exit> SendCommand::send_one(Stream& stream) {
  const auto sequence = sender_->next_sequence(stream.channel);
  auto frame = stream.source->make({.channel = stream.channel,
                                    .sequence = sequence,
                                    .frame_id = stream.frame_id,
                                    .checksum = options_.checksum});
  if (!frame) {
    say(console_, "simbridge send: {}", frame.error().detail);
    return Exit::kFailed;
  }
  sender_->send(std::move(*frame));
  ++stream.made;
  if (stream.rate_hz <= 0) return std::nullopt;
  const auto period = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(1.0 / stream.rate_hz));
  stream.due += period;
  if (stream.due + kCatchUpMax < now()) stream.due = now();
  return std::nullopt;
}

std::optional<Exit> SendCommand::send_due(Monotonic& wake) {
  for (auto& stream : streams_) {
    while (!stream.done() && stream.due <= now()) {
      const auto bytes = stream.source->data_bytes(sender_->next_sequence(stream.channel));
      if (!sender_->ready(stream.channel, bytes)) break;
      if (const auto failed = send_one(stream)) return failed;
      // Without a beat, acknowledgements have their turn after each frame.
      if (stream.rate_hz <= 0) wake = now();
      if (stream.rate_hz <= 0) break;
    }
    if (!stream.done() && stream.due > now()) wake = std::min(wake, stream.due);
  }
  return std::nullopt;
}

std::optional<Exit> SendCommand::stream() {
  for (auto& stream : streams_) stream.due = now();
  while (!stop() && !std::ranges::all_of(streams_, &Stream::done)) {
    auto wake = now() + std::chrono::milliseconds(100);
    if (sender_->connected()) {
      if (const auto failed = send_due(wake)) return failed;
    }
    if (auto stepped = sender_->step(wake); !stepped) return say_error(stepped.error());
    if (const auto failed = save(false)) return failed;
  }
  return std::nullopt;
}

std::optional<Exit> SendCommand::last_acks() {
  // Told to stop, we do not wait for a bridge that is not there; done, we wait as for any frame.
  const auto deadline = now() + kLastAcksWait;
  while (!sender_->all_acknowledged()) {
    if (stop() && (!sender_->connected() || now() >= deadline)) break;
    if (auto stepped = sender_->step(now() + std::chrono::milliseconds(100)); !stepped)
      return say_error(stepped.error());
    if (const auto failed = save(false)) return failed;
  }
  return std::nullopt;
}

std::optional<Exit> SendCommand::save(bool always) {
  if (options_.state_file.empty() || (!always && now() < save_due_)) return std::nullopt;
  for (const auto& stream : streams_) {
    if (!sender_ || stream.channel == 0) continue;
    state_.channels[stream.name] = {.epoch = sender_->epoch(stream.channel),
                                    .sequence = sender_->acknowledged(stream.channel)};
  }
  save_due_ = now() + kSaveEvery;
  if (state_ == saved_) return std::nullopt;
  if (const auto written = save_state(options_.state_file, state_); !written) {
    say(console_, "simbridge send: --state: {}", written.error().detail);
    return Exit::kConfiguration;
  }
  saved_ = state_;
  return std::nullopt;
}

Exit SendCommand::say_error(const Error& error) const {
  say(console_, "simbridge send: {}", error.detail);
  switch (error.code) {
    case ErrorCode::kUnavailable:
      return Exit::kUnreachable;
    case ErrorCode::kRefused:
      return Exit::kRefused;
    default:
      return Exit::kFailed;
  }
}

Exit SendCommand::end(std::optional<Exit> failed) {
  if (!failed) failed = last_acks();
  sender_->goodbye(stop() ? "stopped" : "done", now() + kGoodbyeWait);
  if (const auto not_saved = save(true); not_saved && !failed) failed = not_saved;
  auto exit = failed.value_or(Exit::kDone);
  if (exit == Exit::kDone && !sender_->ever_connected()) {
    say(console_, "simbridge send: {} was never reached", options_.to);
    exit = Exit::kUnreachable;
  }
  if (exit == Exit::kDone && !stop() && sender_->counters().rejected > 0) exit = Exit::kRefused;
  return summary(exit) ? exit : Exit::kFailed;
}

bool SendCommand::summary(Exit exit) const {
  const auto& counters = sender_->counters();
  const double seconds = std::chrono::duration<double>(now() - began_).count();
  const auto waiting = sender_->unacknowledged();
  if (!options_.quiet)
    say(console_,
        "simbridge send: {} sent, {} acknowledged, {} rejected, {} unacknowledged, {} sent again, "
        "{} reconnects, {:.1f} s, {:.1f} MB/s",
        counters.sent,
        counters.acknowledged,
        counters.rejected,
        waiting,
        counters.retransmitted,
        sender_->reconnects(),
        seconds,
        static_cast<double>(counters.sent_bytes) / 1e6 / std::max(seconds, 1e-9));
  if (!options_.json) return true;
  std::string channels;
  for (const auto& stream : streams_) {
    channels += channels.empty() ? "[" : ",";
    channels += JsonLine()
                    .add("channel", stream.name)
                    .add_as_string("epoch", sender_->epoch(stream.channel))
                    .add("frames", stream.made)
                    .add("acknowledged_sequence", sender_->acknowledged(stream.channel))
                    .str();
  }
  return print(console_,
               "send",
               JsonLine("summary")
                   .add("sent", counters.sent)
                   .add("acknowledged", counters.acknowledged)
                   .add("rejected", counters.rejected)
                   .add("unacknowledged", waiting)
                   .add("retransmitted", counters.retransmitted)
                   .add("reconnects", sender_->reconnects())
                   .add("bytes", counters.sent_bytes)
                   .add("seconds", seconds)
                   .add("exit", static_cast<int>(exit))
                   .add_raw("channels", channels + "]")
                   .str());
}

int SendCommand::run() {
  const StopSignals signals;
  if (const auto failed = check()) return static_cast<int>(*failed);
  if (const auto failed = add_sources()) return static_cast<int>(*failed);
  if (const auto failed = load()) return static_cast<int>(*failed);
  start();
  return static_cast<int>(end(stream()));
}

}  // namespace

int run_send(const SendOptions& options, const Console& console) {
  return SendCommand(options, console).run();
}

}  // namespace simbridge::client
