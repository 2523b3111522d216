#include "client/link.h"

#include "client/messages.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace simbridge::client {
namespace {

constexpr milliseconds kStepMax{100};
constexpr milliseconds kWelcomeWait{10000};
constexpr milliseconds kSilenceMin{3000};
constexpr int kSilentPings = 3;

Monotonic now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Link::Link(LinkOptions options, LinkHooks hooks)
    : options_(std::move(options)), hooks_(std::move(hooks)), backoff_(options_.reconnect) {
  if (auto url = parse_url(options_.peer.url)) {
    url_ = std::move(*url);
  } else {
    bad_url_ = url.error();
  }
}

Link::~Link() = default;

Result<void> Link::step(Monotonic deadline) {
  if (bad_url_) return std::unexpected(*bad_url_);
  deadline = std::min(deadline, now() + kStepMax);
  if (!line_) {
    if (backoff_.next() > now()) {
      // Nothing to run in between; the caller looks at its signals every 100 ms.
      std::this_thread::sleep_until(std::min(deadline, backoff_.next()));
      return {};
    }
    if (auto connected = connect(); !connected || !line_) return connected;
  }
  line_->run_until(deadline);
  if (auto received = receive(); !received) return received;
  if (const auto& closed = line_->closed()) {
    if (closed->pointless && !welcome_) {
      return fail(ErrorCode::kRefused,
                  fmt::format("{} refused: {}", url_.authority(), closed->reason));
    }
    if (closed->retry_after.count() > 0 && !drain_retry_) drain_retry_ = closed->retry_after;
    return lose(fmt::format("closed with {} \"{}\"", closed->code, closed->reason));
  }
  const auto silence =
      welcome_ ? std::max(kSilenceMin, milliseconds(welcome_->ping_interval_ms) * kSilentPings)
               : kWelcomeWait;
  if (now() - line_->last_heard() > silence || (!welcome_ && now() > welcome_due_))
    return lose("the bridge is silent");
  return {};
}

Result<void> Link::connect() {
  auto line = Line::connect(url_,
                            {.subprotocols = options_.peer.subprotocol,
                             .agent = options_.peer.agent,
                             .timeout = options_.peer.timeout});
  if (!line) {
    const auto& failure = line.error();
    // 503 is a bridge that is full or draining, 429 one that is called too often: both pass.
    const bool passing = failure.http_status == 503 || failure.http_status == 429;
    if (failure.http_status != 0 && !passing) return std::unexpected(failure.error);
    if (passing) backoff_.told_to_wait();
    if (!backoff_.failed(failure.retry_after)) return std::unexpected(failure.error);
    if (passing && !std::exchange(told_to_wait_, true)) {
      const auto& tell = options_.waiting ? options_.waiting : options_.say;
      if (tell) tell(fmt::format("{}; trying again", failure.error.detail));
    }
    return {};
  }
  line_ = std::move(*line);
  welcome_due_ = now() + kWelcomeWait;
  v1::ClientMessage message;
  fill_hello(*message.mutable_hello(), options_.peer);
  send(message);
  if (hooks_.opened) hooks_.opened();
  return {};
}

Result<void> Link::receive() {
  while (auto bytes = line_->take()) {
    v1::ServerMessage message;
    if (bytes->text || !message.ParseFromString(bytes->data))
      return fail(ErrorCode::kInvalid,
                  fmt::format("the bridge sent {} bytes that are no message of this protocol",
                              bytes->data.size()));
    if (message.has_welcome()) on_welcome(message);
    if (message.has_drain()) drain_retry_ = milliseconds(message.drain().retry_after_ms());
    if (message.has_reject() && message.reject().code() == v1::REJECT_UNAUTHORIZED)
      return fail(ErrorCode::kRefused, describe(message.reject()));
    if (auto received = hooks_.received(message); !received) return received;
  }
  return {};
}

void Link::on_welcome(const v1::ServerMessage& message) {
  welcome_ = welcome_info(message.welcome());
  if (ever_connected_) ++reconnects_;
  say(fmt::format("{} to {} ({} {}), session {}",
                  ever_connected_ ? "back" : "connected",
                  url_.authority(),
                  welcome_->bridge,
                  welcome_->version,
                  welcome_->session));
  ever_connected_ = true;
  told_to_wait_ = false;
  backoff_.succeeded();
}

Result<void> Link::lose(std::string_view why) {
  const auto authority = url_.authority();
  const bool welcomed = welcome_.has_value();
  const auto wait = drain_retry_.value_or(milliseconds(0));
  line_.reset();
  welcome_.reset();
  if (hooks_.lost) hooks_.lost();
  if (!options_.reconnect.enabled)
    return fail(ErrorCode::kUnavailable, fmt::format("connection to {}: {}", authority, why));
  drain_retry_.reset();
  if (welcomed) {
    say(fmt::format("connection to {} lost: {}", authority, why));
    backoff_.lost(wait);
  } else if (!backoff_.failed(wait)) {
    return fail(ErrorCode::kUnavailable, fmt::format("no welcome from {}: {}", authority, why));
  }
  return {};
}

void Link::send(const v1::ClientMessage& message) {
  if (line_) line_->send_binary(message.SerializeAsString());
}

void Link::goodbye(std::string_view reason, Monotonic deadline) {
  if (!line_ || line_->closed()) return;
  v1::ClientMessage message;
  message.mutable_goodbye()->set_reason(reason.data(), reason.size());
  send(message);
  line_->close(1000, reason, deadline);
}

void Link::say(std::string_view text) const {
  if (options_.say) options_.say(text);
}

}  // namespace simbridge::client
