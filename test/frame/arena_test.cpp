// The arena, its budget and its slabs, below any ring.
#include "frame/arena.h"

#include "frame/slabs.h"
#include "support/manual_clock.h"
#include "support/seed.h"
#include "wait_until.h"

#include <catch2/catch.hpp>

#include <sys/stat.h>

#include <cstring>
#include <map>
#include <random>

using namespace simbridge;            // NOLINT(google-build-using-namespace): a test
using namespace simbridge::literals;  // NOLINT(google-build-using-namespace): a test
using frame::kUnitBytes;

namespace {

struct Fixture {
  frame::Budget budget;
  test::ManualClock clock;
  std::unique_ptr<frame::FrameArena> arena;

  void open(Bytes size, Bytes limit) {
    budget.set(static_cast<std::uint32_t>(limit.count / kUnitBytes));
    auto made = frame::FrameArena::create(
        {.address_space = size, .idle_return = milliseconds{1000}}, budget, clock);
    REQUIRE(made);
    arena = std::move(*made);
  }
  std::uint32_t take(std::uint32_t units) const {
    const auto first = arena->take(units);
    if (!first) FAIL("no room for " << units << " units");
    return first.value_or(0);
  }
  /// What the file really occupies.
  [[nodiscard]] Bytes occupied() const {
    struct stat status{};
    REQUIRE(::fstat(arena->fd(), &status) == 0);
    return Bytes{static_cast<std::uint64_t>(status.st_blocks) * 512};
  }
};

}  // namespace

TEST_CASE("the budget never holds more than it may", "[frame][budget]") {
  frame::Budget budget;
  budget.set(10);
  CHECK(budget.try_charge(10));
  CHECK_FALSE(budget.try_charge(1));
  budget.set(4);
  CHECK(budget.exceeded());
  CHECK(budget.charged_units() == 10);
  budget.uncharge(7);
  CHECK_FALSE(budget.exceeded());
  CHECK(budget.try_charge(1));
  CHECK_FALSE(budget.try_charge(1));
}

TEST_CASE_METHOD(Fixture,
                 "an arena lies on an extent's border and costs nothing",
                 "[frame][arena]") {
  open(64_GiB, 1_GiB);
  CHECK(reinterpret_cast<std::uintptr_t>(arena->at(0)) % frame::kExtentBytes == 0);
  CHECK(arena->size() == (64_GiB).count);
  CHECK(occupied() == 0_B);
  CHECK(arena->figures().committed == 0_B);
}

TEST_CASE_METHOD(Fixture, "runs never overlap, and what is free is found again", "[frame][arena]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  constexpr std::uint32_t kUnits = 2048;  // 128 MiB
  open(Bytes{kUnits * kUnitBytes}, Bytes{kUnits * kUnitBytes});
  std::map<std::uint32_t, std::uint32_t> taken;  // first -> units
  std::vector<bool> used(kUnits);
  std::uint32_t in_use = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const auto units =
          static_cast<std::uint32_t>(random() % 4 == 0 ? 1 + random() % 150 : 1 + random() % 34);
      const auto first = arena->take(units);
      if (!first) {
        // Refused only if no run of this length is free, counted in whole extents for long ones.
        std::uint32_t longest = 0;
        std::uint32_t run = 0;
        for (std::uint32_t u = 0; u < kUnits; ++u) {
          if (units <= 32 && u % 32 == 0) run = 0;
          run = used[u] ? 0 : run + 1;
          longest = std::max(longest, run);
        }
        if (units <= 32)
          REQUIRE(longest < units);
        else
          REQUIRE(longest < units + 31);
        continue;
      }
      REQUIRE(*first + units <= kUnits);
      for (std::uint32_t u = *first; u < *first + units; ++u) {
        REQUIRE_FALSE(used[u]);
        used[u] = true;
      }
      taken[*first] = units;
      in_use += units;
    } else if (!taken.empty()) {
      auto it = taken.lower_bound(static_cast<std::uint32_t>(random() % kUnits));
      if (it == taken.end()) it = taken.begin();
      for (std::uint32_t u = it->first; u < it->first + it->second; ++u) used[u] = false;
      in_use -= it->second;
      arena->give(it->first, it->second);
      taken.erase(it);
    }
    const auto figures = arena->figures();
    REQUIRE(figures.committed.count - figures.warm.count == in_use * kUnitBytes);
    REQUIRE(figures.committed.count <= kUnits * kUnitBytes);
  }
  for (const auto& [first, units] : taken) arena->give(first, units);
}

TEST_CASE_METHOD(Fixture, "memory that is free goes back after it was idle", "[frame][arena]") {
  open(256_MiB, 128_MiB);
  std::vector<std::uint32_t> runs;
  runs.reserve(64);
  for (int i = 0; i < 40; ++i) {
    const std::uint32_t first = take(32);
    std::memset(arena->at(first), 1, frame::kExtentBytes);
    runs.push_back(first);
  }
  CHECK(occupied() == 80_MiB);
  for (const std::uint32_t first : runs) arena->give(first, 32);
  CHECK(arena->figures().committed == 80_MiB);
  CHECK(arena->figures().warm == 80_MiB);
  CHECK(occupied() == 80_MiB);
  clock.advance(milliseconds{1001});
  REQUIRE(test::wait_until([&] { return arena->figures().committed == 0_B; }));
  CHECK(occupied() == 0_B);
}

