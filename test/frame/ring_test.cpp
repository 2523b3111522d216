#include "frame_fixture.h"

#include <catch2/catch.hpp>

using namespace simbridge;            // NOLINT(google-build-using-namespace): a test
using namespace simbridge::literals;  // NOLINT(google-build-using-namespace): a test
using frame::EvictReason;
using frame::IngestAccount;
using frame::ReadResult;

namespace {
struct Fixture {
  SystemClock clock;
  std::unique_ptr<frame::FrameStore> store =
      test::make_store({.budget = 64_MiB, .warm_reserve = 0_B, .depth = 8}, clock);
  IngestAccount account;
};
}  // namespace

TEST_CASE_METHOD(Fixture, "a published frame is read as it was written", "[frame][ring]") {
  auto ring = store->add_ring(false);
  auto producer = ring->attach(7);
  REQUIRE(test::publish(producer, account, 41, 1000));
  REQUIRE(ring->head() == 1);
  auto result = ring->read(0);
  REQUIRE(result.state == ReadResult::State::kFrame);
  CHECK(result.frame.info().sequence == 41);
  CHECK(result.frame.info().epoch == 7);
  CHECK(result.frame.info().position == 0);
  CHECK(result.frame.head().size() == 24);
  CHECK(result.frame.data().size() == 1000);
  CHECK(test::intact(result.frame));
  CHECK(ring->read(1).state == ReadResult::State::kNotYet);
  CHECK(ring->kept_bytes() == 1000_B);
}

TEST_CASE_METHOD(Fixture, "a ring keeps as many frames as its depth", "[frame][ring]") {
  auto ring = store->add_ring(false);
  auto producer = ring->attach(1);
  for (std::uint64_t s = 1; s <= 20; ++s) REQUIRE(test::publish(producer, account, s, 100 * s));
  CHECK(ring->kept_frames() == 8);
  CHECK(ring->tail() == 12);
  CHECK(ring->read(11).state == ReadResult::State::kGone);
  CHECK(ring->read(12).state == ReadResult::State::kFrame);
  ring->set_depth(3);
  CHECK(ring->tail() == 17);
  CHECK(ring->bytes_behind(17) == 100ULL * (18 + 19 + 20));
  CHECK(ring->bytes_behind(0) == 100ULL * 210);
  std::vector<frame::LostRun> runs;
  ring->lost_runs(2, 17, runs);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].first == 3);
  CHECK(runs[0].last == 17);
  CHECK(runs[0].frames == 15);
  CHECK(runs[0].reason == EvictReason::kEvicted);
}

TEST_CASE_METHOD(Fixture,
                 "a frame outlives its eviction while a reader holds it",
                 "[frame][ring]") {
  auto ring = store->add_ring(false);
  auto producer = ring->attach(1);
  REQUIRE(test::publish(producer, account, 1, 300'000));
  auto held = ring->read(0).frame;
  for (std::uint64_t s = 2; s <= 40; ++s) REQUIRE(test::publish(producer, account, s, 300'000));
  CHECK(ring->read(0).state == ReadResult::State::kGone);
  CHECK(test::intact(held));
  CHECK(store->stats().pinned == Bytes{300'024});
  held.reset();
  CHECK(store->stats().pinned == 0_B);
}

TEST_CASE_METHOD(Fixture, "a takeover makes the old producer's frames invisible", "[frame][ring]") {
  auto ring = store->add_ring(false);
  auto first = ring->attach(1);
  REQUIRE(test::publish(first, account, 1, 10));
  frame::Reservation room;
  REQUIRE(first.reserve(0, 10, account, room) == frame::Reserve::kGranted);
  auto second = ring->attach(2);
  const auto late = first.publish(std::move(room), {.sequence = 2});
  CHECK(late == frame::Publish::kFenced);
  CHECK(ring->head() == 1);
  REQUIRE(test::publish(second, account, 1, 10));
  CHECK(ring->read(1).frame.info().epoch == 2);
  const auto lives = ring->lives();
  REQUIRE(lives.size() == 2);
  CHECK(lives[0].end_position == 1);
  CHECK(lives[1].first_position == 1);
  CHECK(account.held() == 0_B);
  CHECK(store->stats().ingest_held == 0_B);
}
