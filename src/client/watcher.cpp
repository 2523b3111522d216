#include "client/watcher.h"

#include "client/messages.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <utility>

namespace simbridge::client {
namespace {

// A bridge's default is far below; this only keeps a broken one from taking all our memory.
constexpr std::uint64_t kTotalBytesMax = 1ULL << 31U;

Monotonic now() {
  return std::chrono::steady_clock::now();
}

double age_ms_of(const v1::Frame& frame) {
  const auto since = frame.received_ns() != 0 ? frame.received_ns() : frame.sent_ns();
  if (since == 0) return 0;
  return std::max(0.0, static_cast<double>(wall_ns() - since) / 1e6);  // two hosts' clocks differ
}

std::uint64_t points_of(const v1::Frame& frame) {
  if (frame.has_cloud()) return std::uint64_t{frame.cloud().width()} * frame.cloud().height();
  if (frame.has_depth()) return std::uint64_t{frame.depth().width()} * frame.depth().height();
  return 0;
}

}  // namespace

Watcher::Watcher(LinkOptions options,
                 std::vector<SubscribeOptions> subscriptions,
                 WatchCallbacks callbacks)
    : callbacks_(std::move(callbacks)),
      link_(std::move(options),
            {.opened = [this] { subscribe_all(); },
             .lost =
                 [this] {
                   channels_.clear();
                   owed_.clear();
                   parts_ = PartAssembler(kTotalBytesMax);
                 },
             .received =
                 [this](const v1::ServerMessage& message) {
                   return handle(message);
                 }}),
      parts_(kTotalBytesMax) {
  std::uint32_t id = 0;
  for (auto& subscription : subscriptions) {
    Watched watched;
    watched.options = std::move(subscription);
    watched.options.id = ++id;
    for (const auto& position : watched.options.from)
      watched.positions.emplace(position.channel, position);
    watched_.push_back(std::move(watched));
  }
}

Watcher::~Watcher() = default;

Result<void> Watcher::step(Monotonic deadline) {
  return link_.step(deadline);
}

void Watcher::subscribe_all() {
  for (auto& watched : watched_) {
    auto options = watched.options;
    if (!watched.positions.empty()) {
      options.history = HistoryMode::kFrom;
      options.from.clear();
      for (const auto& [name, position] : watched.positions) options.from.push_back(position);
    }
    v1::ClientMessage message;
    fill_subscribe(*message.mutable_subscribe(), options);
    link_.send(message);
    watched.received_session = 0;
    watched.counters = {};
    watched.ended = false;
  }
}

Result<void> Watcher::handle(const v1::ServerMessage& message) {
  switch (message.body_case()) {
    case v1::ServerMessage::kWelcome:
      status("INFO",
             link_.reconnects() > 0 ? "reconnected" : "connected",
             fmt::format("{} {}, session {}",
                         message.welcome().bridge(),
                         message.welcome().version(),
                         message.welcome().session()));
      return {};
    case v1::ServerMessage::kChannels:
      on_channels(message.channels());
      return {};
    case v1::ServerMessage::kFrame:
      on_frame(message.frame());
      return {};
    case v1::ServerMessage::kPart:
      on_part(message);
      return {};
    case v1::ServerMessage::kGap:
      on_gap(message);
      return {};
    case v1::ServerMessage::kSubscriptionState:
      on_state(message.subscription_state());
      return {};
    case v1::ServerMessage::kReject:
      return on_reject(message.reject());
    case v1::ServerMessage::kDrain:
      if (callbacks_.drain)
        callbacks_.drain({.reason = message.drain().reason(),
                          .deadline_ms = message.drain().deadline_ms(),
                          .retry_after_ms = message.drain().retry_after_ms()});
      return {};
    case v1::ServerMessage::kStatus:
      status(
          level_name(message.status().level()), message.status().code(), message.status().detail());
      return {};
    default:
      return {};  // what a consumer need not know
  }
}

void Watcher::on_channels(const v1::Channels& channels) {
  for (const auto& info : channels.channel())
    channels_[info.id()] = {
        .name = info.name(), .epoch = info.epoch(), .last_sequence = info.last_sequence()};
  for (const auto id : channels.removed()) channels_.erase(id);
}

void Watcher::on_frame(const v1::Frame& frame) {
  auto* watched = find(frame.subscription());
  if (watched == nullptr) return;
  if (wanted_ == 0) {
    ++watched->surplus;
    return;
  }
  --wanted_;
  const auto& name = name_of(frame.channel());
  ++watched->received;
  ++watched->received_session;
  move_to(*watched, name, frame.epoch(), frame.sequence());
  if (callbacks_.frame) {
    const auto& result = frame.result();
    const auto points = points_of(frame);
    const bool judged = frame.has_result();
    callbacks_.frame(
        {.channel = name,
         .epoch = frame.epoch(),
         .sequence = frame.sequence(),
         .points_in = judged ? result.points_in() : points,
         .points_out = judged ? result.points_out() : points,
         .decimator = judged && !result.decimator().empty() ? result.decimator() : "none",
         .leaf = result.leaf(),
         .data = payload_data(frame),
         .age_ms = age_ms_of(frame),
         .message = &frame});
  }
  give_credit(*watched, frame.channel());
}

void Watcher::on_part(const v1::ServerMessage& message) {
  auto whole = parts_.add(message.part());
  if (!whole) return status("ERROR", "part", whole.error().detail);
  const auto& bytes = *whole;
  if (!bytes) return;
  v1::Frame frame;
  if (!frame.ParseFromString(*bytes)) return status("ERROR", "part", "the parts make no frame");
  on_frame(frame);
}

void Watcher::on_gap(const v1::ServerMessage& message) {
  const auto& gap = message.gap();
  auto* watched = find(gap.subscription());
  if (watched == nullptr) return;
  const auto& name = name_of(gap.channel());
  ++watched->gaps;
  watched->lost += gap.frames();
  // Gap{EPOCH} (0…0) says that an epoch is over; its successor's first frame moves us there.
  if (gap.last() != 0) move_to(*watched, name, gap.epoch(), gap.last());
  if (callbacks_.gap)
    callbacks_.gap({.channel = name,
                    .epoch = gap.epoch(),
                    .first = gap.first(),
                    .last = gap.last(),
                    .frames = gap.frames(),
                    .reason = gap_reason_name(gap.reason())});
}

void Watcher::move_to(Watched& watched,
                      const std::string& channel,
                      std::uint64_t epoch,
                      std::uint64_t last) {
  watched.positions[channel] = {.channel = channel, .epoch = epoch, .sequence = last};
}

void Watcher::give_credit(Watched& watched, std::uint32_t channel) {
  if (watched.options.credit == 0) return;
  auto& owed = owed_[{watched.options.id, channel}];
  // Half of it at once, so that the bridge never waits for us and we do not answer every frame.
  if (++owed < std::max(1U, watched.options.credit / 2)) return;
  v1::ClientMessage message;
  auto& credit = *message.mutable_credit();
  credit.set_subscription(watched.options.id);
  credit.set_channel(channel);
  credit.set_frames(std::exchange(owed, 0));
  link_.send(message);
}

void Watcher::on_state(const v1::SubscriptionState& state) {
  auto* watched = find(state.id());
  if (watched == nullptr) return;
  watched->counters = {.promised = state.counters().promised(),
                       .delivered = state.counters().delivered(),
                       .skipped = state.counters().skipped(),
                       .lost = state.counters().lost()};
  watched->ended = state.ended();
  for (const auto channel : state.channel()) note_start(*watched, channel);
  if (state.degraded()) status("WARNING", "degraded", state.detail());
  if (state.ended() && !leaving_) status("WARNING", "ended", state.detail());
}

/// Where a channel stood when we met it, so that a broken connection before its first frame does
/// not bring the history that was not asked for: a FROM without a position is as ALL_KEPT.
void Watcher::note_start(Watched& watched, std::uint32_t channel) {
  const bool last = watched.options.history == HistoryMode::kLast;
  if (!last && watched.options.history != HistoryMode::kNone) return;
  const auto found = channels_.find(channel);
  if (found == channels_.end() || found->second.epoch == 0) return;
  const auto& [name, epoch, newest] = found->second;
  const auto after = last && newest > 0 ? newest - 1 : newest;
  watched.positions.try_emplace(name,
                                SubscribeFrom{.channel = name, .epoch = epoch, .sequence = after});
}

Result<void> Watcher::on_reject(const v1::Reject& reject) {
  status("ERROR", reject_name(reject.code()), reject.detail());
  if (reject.code() == v1::REJECT_DRAINING || leaving_) return {};
  // It never began: to end it would only earn a second refusal.
  if (auto* refused = find(reject.subscription())) refused->ended = true;
  return fail(ErrorCode::kRefused, describe(reject));
}

Result<void> Watcher::unsubscribe(Monotonic deadline) {
  leaving_ = true;
  if (!connected()) return {};
  for (const auto& watched : watched_) {
    if (watched.ended) continue;
    v1::ClientMessage message;
    message.mutable_unsubscribe()->set_id(watched.options.id);
    link_.send(message);
  }
  while (connected() && now() < deadline && !std::ranges::all_of(watched_, &Watched::ended)) {
    if (auto stepped = link_.step(deadline); !stepped) return stepped;
  }
  return {};
}

void Watcher::goodbye(std::string_view reason, Monotonic deadline) {
  link_.goodbye(reason, deadline);
}

void Watcher::status(std::string_view level, std::string_view code, std::string_view detail) const {
  if (callbacks_.status) callbacks_.status(level, code, detail);
}

Watched* Watcher::find(std::uint32_t subscription) {
  return subscription >= 1 && subscription <= watched_.size() ? &watched_[subscription - 1]
                                                              : nullptr;
}

const std::string& Watcher::name_of(std::uint32_t channel) {
  auto& name = channels_[channel].name;
  // A bridge announces every channel before it uses it; one that does not still shows what came.
  if (name.empty()) name = fmt::format("#{}", channel);
  return name;
}

}  // namespace simbridge::client
