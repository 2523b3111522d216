// Random peers against a real session: whatever happens, each consumer's frames and gaps cover
// every promised number exactly once, and the books balance.
#include "session/fake_peer.h"
#include "session/ledger.h"
#include "support/seed.h"

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include <random>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

constexpr std::uint32_t kNames = 5;

/// A sensor as protocol.md describes it: keeps what is not acknowledged, goes back n, resumes.
struct Sensor {
  std::unique_ptr<FakePeer> peer;
  std::uint32_t name = 0;
  std::uint64_t epoch = 1;
  std::uint64_t made = 0;  // numbers used so far
  std::uint64_t resend_from = 0;
  std::uint64_t transfers = 0;
};

struct Consumer {
  std::unique_ptr<FakePeer> peer;
  std::unique_ptr<Ledger> ledger;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), bridge_(options()) {
    bridge_.store->set_depth(64);
    sensors_.resize(kNames);
    for (std::uint32_t i = 0; i < kNames; ++i) sensors_[i].name = i;
    consumers_.resize(4);
  }

  void step() {
    switch (one_of(16)) {
      case 0:
        return connect_sensor(sensors_[one_of(kNames)]);
      case 1:
        if (one_of(4) == 0) return disconnect(sensors_[one_of(kNames)]);
        return;
      case 2:
        return connect_consumer(consumers_[one_of(4)]);
      case 3:
        if (one_of(6) == 0) consumers_[one_of(4)] = {};
        return;
      case 4:
      case 5:
        return subscribe(consumers_[one_of(4)]);
      case 6:
        if (auto& peer = consumers_[one_of(4)].peer; peer && one_of(3) == 0)
          peer->unsubscribe(1 + one_of(4));
        return;
      case 7:
        if (auto& peer = consumers_[one_of(4)].peer) toggle_reading(*peer);
        return;
      case 8:
        if (one_of(20) == 0) bridge_.store->set_budget(Bytes{(2ULL + one_of(40)) << 20U});
        return;
      case 9:
        if (one_of(10) == 0) bridge_.store->set_depth(static_cast<std::uint32_t>(2 + one_of(100)));
        return;
      case 10:
        bridge_.clock.advance(milliseconds(one_of(one_of(50) == 0 ? 5000 : 50)));
        return;
      case 11:
        if (auto& peer = consumers_[one_of(4)].peer)
          peer->credit(1 + one_of(4), 1 + one_of(kNames), 1 + one_of(5));
        return;
      case 12:
        pump();
        return;
      default:
        return send(sensors_[one_of(kNames)]);
    }
  }

  void pump() {
    for (auto& sensor : sensors_) {
      if (!sensor.peer) continue;
      sensor.peer->pump();
      obey(sensor);
    }
    for (auto& consumer : consumers_) {
      if (!consumer.peer) continue;
      consumer.peer->pump();
      consumer.peer->received.clear();
    }
  }

  /// Everybody reads, credit is given, until nothing moves; then all must add up.
  void rest() {
    for (int round = 0; round < 300; ++round) {
      for (auto& consumer : consumers_) {
        if (!consumer.peer) continue;
        finish(*consumer.peer);
        for (std::uint32_t id = 1; id <= 4; ++id) {
          for (std::uint32_t channel = 1; channel <= kNames; ++channel)
            consumer.peer->credit(id, channel, 1000);
        }
      }
      bridge_.clock.advance(milliseconds(20));
      pump();
    }
    bridge_.check_books();
    check_ledgers();
    CHECK(bridge_.store->stats().pins_held.count == 0);
    for (const auto& one : bridge_.hub->session_list()) CHECK(one.outbox_bytes == 0);
  }

  void check_ledgers() {
    for (auto& consumer : consumers_) {
      if (!consumer.peer) continue;
      INFO(consumer.ledger->complaint());
      REQUIRE(consumer.ledger->complaint().empty());
    }
    // What a consumer was told is what the bridge believes to have told it.
    for (const auto& books : bridge_.hub->subscriptions()) {
      for (const auto& consumer : consumers_) {
        if (!consumer.peer || consumer.peer->id() != books.session) continue;
        const auto told = consumer.ledger->told.find({books.id, ids_[books.channel]});
        const Told nothing;
        const Told& it = told == consumer.ledger->told.end() ? nothing : told->second;
        INFO("session " << books.session << ", subscription " << books.id << ", " << books.channel);
        // It may have met the channel anew since (another pattern): then the ledger has more.
        CHECK(it.frames >= books.delivered);
        CHECK(it.lost >= books.lost);
      }
    }
  }
  void check_books() { bridge_.check_books(false); }

 private:
  static session::HubOptions options() {
    session::HubOptions options;
    options.window_bytes = 200'000;
    options.accept_rate = 1e9;
    options.max_message_bytes = 60'000;
    return options;
  }
  std::uint32_t one_of(std::uint32_t n) {
    return n == 0 ? 0 : static_cast<std::uint32_t>(random_() % n);
  }

  void connect_sensor(Sensor& sensor) {
    if (sensor.peer && one_of(10) != 0) return;
    if (one_of(3) == 0) {  // a new life
      sensor.epoch = ++next_epoch_;
      sensor.made = one_of(2) == 0 ? 0 : one_of(1000);
    }
    const std::string key = fmt::format("key of sensor {:8}", sensor.name);
    auto next = std::make_unique<FakePeer>(bridge_, true, key);
    const std::string name = fmt::format("n/{}", sensor.name);
    next->advertise(1,
                    name,
                    sensor.epoch,
                    one_of(2) == 0 ? v1::POLICY_BACKPRESSURE : v1::POLICY_DROP_OLDEST,
                    one_of(8) == 0);
    const auto advertised = next->next_advertised();
    REQUIRE(advertised);
    ids_[name] = advertised->id();
    sensor.resend_from = advertised->last_sequence() == 0 ? 0 : advertised->last_sequence() + 1;
    sensor.peer = std::move(next);
    sensor.transfers = 0;
  }

  void disconnect(Sensor& sensor) {
    if (!sensor.peer) return;
    sensor.peer->disconnect(one_of(2) == 0);
    sensor.peer.reset();
  }

  void obey(Sensor& sensor) {
    for (const auto& message : sensor.peer->received) {
      if (message.has_reject() && message.reject().retry() && sensor.resend_from == 0)
        sensor.resend_from = message.reject().sequence();
    }
    sensor.peer->received.clear();
  }

  void send(Sensor& sensor) {
    if (!sensor.peer) return;
    obey(sensor);
    std::uint64_t sequence = 0;
    if (sensor.resend_from != 0 && sensor.resend_from <= sensor.made) {
      sequence = sensor.resend_from++;
    } else {
      sensor.resend_from = 0;
      if (one_of(30) == 0) sensor.made += one_of(5);  // numbers left out
      sequence = ++sensor.made;
      if (one_of(40) == 0 && sequence > 3) sequence -= one_of(3);  // again
    }
    const std::size_t bytes = one_of(10) == 0 ? one_of(300'000) : one_of(2000);
    auto message = opaque_frame(1, sequence, pattern_bytes(sequence, bytes));
    switch (one_of(20)) {
      case 0:
        message.mutable_frame()->set_crc32c(1);
        break;
      case 1:
        message.mutable_frame()->set_hops(9);
        break;
      case 2:
        message.mutable_frame()->clear_payload();
        break;
      case 3:
        message.mutable_frame()->set_epoch(sensor.epoch + 1'000'000);
        break;
      default:
        break;
    }
    if (one_of(4) == 0) return send_parts(sensor, message.frame());
    const std::string whole = message.SerializeAsString();
    if (one_of(3) != 0) {
      sensor.peer->send_bytes(whole);
      sensor.peer->pump();
      bridge_.clock.advance(milliseconds(1));
      return;
    }
    if (one_of(15) == 0) {  // the connection breaks in the middle
      sensor.peer->begin(whole.size());
      sensor.peer->chunk(std::string_view(whole).substr(0, whole.size() / 2));
      return disconnect(sensor);
    }
    sensor.peer->send_pieces(
        whole, {whole.size() / 3, whole.size() / 2}, one_of(2) == 0, one_of(2) == 0);
  }

  void send_parts(Sensor& sensor, const v1::Frame& frame) {
    const std::string whole = frame.SerializeAsString();
    const std::size_t piece = 1 + whole.size() / (1 + one_of(6));
    const auto count = static_cast<std::uint32_t>((whole.size() + piece - 1) / piece);
    ++sensor.transfers;
    const std::uint32_t stop = one_of(10) == 0 ? one_of(count) : count;
    for (std::uint32_t i = 0; i < stop; ++i) {
      v1::ClientMessage message;
      auto* part = message.mutable_part();
      part->set_transfer(sensor.transfers);
      part->set_index(one_of(100) == 0 ? i + 1 : i);
      part->set_count(count);
      part->set_total_bytes(whole.size());
      part->set_channel(frame.channel());
      part->set_sequence(frame.sequence());
      part->set_data(whole.substr(i * piece, piece));
      sensor.peer->send(message);
    }
    sensor.peer->pump();
  }

  void connect_consumer(Consumer& consumer) {
    if (consumer.peer) return;
    consumer.peer = std::make_unique<FakePeer>(bridge_, false);
    consumer.ledger = std::make_unique<Ledger>();
    consumer.peer->observe = [ledger = consumer.ledger.get()](const auto& message) {
      ledger->on(message);
    };
    consumer.peer->send(hello_message({}, one_of(3) == 0 ? 5'000 : 0));
    consumer.peer->pump();
  }

  void subscribe(Consumer& consumer) {
    if (!consumer.peer) return;
    static constexpr std::array<const char*, 5> kPatterns{"n/*", "n/0", "n/1", "**", "n/?"};
    const std::uint32_t id = 1 + one_of(4);
    consumer.ledger->pattern_changed(id);
    consumer.peer->subscribe(id, kPatterns[one_of(5)], [&](v1::Subscribe& s) {
      s.set_history(static_cast<v1::History>(one_of(4)));
      if (one_of(2) == 0) s.set_queue_frames(one_of(50));
      if (one_of(4) == 0) s.set_queue_bytes(one_of(500'000));
      if (one_of(4) == 0) s.set_credit(1 + one_of(4));
      if (one_of(4) == 0) s.set_max_age_ms(1 + one_of(500));
      if (one_of(3) == 0) s.set_reliable(true);
      if (one_of(6) == 0) s.mutable_quality()->set_max_hz(static_cast<float>(1 + one_of(100)));
      if (s.history() != v1::HISTORY_FROM) return;
      for (std::uint32_t name = 0; name < kNames; ++name) {
        if (one_of(3) == 0) continue;
        auto* position = s.add_from();
        position->set_channel(fmt::format("n/{}", name));
        position->set_epoch(one_of(4) == 0 ? 77'777 : sensors_[name].epoch);
        position->set_sequence(sensors_[name].made -
                               std::min<std::uint64_t>(sensors_[name].made, one_of(100)) +
                               one_of(5));
      }
    });
  }

  void toggle_reading(FakePeer& peer) {
    if (peer.reading) {
      peer.reading = false;
      if (one_of(2) == 0 && !peer.has_batch()) peer.take_batch();
    } else {
      finish(peer);
    }
  }
  void finish(FakePeer& peer) {
    if (peer.has_batch()) peer.finish_batch();
    peer.reading = true;
  }

  std::mt19937_64 random_;
  TestBridge bridge_;
  std::vector<Sensor> sensors_;
  std::vector<Consumer> consumers_;
  std::map<std::string, std::uint32_t> ids_;
  std::uint64_t next_epoch_ = 10;
};

}  // namespace

TEST_CASE(
    "random peers: frames and gaps cover every promised number exactly once, and the books "
    "balance",
    "[session][model]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  for (std::uint64_t life = 0; life < 12; ++life) {
    INFO("life " << life);
    World world(seed + life);
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 800; ++i) {
        world.step();
        if (i % 50 == 0) world.check_books();
      }
      world.rest();
    }
  }
}
