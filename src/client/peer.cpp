#include "simbridge/client/peer.h"

#include "client/line.h"
#include "client/messages.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <deque>
#include <utility>

namespace simbridge::client {
namespace {

using MessagePtr = std::unique_ptr<v1::ServerMessage>;

Monotonic after(milliseconds timeout) {
  return std::chrono::steady_clock::now() + timeout;
}

}  // namespace

struct Peer::Impl {
  std::unique_ptr<Line> line;
  std::deque<MessagePtr> set_aside;  // by await(), still to be given by next()
  WelcomeInfo welcome;

  [[nodiscard]] Result<LineMessage> receive(Monotonic deadline) const;
  [[nodiscard]] Result<MessagePtr> parse(Monotonic deadline) const;
};

Result<LineMessage> Peer::Impl::receive(Monotonic deadline) const {
  while (true) {
    if (auto message = line->take()) return std::move(*message);
    if (const auto& closed = line->closed()) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("closed with {} \"{}\"", closed->code, closed->reason));
    }
    if (!line->run_until(deadline)) return fail(ErrorCode::kTimeout, "no message in time");
  }
}

Result<MessagePtr> Peer::Impl::parse(Monotonic deadline) const {
  const auto bytes = receive(deadline);
  if (!bytes) return std::unexpected(bytes.error());
  auto message = std::make_unique<v1::ServerMessage>();
  if (bytes->text || !message->ParseFromString(bytes->data)) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} bytes that are no ServerMessage{}",
                            bytes->data.size(),
                            bytes->text ? ": text" : ""));
  }
  return message;
}

Peer::Peer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Peer::~Peer() = default;

Result<std::unique_ptr<Peer>> Peer::connect(const PeerOptions& options) {
  const auto deadline = after(options.timeout);
  const auto url = parse_url(options.url);
  if (!url) return std::unexpected(url.error());
  auto line = Line::connect(
      *url,
      {.subprotocols = options.subprotocol, .agent = options.agent, .timeout = options.timeout});
  if (!line) return std::unexpected(line.error().error);
  auto impl = std::make_unique<Impl>();
  impl->line = std::move(*line);
  auto peer = std::unique_ptr<Peer>(new Peer(std::move(impl)));
  if (!options.hello) return peer;

  v1::ClientMessage message;
  fill_hello(*message.mutable_hello(), options);
  peer->send(message);
  auto answer = peer->impl_->parse(deadline);
  if (!answer) return std::unexpected(answer.error());
  if ((*answer)->has_reject()) return fail(ErrorCode::kRefused, describe((*answer)->reject()));
  if (!(*answer)->has_welcome()) return fail(ErrorCode::kInvalid, "the first answer is no Welcome");
  peer->impl_->welcome = welcome_info((*answer)->welcome());
  return peer;
}

const WelcomeInfo& Peer::welcome() const {
  return impl_->welcome;
}

void Peer::send(const v1::ClientMessage& message) {
  impl_->line->send_binary(message.SerializeAsString());
}

void Peer::send_bytes(std::string_view bytes, bool text) {
  if (text) {
    impl_->line->send_text(std::string(bytes));
  } else {
    impl_->line->send_binary(std::string(bytes));
  }
}

void Peer::send_opaque(const FrameHeader& header, std::string_view data) {
  v1::ClientMessage message;
  auto& frame = *message.mutable_frame();
  fill_header(frame, header);
  frame.mutable_opaque()->set_data(data.data(), data.size());
  if (header.checksum) fill_checksum(frame);
  send(message);
}

void Peer::send_cloud(const FrameHeader& header, const PointCloudData& cloud) {
  v1::ClientMessage message;
  auto& frame = *message.mutable_frame();
  fill_header(frame, header);
  fill_cloud(frame, cloud);
  if (header.checksum) fill_checksum(frame);
  send(message);
}

