// Derived streams under threads. Run under TSan (label concurrency); the checks are on without it
// too.
#include "simbridge/pipeline/pipeline.h"

#include "pipeline/job_queue.h"
#include "simbridge/base/check.h"
#include "simbridge/metrics/instruments.h"
#include "simbridge/wire/frame_head.h"
#include "support/bell.h"
#include "support/seed.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

using namespace simbridge;  // NOLINT(google-build-using-namespace): a test
using pipeline::DerivedStream;
using test::Bell;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kFrames = 5'000;
#else
constexpr std::uint64_t kFrames = 20'000;
#endif
constexpr std::size_t kPoints = 64;

struct Clouds {
  explicit Clouds(frame::FrameStore& store)
      : ring(store.add_ring(false)), producer(ring->attach(9)) {}

  /// Points along x from the sequence's number on, all in one cell of 1000 m.
  bool publish(std::uint64_t sequence) {
    std::vector<float> points;
    for (std::size_t i = 0; i < kPoints; ++i)
      points.insert(points.end(), {static_cast<float>(sequence % 500), 1.0F, 2.0F});
    wire::FrameHead head;
    head.kind = wire::PayloadKind::kCloud;
    head.cloud = {.height = 1, .width = kPoints};
    for (const auto& [name, offset] : {std::pair{"x", 0U}, {"y", 4U}, {"z", 8U}})
      head.cloud.fields.push_back({.name = name, .offset = offset, .type = 7, .count = 1});
    head.cloud.point_step = 12;
    head.cloud.row_step = 12 * kPoints;
    frame::Reservation room;
    if (producer.reserve(wire::stored_head_bytes(head), points.size() * 4, account, room) !=
        frame::Reserve::kGranted)
      return false;
    wire::store_head(head, 1, room.head());
    std::memcpy(room.data().data(), points.data(), points.size() * 4);
    const frame::FrameInfo info{.sequence = sequence,
                                .arrival = Monotonic(nanoseconds(sequence)),
                                .points = kPoints,
                                .kind = static_cast<std::uint8_t>(wire::PayloadKind::kCloud)};
    return producer.publish(std::move(room), info) == frame::Publish::kPublished;
  }

  std::shared_ptr<frame::FrameRing> ring;
  frame::IngestAccount account;
  frame::Producer producer;
};

wire::Quality quality(double leaf) {
  wire::Quality asked;
  asked.leaf = leaf;
  asked.output = 1;
  return asked;
}

/// A consumer: asks for every position from the tail on, sometimes gives one up, sometimes leaves.
struct Consumer {
  std::shared_ptr<frame::FrameRing> raw;
  std::shared_ptr<DerivedStream> stream;
  Bell bell;
  std::shared_ptr<frame::WakeQueue> wake =
      std::make_shared<frame::WakeQueue>([this] { bell.ring(); });
  std::shared_ptr<const frame::Watcher> watcher =
      std::make_shared<frame::Watcher>(frame::Watcher{wake, wake->add_slot()});
  std::uint64_t cursor = 0;
  bool asked = false;
  std::uint64_t got = 0, lost = 0, given_up = 0;
  std::string wrong;

  void run(std::uint64_t end, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    raw->add_watcher(watcher);
    stream->add_watcher(watcher);
    while (cursor < end && wrong.empty()) {
      if (step(random)) continue;
      if (!bell.wait()) wrong = fmt::format("nobody woke me at {} of {}", cursor, raw->head());
      wake->drain([](std::uint32_t) {});
    }
    if (asked) stream->drop(cursor);
    stream->remove_watcher(watcher.get());
    raw->remove_watcher(watcher.get());
    stream.reset();
  }

  void move(std::uint64_t to) {
    if (asked) stream->drop(cursor);
    asked = false;
    cursor = to;
  }

  bool step(std::mt19937_64& random) {
    const frame::ReadResult seen = raw->read(cursor);
    if (seen.state == frame::ReadResult::State::kNotYet) return false;
    if (seen.state == frame::ReadResult::State::kGone) {
      const std::uint64_t to = std::max(cursor + 1, raw->tail());
      lost += to - cursor;
      move(to);
      return true;
    }
    const DerivedStream::Answer answer = stream->ask(seen.frame.info(), !asked);
    if (answer.state != DerivedStream::State::kNotTaken) asked = true;
    switch (answer.state) {
      case DerivedStream::State::kReady:
        check(seen.frame.info(), answer.frame);
        ++got;
        move(cursor + 1);
        return true;
      case DerivedStream::State::kFailed:
        wrong = "a plain cloud failed";
        return true;
      case DerivedStream::State::kNotTaken:
        std::this_thread::yield();  // the product asks again by a timer
        return true;
      default:
        break;
    }
    if (random() % 16 != 0) return false;
    ++given_up;
    move(cursor + 1);
    return true;
  }

