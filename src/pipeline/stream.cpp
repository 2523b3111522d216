#include "pipeline/stream.h"

#include "pipeline/cloud_form.h"
#include "pipeline/quality.h"
#include "simbridge/base/log.h"
#include "simbridge/metrics/instruments.h"

#include <cstring>
#include <utility>

namespace simbridge::pipeline {
namespace {

// A derived ring has one life: its frames carry the raw frames' numbers.
constexpr std::uint64_t kOnlyEpoch = 1;

wire::DecimatedBy by_name(std::string_view name) {
  for (const auto by : {wire::DecimatedBy::kCpu,
                        wire::DecimatedBy::kGpu,
                        wire::DecimatedBy::kWorker,
                        wire::DecimatedBy::kPcl}) {
    if (wire::name_of(by) == name) return by;
  }
  return wire::DecimatedBy::kNone;
}

bool made_from(const frame::FrameInfo& derived, const frame::FrameInfo& raw) {
  return derived.sequence == raw.sequence && derived.arrival == raw.arrival;
}

}  // namespace

Stream::Stream(frame::FrameStore& store,
               const Clock& clock,
               Pool& pool,
               metrics::PipelineMetrics& metrics,
               std::shared_ptr<frame::FrameRing> raw,
               wire::Quality quality,
               std::uint32_t depth)
    : store_(store),
      clock_(clock),
      pool_(pool),
      metrics_(metrics),
      raw_(std::move(raw)),
      quality_(std::move(quality)),
      request_(request_of(quality_)),
      derived_(store.add_ring(false, true)),
      producer_(derived_->attach(kOnlyEpoch)) {
  derived_->set_depth(depth);
  metrics_.streams.add(1);
}

Stream::~Stream() {
  {
    const MutexLock lock(publishing_);
    producer_ = frame::Producer{};
  }
  store_.remove_ring(derived_);
  metrics_.streams.add(-1);
}

void Stream::add_watcher(std::shared_ptr<const frame::Watcher> watcher) {
  derived_->add_watcher(std::move(watcher));
}

void Stream::remove_watcher(const frame::Watcher* watcher) {
  derived_->remove_watcher(watcher);
}

// ---- asking
// All words change by compare-exchange, acq_rel: who sees that a frame is ready (acquire) sees the
// ring's head behind it (settle() releases it), and a worker sees all that was before the question.

DerivedStream::Answer Stream::answer_of(const Entry& entry, const frame::FrameInfo& raw) const {
  switch (entry.stage) {
    case Stage::kWaits:
      return {.state = State::kWaits, .frame = {}};
    case Stage::kRuns:
      return {.state = State::kRuns, .frame = {}};
    case Stage::kFailed:
      return {.state = State::kFailed, .frame = {}};
    case Stage::kReady:
      break;
    case Stage::kEmpty:
      return {.state = State::kNotTaken, .frame = {}};
  }
  frame::ReadResult seen = derived_->read(whole_position(entry.derived, derived_->head()));
  if (seen.state == frame::ReadResult::State::kNotYet)  // it is just being published
    return {.state = State::kRuns, .frame = {}};
  if (seen.state == frame::ReadResult::State::kGone || !made_from(seen.frame.info(), raw))
    return {.state = State::kNotTaken, .frame = {}};
  return {.state = State::kReady, .frame = std::move(seen.frame)};
}

/// Takes the place for this position and puts it before the pool. false: somebody changed the word,
/// or no more can wait; word is what stands there then.
bool Stream::begin_waiting(Place& place, std::uint64_t& word, std::uint64_t position, Entry next) {
  const std::uint64_t taken = pack(next);
  if (!place.compare_exchange_strong(
          word, taken, std::memory_order_acq_rel, std::memory_order_acquire))
    return false;
  if (pool_.submit({.stream = shared_from_this(), .position = position})) return true;
  word = taken;
  // Nobody takes it up: whoever joined meanwhile finds the place empty and asks again.
  while (
      !place.compare_exchange_weak(word, 0, std::memory_order_acq_rel, std::memory_order_acquire)) {
    if (!is_about(unpack(word), position)) break;
  }
  metrics_.refused.add();
  word = 0;
  return false;
}

DerivedStream::Answer Stream::ask(const frame::FrameInfo& raw, bool first) {
  const std::uint64_t position = raw.position;
  Place& place = places_[place_of(position)];
  // acquire: see above.
  std::uint64_t word = place.load(std::memory_order_acquire);
  const Entry fresh{.stage = Stage::kWaits, .readers = 1, .lap = lap_of(position), .derived = 0};
  for (;;) {
    const Entry entry = unpack(word);
    if (!is_about(entry, position)) {
      const bool taken =
          entry.stage == Stage::kRuns || (entry.stage == Stage::kWaits && entry.readers > 0);
      if (taken) return {};
      if (begin_waiting(place, word, position, fresh)) return {.state = State::kWaits, .frame = {}};
      if (word == 0) return {};
      continue;
    }
    Answer answer = answer_of(entry, raw);
    if (answer.state == State::kNotTaken) {  // it was evicted: it is made again
      Entry again = first ? with_one_more(entry) : entry;
      again.stage = Stage::kWaits;
      again.derived = 0;
      if (again.readers == 0) again.readers = 1;
      if (begin_waiting(place, word, position, again)) return {.state = State::kWaits, .frame = {}};
      if (word == 0) return {};
      continue;
    }
    if (!first ||
        place.compare_exchange_weak(
            word, pack(with_one_more(entry)), std::memory_order_acq_rel, std::memory_order_acquire))
      return answer;
  }
}

DerivedStream::State Stream::look(std::uint64_t position) const {
  // acquire: as in ask().
  const Entry entry = unpack(places_[place_of(position)].load(std::memory_order_acquire));
  if (!is_about(entry, position)) return State::kNotTaken;
  switch (entry.stage) {
    case Stage::kWaits:
      return State::kWaits;
    case Stage::kRuns:
      return State::kRuns;
    case Stage::kReady:
      return State::kReady;
    case Stage::kFailed:
      return State::kFailed;
    case Stage::kEmpty:
      break;
  }
  return State::kNotTaken;
}

void Stream::drop(std::uint64_t position) {
  Place& place = places_[place_of(position)];
  std::uint64_t word = place.load(std::memory_order_acquire);  // as in ask()
  while (is_about(unpack(word), position) &&
         !place.compare_exchange_weak(word,
                                      pack(with_one_less(unpack(word))),
                                      std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
  }
}

// ---- working

/// What a worker found out about the position that he has; nobody else changes its stage meanwhile.
void Stream::settle(std::uint64_t position, Stage stage, std::uint32_t derived) {
  Place& place = places_[place_of(position)];
  std::uint64_t word = place.load(std::memory_order_acquire);  // as in ask()
  for (;;) {
    Entry entry = unpack(word);
    entry.stage = stage;
    entry.derived = derived;
    if (stage == Stage::kEmpty) entry = {};
    if (place.compare_exchange_weak(
            word, pack(entry), std::memory_order_acq_rel, std::memory_order_acquire))
      return;
  }
}

void Stream::run(std::uint64_t position, Worker& worker) {
  Place& place = places_[place_of(position)];
  std::uint64_t word = place.load(std::memory_order_acquire);  // as in ask()
  for (;;) {
    Entry entry = unpack(word);
    if (!is_about(entry, position) || entry.stage != Stage::kWaits) return;  // of another's job
    const bool wanted = entry.readers > 0;
    entry.stage = Stage::kRuns;
    if (place.compare_exchange_weak(
            word, wanted ? pack(entry) : 0, std::memory_order_acq_rel, std::memory_order_acquire)) {
      if (wanted) break;
      metrics_.withdrawn.add();
      derived_->wake_watchers();  // whoever joined and was dropped with it asks again
      return;
    }
  }
  const Monotonic begin = clock_.now();
  const frame::ReadResult seen = raw_->read(position);
  if (seen.state != frame::ReadResult::State::kFrame) {  // the reader sees that himself
    settle(position, Stage::kEmpty, 0);
  } else {
    Failure failure = make(seen.frame, worker);
    if (failure == Failure::kNone) failure = publish(seen.frame, position, worker);
    if (failure == Failure::kNone) {
      metrics_.frames.add();
      metrics_.points_in.add(worker.result_.points_in);
      metrics_.points_out.add(worker.result_.points_out);
      metrics_.seconds.observe(std::chrono::duration_cast<nanoseconds>(clock_.now() - begin));
    } else {
      metrics_
          .failures[failure == Failure::kForm ? metrics::DecimationFailure::kForm
                                              : metrics::DecimationFailure::kNoMemory]
          .add();
      settle(position, Stage::kFailed, 0);
    }
  }
  derived_->wake_watchers();
}

Stream::Failure Stream::make(const frame::FrameRef& raw, Worker& worker) {
  wire::load_head(raw.head(), worker.head_);
  Result<cloud::CloudView> view =
      view_of(worker.head_, raw.info().sequence, raw.data(), worker.fields_);
  Result<void> done = view ? worker.decimator_->decimate(*view, request_, worker.result_)
                           : std::unexpected(view.error());
  if (done) return Failure::kNone;
  log(LogLevel::kDebug, "decimation", "frame {}: {}", raw.info().sequence, done.error().detail);
  return Failure::kForm;
}

Stream::Failure Stream::publish(const frame::FrameRef& raw,
                                std::uint64_t position,
                                Worker& worker) {
  wire::FrameHead& head = worker.head_;
  const cloud::DecimatedCloud& cloud = worker.result_;
  const std::int64_t received_ns = head.received_ns;
  make_derived(head, cloud, request_.output, by_name(worker.decimator_->name()));
  const std::uint64_t head_bytes = wire::stored_head_bytes(head);

  const MutexLock lock(publishing_);
  frame::Reservation room;
  if (producer_.reserve_derived(head_bytes, cloud.data.size(), room) != frame::Reserve::kGranted)
    return Failure::kNoMemory;
  wire::store_head(head, received_ns, room.head());
  if (!cloud.data.empty()) std::memcpy(room.data().data(), cloud.data.data(), cloud.data.size());
  frame::FrameInfo info = raw.info();
  info.points = cloud.points_out;
  info.before = {};
  // Before the frame itself: who is woken by it finds the place ready.
  settle(position, Stage::kReady, static_cast<std::uint32_t>(derived_->head()));
  if (producer_.publish(std::move(room), info) != frame::Publish::kPublished)
    return Failure::kNoMemory;
  return Failure::kNone;
}

}  // namespace simbridge::pipeline
