// Sessions on real threads: producers that take each other over, consumers that come and go, the
// admin page, shrinks. Run under TSan (label concurrency); the checks are on without it too.
#include "session/fake_peer.h"
#include "session/ledger.h"
#include "simbridge/base/check.h"
#include "support/seed.h"

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kFrames = 1'500;  // of a producer's thread
#else
constexpr std::uint64_t kFrames = 10'000;
#endif
constexpr std::uint32_t kNames = 3;

struct Life {
  std::mutex mutex;
  std::uint64_t epoch = 1;
};

/// One of several connections of the same sensor: whoever advertised last is heard.
class Rival {
 public:
  Rival(TestBridge& bridge, std::uint32_t name, Life& life)
      : bridge_(bridge), name_(name), life_(life) {}

  void connect(bool new_life = false) {
    peer_ = std::make_unique<FakePeer>(bridge_, true, fmt::format("key of sensor {:8}", name_));
    advertise(new_life);
  }
  /// Sends one frame; false: somebody else has the channel now.
  bool send(bool in_pieces) {
    if (!peer_) connect();
    for (const auto& reject : peer_->rejects()) {
      if (reject.code() == v1::REJECT_UNKNOWN_CHANNEL) return false;
      if (reject.retry()) next_ = std::min(next_, reject.sequence());
    }
    peer_->received.clear();
    const std::size_t bytes = next_ % 50 == 0 ? 150'000 : next_ % 1000;
    const auto message = opaque_frame(1, next_, pattern_bytes(next_, bytes));
    ++next_;
    if (in_pieces) {
      const std::string whole = message.SerializeAsString();
      peer_->send_pieces(whole, {whole.size() / 2}, true);
    } else {
      peer_->send(message);
    }
    peer_->pump();
    return true;
  }
  void advertise(bool new_life = false) {
    // Lives begin one after another: an epoch that came too late would be one of the past.
    const std::lock_guard lock(life_.mutex);
    if (new_life) ++life_.epoch;
    peer_->advertise(1,
                     fmt::format("s/{}", name_),
                     life_.epoch,
                     name_ == 0 ? v1::POLICY_BACKPRESSURE : v1::POLICY_DROP_OLDEST);
    const auto advertised = peer_->next_advertised();
    SB_CHECK(advertised.has_value(), "the same key may take the channel over");
    next_ = advertised->last_sequence() + 1;
  }
  void disconnect() { peer_.reset(); }

 private:
  TestBridge& bridge_;
  const std::uint32_t name_;
  Life& life_;
  std::unique_ptr<FakePeer> peer_;
  std::uint64_t next_ = 1;
};

struct Reader {
  std::unique_ptr<FakePeer> peer;
  std::unique_ptr<Ledger> ledger;

  void connect(TestBridge& bridge, std::uint64_t limit) {
    ledger = std::make_unique<Ledger>();
    peer = std::make_unique<FakePeer>(bridge, false);
    peer->observe = [told = ledger.get()](const auto& message) {
      told->on(message);
    };
    peer->send(hello_message({}, limit));
    peer->pump();
  }
  void must_be_right() const {
    const std::string complaint = ledger->complaint();
    SB_CHECK(complaint.empty(), complaint.c_str());
  }
};

}  // namespace

TEST_CASE(
    "sessions on many threads: takeovers, changing subscriptions, snapshots and shrinks lose "
    "nothing untold",
    "[session][stress]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  session::HubOptions options;
  options.accept_rate = 1e9;
  options.window_bytes = 1 << 20;
  TestBridge bridge(options);
  bridge.store->set_depth(128);
  std::array<Life, kNames> lives;
  std::atomic<int> producing{3};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;

  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(t));
      std::vector<std::unique_ptr<Rival>> rivals;
      for (std::uint32_t name = 0; name < kNames; ++name)
        rivals.push_back(std::make_unique<Rival>(bridge, name, lives[name]));
      for (std::uint64_t i = 0; i < kFrames; ++i) {
        Rival& rival = *rivals[random() % kNames];
        if (random() % 400 == 0) rival.disconnect();
        if (random() % 100 == 0) rival.connect(true);
        if (!rival.send(random() % 4 == 0) && random() % 30 == 0) rival.advertise();
      }
      rivals.clear();
      producing.fetch_sub(1);
    });
  }
  std::vector<std::vector<Reader>> readers(3);
  for (std::size_t t = 0; t < readers.size(); ++t) {
    readers[t].resize(3);
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + 100 + t);
      for (auto& reader : readers[t]) reader.connect(bridge, random() % 2 == 0 ? 50'000 : 0);
      while (!done) {
        for (auto& reader : readers[t]) {
          reader.peer->pump();
          reader.peer->received.clear();
          const auto id = static_cast<std::uint32_t>(1 + random() % 3);
          switch (random() % 40) {
            case 0:
              reader.peer->unsubscribe(id);
              break;
            case 1: {
              reader.ledger->pattern_changed(id);
              const auto history = static_cast<v1::History>(random() % 3);
              const bool reliable = random() % 3 == 0;
              reader.peer->subscribe(id, random() % 2 == 0 ? "s/*" : "s/0", [&](auto& s) {
                s.set_history(history);
                s.set_reliable(reliable);
                s.set_queue_frames(200);
              });
              break;
            }
            case 2:
              reader.peer->reading = !reader.peer->reading;
              break;
            case 3:
              if (random() % 20 == 0) {
                reader.must_be_right();
                reader.peer.reset();
                reader.connect(bridge, 0);
              }
              break;
            default:
              break;
          }
        }
        std::this_thread::yield();
      }
    });
  }
  threads.emplace_back([&] {  // the admin page
    while (!done) {
      std::uint64_t sum = 0;
      for (const auto& one : bridge.hub->channels()) sum += one.published;
      for (const auto& one : bridge.hub->subscriptions()) sum += one.delivered + one.waiting;
      for (const auto& one : bridge.hub->session_list()) sum += one.frames_out;
      sum += bridge.store->stats().charged.count;
      bridge.hub->sweep();
      if (sum == 1) std::this_thread::yield();
    }
  });
  threads.emplace_back([&] {  // the governor, and time
    std::mt19937_64 random(seed + 200);
    while (producing > 0) {
      bridge.clock.advance(milliseconds(random() % 20));
      if (random() % 50 == 0) bridge.store->set_budget(Bytes{(8ULL + random() % 56) << 20U});
      if (random() % 50 == 0)
        bridge.store->set_depth(static_cast<std::uint32_t>(16 + random() % 200));
      std::this_thread::sleep_for(milliseconds(1));
    }
    done = true;
  });
  for (auto& thread : threads) thread.join();

  // At rest everything adds up.
  for (int round = 0; round < 50; ++round) {
    bridge.clock.advance(milliseconds(20));
    for (auto& group : readers) {
      for (auto& reader : group) {
        reader.peer->reading = true;
        reader.peer->pump();
      }
    }
  }
  bridge.check_books();
  std::uint64_t frames = 0;
  for (auto& group : readers) {
    for (auto& reader : group) {
      reader.must_be_right();
      for (const auto& [key, told] : reader.ledger->told) frames += told.frames;
    }
  }
  CHECK(frames > 0);
  for (std::uint32_t name = 0; name < kNames; ++name) {
    const auto books = bridge.channel(fmt::format("s/{}", name));
    CHECK(books.published > 0);
  }
  readers.clear();
  CHECK(bridge.hub->sessions() == 0);
}
