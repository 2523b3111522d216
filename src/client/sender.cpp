#include "client/sender.h"

#include "client/messages.h"
#include "simbridge/base/check.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace simbridge::client {
namespace {

constexpr milliseconds kStepMax{100};
constexpr milliseconds kWelcomeWait{10000};
// Beyond this our own queue is long enough; more would only wait in memory.
constexpr std::size_t kQueuedBytesMax = 4U << 20;
constexpr milliseconds kHoldMin{20};
constexpr milliseconds kHoldMax{500};
constexpr milliseconds kSilenceMin{3000};
constexpr int kSilentPings = 3;

Monotonic now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Sender::Sender(SenderOptions options) : options_(std::move(options)), backoff_(options_.reconnect) {
  if (auto url = parse_url(options_.peer.url)) {
    url_ = std::move(*url);
  } else {
    bad_url_ = url.error();
  }
}

Sender::~Sender() = default;

std::uint32_t Sender::add_channel(AdvertiseOptions options, std::uint64_t acknowledged) {
  SB_CHECK(!socket_, "channels are added before the first step");
  Channel channel;
  channel.options = std::move(options);
  channel.options.channel = static_cast<std::uint32_t>(channels_.size() + 1);
  channel.acknowledged = acknowledged;
  channel.next_sequence = acknowledged + 1;
  channels_.push_back(std::move(channel));
  return channels_.back().options.channel;
}

Result<void> Sender::step(Monotonic deadline) {
  if (bad_url_) return std::unexpected(*bad_url_);
  deadline = std::min(deadline, now() + kStepMax);
  if (!socket_) {
    if (backoff_.next() > now()) {
      // Nothing to run in between; the caller looks at its signals every 100 ms.
      std::this_thread::sleep_until(std::min(deadline, backoff_.next()));
      return {};
    }
    if (auto connected = connect(); !connected || !socket_) return connected;
  }
  pump();
  socket_->run_until(next_deadline(deadline));
  if (auto received = receive(); !received) return received;
  if (socket_->closed()) {
    const auto& closed = *socket_->closed();
    const auto why = fmt::format("closed with {} \"{}\"", closed.code, closed.reason);
    if (!options_.reconnect.enabled) return fail(ErrorCode::kUnavailable, why);
    return lose(why);
  }
  const auto silence =
      welcome_ ? std::max(kSilenceMin, milliseconds(welcome_->ping_interval_ms) * kSilentPings)
               : kWelcomeWait;
  if (now() - socket_->last_heard() > silence || (!welcome_ && now() > welcome_due_)) {
    return lose("the bridge is silent");
  }
  pump();
  return {};
}

Result<void> Sender::connect() {
  auto socket = WebSocket::connect(url_,
                                   {.subprotocols = options_.peer.subprotocol,
                                    .agent = options_.peer.agent,
                                    .timeout = options_.peer.timeout});
  if (!socket) {
    const auto& failure = socket.error();
    // 503 is a bridge that is full or draining, 429 one that is called too often: both pass.
    const bool passing = failure.http_status == 503 || failure.http_status == 429;
    if (failure.http_status != 0 && !passing) return std::unexpected(failure.error);
    if (!backoff_.failed(failure.retry_after)) return std::unexpected(failure.error);
    return {};
  }
  socket_ = std::move(*socket);
  welcome_due_ = now() + kWelcomeWait;
  v1::ClientMessage message;
  fill_hello(*message.mutable_hello(), options_.peer);
  socket_->send_binary(message.SerializeAsString());
  for (const auto& channel : channels_) advertise(channel);
  return {};
}

void Sender::advertise(const Channel& channel) {
  v1::ClientMessage message;
  fill_advertise(*message.mutable_advertise(), channel.options);
  socket_->send_binary(message.SerializeAsString());
}

Result<void> Sender::lose(std::string_view why) {
  if (welcome_) {
    say(fmt::format("connection to {} lost: {}", url_.authority(), why));
    backoff_.lost(drain_retry_.value_or(milliseconds(0)));
  } else if (!backoff_.failed(milliseconds(0))) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("no welcome from {}: {}", url_.authority(), why));
  }
  socket_.reset();
  welcome_.reset();
  drain_retry_.reset();
  for (auto& channel : channels_) {
    channel.advertised = false;
    channel.in_flight = 0;
    channel.in_flight_bytes = 0;
    channel.window_bytes = 0;
    channel.hold_until = {};
    channel.hold = milliseconds(0);
  }
  return {};
}

