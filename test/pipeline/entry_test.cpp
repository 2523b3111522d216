#include "pipeline/entry.h"

#include <catch2/catch.hpp>

using namespace simbridge::pipeline;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("an entry's word gives back what was packed into it", "[pipeline][entry]") {
  for (const Stage stage :
       {Stage::kEmpty, Stage::kWaits, Stage::kRuns, Stage::kReady, Stage::kFailed}) {
    for (const unsigned readers : {0U, 1U, 254U, 255U}) {
      for (const std::uint32_t lap : {0U, 1U, kLapMask}) {
        for (const std::uint32_t derived : {0U, 7U, ~0U}) {
          const Entry entry = unpack(pack({.stage = stage,
                                           .readers = static_cast<std::uint8_t>(readers),
                                           .lap = lap,
                                           .derived = derived}));
          CHECK(entry.stage == stage);
          CHECK(entry.readers == readers);
          CHECK(entry.lap == lap);
          CHECK(entry.derived == derived);
        }
      }
    }
  }
}

TEST_CASE("readers beyond what can be counted are never counted down", "[pipeline][entry]") {
  Entry entry;
  for (int i = 0; i < 300; ++i) entry = with_one_more(entry);
  CHECK(entry.readers == kManyReaders);
  for (int i = 0; i < 300; ++i) entry = with_one_less(entry);
  CHECK(entry.readers == kManyReaders);
  Entry none;
  CHECK(with_one_less(none).readers == 0);
}

TEST_CASE("positions that share a place are told apart by their lap", "[pipeline][entry]") {
  const Entry entry{.stage = Stage::kWaits, .readers = 1, .lap = lap_of(1000), .derived = 0};
  CHECK(place_of(1000) == place_of(1000 + kPlaces));
  CHECK(is_about(entry, 1000));
  CHECK_FALSE(is_about(entry, 1000 + kPlaces));
  CHECK_FALSE(is_about(Entry{}, 0));
}

TEST_CASE("a position's high bits follow from the ring's head", "[pipeline][entry]") {
  for (const std::uint64_t head : {std::uint64_t{5},
                                   std::uint64_t{1} << 32U,
                                   (std::uint64_t{1} << 32U) + 3,
                                   (std::uint64_t{7} << 32U) + 100}) {
    for (const std::uint64_t behind : {0U, 1U, 5U}) {
      INFO("head " << head << " behind " << behind);
      CHECK(whole_position(static_cast<std::uint32_t>(head - behind), head) == head - behind);
    }
  }
}
