// What the kernel sees. In a binary of its own: it measures this process.
#include "frame_fixture.h"
#include "wait_until.h"

#include <catch2/catch.hpp>

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <random>

using namespace simbridge;            // NOLINT(google-build-using-namespace): a test
using namespace simbridge::literals;  // NOLINT(google-build-using-namespace): a test
using frame::IngestAccount;

namespace {

Bytes resident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::uint64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return Bytes{kib << 10U};
  }
  return {};
}

/// Reserves, writes every page, publishes.
bool publish_cheaply(frame::Producer& producer,
                     IngestAccount& account,
                     std::uint64_t sequence,
                     std::uint64_t bytes) {
  frame::Reservation room;
  if (producer.reserve(64, bytes, account, room) != frame::Reserve::kGranted) return false;
  const auto data = room.data();
  for (std::size_t i = 0; i < data.size(); i += 4096) data[i] = static_cast<std::byte>(sequence);
  return producer.publish(std::move(room), {.sequence = sequence}) == frame::Publish::kPublished;
}

}  // namespace

TEST_CASE("4 GiB streamed through 256 MiB stay within the budget", "[frame][memory]") {
  SystemClock clock;
  const Bytes idle = resident();
  auto store = test::make_store({.budget = 256_MiB}, clock);
  IngestAccount account;
  constexpr std::uint64_t kSizes[] = {300, 20'000, 90'000, 700'000, 1'300'000, 5'000'000};
  std::vector<frame::Producer> producers;
  producers.reserve(128);
  for (std::size_t i = 0; i < std::size(kSizes); ++i)
    producers.push_back(store->add_ring(false)->attach(1));
  std::mt19937_64 random(7);
  std::uint64_t streamed = 0;
  std::uint64_t sequence = 0;
  Bytes most;
  while (streamed < (4_GiB).count) {
    const std::size_t i = random() % std::size(kSizes);
    const std::uint64_t bytes = kSizes[i] / 2 + random() % kSizes[i];
    REQUIRE(publish_cheaply(producers[i], account, ++sequence, bytes));
    streamed += bytes;
    if (sequence % 64 == 0) {
      most = std::max(most, resident());
      const auto stats = store->stats();
      REQUIRE(stats.charged <= 256_MiB);
      REQUIRE(stats.committed <= 256_MiB);
    }
  }
  INFO("idle " << (idle.count >> 20U) << " MiB, most " << (most.count >> 20U) << " MiB");
  CHECK(most <= idle + 256_MiB + 64_MiB);
  CHECK(store->stats().charged >= 200_MiB);
}

TEST_CASE("a shrink from 1 GiB to 128 MiB is in RSS before the call returns", "[frame][memory]") {
  SystemClock clock;
  const Bytes idle = resident();
  auto store = test::make_store({.budget = 1_GiB, .depth = 4096}, clock);
  IngestAccount account;
  std::vector<frame::Producer> producers;
  producers.reserve(128);
  for (int i = 0; i < 4; ++i) producers.push_back(store->add_ring(false)->attach(1));
  std::uint64_t sequence = 0;
  while (store->stats().evicted_frames == 0) {
    for (std::size_t i = 0; i < producers.size(); ++i)
      REQUIRE(publish_cheaply(producers[i], account, ++sequence, 50'000 + i * 400'000));
  }
  const Bytes before = resident();
  CHECK(before >= 900_MiB);
  const auto started = std::chrono::steady_clock::now();
  const auto report = store->set_budget(128_MiB);
  const auto took = std::chrono::steady_clock::now() - started;
  const Bytes after = resident();
  INFO("idle " << (idle.count >> 20U) << ", before " << (before.count >> 20U) << ", after "
               << (after.count >> 20U) << " MiB, in "
               << std::chrono::duration_cast<milliseconds>(took).count() << " ms");
  CHECK(after <= idle + 128_MiB + 32_MiB);
  CHECK(report.returned >= 850_MiB);
  CHECK(report.still_pinned == 0_B);
  CHECK(store->stats().charged <= 128_MiB);
  CHECK(store->stats().committed <= 128_MiB);
  struct stat status{};
  REQUIRE(::fstat(store->arena_fd(), &status) == 0);
  CHECK(Bytes{static_cast<std::uint64_t>(status.st_blocks) * 512} <= 128_MiB);
}

TEST_CASE("blocks of many small frames are given back by a shrink too", "[frame][memory]") {
  SystemClock clock;
  auto store = test::make_store({.budget = 1_GiB, .warm_reserve = 0_B, .depth = 4096}, clock);
  IngestAccount account;
  std::vector<frame::Producer> producers;
  producers.reserve(128);
  for (int i = 0; i < 128; ++i) producers.push_back(store->add_ring(false)->attach(1));
  for (std::uint64_t s = 1; s <= 4000; ++s) {
    for (auto& producer : producers) REQUIRE(publish_cheaply(producer, account, s, 64));
  }
  const Bytes before = resident();
  store->set_budget(4_MiB);
  const Bytes after = resident();
  INFO("before " << (before.count >> 20U) << ", after " << (after.count >> 20U) << " MiB");
  // 512 000 frames: 62 MiB of arena and 93 MiB of blocks; the slots, 16 MiB, stay.
  CHECK(before.count - after.count >= (135_MiB).count);
  for (auto& producer : producers) REQUIRE(publish_cheaply(producer, account, 5000, 64));
}

TEST_CASE("a core dump leaves the arena out", "[frame][memory]") {
  SystemClock clock;
  auto store = test::make_store({.budget = 64_MiB}, clock);
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  bool left_out = false;
  while (std::getline(maps, line)) {
    const std::string first = line.substr(0, line.find(' '));
    if (first.find('-') != std::string::npos)  // a mapping's first line: its addresses
      inside = line.find("simbridge-arena") != std::string::npos;
    if (inside && line.rfind("VmFlags:", 0) == 0) left_out = line.find(" dd") != std::string::npos;
  }
  CHECK(left_out);
}
