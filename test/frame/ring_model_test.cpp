// Rings against a model that remembers everything: random steps, the same on both, compared.
#include "frame_fixture.h"
#include "support/seed.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

using namespace simbridge;            // NOLINT(google-build-using-namespace): a test
using namespace simbridge::literals;  // NOLINT(google-build-using-namespace): a test
using frame::EvictReason;
using frame::ReadResult;

namespace {

struct ModelFrame {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  EvictReason reason = EvictReason::kNone;  // kNone: kept
};

/// What a ring must look like, as a plain list.
struct RingModel {
  std::vector<ModelFrame> all;  // index = position
  std::uint64_t tail = 0;
  std::uint64_t evicted = 0, shrunk = 0;  // payload bytes
  std::uint64_t depth = 0;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  std::vector<frame::Life> lives;
  std::map<const frame::ReliableCursor*, std::uint64_t> reliable;

  [[nodiscard]] std::uint64_t head() const { return all.size(); }
  [[nodiscard]] std::uint64_t slowest() const {
    std::uint64_t slowest = ~std::uint64_t{0};
    for (const auto& [cursor, position] : reliable) slowest = std::min(slowest, position);
    return slowest;
  }
  void evict_to(std::uint64_t to, EvictReason reason) {
    for (; tail < to; ++tail) {
      all[tail].reason = reason;
      (reason == EvictReason::kShrink ? shrunk : evicted) += all[tail].bytes;
    }
  }
  void evict_beyond_depth() {
    if (head() > depth) evict_to(std::min(head() - depth, slowest()), EvictReason::kEvicted);
  }
  /// The first position whose slot has not been used again.
  [[nodiscard]] std::uint64_t remembered() const {
    return head() < frame::kRingCapacity ? 0 : head() - frame::kRingCapacity + 1;
  }
  [[nodiscard]] std::uint64_t bytes(std::uint64_t from) const {
    std::uint64_t sum = 0;
    for (std::uint64_t p = from; p < head(); ++p) sum += all[p].bytes;
    return sum;
  }
};

struct Held {
  frame::FrameRef frame;
  std::uint64_t ring = 0;
  std::uint64_t position = 0;
};

class Game {
 public:
  Game(std::uint64_t seed, Bytes budget, std::uint32_t depth, std::size_t rings, bool plenty)
      : random_(seed), budget_(budget), plenty_(plenty) {
    store_ = test::make_store({.budget = budget, .warm_reserve = 0_B, .depth = depth}, clock_);
    for (std::size_t i = 0; i < rings; ++i) {
      rings_.push_back(store_->add_ring(false));
      models_.push_back({.depth = depth});
      producers_.emplace_back();
      cursors_.emplace_back();
      attach(i, 1);
    }
  }
  ~Game() {
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      for (const auto& cursor : cursors_[i]) rings_[i]->remove_reliable(cursor.get());
    }
  }
  Game(const Game&) = delete;
  Game& operator=(const Game&) = delete;

  void step() {
    const std::size_t i = pick(rings_.size());
    const std::uint64_t dice = pick(1000);
    if (dice < 780)
      publish(i);
    else if (dice < 800)
      set_depth(i);
    else if (dice < 850)
      hold(i);
    else if (dice < 900)
      let_go();
    else if (dice < 906)
      take_over(i);
    else if (dice < 912)
      change_budget();
    else if (dice < 925)
      change_reliable(i);
    else if (dice < 950)
      advance(i);
    else if (dice < 970)
      ask_lost(i);
    else if (dice < 985)
      ask_position(i);
    else
      compare_frames(i);
    compare_figures();
  }
  void finish() {
    held_.clear();
    for (std::size_t i = 0; i < rings_.size(); ++i) compare_frames(i);
    CHECK(store_->stats().pinned == 0_B);
    CHECK(store_->stats().ingest_held == 0_B);
    CHECK(account_.held() == 0_B);
  }

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  /// Memory may have taken more than the model knows of: only from the old end, only for a reason.
  void follow(std::size_t i, EvictReason reason) {
    const std::uint64_t tail = rings_[i]->tail();
    REQUIRE(tail >= models_[i].tail);
    REQUIRE(tail <= models_[i].head());
    if (plenty_) REQUIRE(tail == models_[i].tail);
    models_[i].evict_to(tail, reason);
  }
  void follow_all(EvictReason reason) {
    for (std::size_t i = 0; i < rings_.size(); ++i) follow(i, reason);
  }

