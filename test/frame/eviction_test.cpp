#include "frame/eviction.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace simbridge::frame;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("what a ring would give next follows the table", "[frame][eviction]") {
  struct Row {
    std::string what;
    RingView ring;
    Tier for_room;
    Tier for_shrink;
  };
  const std::vector<Row> rows = {
      {"nothing kept", {}, Tier::kNothing, Tier::kNothing},
      {"an open slab without frames", {.history_frees = true}, Tier::kHistory, Tier::kHistory},
      {"history and a newest",
       {.produced = true, .history_frees = true, .newest = true},
       Tier::kHistory,
       Tier::kHistory},
      {"latched, with history",
       {.latched = true, .produced = true, .history_frees = true, .newest = true},
       Tier::kLatchedHistory,
       Tier::kLatchedHistory},
      {"derived, with history",
       {.derived = true, .history_frees = true, .newest = true},
       Tier::kHistory,
       Tier::kHistory},
      {"derived, newest", {.derived = true, .newest = true}, Tier::kDerived, Tier::kDerived},
      {"newest, nobody produces", {.newest = true}, Tier::kOrphanNewest, Tier::kOrphanNewest},
      {"newest", {.produced = true, .newest = true}, Tier::kNewest, Tier::kNewest},
      {"latched newest",
       {.latched = true, .newest = true},
       Tier::kLatchedNewest,
       Tier::kLatchedNewest},
      {"held, and what every reader had frees a slab",
       {.produced = true, .history_frees = true, .held = true},
       Tier::kHistory,
       Tier::kHistory},
      {"held", {.produced = true, .held = true}, Tier::kNothing, Tier::kHeld},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    CHECK(tier_of(row.ring, Need::kRoom) == row.for_room);
    CHECK(tier_of(row.ring, Need::kShrink) == row.for_shrink);
  }
}

TEST_CASE("inside a tier the largest charge for its share gives first", "[frame][eviction]") {
  const RingView large{.charged_bytes = 900, .history_frees = true};
  const RingView small{.charged_bytes = 100, .history_frees = true};
  const RingView favoured{.charged_bytes = 900, .share = 10.0, .history_frees = true};
  const RingView newest{.charged_bytes = 5000, .newest = true};
  const auto before = [](const RingView& a, const RingView& b) {
    return gives_before(candidate(a, Need::kRoom), candidate(b, Need::kRoom));
  };
  CHECK(before(large, small));
  CHECK_FALSE(before(small, large));
  CHECK(before(small, favoured));
  CHECK(before(small, newest));
  CHECK_FALSE(before(newest, small));
  CHECK_FALSE(before(large, large));
  CHECK_FALSE(before(RingView{}, RingView{}));
}