bool Sender::may_send(const Channel& channel, std::uint64_t data_bytes) const {
  if (!channel.advertised || !welcome_ || drain_retry_) return false;
  if (socket_->queued_bytes() > kQueuedBytesMax || now() < channel.hold_until) return false;
  if (channel.in_flight == 0) return channel.window_bytes > 0;
  return channel.in_flight_bytes + data_bytes <= channel.window_bytes;
}

void Sender::pump() {
  for (auto& channel : channels_) pump(channel);
}

void Sender::pump(Channel& channel) {
  while (channel.in_flight < channel.pending.size()) {
    auto& next = channel.pending[channel.in_flight];
    if (!may_send(channel, next.frame.data_bytes())) return;
    send_encoded(*socket_, next.frame, welcome_->max_message_bytes, transfer_);
    ++(next.sent ? counters_.retransmitted : counters_.sent);
    if (!next.sent) counters_.sent_bytes += next.frame.data_bytes();
    next.sent = true;
    ++channel.in_flight;
    channel.in_flight_bytes += next.frame.data_bytes();
  }
}

Monotonic Sender::next_deadline(Monotonic deadline) const {
  for (const auto& channel : channels_) {
    if (channel.hold_until > now()) deadline = std::min(deadline, channel.hold_until);
  }
  return deadline;
}

Result<void> Sender::receive() {
  while (auto bytes = socket_->take()) {
    v1::ServerMessage message;
    if (bytes->text || !message.ParseFromString(bytes->data))
      return fail(ErrorCode::kInvalid,
                  fmt::format("the bridge sent {} bytes that are no message of this protocol",
                              bytes->data.size()));
    if (auto handled = handle(message); !handled) return handled;
  }
  return {};
}

Result<void> Sender::handle(const v1::ServerMessage& message) {
  switch (message.body_case()) {
    case v1::ServerMessage::kWelcome:
      welcome_ = welcome_info(message.welcome());
      if (ever_connected_) ++counters_.reconnects;
      say(fmt::format("{} to {} ({} {}), session {}",
                      ever_connected_ ? "back" : "connected",
                      url_.authority(),
                      welcome_->bridge,
                      welcome_->version,
                      welcome_->session));
      ever_connected_ = true;
      backoff_.succeeded();
      return {};
    case v1::ServerMessage::kAdvertised:
      return on_advertised(message.advertised());
    case v1::ServerMessage::kAck:
      on_ack(message.ack());
      return {};
    case v1::ServerMessage::kReject:
      return on_reject(message.reject());
    case v1::ServerMessage::kDrain:
      on_drain(message.drain());
      return {};
    case v1::ServerMessage::kStatus:
      say(fmt::format("{}: {}: {}",
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
    say(fmt::format("channel {}: our epoch is over ({}); a new one begins",
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
    say(fmt::format("channel {}: frame {} refused: {}",
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

void Sender::on_drain(const v1::Drain& drain) {
  say(fmt::format("the bridge is going away: {}", drain.reason()));
  drain_retry_ = milliseconds(drain.retry_after_ms());
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
  if (!socket_ || socket_->closed()) return;
  v1::ClientMessage message;
  message.mutable_goodbye()->set_reason(reason.data(), reason.size());
  socket_->send_binary(message.SerializeAsString());
  socket_->close(1000, reason, deadline);
}

Sender::Channel* Sender::find(std::uint32_t number) {
  return number >= 1 && number <= channels_.size() ? &channels_[number - 1] : nullptr;
}

void Sender::say(std::string_view text) const {
  if (options_.say) options_.say(text);
}

}  // namespace simbridge::client