  void publish(std::size_t i) {
    RingModel& model = models_[i];
    const std::uint64_t sequence = model.sequence + 1 + (pick(4) == 0 ? pick(3) : 0);
    const std::uint64_t bytes = pick(50) == 0 ? pick(200'000) : pick(3000);
    frame::Reservation room;
    const auto answer = producers_[i].reserve(pick(100), bytes, account_, room);
    const std::uint64_t held = model.head() - std::min({model.slowest(), model.head()});
    const std::uint64_t most = std::min<std::uint64_t>(model.depth, frame::kRingCapacity - 256);
    const bool too_large = Bytes{bytes} > store_->max_frame_bytes();
    const bool full_of_held = !model.reliable.empty() && held >= most;
    if (too_large) REQUIRE(answer == frame::Reserve::kTooLarge);
    if (!too_large && full_of_held) REQUIRE(answer == frame::Reserve::kNoRoom);
    if (answer != frame::Reserve::kGranted) {
      if (!too_large && !full_of_held) {
        REQUIRE_FALSE(plenty_);
        REQUIRE(answer == frame::Reserve::kNoRoom);
        // Only readers who hold or claim frames can keep memory from a new one.
        REQUIRE_FALSE((held_.empty() && nobody_claims()));
      }
      follow_all(EvictReason::kEvicted);
      return;
    }
    follow_all(EvictReason::kEvicted);
    if (pick(20) == 0) return;  // the sensor went away: the room comes home unused
    test::fill_pattern(room.head(), sequence);
    test::fill_pattern(room.data(), sequence + 1);
    const auto published = producers_[i].publish(std::move(room), {.sequence = sequence});
    REQUIRE(published == frame::Publish::kPublished);
    model.sequence = sequence;
    model.all.push_back({model.epoch, sequence, bytes});
    auto& life = model.lives.back();
    if (life.first_sequence == 0) life.first_sequence = sequence;
    life.last_sequence = sequence;
    life.end_position = model.head();
    model.evict_beyond_depth();
    follow_all(EvictReason::kEvicted);
  }

  void set_depth(std::size_t i) {
    models_[i].depth = pick(4) == 0 ? 1 + pick(frame::kRingCapacity) : 1 + pick(64);
    rings_[i]->set_depth(static_cast<std::uint32_t>(models_[i].depth));
    models_[i].evict_beyond_depth();
    follow_all(EvictReason::kEvicted);
  }

  void hold(std::size_t i) {
    RingModel& model = models_[i];
    if (model.tail == model.head() || held_.size() > 20) return;
    const std::uint64_t position = model.tail + pick(model.head() - model.tail);
    auto result = rings_[i]->read(position);
    REQUIRE(result.state == ReadResult::State::kFrame);
    held_.push_back({std::move(result.frame), i, position});
    if (pick(3) == 0) held_.push_back({held_.back().frame, i, position});  // a copy
  }
  void let_go() {
    if (held_.empty()) return;
    const std::size_t which = pick(held_.size());
    const Held& held = held_[which];
    const ModelFrame& expected = models_[held.ring].all[held.position];
    REQUIRE(held.frame.info().sequence == expected.sequence);
    REQUIRE(held.frame.data_bytes() == expected.bytes);
    REQUIRE(test::intact(held.frame));
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void attach(std::size_t i, std::uint64_t epoch) {
    RingModel& model = models_[i];
    producers_[i] = rings_[i]->attach(epoch);
    if (model.lives.empty() || model.lives.back().epoch != epoch) {
      model.lives.push_back(
          {.epoch = epoch, .first_position = model.head(), .end_position = model.head()});
      if (model.lives.size() > 17) model.lives.erase(model.lives.begin());
      model.sequence = pick(10);
    }
    model.epoch = epoch;
    REQUIRE(rings_[i]->has_producer());
  }
  void take_over(std::size_t i) {
    frame::Producer old = std::move(producers_[i]);
    frame::Reservation room;
    const bool has_room = old.reserve(10, 10, account_, room) == frame::Reserve::kGranted;
    follow_all(EvictReason::kEvicted);
    attach(i, pick(2) == 0 ? models_[i].epoch : models_[i].epoch + 1);
    if (has_room) {
      const auto late = old.publish(std::move(room), {.sequence = 99});
      REQUIRE(late == frame::Publish::kFenced);
      room = {};
    }
    REQUIRE(old.reserve(1, 1, account_, room) == frame::Reserve::kFenced);
  }

  void change_budget() {
    if (plenty_) return;
    budget_ = Bytes{(1 + pick(6)) << 20U};
    const auto before = kept();
    const auto report = store_->set_budget(budget_);
    follow_all(EvictReason::kShrink);
    REQUIRE(before - kept() == report.frames);
    const auto stats = store_->stats();
    compare_losses(stats);
    if (held_.empty()) REQUIRE(stats.charged <= budget_);
    if (held_.empty()) REQUIRE(stats.committed <= budget_);
  }

  void change_reliable(std::size_t i) {
    RingModel& model = models_[i];
    if (cursors_[i].size() < 2 && pick(2) == 0) {
      const std::uint64_t position = model.tail + pick(model.head() - model.tail + 1);
      cursors_[i].push_back(rings_[i]->add_reliable(position));
      model.reliable[cursors_[i].back().get()] = position;
    } else if (!cursors_[i].empty()) {
      model.reliable.erase(cursors_[i].back().get());
      rings_[i]->remove_reliable(cursors_[i].back().get());
      cursors_[i].pop_back();
      model.evict_beyond_depth();
    }
    follow_all(EvictReason::kEvicted);
  }
  void advance(std::size_t i) {
    if (cursors_[i].empty()) return;
    RingModel& model = models_[i];
    auto& cursor = *cursors_[i][pick(cursors_[i].size())];
    auto& position = model.reliable[&cursor];
    position += pick(model.head() - std::min(position, model.head()) + 1);
    rings_[i]->advance(cursor, position);
    model.evict_beyond_depth();
    follow_all(EvictReason::kEvicted);
  }

  void ask_lost(std::size_t i) {
    const RingModel& model = models_[i];
    if (model.head() == 0) return;
    const std::uint64_t from = pick(model.head());
    const std::uint64_t to = from + 1 + pick(std::min<std::uint64_t>(model.head() - from, 300));
    std::vector<frame::LostRun> runs;
    rings_[i]->lost_runs(from, to, runs);
    std::uint64_t sum = 0;
    for (const auto& run : runs) sum += run.frames;
    REQUIRE(sum == to - from);
    std::uint64_t position = from;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto& run = runs[r];
      const std::uint64_t end = position + run.frames;
      const ModelFrame& first = model.all[position];
      const ModelFrame& last = model.all[end - 1];
      if (position >= model.remembered()) {
        REQUIRE(run.epoch == first.epoch);
        REQUIRE(run.first == first.sequence);
        REQUIRE(run.last == last.sequence);
        REQUIRE(run.reason == first.reason);
        if (r + 1 < runs.size()) {
          const ModelFrame& next = model.all[end];
          REQUIRE((next.epoch != last.epoch || next.reason != last.reason));
        }
        for (; position < end; ++position) {
          REQUIRE(model.all[position].epoch == run.epoch);
          REQUIRE(model.all[position].reason == run.reason);
        }
      } else if (first.epoch >= model.lives.front().epoch) {
        // Forgotten: bounds that cannot overlap what comes before and after.
        REQUIRE(run.epoch == first.epoch);
        REQUIRE(run.first >= first.sequence);
        REQUIRE(run.last >= last.sequence);
        REQUIRE(run.last - run.first + 1 >= run.frames);
        if (end >= model.remembered() && end < model.head() && model.all[end].epoch == run.epoch)
          REQUIRE(run.last < model.all[end].sequence);
      }
      position = end;
    }
  }

  void ask_position(std::size_t i) {
    const RingModel& model = models_[i];
    REQUIRE_FALSE(rings_[i]->position_after(~std::uint64_t{0}, 1));
    const auto& life = model.lives[pick(model.lives.size())];
    const std::uint64_t sequence = pick(life.last_sequence + 3);
    const auto found = rings_[i]->position_after(life.epoch, sequence);
    REQUIRE(found);
    const std::uint64_t answer = found.value_or(0);
    std::uint64_t truth = life.first_position;
    while (truth < life.end_position && model.all[truth].sequence <= sequence) ++truth;
    const bool exact =
        truth == life.first_position || truth == life.end_position || truth > model.remembered();
    if (exact) {
      REQUIRE(answer == truth);
    } else {
      REQUIRE(answer > life.first_position);
      REQUIRE(answer <= std::max(truth, model.remembered()));
    }
  }

  void compare_frames(std::size_t i) {
    const RingModel& model = models_[i];
    auto& ring = *rings_[i];
    REQUIRE(ring.read(model.head()).state == ReadResult::State::kNotYet);
    for (std::uint64_t p = model.head() - std::min<std::uint64_t>(model.head(), 100);
         p < model.head();
         ++p) {
      auto result = ring.read(p);
      if (p < model.tail) {
        REQUIRE(result.state == ReadResult::State::kGone);
        continue;
      }
      REQUIRE(result.state == ReadResult::State::kFrame);
      REQUIRE(result.frame.info().position == p);
      REQUIRE(result.frame.info().epoch == model.all[p].epoch);
      REQUIRE(result.frame.info().sequence == model.all[p].sequence);
      REQUIRE(result.frame.data_bytes() == model.all[p].bytes);
      REQUIRE(test::intact(result.frame));
    }
    for (int n = 0; n < 3; ++n) {
      const std::uint64_t from = pick(model.head() + 1);
      if (from >= model.remembered())
        REQUIRE(ring.bytes_behind(from) == model.bytes(from));
      else
        REQUIRE(ring.bytes_behind(from) == model.bytes(model.remembered()));
    }
    const auto lives = ring.lives();
    REQUIRE(lives.size() == model.lives.size());
    for (std::size_t l = 0; l < lives.size(); ++l) {
      REQUIRE(lives[l].epoch == model.lives[l].epoch);
      REQUIRE(lives[l].first_position == model.lives[l].first_position);
      REQUIRE(lives[l].end_position ==
              (l + 1 < lives.size() ? model.lives[l].end_position : model.head()));
      REQUIRE(lives[l].first_sequence == model.lives[l].first_sequence);
      REQUIRE(lives[l].last_sequence == model.lives[l].last_sequence);
    }
  }

  void compare_figures() {
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      const RingModel& model = models_[i];
      REQUIRE(rings_[i]->head() == model.head());
      REQUIRE(rings_[i]->tail() == model.tail);
      REQUIRE(rings_[i]->kept_frames() == model.head() - model.tail);
      const auto held = rings_[i]->held();
      if (model.reliable.empty()) {
        REQUIRE(held.frames == 0);
      } else {
        const std::uint64_t from = std::max(model.slowest(), model.tail);
        REQUIRE(held.frames == model.head() - std::min(from, model.head()));
      }
    }
    const auto stats = store_->stats();
    compare_losses(stats);
    if (held_.empty()) REQUIRE(stats.pinned == 0_B);
  }

