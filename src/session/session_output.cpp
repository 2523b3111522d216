// Frames out: a cursor a channel, pulled by the transport; what will not come is told before what
// comes.
#include "session/session_impl.h"
#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <algorithm>
#include <cstring>

namespace simbridge::session {
namespace {

constexpr std::size_t kScratchBytes = 16 * 1024;
constexpr std::size_t kGapPieces =
    8;  // room for so many control pieces is kept before a frame is looked at
constexpr std::uint64_t kSmallestPeerLimit = 1024;
constexpr double kLongestPeriodNs = 1e17;  // three years: sums of it fit

nanoseconds period_of(float hz) {
  const double period = std::min(1e9 / static_cast<double>(hz), kLongestPeriodNs);
  return nanoseconds(static_cast<std::int64_t>(period));
}

/// Prefix memory of batches: kept by the thread, so that an idle session has none.
std::vector<std::vector<std::byte>>& scratch_pool() {
  thread_local std::vector<std::vector<std::byte>> pool;
  return pool;
}

std::uint64_t numbers_in(const std::array<frame::UnpublishedRun, 3>& runs) {
  std::uint64_t numbers = 0;
  for (const auto& run : runs) numbers += run.count;
  return numbers;
}

wire::GapReason reason_of(frame::EvictReason reason, wire::GapReason kept_reason) {
  switch (reason) {
    case frame::EvictReason::kEvicted:
      return wire::GapReason::kEvicted;
    case frame::EvictReason::kShrink:
      return wire::GapReason::kShrink;
    case frame::EvictReason::kNone:
      break;
  }
  return kept_reason;
}

}  // namespace

void SessionImpl::queue(Reading& reading) {
  watch_claim(reading);
  if (reading.queued || reading.subscription == nullptr || reading.subscription->ending) return;
  reading.queued = true;
  ready_.push_back(&reading);
}

void SessionImpl::unqueue(Reading& reading) {
  if (!reading.queued) return;
  reading.queued = false;
  std::erase(ready_, &reading);
}

std::byte* SessionImpl::scratch(std::size_t bytes) {
  if (scratch_.empty()) {
    auto& pool = scratch_pool();
    if (!pool.empty() && pool.back().size() >= bytes) {
      scratch_ = std::move(pool.back());
      pool.pop_back();
    } else {
      scratch_.resize(std::max(kScratchBytes, bytes));
    }
  }
  if (scratch_.size() - scratch_used_ < bytes) {
    if (scratch_used_ > 0) return nullptr;
    scratch_.resize(bytes);  // nothing points into it yet
  }
  std::byte* place = scratch_.data() + scratch_used_;
  scratch_used_ += bytes;
  return place;
}

void SessionImpl::release_scratch() {
  scratch_used_ = 0;
  constexpr std::size_t kPooled = 4;
  auto& pool = scratch_pool();
  if (scratch_.size() == kScratchBytes && pool.size() < kPooled)
    pool.push_back(std::move(scratch_));
  std::vector<std::byte>().swap(scratch_);
}

std::uint64_t SessionImpl::peer_limit() const {
  std::uint64_t limit = hub_.options.max_message_bytes;
  if (hello_.max_message_bytes != 0) limit = std::min(limit, hello_.max_message_bytes);
  if (info_.max_message_bytes != 0) limit = std::min(limit, info_.max_message_bytes);
  return limit;
}

bool SessionImpl::next_batch(Batch& batch) {
  role_.assert_held();
  SB_CHECK(!in_batch_, "one batch at a time");
  batch.count = 0;
  batch.bytes = 0;
  if (state_ == State::kClosed) return false;
  for (int round = 0; round < 2 && batch.count == 0; ++round) {
    if (state_ == State::kOpen) {
      sync_channels();
      for (auto& [id, subscription] : subscriptions_) {
        if (subscription->state_dirty && !subscription->ending) send_state(*subscription, false);
      }
    }
    outbox_.take(batch);
    if (!outbox_.empty()) break;  // control first: what waits there may announce what comes below
    pongs_waiting_ = 0;
    if (state_ != State::kOpen || batch.bytes >= Batch::kMaxBytes) break;
    if (parts_.reading) {
      if (batch.count == 0) place_part(batch);
      break;
    }
    // Each reading gives one frame, then goes to the end: none keeps the others waiting.
    while (!ready_.empty() && batch.count + kGapPieces < Batch::kMaxMessages + 1 &&
           batch.bytes < Batch::kMaxBytes) {
      Reading& reading = *ready_.front();
      const Step step = take(reading, batch);
      if (step == Step::kFull || step == Step::kControlFirst) break;
      ready_.pop_front();
      reading.queued = false;
      if (step == Step::kTook) {
        if (reading.cursor != reading.channel->ring->head()) queue(reading);
        if (ticket_ || parts_.reading) break;  // a large frame goes alone
      } else if (reading.subscription != nullptr &&
                 reading.channel->removed.load(std::memory_order_relaxed) && step == Step::kIdle &&
                 reading.cursor == reading.channel->ring->head()) {
        // Its channel is gone and everything of it was told.
        Subscription& subscription = *reading.subscription;
        const auto keep = std::ranges::find_if(
            subscription.readings, [&](const auto& entry) { return entry.get() == &reading; });
        const std::shared_ptr<Reading> last = std::move(*keep);
        subscription.readings.erase(keep);
        end_reading(*last);
      }
    }
  }
  account_outbox();
  if (batch.count == 0) {
    output_announced_ = false;
    outbox_.release_if_idle();
    release_scratch();
    // What came between the last look and now was signalled to a session that had announced its
    // output.
    const bool more =
        !outbox_.empty() || (state_ == State::kOpen && seen_version_ != hub_.version());
    if (more) wake_->signal();
    return false;
  }
  in_batch_ = true;
  batch_moved_ = hub_.clock.now();
  check_stall(batch_moved_);
  return true;
}

void SessionImpl::batch_progress(std::size_t bytes) {
  role_.assert_held();
  if (bytes > 0 && in_batch_) batch_moved_ = hub_.clock.now();
}

void SessionImpl::batch_done() {
  role_.assert_held();
  if (state_ == State::kClosed || !in_batch_) return;
  in_batch_ = false;
  const Monotonic now = hub_.clock.now();
  for (const InFlight& flight : in_flight_) {
    if (flight.counts) {
      Reading& reading = *flight.reading;
      const frame::FrameInfo& info = flight.frame.info();
      bump(reading.books->delivered);
      reading.books->in_flight.fetch_sub(1, std::memory_order_relaxed);
      bump(books_->frames_out);
      bump(books_->bytes_out, flight.frame.data_bytes());
      hub_.metrics.delivered_frames.add();
      hub_.metrics.delivered_bytes.add(flight.frame.data_bytes());
      hub_.metrics.age.observe(std::chrono::duration_cast<nanoseconds>(now - info.arrival));
      settle_claim(reading);
    }
  }
  in_flight_.clear();
  if (!parts_.reading) ticket_ = frame::PinTicket{};
  release_scratch();
  if (!parts_.reading) {
    for (auto it = subscriptions_.begin(); it != subscriptions_.end();) {
      Subscription& subscription = *it->second;
      ++it;  // finish_subscription erases it
      if (subscription.ending) finish_subscription(subscription);
    }
  }
  resume_if_possible();
}

// ---- one reading

void SessionImpl::move_cursor(Reading& reading, std::uint64_t to) {
  hub_.metrics.promised_frames.add(to - reading.cursor);
  drop_asked(reading, to);
  reading.cursor = to;
  reading.books->cursor.store(to, std::memory_order_relaxed);
  settle_claim(reading);
}

void SessionImpl::add_gap(Reading& reading, wire::Gap gap) {
  if (!reading.gaps.empty()) {
    wire::Gap& before = reading.gaps.back();
    if (before.reason == gap.reason && before.epoch == gap.epoch && before.last + 1 == gap.first &&
        gap.first != 0) {
      before.last = gap.last;
      before.frames += gap.frames;
      return;
    }
  }
  reading.gaps.push_back(gap);
}

void SessionImpl::count_lost(Reading& reading, wire::GapReason reason, std::uint64_t frames) const {
  reading.books->lost[static_cast<std::size_t>(reason)].fetch_add(frames,
                                                                  std::memory_order_relaxed);
  hub_.metrics.gap_frames[static_cast<unsigned>(reason)].add(frames);
}

/// Positions up to `to` will not come: each run is counted and told, with the reason it was evicted
/// for, or kept_reason where the frame is still there and the reader passes over it.
void SessionImpl::lose(Reading& reading, std::uint64_t to, wire::GapReason kept_reason) {
  if (to <= reading.cursor) return;
  lost_runs_.clear();
  reading.channel->ring->lost_runs(reading.cursor, to, lost_runs_);
  std::uint64_t position = reading.cursor;
  for (const frame::LostRun& run : lost_runs_) {
    const wire::GapReason reason = reason_of(run.reason, kept_reason);
    if (reading.epoch != run.epoch) {
      leave_epoch(reading);
      reading.epoch = run.epoch;
      reading.told = run.first > 0 ? run.first - 1 : 0;
    }
    if (position == reading.restart_at && reading.told + 1 < run.first) {
      tell_number_gap(
          reading, run.epoch, reading.told + 1, run.first - 1, wire::GapReason::kRestart);
      reading.told = run.first - 1;
    }
    // Numbers before the run that never were frames are told with it: nothing stays unexplained.
    const std::uint64_t first =
        reading.explain && reading.told < run.first ? reading.told + 1 : run.first;
    add_gap(reading,
            wire::Gap{.subscription = reading.books->subscription,
                      .channel = reading.channel->id,
                      .epoch = run.epoch,
                      .first = first,
                      .last = run.last,
                      .reason = reason,
                      .frames = run.frames});
    reading.told = run.last;
    reading.explain = true;
    count_lost(reading, reason, run.frames);
    position += run.frames;
  }
  move_cursor(reading, to);
}

/// Newest wins: no more than queue_frames and queue_bytes wait behind the newest frame.
void SessionImpl::jump_queue(Reading& reading, std::uint64_t head) {
  if (reading.claim || reading.cursor < reading.history_until) return;
  // The frame that a thread is at is let finish: else a slow one would never give anything.
  if (reading.awaits &&
      reading.stream->look(reading.cursor) != pipeline::DerivedStream::State::kWaits)
    return;
  const bool behind_threads = reading.awaits || std::exchange(reading.behind_threads, false);
  const Subscription& subscription = *reading.subscription;
  std::uint64_t to = reading.cursor;
  if (head - to - 1 > subscription.queue_frames) to = head - 1 - subscription.queue_frames;
  // bytes_behind counts the newest too, which is always due: only what waits behind it is limited.
  const frame::FrameRing& ring = *reading.channel->ring;
  const std::uint64_t newest = ring.bytes_behind(head - 1);
  while (to < head - 1) {
    const std::uint64_t behind = ring.bytes_behind(to);
    if (behind <= newest + subscription.queue_bytes) break;
    ++to;
  }
  if (to == reading.cursor) return;
  // Where the threads that decimate are behind, the newest frame is the one to take up next.
  if (behind_threads) return lose(reading, head - 1, wire::GapReason::kDecimation);
  lose(reading, to, wire::GapReason::kQueue);
}

void SessionImpl::tell_number_gap(Reading& reading,
                                  std::uint64_t epoch,
                                  std::uint64_t first,
                                  std::uint64_t last,
                                  wire::GapReason reason) {
  add_gap(reading,
          wire::Gap{.subscription = reading.books->subscription,
                    .channel = reading.channel->id,
                    .epoch = epoch,
                    .first = first,
                    .last = last,
                    .reason = reason,
                    .frames = 0});
}

/// Numbers that end at `end` and never became frames, from the first that is not told yet.
void SessionImpl::explain_runs(Reading& reading,
                               std::uint64_t epoch,
                               std::uint64_t end,
                               const std::array<frame::UnpublishedRun, 3>& runs) {
  std::uint64_t next = end + 1 - std::min(numbers_in(runs), end);
  for (const auto& run : runs) {
    if (run.count == 0) continue;
    const std::uint64_t last = next + run.count - 1;
    const std::uint64_t first = std::max(next, reading.told + 1);
    if (first <= last && last <= end) {
      const auto reason = run.why == frame::Unpublished::kRejected ? wire::GapReason::kRejected
                                                                   : wire::GapReason::kSource;
      tell_number_gap(reading, epoch, first, last, reason);
    }
    next = last + 1;
  }
  reading.told = std::max(reading.told, end);
}

/// Who had a position in the epoch is told its tail, then that it is over.
void SessionImpl::leave_epoch(Reading& reading) {
  if (!reading.explain || reading.epoch == 0) return;
  if (const auto tail = hub_.past_tail(*reading.channel, reading.epoch)) {
    explain_runs(reading, reading.epoch, tail->last_sequence, tail->runs);
  }
  tell_number_gap(reading, reading.epoch, 0, 0, wire::GapReason::kEpoch);
}

/// What is missing before this frame and never was a frame.
void SessionImpl::explain_missing(Reading& reading, const frame::FrameInfo& info) {
  const std::uint64_t before = info.sequence - 1;
  const std::uint64_t known =
      before - std::min(numbers_in(info.before), before);  // up to here nothing is said
  if (reading.epoch != info.epoch) {
    leave_epoch(reading);
    reading.epoch = info.epoch;
    reading.told = known;
  }
  if (!reading.explain) {  // its first frame: what was before it was not promised
    reading.explain = true;
    reading.told = before;
    return;
  }
  if (reading.told < known) {
    const bool restart = info.position == reading.restart_at;
    tell_number_gap(reading,
                    info.epoch,
                    reading.told + 1,
                    known,
                    restart ? wire::GapReason::kRestart : wire::GapReason::kSource);
    reading.told = known;
  }
  explain_runs(reading, info.epoch, before, info.before);
}

bool SessionImpl::place_control(const wire::ServerMessage& message, Batch& batch) {
  if (batch.count >= Batch::kMaxMessages) return false;
  thread_local std::string encoded;
  encoded.clear();
  encode_for(info_.encoding, message, encoded);
  std::byte* place = scratch(encoded.size());
  if (place == nullptr) return false;
  std::memcpy(place, encoded.data(), encoded.size());
  batch.messages[batch.count++] = OutMessage{
      .prefix = {place, encoded.size()}, .data = {}, .type = control_type(info_.encoding)};
  batch.bytes += encoded.size();
  return true;
}

bool SessionImpl::tell_gaps(Reading& reading, Batch& batch) {
  std::size_t told = 0;
  while (told < reading.gaps.size() && place_control(reading.gaps[told], batch)) {
    hub_.metrics.gaps[static_cast<unsigned>(reading.gaps[told].reason)].add();
    ++told;
  }
  reading.gaps.erase(reading.gaps.begin(),
                     reading.gaps.begin() + static_cast<std::ptrdiff_t>(told));
  return reading.gaps.empty();
}

/// FROM, ahead of the ring: what the sensor sends again was had already, and not promised here.
void SessionImpl::pass_over_had(Reading& reading, std::uint64_t head) {
  if (reading.had_sequence == 0) return;
  const auto after = reading.channel->ring->position_after(reading.had_epoch, reading.had_sequence);
  const std::uint64_t to = std::min(after.value_or(reading.cursor), head);
  if (to > reading.cursor) {
    reading.books->start.fetch_add(to - reading.cursor, std::memory_order_relaxed);
    drop_asked(reading, to);
    reading.cursor = to;
    reading.books->cursor.store(to, std::memory_order_relaxed);
    settle_claim(reading);
  }
  if (!after || *after < head) reading.had_sequence = 0;  // the ring has passed it
}

bool SessionImpl::is_too_old(const Reading& reading,
                             const frame::FrameInfo& info,
                             std::uint64_t head) const {
  const std::uint32_t most = reading.subscription->spec.max_age_ms;
  if (most == 0) return false;
  if (reading.channel->ring->latched() && info.position + 1 == head) return false;
  return hub_.clock.now() - info.arrival + info.age_at_arrival > milliseconds(most);
}

bool SessionImpl::is_too_early(const Reading& reading) const {
  const float hz = reading.subscription->spec.quality.max_hz;
  if (hz <= 0 || !reading.due_known) return false;
  return hub_.clock.now() < reading.due - period_of(hz) / 4;
}

bool SessionImpl::fits_peer(const frame::FrameRef& frame) const {
  const std::uint64_t limit = peer_limit();
  if (is_flat()) {  // no parts here; a #meta is left out where it does not fit
    return wire::flat_prefix_max(frame.head()) + frame.data_bytes() <= limit;
  }
  const std::uint64_t prefix_max = wire::frame_prefix_max(frame.head());
  if (prefix_max + frame.data_bytes() <= limit) return true;
  // In parts, of which the first holds the whole head.
  return limit >= kSmallestPeerLimit && prefix_max + wire::kPartPrefixMax <= limit;
}

/// The next frame that this reading gives, or none now; all that will not come before it has become
/// gaps.
SessionImpl::Found SessionImpl::find_frame(Reading& reading) {
  const frame::FrameRing& ring = *reading.channel->ring;
  const wire::Subscribe& spec = reading.subscription->spec;
  for (;;) {
    const std::uint64_t head = ring.head();  // before what was had: all below it is judged
    pass_over_had(reading, head);
    if (reading.cursor >= head) return {};
    jump_queue(reading, head);
    if (spec.credit > 0 && reading.unanswered >= spec.credit)
      return {};  // on_credit() queues it again
    frame::ReadResult seen = ring.read(reading.cursor);
    if (seen.state == frame::ReadResult::State::kNotYet) return {};
    if (seen.state == frame::ReadResult::State::kGone) {
      const std::uint64_t to = std::min(head, std::max(reading.cursor + 1, ring.tail()));
      lose(reading, to, wire::GapReason::kEvicted);
      continue;
    }
    const frame::FrameInfo& info = seen.frame.info();
    explain_missing(reading, info);
    if (is_too_old(reading, info, head)) {
      lose(reading, reading.cursor + 1, wire::GapReason::kAge);
      continue;
    }
    Form form = form_of(reading, info);
    if (form == Form::kAsSent && is_flat() &&
        !wire::has_flat_form(seen.frame.head(), seen.frame.data_bytes()))
      form = Form::kImpossible;
    if (form == Form::kAsSent && !fits_peer(seen.frame)) {
      lose(reading, reading.cursor + 1, wire::GapReason::kTooLarge);
      continue;
    }
    if (is_too_early(reading)) {
      reading.told = info.sequence;
      bump(reading.books->skipped);
      ++reading.skipped_since;
      hub_.metrics.skipped_frames.add();
      move_cursor(reading, reading.cursor + 1);
      continue;
    }
    Found found{.raw = std::move(seen.frame), .derived = {}};
    if (form == Form::kAsSent) return found;
    const Made made =
        form == Form::kDerived ? ask_derived(reading, info, head, found.derived) : Made::kFailed;
    if (made == Made::kNotYet) return {};
    if (made == Made::kFailed) {
      lose(reading, reading.cursor + 1, wire::GapReason::kDecimation);
      continue;
    }
    if (fits_peer(found.derived)) return found;
    lose(reading, reading.cursor + 1, wire::GapReason::kTooLarge);
  }
}

SessionImpl::Step SessionImpl::take(Reading& reading, Batch& batch) {
  Found found = find_frame(reading);
  // A new channel, epoch or schema is announced before what uses it: looked at after the ring.
  if (seen_version_ != hub_.version()) return Step::kControlFirst;
  if (!tell_gaps(reading, batch)) return Step::kFull;
  if (!found.raw) return Step::kIdle;
  return place_frame(reading, std::move(found), batch, hub_.clock.now());
}

SessionImpl::Step SessionImpl::place_frame(Reading& reading,
                                           Found found,
                                           Batch& batch,
                                           Monotonic now) {
  const frame::FrameInfo& info = found.raw.info();  // found keeps it, or frame below
  const bool is_derived = static_cast<bool>(found.derived);
  frame::FrameRef frame = std::move(is_derived ? found.derived : found.raw);
  const auto queued =
      std::chrono::duration_cast<std::chrono::microseconds>(now - info.arrival).count();
  const std::uint64_t data_bytes = frame.data_bytes();
  const wire::Outgoing outgoing{
      .channel = reading.channel->id,
      .subscription = reading.books->subscription,
      .sequence = info.sequence,
      .epoch = info.epoch,
      .forwarded_ns = hub_.clock.wall_ns(),
      .data_bytes = data_bytes,
      .points_in = info.points,
      .points_out = info.points,
      .skipped_frames = reading.skipped_since,
      .queue_us = static_cast<std::uint32_t>(std::clamp<std::int64_t>(queued, 0, UINT32_MAX))};
  const std::uint64_t limit = peer_limit();
  Wrapping wrapping = wrapping_of(reading, frame, outgoing);
  const std::uint64_t whole = wrapping.prefix_max + data_bytes + wrapping.suffix_max();
  const bool in_parts = !is_flat() && whole > limit;
  const bool large = in_parts || whole > Batch::kMaxBytes;
  if (batch.count > 0 && (large || batch.bytes + whole > Batch::kMaxBytes)) return Step::kFull;
  if (batch.count >= Batch::kMaxMessages) return Step::kFull;
  std::shared_ptr<Reading> shared = reading.shared_from_this();
  if (large) {
    ticket_ = hub_.store.try_pin(Bytes{data_bytes}, ticket_watcher_);
    if (!ticket_) {
      if (std::ranges::find(blocked_, shared) == blocked_.end()) blocked_.push_back(shared);
      return Step::kBlocked;
    }
  }
  if (!in_parts) {
    std::byte* place = scratch(wrapping.prefix_max + wrapping.suffix_max());
    if (place == nullptr) {
      ticket_ = frame::PinTicket{};
      return Step::kFull;
    }
    const OutMessage message = wrap(wrapping, frame, outgoing, place);
    batch.messages[batch.count++] = message;
    batch.bytes += message.size();
    if (is_flat()) note_meta(reading, frame, !wrapping.meta.empty());
  }
  // From here the frame is taken.
  if (const float hz = reading.subscription->spec.quality.max_hz; hz > 0) {
    const nanoseconds period = period_of(hz);
    reading.due =
        reading.due_known ? std::max(reading.due + period, now - period / 2) : now + period;
    reading.due_known = true;
  }
  reading.skipped_since = 0;
  reading.told = info.sequence;
  if (reading.subscription->spec.credit > 0) {
    ++reading.unanswered;
    if (reading.claim) reading.claimed.push_back(info.position);
  }
  if (reading.books->in_flight.load(std::memory_order_relaxed) == 0)
    reading.first_in_flight = info.position;
  reading.channel->last_used_ns.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  reading.books->in_flight.fetch_add(1, std::memory_order_relaxed);
  move_cursor(reading, reading.cursor + 1);
  if (in_parts) {
    parts_.reading = std::move(shared);
    parts_.outgoing = outgoing;
    parts_.part = wire::Part{.transfer = ++last_transfer_out_,
                             .index = 0,
                             .count = 0,
                             .total_bytes = 0,
                             .channel = reading.channel->id,
                             .sequence = info.sequence};
    parts_.chunk = limit - wire::kPartPrefixMax;
    parts_.data_sent = 0;
    parts_.frame = std::move(frame);
    parts_.stream = is_derived ? reading.stream : nullptr;
    place_part(batch);
    return Step::kTook;
  }
  in_flight_.reserve(Batch::kMaxMessages);  // once: who only produces has none
  in_flight_.push_back(InFlight{.reading = std::move(shared),
                                .frame = std::move(frame),
                                .stream = is_derived ? reading.stream : nullptr});
  return Step::kTook;
}

}  // namespace simbridge::session