bool Peer::flush(milliseconds timeout) {
  return impl_->line->run_until(after(timeout),
                                [this] { return impl_->line->queued_bytes() == 0; });
}

Result<AdvertisedInfo> Peer::advertise(const AdvertiseOptions& options, milliseconds timeout) {
  v1::ClientMessage message;
  fill_advertise(*message.mutable_advertise(), options);
  send(message);
  const auto answer = await(
      [&](const v1::ServerMessage& got) {
        return (got.has_advertised() && got.advertised().channel() == options.channel) ||
               (got.has_reject() && got.reject().channel() == options.channel &&
                got.reject().sequence() == 0);
      },
      timeout);
  if (!answer) return std::unexpected(answer.error());
  if ((*answer)->has_reject()) return fail(ErrorCode::kRefused, describe((*answer)->reject()));
  const auto& advertised = (*answer)->advertised();
  return AdvertisedInfo{.id = advertised.id(),
                        .last_sequence = advertised.last_sequence(),
                        .window_bytes = advertised.window_bytes(),
                        .epoch = advertised.epoch()};
}

void Peer::subscribe(const SubscribeOptions& options) {
  v1::ClientMessage message;
  fill_subscribe(*message.mutable_subscribe(), options);
  send(message);
}

void Peer::unsubscribe(std::uint32_t id) {
  v1::ClientMessage message;
  message.mutable_unsubscribe()->set_id(id);
  send(message);
}

void Peer::credit(std::uint32_t subscription, std::uint32_t channel, std::uint32_t frames) {
  v1::ClientMessage message;
  auto& credit = *message.mutable_credit();
  credit.set_subscription(subscription);
  credit.set_channel(channel);
  credit.set_frames(frames);
  send(message);
}

Result<MessagePtr> Peer::next(milliseconds timeout) {
  if (!impl_->set_aside.empty()) {
    auto message = std::move(impl_->set_aside.front());
    impl_->set_aside.pop_front();
    return message;
  }
  return impl_->parse(after(timeout));
}

Result<MessagePtr> Peer::await(const std::function<bool(const v1::ServerMessage&)>& wanted,
                               milliseconds timeout) {
  const auto deadline = after(timeout);
  auto& aside = impl_->set_aside;
  for (auto at = aside.begin(); at != aside.end(); ++at) {
    if (!wanted(**at)) continue;
    auto message = std::move(*at);
    aside.erase(at);
    return message;
  }
  while (true) {
    auto message = impl_->parse(deadline);
    if (!message || wanted(**message)) return message;
    aside.push_back(std::move(*message));
  }
}

Result<std::string> Peer::next_bytes(milliseconds timeout, bool* text) {
  auto message = impl_->receive(after(timeout));
  if (!message) return std::unexpected(message.error());
  if (text != nullptr) *text = message->text;
  return std::move(message->data);
}

void Peer::pause_reading(bool paused) {
  impl_->line->pause_reading(paused);
}

void Peer::idle(milliseconds time) {
  impl_->line->run_until(after(time), [] { return false; });
}

std::optional<PeerClosed> Peer::wait_closed(milliseconds timeout) {
  const auto deadline = after(timeout);
  while (true) {
    if (const auto& closed = impl_->line->closed())
      return PeerClosed{.code = closed->code, .reason = closed->reason};
    // What still comes is parsed and set aside, so that a full inbox never hides the close.
    if (auto message = impl_->parse(deadline)) {
      impl_->set_aside.push_back(std::move(*message));
    } else if (message.error().code == ErrorCode::kTimeout) {
      return std::nullopt;
    }
  }
}

void Peer::goodbye(std::string_view reason) {
  v1::ClientMessage message;
  message.mutable_goodbye()->set_reason(reason.data(), reason.size());
  send(message);
}

void Peer::close(std::uint16_t code, milliseconds timeout) {
  impl_->line->close(code, "", after(timeout));
}

void Peer::abort() {
  impl_->line->abort();
}

}  // namespace simbridge::client