TEST_CASE_METHOD(Fixture,
                 "trim punches what is free now, neighbours in one call",
                 "[frame][arena]") {
  open(256_MiB, 128_MiB);
  std::vector<std::uint32_t> runs;
  runs.reserve(64);
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t first = take(16);
    std::memset(arena->at(first), 1, 16 * kUnitBytes);
    runs.push_back(first);
  }
  for (std::size_t i = 0; i < runs.size(); i += 2) arena->give(runs[i], 16);
  CHECK(arena->trim() == 32_MiB);
  CHECK(occupied() == 32_MiB);
  for (std::size_t i = 1; i < runs.size(); i += 2) {
    CHECK(*arena->at(runs[i]) == std::byte{1});
    arena->give(runs[i], 16);
  }
  CHECK(arena->trim() == 32_MiB);
  CHECK(occupied() == 0_B);
}

TEST_CASE_METHOD(Fixture,
                 "a warm reserve is populated ahead, and grows with use",
                 "[frame][arena]") {
  open(1_GiB, 512_MiB);
  arena->set_warm_reserve(64_MiB);
  REQUIRE(test::wait_until([&] { return arena->figures().warm == 8_MiB; }));
  CHECK(occupied() == 8_MiB);
  REQUIRE(budget.try_charge(640));
  const std::uint32_t first = take(640);  // 40 MiB; the reserve follows
  REQUIRE(test::wait_until([&] { return arena->figures().warm == 40_MiB; }));
  arena->set_warm_reserve(0_B);
  CHECK(arena->trim() == 40_MiB);
  CHECK(arena->figures().warm == 0_B);
  arena->give(first, 640);
  budget.uncharge(640);
}

TEST_CASE_METHOD(Fixture,
                 "committed memory stays within the budget in spite of fragments",
                 "[frame][arena]") {
  open(512_MiB, 16_MiB);  // 256 units
  std::vector<std::uint32_t> runs;
  runs.reserve(64);
  for (int i = 0; i < 16; ++i) runs.push_back(take(16));
  for (std::size_t i = 0; i < runs.size(); i += 2) arena->give(runs[i], 16);
  // Half is free, in pieces of 1 MiB; a run of 4 MiB must come from elsewhere.
  const std::uint32_t run = take(64);
  CHECK(arena->figures().committed <= 16_MiB);
  arena->give(run, 64);
  for (std::size_t i = 1; i < runs.size(); i += 2) arena->give(runs[i], 16);
}

TEST_CASE("a slab is the smallest in which eight recent frames fit", "[frame][slab]") {
  using frame::SlabClass;
  constexpr std::uint32_t kPlenty = 16384;
  constexpr std::uint64_t kLargest = frame::kLargestPacked;
  CHECK(frame::choose_class(300, 300, kPlenty) == SlabClass::kSmall);
  CHECK(frame::choose_class(8192, 8192, kPlenty) == SlabClass::kSmall);
  CHECK(frame::choose_class(8200, 8200, kPlenty) == SlabClass::kMedium);
  CHECK(frame::choose_class(32'768, 32'768, kPlenty) == SlabClass::kMedium);
  CHECK(frame::choose_class(33'000, 33'000, kPlenty) == SlabClass::kLarge);
  CHECK(frame::choose_class(kLargest, kLargest, kPlenty) == SlabClass::kLarge);
  CHECK_FALSE(frame::choose_class(kLargest + 1, kLargest, kPlenty));
  // An outlier stands alone, and a small budget is not cut into large slabs.
  CHECK_FALSE(frame::choose_class(100'000, 300, kPlenty));
  CHECK(frame::choose_class(20'000, 20'000, 32) == SlabClass::kSmall);
  CHECK_FALSE(frame::choose_class(40'000, 40'000, 32));
}

TEST_CASE_METHOD(Fixture,
                 "a slab is free when it is closed and its last frame is gone",
                 "[frame][slab]") {
  open(128_MiB, 64_MiB);
  frame::Slabs slabs(*arena, budget);
  auto* account = new frame::RingAccount;
  std::atomic<std::uint64_t> open_slab{0};
  CHECK_FALSE(slabs.fill(open_slab, 100));
  REQUIRE(budget.try_charge(1));
  const auto first = slabs.open(open_slab, take(1), frame::SlabClass::kSmall, 100, account);
  const auto second = slabs.fill(open_slab, 100);
  CHECK(second.value_or(frame::Place{}).bytes == first.bytes + 128);
  CHECK_FALSE(slabs.fill(open_slab, kUnitBytes - 255));
  REQUIRE(slabs.fill(open_slab, kUnitBytes - 256));  // to the last byte
  CHECK_FALSE(slabs.fill(open_slab, 1));
  CHECK(account->charged_units() == 1);
  CHECK_FALSE(slabs.frame_gone(first.slab));
  slabs.close(open_slab);
  slabs.close(open_slab);  // nothing is open: nothing happens
  CHECK_FALSE(slabs.frame_gone(first.slab));
  CHECK(budget.charged_units() == 1);
  CHECK(slabs.frame_gone(first.slab));
  CHECK(budget.charged_units() == 0);
  CHECK(account->charged_units() == 0);
  account->drop_user();
}