  void compare_losses(const frame::StoreStats& stats) const {
    std::uint64_t lost = 0, evicted = 0, shrunk = 0;
    for (const RingModel& model : models_) {
      lost += model.tail;
      evicted += model.evicted;
      shrunk += model.shrunk;
    }
    REQUIRE(stats.evicted_frames + stats.shrunk_frames == lost);
    REQUIRE(stats.evicted_bytes == evicted);
    REQUIRE(stats.shrunk_bytes == shrunk);
  }

  [[nodiscard]] bool nobody_claims() const {
    return std::all_of(
        models_.begin(), models_.end(), [](const RingModel& m) { return m.reliable.empty(); });
  }
  [[nodiscard]] std::uint64_t kept() const {
    std::uint64_t sum = 0;
    for (const auto& model : models_) sum += model.head() - model.tail;
    return sum;
  }

  std::mt19937_64 random_;
  Bytes budget_;
  bool plenty_;
  SystemClock clock_;
  std::unique_ptr<frame::FrameStore> store_;
  frame::IngestAccount account_;
  std::vector<std::shared_ptr<frame::FrameRing>> rings_;
  std::vector<RingModel> models_;
  std::vector<frame::Producer> producers_;
  std::vector<std::vector<std::shared_ptr<frame::ReliableCursor>>> cursors_;
  std::vector<Held> held_;
};

}  // namespace

TEST_CASE("a ring does what a plain list does, with memory to spare", "[frame][ring][model]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  Game game(seed, 1_GiB, 64, 1, true);
  for (int i = 0; i < 30'000; ++i) game.step();
  game.finish();
}

TEST_CASE("a deep ring forgets and interpolates as a plain list says", "[frame][ring][model]") {
  const auto seed = test::seed() + 1;
  INFO("SIMBRIDGE_TEST_SEED=" << seed - 1);
  Game game(seed, 1_GiB, frame::kRingCapacity, 2, true);
  for (int i = 0; i < 40'000; ++i) game.step();
  game.finish();
}

TEST_CASE("rings that fight for memory lose from the old end only, and say why",
          "[frame][ring][model]") {
  const auto seed = test::seed() + 2;
  INFO("SIMBRIDGE_TEST_SEED=" << seed - 2);
  Game game(seed, 4_MiB, 256, 5, false);
  for (int i = 0; i < 40'000; ++i) game.step();
  game.finish();
}
