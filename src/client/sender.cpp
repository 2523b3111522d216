#include "client/sender.h"

#include "client/messages.h"
#include "simbridge/base/check.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <utility>

namespace simbridge::client {
namespace {

// Beyond this our own queue is long enough; more would only wait in memory.
constexpr std::size_t kQueuedBytesMax = 4U << 20;
constexpr milliseconds kHoldMin{20};
constexpr milliseconds kHoldMax{500};

Monotonic now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Sender::Sender(LinkOptions options)
    : link_(std::move(options),
            {.opened =
                 [this] {
                   for (const auto& channel : channels_) advertise(channel);
                 },
             .lost = [this] { forget_connection(); },
             .received =
                 [this](const v1::ServerMessage& message) {
                   return handle(message);
                 }}) {}

Sender::~Sender() = default;

std::uint32_t Sender::add_channel(AdvertiseOptions options, std::uint64_t acknowledged) {
  SB_CHECK(!started_, "channels are added before the first step");
  Channel channel;
  channel.options = std::move(options);
  channel.options.channel = static_cast<std::uint32_t>(channels_.size() + 1);
  channel.acknowledged = acknowledged;
  channel.next_sequence = acknowledged + 1;
  channels_.push_back(std::move(channel));
  return channels_.back().options.channel;
}

Result<void> Sender::step(Monotonic deadline) {
  started_ = true;
  pump();
  if (auto stepped = link_.step(next_deadline(deadline)); !stepped) return stepped;
  pump();
  return {};
}

void Sender::advertise(const Channel& channel) {
  v1::ClientMessage message;
  fill_advertise(*message.mutable_advertise(), channel.options);
  link_.send(message);
}

void Sender::forget_connection() {
  for (auto& channel : channels_) {
    channel.advertised = false;
    channel.in_flight = 0;
    channel.in_flight_bytes = 0;
    channel.window_bytes = 0;
    channel.hold_until = {};
    channel.hold = milliseconds(0);
  }
}

bool Sender::may_send(const Channel& channel, std::uint64_t data_bytes) const {
  if (!channel.advertised || !link_.welcome() || link_.draining()) return false;
  if (link_.line()->queued_bytes() > kQueuedBytesMax || now() < channel.hold_until) return false;
  if (channel.in_flight == 0) return channel.window_bytes > 0;
  return channel.in_flight_bytes + data_bytes <= channel.window_bytes;
}

void Sender::pump() {
  for (auto& channel : channels_) pump(channel);
}

void Sender::pump(Channel& channel) {
  const auto& welcome = link_.welcome();
  if (!welcome) return;
  while (channel.in_flight < channel.pending.size() &&
         may_send(channel, channel.pending[channel.in_flight].frame.data_bytes()))
    transmit(channel, welcome->max_message_bytes);
}

void Sender::transmit(Channel& channel, std::uint64_t max_message_bytes) {
  auto& next = channel.pending[channel.in_flight];
  send_encoded(*link_.line(), next.frame, max_message_bytes, transfer_);
  ++(next.sent ? counters_.retransmitted : counters_.sent);
  if (!next.sent) counters_.sent_bytes += next.frame.data_bytes();
  next.sent = true;
  ++channel.in_flight;
  channel.in_flight_bytes += next.frame.data_bytes();
}

Monotonic Sender::next_deadline(Monotonic deadline) const {
  for (const auto& channel : channels_) {
    if (channel.hold_until > now()) deadline = std::min(deadline, channel.hold_until);
  }
  return deadline;
}

Result<void> Sender::handle(const v1::ServerMessage& message) {
  switch (message.body_case()) {
    case v1::ServerMessage::kAdvertised:
      return on_advertised(message.advertised());
    case v1::ServerMessage::kAck:
      on_ack(message.ack());
      return {};
    case v1::ServerMessage::kReject:
      return on_reject(message.reject());
    case v1::ServerMessage::kDrain:
      link_.say(fmt::format("the bridge is going away: {}", message.drain().reason()));
      return {};
    case v1::ServerMessage::kStatus:
      link_.say(fmt::format("{}: {}: {}",
                            level_name(message.status().level()),
                            message.status().code(),
                            message.status().detail()));
      return {};
    default:
      return {};  // what a producer need not know
  }
}

Result<void> Sender::on_advertised(const v1::Advertised& advertised) {
  auto* channel = find(advertised.channel());
  if (channel == nullptr) return {};
  channel->advertised = true;
  channel->window_bytes = advertised.window_bytes();
  channel->options.epoch = advertised.epoch();
  acknowledge(*channel, advertised.last_sequence());
  // An earlier life of ours, of which the state file does not know, got further.
  channel->next_sequence = std::max(channel->next_sequence, advertised.last_sequence() + 1);
  return {};
}

void Sender::on_ack(const v1::Ack& ack) {
  auto* channel = find(ack.channel());
  if (channel == nullptr) return;
  channel->window_bytes = ack.window_bytes();
  acknowledge(*channel, ack.sequence());
}

void Sender::acknowledge(Channel& channel, std::uint64_t sequence) {
  if (sequence <= channel.acknowledged) return;
  channel.acknowledged = sequence;
  channel.hold = milliseconds(0);
  auto& pending = channel.pending;
  while (!pending.empty() && pending.front().frame.sequence <= sequence) {
    if (!pending.front().rejected) ++counters_.acknowledged;
    if (channel.in_flight > 0) {
      --channel.in_flight;
      channel.in_flight_bytes -= pending.front().frame.data_bytes();
    }
    pending.pop_front();
  }
}

Result<void> Sender::on_reject(const v1::Reject& reject) {
  const auto refused = [&](std::string_view what) {
    return fail(ErrorCode::kRefused, fmt::format("{}: {}", what, describe(reject)));
  };
  switch (reject.code()) {
    // These use up no number: what was sent will never be acknowledged, and would fail again.
    case v1::REJECT_MALFORMED:
    case v1::REJECT_PART:
      return refused("the bridge does not understand us");
    case v1::REJECT_UNAUTHORIZED:
      return refused("the bridge does not let us in");
    case v1::REJECT_DRAINING:
      return {};  // its close comes, then we try again
    default:
      break;
  }
  auto* channel = find(reject.channel());
  if (channel == nullptr) return refused("the bridge refused a message");
  const bool of_frame = reject.sequence() != 0 || reject.code() == v1::REJECT_SEQUENCE;
  const bool number_kept = reject.code() == v1::REJECT_UNKNOWN_CHANNEL ||
                           reject.code() == v1::REJECT_SEQUENCE ||
                           reject.code() == v1::REJECT_EPOCH;
  if (of_frame && !number_kept) {
    on_frame_reject(*channel, reject);
    return {};
  }
  return on_channel_reject(*channel, reject);
}

Result<void> Sender::on_channel_reject(Channel& channel, const v1::Reject& reject) {
  const bool fresh = channel.pending.empty() && !channel.advertised;
  if (reject.code() == v1::REJECT_EPOCH && fresh) {
    // Another producer lived on this channel meanwhile: what we remembered is a closed chapter.
    link_.say(fmt::format("channel {}: our epoch is over ({}); a new one begins",
                          channel.options.name,
                          reject.detail()));
    channel.options.epoch = static_cast<std::uint64_t>(wall_ns());
    channel.acknowledged = 0;
    channel.next_sequence = 1;
    advertise(channel);
    return {};
  }
  return fail(ErrorCode::kRefused,
              fmt::format("channel {}: {}", channel.options.name, describe(reject)));
}

void Sender::on_frame_reject(Channel& channel, const v1::Reject& reject) {
  const auto found = std::ranges::find(
      channel.pending, reject.sequence(), [](const Pending& p) { return p.frame.sequence; });
  if (found == channel.pending.end()) return;  // an answer to an earlier sending of it
  if (reject.retry()) {
    go_back_to(channel, reject.sequence());
  } else if (!found->rejected) {
    found->rejected = true;
    ++counters_.rejected;
    link_.say(fmt::format("channel {}: frame {} refused: {}",
                          channel.options.name,
                          reject.sequence(),
                          describe(reject)));
  }
}

void Sender::go_back_to(Channel& channel, std::uint64_t sequence) {
  const auto is_after = [&](const Pending& pending) {
    return pending.frame.sequence >= sequence;
  };
  while (channel.in_flight > 0 && is_after(channel.pending[channel.in_flight - 1])) {
    --channel.in_flight;
    channel.in_flight_bytes -= channel.pending[channel.in_flight].frame.data_bytes();
  }
  // The refusals of all that was under way after it come first; answering each would send it all
  // again each time.
  channel.hold = std::clamp(channel.hold * 2, kHoldMin, kHoldMax);
  channel.hold_until = now() + channel.hold;
}

bool Sender::ready(std::uint32_t channel, std::uint64_t data_bytes) const {
  const auto& found = channels_.at(channel - 1);
  return found.in_flight == found.pending.size() && may_send(found, data_bytes);
}

std::uint64_t Sender::next_sequence(std::uint32_t channel) const {
  return channels_.at(channel - 1).next_sequence;
}

void Sender::send(EncodedFrame frame) {
  auto& channel = channels_.at(frame.channel - 1);
  SB_CHECK(frame.sequence == channel.next_sequence, "frames bear the number they were given");
  ++channel.next_sequence;
  channel.pending.push_back({.frame = std::move(frame)});
  pump(channel);
}

bool Sender::all_acknowledged() const {
  return unacknowledged() == 0;
}

std::uint64_t Sender::unacknowledged() const {
  std::uint64_t count = 0;
  for (const auto& channel : channels_) count += channel.pending.size();
  return count;
}

std::uint64_t Sender::acknowledged(std::uint32_t channel) const {
  return channels_.at(channel - 1).acknowledged;
}

std::uint64_t Sender::epoch(std::uint32_t channel) const {
  return channels_.at(channel - 1).options.epoch;
}

void Sender::goodbye(std::string_view reason, Monotonic deadline) {
  link_.goodbye(reason, deadline);
}

Sender::Channel* Sender::find(std::uint32_t number) {
  return number >= 1 && number <= channels_.size() ? &channels_[number - 1] : nullptr;
}

}  // namespace simbridge::client
