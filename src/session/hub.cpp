#include "simbridge/session/hub.h"

#include "session/hub_impl.h"
#include "session/session_impl.h"
#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

namespace simbridge::session {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

HubOptions completed(HubOptions options) {
  while (options.boot_id == 0) options.boot_id = random_number();
  return options;
}

/// Time does not tell how much of a guessed key was right. An empty key matches nothing.
bool same_key(const std::string& a, const std::string& b) {
  constexpr std::size_t kShortestKey = 16;
  if (a.size() < kShortestKey || a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

wire::Reject refuse(const wire::Advertise& message, wire::RejectCode code, std::string detail) {
  return wire::Reject{
      .channel = message.channel, .sequence = 0, .code = code, .detail = std::move(detail)};
}

}  // namespace

std::int64_t monotonic_ns(const Clock& clock) {
  return clock.now().time_since_epoch().count();
}

Hub::Impl::Impl(frame::FrameStore& frame_store,
                pipeline::Pipeline& a_pipeline,
                const Clock& a_clock,
                HubOptions hub_options,
                metrics::SessionMetrics& instruments)
    : store(frame_store),
      pipeline(a_pipeline),
      clock(a_clock),
      options(completed(std::move(hub_options))),
      metrics(instruments),
      max_sessions(options.max_sessions),
      tokens(options.accept_rate),
      tokens_at(a_clock.now()) {}

// ---- channels

std::expected<Production, wire::Reject> Hub::Impl::advertise(std::uint64_t session,
                                                             const std::string& peer_key,
                                                             const wire::Advertise& message) {
  const MutexLock lock(mutex);
  auto found = channels.find(message.name);
  std::shared_ptr<Channel> channel = found == channels.end() ? nullptr : found->second;
  bool takeover = false;
  if (channel && channel->face.live && channel->face.holder != session) {
    if (!same_key(channel->face.holder_key, peer_key)) {
      return std::unexpected(
          refuse(message,
                 wire::RejectCode::kNameTaken,
                 fmt::format("{} has a live producer with another peer_key", message.name)));
    }
    takeover = true;
  }
  if (channel && message.epoch != 0 &&
      std::ranges::find(channel->face.past_epochs, message.epoch) !=
          channel->face.past_epochs.end()) {
    return std::unexpected(
        refuse(message,
               wire::RejectCode::kEpoch,
               fmt::format("epoch {} is an earlier life of {}", message.epoch, message.name)));
  }
  const std::uint64_t schema_before = channel ? channel->face.schema_data.size() : 0;
  if (schema_bytes_ - schema_before + message.schema_data.size() > options.max_schema_bytes_total) {
    return std::unexpected(refuse(message,
                                  wire::RejectCode::kLimit,
                                  fmt::format("schema_data of all channels would be above {} bytes",
                                              options.max_schema_bytes_total)));
  }
  if (!channel) {
    if (channels.size() >= options.max_channels) {
      return std::unexpected(
          refuse(message,
                 wire::RejectCode::kLimit,
                 fmt::format("{} channels are the limit", options.max_channels)));
    }
    channel =
        std::make_shared<Channel>(next_channel_++, message.name, store.add_ring(message.latched));
    channels.emplace(message.name, channel);
  }

  ChannelFace& face = channel->face;
  ChannelNumbers& numbers = channel->numbers;
  face.token = next_token_++;
  channel->gate.take(face.token);  // from here the numbers are ours
  std::uint64_t epoch = message.epoch;
  if (epoch == 0) {
    do {
      epoch = random_number();
    } while (epoch == 0 || epoch == numbers.epoch);
  }
  if (epoch != numbers.epoch) {
    if (numbers.epoch != 0) {
      face.past_epochs.push_back(numbers.epoch);
      if (face.past_epochs.size() > kPastEpochs) face.past_epochs.erase(face.past_epochs.begin());
      if (numbers.pending.front().count > 0)
        face.past_tails.push_back({numbers.epoch, numbers.last_sequence, numbers.pending});
      std::erase_if(face.past_tails, [&](const PastTail& tail) {
        return std::ranges::find(face.past_epochs, tail.epoch) == face.past_epochs.end();
      });
    }
    numbers = ChannelNumbers{.epoch = epoch, .warned = numbers.warned};
  }
  numbers.retry_from = 0;  // the producer learns last_sequence and goes on from there

  schema_bytes_ = schema_bytes_ - schema_before + message.schema_data.size();
  face.frame_id = message.frame_id;
  face.schema = message.schema;
  face.encoding = message.encoding;
  face.schema_data = message.schema_data;
  face.schema_encoding = message.schema_encoding;
  face.policy = message.policy == wire::Policy::kBackpressure ? wire::Policy::kBackpressure
                                                              : wire::Policy::kDropOldest;
  face.latched = message.latched;
  face.live = true;
  face.holder = session;
  face.holder_key = peer_key;
  channel->backpressure.store(face.policy == wire::Policy::kBackpressure,
                              std::memory_order_relaxed);
  channel->ring->set_latched(face.latched);
  channel->last_used_ns.store(monotonic_ns(clock), std::memory_order_relaxed);

  Production production{.channel = channel,
                        .token = face.token,
                        .producer = channel->ring->attach(epoch),
                        .epoch = epoch,
                        .last_sequence = numbers.last_sequence,
                        .past_epochs = face.past_epochs};
  log_change(channel);
  production.version = face.version;
  if (takeover) metrics.takeovers.add();
  return production;
}

std::optional<PastTail> Hub::Impl::past_tail(const Channel& channel, std::uint64_t epoch) {
  const MutexLock lock(mutex);
  const auto found = std::ranges::find(channel.face.past_tails, epoch, &PastTail::epoch);
  return found == channel.face.past_tails.end() ? std::nullopt : std::optional(*found);
}

void Hub::Impl::unadvertise(Channel& channel, std::uint64_t token) {
  const MutexLock lock(mutex);
  if (channel.face.token != token) return;  // somebody took it over
  channel.face.token = 0;
  channel.gate.take(0);
  channel.face.live = false;
  channel.face.holder = 0;
  channel.face.holder_key.clear();
  channel.last_used_ns.store(monotonic_ns(clock), std::memory_order_relaxed);
  const auto found = channels.find(channel.name);
  if (found != channels.end() && found->second.get() == &channel) log_change(found->second);
}

void Hub::Impl::sweep() {
  const std::int64_t now = monotonic_ns(clock);
  std::vector<std::shared_ptr<Channel>> gone;
  {
    const MutexLock lock(mutex);
    for (auto it = channels.begin(); it != channels.end();) {
      Channel& channel = *it->second;
      // A latched channel whose frames went under pressure has nothing left to wait for.
      const bool given_up = channel.ring->head() > 0 && channel.ring->kept_frames() == 0;
      const auto patience = channel.face.latched && !given_up ? options.latched_remove_after
                                                              : options.channel_remove_after;
      const std::int64_t idle_ns = now - channel.last_used_ns.load(std::memory_order_relaxed);
      if (channel.face.live || idle_ns < nanoseconds(patience).count()) {
        ++it;
        continue;
      }
      gone.push_back(it->second);
      schema_bytes_ -= channel.face.schema_data.size();
      changes_.erase(channel.face.version);
      channel.removed.store(true, std::memory_order_relaxed);
      log_removal(channel.id);
      it = channels.erase(it);
    }
    // Removals that every session has seen need not be told again.
    std::uint64_t seen = version_.load(std::memory_order_relaxed);
    for (const auto& [id, entry] : sessions) {
      seen = std::min(seen, entry.books->seen_version.load(std::memory_order_relaxed));
    }
    for (auto it = changes_.begin(); it != changes_.end() && it->first <= seen;) {
      it = it->second.channel ? std::next(it) : changes_.erase(it);
    }
  }
  for (const auto& channel : gone) store.remove_ring(channel->ring);
}

void Hub::Impl::log_change(const std::shared_ptr<Channel>& channel) {
  changes_.erase(channel->face.version);
  const std::uint64_t version = version_.load(std::memory_order_relaxed) + 1;
  channel->face.version = version;
  if (channel->born == 0) channel->born = version;
  changes_.emplace(version, ChangedChannel{channel, 0});
  version_.store(version, std::memory_order_release);
  wake_all();
}

void Hub::Impl::log_removal(std::uint32_t id) {
  const std::uint64_t version = version_.load(std::memory_order_relaxed) + 1;
  changes_.emplace(version, ChangedChannel{nullptr, id});
  version_.store(version, std::memory_order_release);
  wake_all();
}

void Hub::Impl::wake_all() {
  for (const auto& [id, entry] : sessions) entry.wake->signal();
}

wire::ChannelInfo Hub::Impl::describe(const Channel& channel) const {
  const ChannelFace& face = channel.face;
  wire::ChannelInfo info{.id = channel.id,
                         .name = channel.name,
                         .frame_id = face.frame_id,
                         .schema = face.schema,
                         .encoding = face.encoding,
                         .schema_data = face.schema_data,
                         .schema_encoding = face.schema_encoding,
                         .epoch = 0,
                         .first_sequence = 0,
                         .last_sequence = 0,
                         .live = face.live,
                         .latched = face.latched,
                         .policy = face.policy};
  const auto lives = channel.ring->lives();
  if (lives.empty()) return info;
  info.epoch = lives.back().epoch;
  info.last_sequence = lives.back().last_sequence;
  const auto oldest =
      channel.ring->read(std::max(channel.ring->tail(), lives.back().first_position));
  if (oldest.frame) info.first_sequence = oldest.frame.info().sequence;
  return info;
}

std::uint64_t Hub::Impl::changes_after(std::uint64_t version,
                                       std::size_t limit,
                                       std::vector<ChangedChannel>& changed,
                                       std::vector<wire::ChannelInfo>& infos) {
  const MutexLock lock(mutex);
  std::uint64_t reached = version;
  std::uint64_t bytes = 0;
  constexpr std::uint64_t kBytesAtOnce = 64 * 1024;  // of schema data, mostly
  for (auto it = changes_.upper_bound(version); it != changes_.end(); ++it) {
    if (changed.size() >= limit || bytes >= kBytesAtOnce) return reached;
    changed.push_back(it->second);
    if (it->second.channel) {
      infos.push_back(describe(*it->second.channel));
      bytes += infos.back().schema_data.size() + 256;
    }
    reached = it->first;
  }
  return version_.load(std::memory_order_relaxed);
}

std::vector<std::shared_ptr<Channel>> Hub::Impl::known_channels(std::uint64_t up_to_version) {
  const MutexLock lock(mutex);
  std::vector<std::shared_ptr<Channel>> known;
  for (const auto& [version, entry] : changes_) {
    if (version > up_to_version) break;
    if (entry.channel) known.push_back(entry.channel);
  }
  return known;
}

// ---- sessions

void Hub::Impl::add_session(Entry entry) {
  const MutexLock lock(mutex);
  const std::uint64_t id = entry.books->id;
  sessions.emplace(id, std::move(entry));
}

void Hub::Impl::remove_session(std::uint64_t id) {
  const MutexLock lock(mutex);
  sessions.erase(id);
  wake_all();  // a drain waits for producers to go
}

void Hub::Impl::list_reading(std::shared_ptr<ReadingBooks> books) {
  const MutexLock lock(mutex);
  readings.push_back(std::move(books));
}

void Hub::Impl::unlist_reading(const ReadingBooks* books) {
  const MutexLock lock(mutex);
  readings.remove_if([&](const auto& entry) { return entry.get() == books; });
}

double Hub::Impl::drain_turn() {
  const MutexLock lock(mutex);
  const double in_all = std::max<std::uint32_t>(1, drain_producers_in_all_);
  return std::min(1.0, drain_producers_++ / in_all);
}

// ---- Hub

Hub::Hub(frame::FrameStore& store,
         pipeline::Pipeline& pipeline,
         const Clock& clock,
         HubOptions options,
         metrics::SessionMetrics& metrics)
    : impl_(std::make_unique<Impl>(store, pipeline, clock, std::move(options), metrics)) {}

Hub::~Hub() {
  std::vector<std::shared_ptr<Channel>> rest;
  {
    const MutexLock lock(impl_->mutex);
    SB_CHECK(impl_->sessions.empty(), "every session has ended before the hub goes");
    for (auto& [name, channel] : impl_->channels) rest.push_back(channel);
    impl_->channels.clear();
  }
  for (const auto& channel : rest) impl_->store.remove_ring(channel->ring);
}

std::expected<Admission, Refusal> Hub::admit() {
  using Cause = Refusal::Cause;
  if (draining()) {
    impl_->metrics.refused[metrics::RefuseCause::kDraining].add();
    const auto wait =
        std::chrono::ceil<std::chrono::seconds>(impl_->drain_plan.retry_after).count();
    return std::unexpected(
        Refusal{Cause::kDraining, "the bridge is going away", static_cast<std::uint32_t>(wait)});
  }
  {
    const MutexLock lock(impl_->mutex);
    const Monotonic now = impl_->clock.now();
    const double rate = impl_->options.accept_rate;
    const double passed = std::chrono::duration<double>(now - impl_->tokens_at).count();
    impl_->tokens = std::min(std::max(rate, 1.0), impl_->tokens + passed * rate);
    impl_->tokens_at = now;
    if (impl_->tokens < 1.0) {
      impl_->metrics.refused[metrics::RefuseCause::kAcceptRate].add();
      return std::unexpected(Refusal{Cause::kAcceptRate, "too many new sessions this second", 1});
    }
    impl_->tokens -= 1.0;
  }
  const std::uint32_t limit = impl_->max_sessions.load(std::memory_order_relaxed);
  // relaxed: a count, nothing is published with it; the loop keeps it from ever passing the limit.
  std::uint32_t taken = impl_->places.load(std::memory_order_relaxed);
  do {
    if (taken >= limit) {
      impl_->metrics.refused[metrics::RefuseCause::kMaxSessions].add();
      return std::unexpected(
          Refusal{Cause::kMaxSessions,
                  fmt::format("{} sessions are the limit (session.max_sessions)", limit),
                  5});
    }
  } while (!impl_->places.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed));
  return Admission(this);
}

Admission::~Admission() {
  if (hub_ != nullptr) hub_->impl().places.fetch_sub(1, std::memory_order_relaxed);
}

std::shared_ptr<Session> Hub::open(Admission admission,
                                   PeerInfo info,
                                   Peer& peer,
                                   std::move_only_function<void() const> waker,
                                   StrandRole role) {
  std::uint64_t id = 0;
  {
    const MutexLock lock(impl_->mutex);
    id = impl_->next_session++;
  }
  return std::make_shared<SessionImpl>(
      *impl_, std::move(admission), id, std::move(info), peer, std::move(waker), std::move(role));
}

void Hub::drain(milliseconds deadline, milliseconds retry_after, std::string reason) {
  const MutexLock lock(impl_->mutex);
  if (draining()) return;
  impl_->drain_plan = DrainPlan{impl_->clock.now(), deadline, retry_after, std::move(reason)};
  impl_->drain_producers_in_all_ = impl_->producing_sessions.load(std::memory_order_relaxed);
  impl_->draining.store(true, std::memory_order_release);
  impl_->wake_all();
}

bool Hub::draining() const {
  return impl_->draining.load(std::memory_order_acquire);
}

std::size_t Hub::sessions() const {
  const MutexLock lock(impl_->mutex);
  return impl_->sessions.size();
}

void Hub::sweep() {
  impl_->sweep();
}

void Hub::set_max_sessions(std::uint32_t sessions) {
  impl_->max_sessions.store(sessions, std::memory_order_relaxed);
}

const HubOptions& Hub::options() const {
  return impl_->options;
}

// ---- snapshots

std::vector<ChannelSnapshot> Hub::channels() const {
  const MutexLock lock(impl_->mutex);
  std::vector<ChannelSnapshot> all;
  all.reserve(impl_->channels.size());
  for (const auto& [name, channel] : impl_->channels) {
    const auto lives = channel->ring->lives();
    ChannelSnapshot one{.name = name};
    const auto read = [](const auto& figure) {
      return figure.load(std::memory_order_relaxed);
    };
    one.published = read(channel->books.published);
    one.duplicate = read(channel->books.duplicate);
    one.rejected = read(channel->books.rejected);
    one.received = read(channel->books.received);
    one.kept_frames = channel->ring->kept_frames();
    one.kept_bytes = channel->ring->kept_bytes().count;
    one.live = channel->face.live;
    one.latched = channel->face.latched;
    if (!lives.empty()) {
      one.epoch = lives.back().epoch;
      one.last_sequence = lives.back().last_sequence;
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<SubscriptionSnapshot> Hub::subscriptions() const {
  const MutexLock lock(impl_->mutex);
  std::vector<SubscriptionSnapshot> all;
  all.reserve(impl_->readings.size());
  for (const auto& books : impl_->readings) {
    const auto read = [](const auto& figure) {
      return figure.load(std::memory_order_relaxed);
    };
    SubscriptionSnapshot one{
        .session = books->session, .id = books->subscription, .channel = books->channel};
    // head before cursor: a cursor never passes a head that was read later.
    const std::uint64_t cursor = read(books->cursor);
    const std::uint64_t head = std::max(cursor, books->ring->head());
    one.promised = head - std::min(head, read(books->start));
    one.waiting = head - cursor + read(books->in_flight);
    one.delivered = read(books->delivered);
    one.skipped = read(books->skipped);
    one.lost = books->lost_total();
    for (std::size_t i = 0; i < books->lost.size(); ++i) {
      const std::uint64_t frames = read(books->lost[i]);
      if (frames != 0) one.gaps.emplace_back(static_cast<wire::GapReason>(i), frames);
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<SessionSnapshot> Hub::session_list() const {
  const MutexLock lock(impl_->mutex);
  std::vector<SessionSnapshot> all;
  all.reserve(impl_->sessions.size());
  const std::int64_t now = monotonic_ns(impl_->clock);
  for (const auto& [id, entry] : impl_->sessions) {
    const SessionBooks& books = *entry.books;
    const auto read = [](const auto& figure) {
      return figure.load(std::memory_order_relaxed);
    };
    all.push_back(SessionSnapshot{.id = id,
                                  .name = books.name,
                                  .agent = books.agent,
                                  .transport = books.transport,
                                  .address = books.address,
                                  .age_s = static_cast<double>(now - books.opened_ns) * 1e-9,
                                  .channels = read(books.channels),
                                  .subscriptions = read(books.subscriptions),
                                  .frames_in = read(books.frames_in),
                                  .bytes_in = read(books.bytes_in),
                                  .frames_out = read(books.frames_out),
                                  .bytes_out = read(books.bytes_out),
                                  .outbox_bytes = read(books.outbox_bytes)});
  }
  std::ranges::sort(all, {}, &SessionSnapshot::id);
  return all;
}

std::vector<wire::ChannelInfo> Hub::channel_infos() const {
  const MutexLock lock(impl_->mutex);
  std::vector<wire::ChannelInfo> all;
  all.reserve(impl_->channels.size());
  for (const auto& [name, channel] : impl_->channels) all.push_back(impl_->describe(*channel));
  return all;
}

}  // namespace simbridge::session