  void check(const frame::FrameInfo& info, const frame::FrameRef& derived) {
    std::array<float, 3> point{};
    if (derived.data().size() != sizeof point || derived.info().sequence != info.sequence) {
      wrong = fmt::format(
          "{} bytes of {} for {}", derived.data().size(), derived.info().sequence, info.sequence);
      return;
    }
    std::memcpy(point.data(), derived.data().data(), sizeof point);
    const float want = static_cast<float>(info.sequence % 500);
    if (std::abs(point[0] - want) > 0.02F)
      wrong = fmt::format("{} is not the x of {}", point[0], info.sequence);
  }
};

}  // namespace

TEST_CASE("readers, threads that come and go, and a shaking budget never lose or mix up a frame",
          "[pipeline][concurrency]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  SystemClock clock;
  auto made = frame::FrameStore::create({.address_space = Bytes{1ULL << 30},
                                         .budget = Bytes{32ULL << 20},
                                         .warm_reserve = Bytes{0},
                                         .depth = 256},
                                        clock);
  REQUIRE(made);
  frame::FrameStore& store = **made;
  metrics::Registry registry;
  metrics::PipelineMetrics figures(registry);
  {
    pipeline::Pipeline pipeline(store, clock, {.threads = 2, .depth = 4}, figures);
    Clouds clouds(store);
    std::vector<std::unique_ptr<Consumer>> consumers;
    for (int i = 0; i < 5; ++i) {
      auto& one = *consumers.emplace_back(std::make_unique<Consumer>());
      one.raw = clouds.ring;
      one.stream = pipeline.open(clouds.ring, quality(i < 4 ? 1000 : 2000));
    }
    CHECK(pipeline.streams() == 2);
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < consumers.size(); ++i)
      threads.emplace_back([&, i] { consumers[i]->run(kFrames, seed + i); });
    std::thread shaker([&] {
      std::mt19937_64 random(seed ^ 77U);
      while (!over.load()) {
        pipeline.resize(1 + static_cast<unsigned>(random() % 4));
        if (random() % 4 == 0) store.set_budget(Bytes{(8 + random() % 24) << 20U});
        std::this_thread::sleep_for(milliseconds(1));
      }
    });
    for (std::uint64_t i = 1; i <= kFrames;) {
      if (clouds.publish(i)) ++i;
      if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    for (auto& thread : threads) thread.join();
    over = true;
    shaker.join();
    for (std::size_t i = 0; i < consumers.size(); ++i) {
      const Consumer& one = *consumers[i];
      INFO("consumer " << i << ": got " << one.got << ", lost " << one.lost << ", given up "
                       << one.given_up);
      CHECK(one.wrong.empty());
      if (!one.wrong.empty()) WARN(one.wrong);
      CHECK(one.got + one.lost + one.given_up == kFrames);
      CHECK(one.got > kFrames / 100);
    }
    consumers.clear();
    while (pipeline.waiting() > 0) std::this_thread::yield();
    pipeline.resize(1);
    // A job may still hold its stream for its last instructions.
    for (int i = 0; i < 20'000 && pipeline.streams() > 0; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    CHECK(pipeline.streams() == 0);
    clouds.producer = frame::Producer{};
    store.remove_ring(clouds.ring);
  }
  CHECK(store.stats().pinned.count == 0);
}

TEST_CASE("a queue of jobs hands each to exactly one thread", "[pipeline][concurrency]") {
  constexpr std::uint64_t kJobs = 40'000;
  pipeline::JobQueue<std::uint64_t, 64> queue;
  std::atomic<std::uint64_t> sum{0};
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 0; i < kJobs; ++i) {
        while (!queue.push(1 + writer * kJobs + i)) std::this_thread::yield();
      }
    });
    threads.emplace_back([&] {
      while (taken.load() < 2 * kJobs) {
        if (const auto job = queue.pop()) {
          sum += *job;
          ++taken;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(sum == 2 * kJobs * (2 * kJobs + 1) / 2);
}
