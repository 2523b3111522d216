// The ring beside a mutex and a deque; giving memory back beside a bare hole punch.
#include "process.h"
#include "report.h"
#include "simbridge/base/check.h"
#include "simbridge/frame/store.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

namespace simbridge::bench {
namespace {

struct Rig {
  explicit Rig(Bytes budget) {
    frame::StoreOptions options;
    options.address_space = Bytes{16ULL << 30U};
    options.budget = budget;
    options.warm_reserve = Bytes{0};
    auto made = frame::FrameStore::create(options, clock);
    SB_CHECK(made.has_value(), "the arena can be mapped");
    store = std::move(*made);
    ring = store->add_ring(false);
    producer = ring->attach(1);
  }
  ~Rig() {
    producer = frame::Producer();
    store->remove_ring(ring);
    ring.reset();
  }
  void publish(std::uint64_t sequence, std::uint64_t bytes) {
    frame::Reservation room;
    const auto answer = producer.reserve_at_hand(16, bytes, account, room);
    SB_CHECK(answer == frame::Reserve::kGranted, "room for a frame of the benchmark");
    frame::FrameInfo info;
    info.sequence = sequence;
    (void)producer.publish(std::move(room), info);
  }
  SystemClock clock;
  frame::IngestAccount account;
  std::unique_ptr<frame::FrameStore> store;
  std::shared_ptr<frame::FrameRing> ring;
  frame::Producer producer;
};

struct Plain {
  std::uint64_t sequence;
  std::unique_ptr<char[]> data;
};
struct LockedDeque {
  std::mutex mutex;
  std::deque<std::shared_ptr<Plain>> frames;
  std::uint64_t first = 0;
  void publish(std::uint64_t sequence) {
    auto frame = std::make_shared<Plain>(Plain{sequence, std::make_unique<char[]>(64)});
    const std::lock_guard lock(mutex);
    frames.push_back(std::move(frame));
    if (frames.size() > 1024) {
      frames.pop_front();
      ++first;
    }
  }
  std::shared_ptr<Plain> read(std::uint64_t position) {
    const std::lock_guard lock(mutex);
    if (position < first || position >= first + frames.size()) return nullptr;
    return frames[position - first];
  }
};

/// Lossless: the producer stays at most 512 frames ahead of the slowest reader. Wall ns a delivery.
template <typename Publish, typename Read>
double lossless(int readers, double seconds, Publish publish, Read read) {
  std::vector<std::atomic<std::uint64_t>> at(static_cast<std::size_t>(readers));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int r = 0; r < readers; ++r) {
    threads.emplace_back([&, r] {
      std::uint64_t cursor = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        if (read(cursor)) {
          at[static_cast<std::size_t>(r)].store(++cursor, std::memory_order_release);
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  const double start = now_seconds();
  std::uint64_t published = 0;
  while (now_seconds() < start + seconds) {
    for (int i = 0; i < 64; ++i) publish(++published);
    for (const auto& one : at) {
      while (published - one.load(std::memory_order_acquire) > 512) std::this_thread::yield();
    }
  }
  std::uint64_t delivered = 0;
  for (const auto& one : at) delivered += one.load();
  const double took = now_seconds() - start;
  stop.store(true);
  for (auto& thread : threads) thread.join();
  return took / static_cast<double>(delivered) * 1e9;
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

}  // namespace

void ring(const Settings& settings, Report& report) {
  std::vector<double> publish, read, publish_deque, read_deque, ours, theirs;
  for (int i = 0; i < settings.repetitions; ++i) {
    Rig rig(Bytes{256ULL << 20U});
    LockedDeque deque_alone;
    constexpr std::uint64_t kFrames = 400'000;
    for (std::uint64_t s = 1; s <= 20'000; ++s) rig.publish(s, 64);
    double start = thread_seconds();
    for (std::uint64_t s = 0; s < kFrames; ++s) rig.publish(20'001 + s, 64);
    publish.push_back((thread_seconds() - start) / kFrames * 1e9);
    const std::uint64_t tail = rig.ring->tail();
    const std::uint64_t head = rig.ring->head();
    start = thread_seconds();
    std::uint64_t reads = 0;
    for (int round = 0; round < 200; ++round) {
      for (std::uint64_t p = tail; p < head; ++p) reads += rig.ring->read(p).frame ? 1 : 0;
    }
    read.push_back((thread_seconds() - start) / static_cast<double>(reads) * 1e9);
    start = thread_seconds();
    for (std::uint64_t s = 0; s < kFrames; ++s) deque_alone.publish(s);
    publish_deque.push_back((thread_seconds() - start) / kFrames * 1e9);
    start = thread_seconds();
    std::uint64_t deque_reads = 0;
    for (int round = 0; round < 200; ++round) {
      for (std::uint64_t p = kFrames - 1024; p < kFrames; ++p)
        deque_reads += deque_alone.read(p) ? 1 : 0;
    }
    read_deque.push_back((thread_seconds() - start) / static_cast<double>(deque_reads) * 1e9);
    {
      Rig fresh(Bytes{256ULL << 20U});
      ours.push_back(lossless(
          8,
          settings.seconds,
          [&](std::uint64_t s) { fresh.publish(s, 64); },
          [&](std::uint64_t p) { return static_cast<bool>(fresh.ring->read(p).frame); }));
    }
    LockedDeque deque;
    theirs.push_back(lossless(
        8,
        settings.seconds,
        [&](std::uint64_t s) { deque.publish(s); },
        [&](std::uint64_t p) { return deque.read(p) != nullptr; }));
  }
  report.add({.name = "ring: reserve and publish",
              .value = median(publish),
              .unit = "ns",
              .goal = "<= 15 ns (30 with checks)",
              .goal_high = 30,
              .note = fmt::format(
                  "64 B frames, reservation in the arena included; mutex and deque with two "
                  "allocations: {:.0f} ns",
                  median(publish_deque))});
  report.add({.name = "ring: read and drop",
              .value = median(read),
              .unit = "ns",
              .goal = "<= 15 ns",
              .goal_high = 15,
              .note = fmt::format("mutex and deque: {:.0f} ns", median(read_deque))});
  report.add({.name = "ring: lossless, 1 producer, 8 readers",
              .value = median(ours),
              .unit = "ns/delivery",
              .peer = "mutex and deque",
              .peer_value = median(theirs),
              .goal = "<= 0.6",
              .goal_high = 0.6,
              .note = ""});
}

void memory(const Settings& settings, Report& report) {
  std::vector<double> ours, bare, off;
  bool huge = false;
  constexpr std::uint64_t kBytes = 768ULL << 20U;
  for (int i = 0; i < settings.repetitions; ++i) {
    {
      Rig rig(Bytes{1ULL << 30U});
      rig.store->set_depth(4096);
      constexpr std::uint64_t kFrame = 1U << 20U;
      for (std::uint64_t s = 1; s <= kBytes / kFrame; ++s) {
        frame::Reservation room;
        SB_CHECK(
            rig.producer.reserve(16, kFrame - 64, rig.account, room) == frame::Reserve::kGranted,
            "room");
        std::memset(room.data().data(), static_cast<int>(s), room.data().size());
        frame::FrameInfo info;
        info.sequence = s;
        (void)rig.producer.publish(std::move(room), info);
      }
      huge = rig.store->stats().huge_pages;
      const double resident = resident_bytes();
      const double start = now_seconds();
      const auto gone = rig.store->set_budget(Bytes{64ULL << 20U});
      const double took = now_seconds() - start;
      ours.push_back(static_cast<double>(gone.returned.count) / took * 1e-9);
      off.push_back((resident - resident_bytes()) / static_cast<double>(gone.returned.count));
    }
    const int fd = ::memfd_create("bench", MFD_CLOEXEC);
    SB_CHECK(::ftruncate(fd, kBytes) == 0, "a memfd can be made");
    void* map = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::madvise(map, kBytes, MADV_HUGEPAGE);
    std::memset(map, 1, kBytes);
    const double start = now_seconds();
    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes);
    bare.push_back(static_cast<double>(kBytes) / (now_seconds() - start) * 1e-9);
    ::munmap(map, kBytes);
    ::close(fd);
  }
  report.add({.name = "giving back 704 MiB by a lowered budget",
              .value = median(ours),
              .unit = "GB/s",
              .goal = huge ? ">= 50 GB/s" : ">= 3 GB/s",
              .goal_low = huge ? 50.0 : 3.0,
              .note = huge ? "huge pages" : "4 KiB pages"});
  report.add({.name = "the same beside a bare hole punch",
              .value = median(ours),
              .unit = "GB/s",
              .peer = "fallocate PUNCH_HOLE",
              .peer_value = median(bare),
              .goal = ">= 0.5",
              .goal_low = 0.5,
              .note = ""});
  report.add({.name = "resident memory that fell when the call returned",
              .value = median(off),
              .unit = "of what it gave back",
              .goal = "0.95 to 1.05",
              .goal_low = 0.95,
              .goal_high = 1.05,
              .note = ""});
}

}  // namespace simbridge::bench
