// Control messages: what a peer asks for, and what it is told.
#include "session/session_impl.h"
#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <fmt/core.h>

#include <algorithm>

namespace simbridge::session {
namespace {

constexpr std::size_t kHelloString = 256;
constexpr std::size_t kTokenBytes = 8 * 1024;
constexpr std::uint32_t kMalformedLimit = 16;
constexpr std::uint32_t kPongsWaiting = 64;
constexpr std::size_t kListAtOnce = 512;
constexpr std::size_t kOutboxForLists = 128 * 1024;

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

}  // namespace

Flow SessionImpl::handle(const wire::ClientMessage& message,
                         std::span<const std::byte> bytes,
                         MessageType type) {
  if (state_ == State::kClosing || state_ == State::kClosed) return Flow::kStop;
  const bool is_hello = std::holds_alternative<wire::Hello>(message);
  if (state_ == State::kNeedHello && !is_hello) {
    send(wire::Reject{.code = wire::RejectCode::kMalformed,
                      .detail = "the first message of a session is Hello"});
    close(CloseKind::kProtocol, "the first message of a session is Hello");
    return Flow::kStop;
  }
  if (const auto* malformed = std::get_if<wire::Malformed>(&message))
    return refuse_malformed(malformed->detail);
  if (const auto* unsupported = std::get_if<wire::Unsupported>(&message)) {
    malformed_in_a_row_ = 0;  // it parses
    reject_request({.code = wire::RejectCode::kUnsupported, .detail = unsupported->detail});
    return Flow::kContinue;
  }
  const bool is_frame = std::holds_alternative<wire::FrameBody>(message) ||
                        std::holds_alternative<wire::Part>(message);
  if (is_frame && type == MessageType::kText) {
    close(CloseKind::kUnsupportedData, "a frame is a binary message on this road, not text");
    return Flow::kStop;
  }
  // A part is no message of its own: the transfer counts as one at its last part.
  if (!std::holds_alternative<wire::Part>(message)) malformed_in_a_row_ = 0;
  const bool small =
      bytes.size() <= kControlBytes || std::holds_alternative<wire::Advertise>(message) || is_frame;
  if (!small) {
    reject_request(
        {.code = wire::RejectCode::kLimit,
         .detail = fmt::format(
             "a control message of {} bytes; {} are allowed", bytes.size(), kControlBytes)});
    return Flow::kContinue;
  }
  return std::visit(
      Overloaded{
          [&](const wire::Hello& hello) SB_NO_ANALYSIS { return on_hello(hello); },
          [&](const wire::Advertise& advertise) SB_NO_ANALYSIS {
            on_advertise(advertise);
            return Flow::kContinue;
          },
          [&](const wire::Unadvertise& unadvertise) SB_NO_ANALYSIS {
            if (producing_.contains(unadvertise.channel)) {
              end_producing(unadvertise.channel);
            } else {
              reject_request(
                  {.channel = unadvertise.channel,
                   .code = wire::RejectCode::kUnknownChannel,
                   .detail = fmt::format("channel {} was not advertised", unadvertise.channel)});
            }
            return Flow::kContinue;
          },
          [&](const wire::Subscribe& subscribe) SB_NO_ANALYSIS {
            on_subscribe(subscribe);
            return Flow::kContinue;
          },
          [&](const wire::Unsubscribe& unsubscribe) SB_NO_ANALYSIS {
            on_unsubscribe(unsubscribe.id);
            return Flow::kContinue;
          },
          [&](const wire::Credit& credit) SB_NO_ANALYSIS {
            on_credit(credit);
            return Flow::kContinue;
          },
          [&](const wire::Ping& ping) SB_NO_ANALYSIS {
            // A peer that pings without reading gets no more answers than it can have use for.
            if (pongs_waiting_ < kPongsWaiting) {
              ++pongs_waiting_;
              send(wire::Pong{
                  .cookie = ping.cookie, .sent_ns = ping.sent_ns, .now_ns = hub_.clock.wall_ns()});
            }
            return Flow::kContinue;
          },
          [&](const wire::Goodbye& goodbye) SB_NO_ANALYSIS {
            goodbye_ = true;
            close(CloseKind::kNormal,
                  goodbye.reason.empty() ? "goodbye" : goodbye.reason.substr(0, 100));
            return Flow::kStop;
          },
          [&](const wire::Part& part) SB_NO_ANALYSIS { return on_part(part, true); },
          [&](const wire::FrameBody&) SB_NO_ANALYSIS { return on_frame(bytes, head_, true); },
          [](const wire::Malformed&) { return Flow::kContinue; },
          [](const wire::Unsupported&) { return Flow::kContinue; },
      },
      message);
}

Flow SessionImpl::refuse_malformed(std::string detail) {
  reject_request({.code = wire::RejectCode::kMalformed, .detail = std::move(detail)});
  if (++malformed_in_a_row_ < kMalformedLimit) return Flow::kContinue;
  close(CloseKind::kMalformed,
        fmt::format("{} messages in a row that do not parse", kMalformedLimit));
  return Flow::kStop;
}

void SessionImpl::reject_request(wire::Reject reject) {
  hub_.metrics.rejected_requests[static_cast<unsigned>(reject.code)].add();
  log(LogLevel::kWarning,
      "request_rejected",
      "session {}: {} ({})",
      id_,
      wire::name_of(reject.code),
      reject.detail);
  send(reject);
}

Flow SessionImpl::on_hello(const wire::Hello& hello) {
  if (state_ != State::kNeedHello) {
    reject_request(
        {.code = wire::RejectCode::kMalformed, .detail = "Hello comes once in a session"});
    return Flow::kContinue;
  }
  if (hub_.draining.load(std::memory_order_acquire)) {
    send(wire::Reject{.code = wire::RejectCode::kDraining, .detail = "the bridge is going away"});
    close(CloseKind::kGoingAway, "the bridge is going away");
    return Flow::kStop;
  }
  const auto too_long = [&]() -> std::string {
    if (hello.name.size() > kHelloString) return fmt::format("name of {} bytes", hello.name.size());
    if (hello.agent.size() > kHelloString)
      return fmt::format("agent of {} bytes", hello.agent.size());
    if (hello.peer_key.size() > kHelloString)
      return fmt::format("peer_key of {} bytes", hello.peer_key.size());
    if (hello.token.size() > kTokenBytes)
      return fmt::format("token of {} bytes", hello.token.size());
    return {};
  }();
  if (!too_long.empty()) {
    send(wire::Reject{
        .code = wire::RejectCode::kLimit,
        .detail = fmt::format("Hello with a {}; strings may have 256, the token 8192", too_long)});
    close(CloseKind::kProtocol, "Hello above its limits");
    return Flow::kStop;
  }
  hello_ = hello;
  hello_.token
      .clear();  // not kept: nothing here checks it yet, and a secret that is not there cannot leak
  state_ = State::kOpen;
  books_->name = hello_.name;
  books_->agent = hello_.agent;
  memory_watcher_ = std::make_shared<frame::Watcher>(frame::Watcher{wake_, wake_->add_slot()});
  ticket_watcher_ = std::make_shared<frame::Watcher>(frame::Watcher{wake_, wake_->add_slot()});
  hub_.add_session({books_, wake_});
  // A drain that began since the question above woke only the sessions that it found listed.
  if (hub_.draining.load(std::memory_order_acquire)) wake_->signal();
  hub_.metrics.opened.add();
  hub_.metrics.open.add(1);
  first_list_until_ = hub_.version();
  log(LogLevel::kInfo,
      "session_opened",
      "session {} ({}, {}) from {} over {}",
      id_,
      hello_.name.empty() ? "no name" : hello_.name,
      hello_.agent.empty() ? "no agent" : hello_.agent,
      info_.address,
      info_.transport);
  send(wire::Welcome{.bridge = hub_.options.bridge_name,
                     .version = hub_.options.version,
                     .boot_id = hub_.options.boot_id,
                     .session = id_,
                     .max_message_bytes = hub_.options.max_message_bytes,
                     .max_frame_bytes = hub_.store.max_frame_bytes().count,
                     .ping_interval_ms = hub_.options.ping_interval_ms,
                     .now_ns = hub_.clock.wall_ns()});
  sync_channels();
  return Flow::kContinue;
}

// ---- channels

void SessionImpl::sync_channels() {
  if (first_list_done_ && seen_version_ == hub_.version()) return;
  std::vector<ChangedChannel> changed;
  while (outbox_.bytes() < kOutboxForLists) {
    changed.clear();
    wire::Channels list;
    seen_version_ = hub_.changes_after(seen_version_, kListAtOnce, changed, list.channel);
    books_->seen_version.store(seen_version_, std::memory_order_relaxed);
    for (const ChangedChannel& change : changed) {
      // What is gone before the first list is complete was never told.
      if (!change.channel && first_list_done_) list.removed.push_back(change.removed);
    }
    if (!first_list_done_ && seen_version_ >= first_list_until_) {
      list.complete = true;
      first_list_done_ = true;
    }
    if (!list.channel.empty() || !list.removed.empty() || list.complete) send(list);
    std::erase_if(advertised_owed_, [&](const OwedAdvertised& owed) SB_NO_ANALYSIS {
      if (owed.version > seen_version_) return false;
      send(owed.message);
      return true;
    });
    for (const ChangedChannel& change : changed) {
      if (!change.channel) continue;
      for (auto& [id, subscription] : subscriptions_) {
        if (!subscription->ending &&
            wire::matches(subscription->spec.channel, change.channel->name)) {
          meet(*subscription, change.channel);
        }
      }
    }
    for (const std::uint32_t removed : list.removed) {
      for (auto& [id, subscription] : subscriptions_) {
        for (auto& reading : subscription->readings) {
          if (reading->channel->id == removed) queue(*reading);  // it finishes, then goes
        }
      }
    }
    if (first_list_done_ && seen_version_ == hub_.version()) return;
  }
}

void SessionImpl::on_advertise(const wire::Advertise& message) {
  const auto refuse = [&](wire::RejectCode code, std::string detail) SB_NO_ANALYSIS {
    reject_request({.channel = message.channel, .code = code, .detail = std::move(detail)});
  };
  if (message.channel == 0) return refuse(wire::RejectCode::kLimit, "channel numbers start at 1");
  if (hub_.draining.load(std::memory_order_acquire)) {
    return refuse(wire::RejectCode::kDraining, "the bridge is going away");
  }
  if (auto verdict = wire::check_channel_name(message.name); !verdict.ok()) {
    return refuse(verdict.code, std::move(verdict.detail));
  }
  for (const auto& [what, text] : {std::pair{"frame_id", &message.frame_id},
                                   std::pair{"schema", &message.schema},
                                   std::pair{"encoding", &message.encoding},
                                   std::pair{"schema_encoding", &message.schema_encoding}}) {
    if (text->size() > kHelloString) {
      return refuse(wire::RejectCode::kLimit,
                    fmt::format("{} of {} bytes; 256 are allowed", what, text->size()));
    }
  }
  if (message.schema_data.size() > hub_.options.max_schema_bytes) {
    return refuse(wire::RejectCode::kLimit,
                  fmt::format("schema_data of {} bytes; {} are allowed",
                              message.schema_data.size(),
                              hub_.options.max_schema_bytes));
  }
  const auto had = producing_.find(message.channel);
  const bool same = had != producing_.end() && had->second->channel->name == message.name;
  if (!same && producing_.size() - (had != producing_.end() ? 1 : 0) >=
                   hub_.options.max_channels_per_session) {
    return refuse(
        wire::RejectCode::kLimit,
        fmt::format("{} channels a session are the limit", hub_.options.max_channels_per_session));
  }
  auto production = hub_.advertise(id_, hello_.peer_key, message);
  if (!production) return reject_request(std::move(production.error()));
  // The same name under another number of this session moves; the same number under another name
  // ends the other.
  const auto moved = std::ranges::find_if(producing_, [&](const auto& entry) {
    return entry.first != message.channel && entry.second->channel == production->channel;
  });
  if (moved != producing_.end()) end_producing(moved->first);
  if (!same && producing_.contains(message.channel)) end_producing(message.channel);
  if (same && had->second->epoch != production->epoch) {
    cut_frames(message.channel,
               wire::RejectCode::kEpoch,
               fmt::format("epoch {} ended while the frame came", had->second->epoch));
  }

  std::unique_ptr<Producing>& from = producing_[message.channel];
  if (!from) {
    from = std::make_unique<Producing>();
    from->room = std::make_shared<frame::Watcher>(frame::Watcher{wake_, wake_->add_slot()});
    if (slots_.size() <= from->room->slot.index) slots_.resize(from->room->slot.index + 1);
    slots_[from->room->slot.index] = SlotUse{nullptr, from.get()};
  }
  from->number = message.channel;
  from->channel = production->channel;
  from->token = production->token;
  from->producer = std::move(production->producer);
  from->epoch = production->epoch;
  from->past_epochs = std::move(production->past_epochs);
  from->last_sequence = production->last_sequence;
  from->unacked_frames = 0;
  from->unacked_bytes = 0;
  from->ack_due = false;
  from->ack_by = Monotonic::max();
  from->channel->ring->set_room_watcher(from->room);
  books_->channels.store(producing_.size(), std::memory_order_relaxed);
  if (!counted_as_producer_) {
    counted_as_producer_ = true;
    hub_.producing_sessions.fetch_add(1, std::memory_order_acq_rel);
  }
  from->told_window = window(*from);
  watch_window(*from, hub_.clock.now());
  advertised_owed_.push_back({production->version,
                              wire::Advertised{.channel = message.channel,
                                               .id = from->channel->id,
                                               .last_sequence = from->last_sequence,
                                               .window_bytes = from->told_window,
                                               .epoch = from->epoch}});
  sync_channels();  // announced before it is used
}

/// Frames of this channel that are being received land nowhere, and are answered at their end.
void SessionImpl::cut_frames(std::uint32_t number, wire::RejectCode code, const std::string& why) {
  for (FrameInProgress* frame : {&pieces_.frame, &transfer_.frame}) {
    if (!frame->have_head || frame->head.channel != number || !frame->room) continue;
    frame->room.reset();
    frame->outcome = reject(code, why);
    frame->state = FrameInProgress::State::kDiscard;
  }
}

void SessionImpl::end_all_producing() {
  while (!producing_.empty()) end_producing(producing_.begin()->first);
}

void SessionImpl::end_producing(std::uint32_t number) {
  const auto found = producing_.find(number);
  if (found == producing_.end()) return;
  Producing& from = *found->second;
  if (from.unacked_frames > 0) acknowledge(from);  // its last one
  cut_frames(number,
             wire::RejectCode::kUnknownChannel,
             fmt::format("channel {} ended while the frame came", number));
  from.producer = frame::Producer{};
  hub_.unadvertise(*from.channel, from.token);
  slots_[from.room->slot.index] = SlotUse{};
  wake_->remove_slot(from.room->slot);
  producing_.erase(found);
  books_->channels.store(producing_.size(), std::memory_order_relaxed);
  if (producing_.empty() && counted_as_producer_) {
    counted_as_producer_ = false;
    hub_.producing_sessions.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace simbridge::session
