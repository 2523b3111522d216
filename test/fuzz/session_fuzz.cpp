// A session fed by a peer that does anything: whole messages, pieces, parts, time, disconnects,
// memory that comes and goes; bytes choose. The books balance at every end.
#include "session/fake_peer.h"
#include "wire/quiet_protobuf.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint32_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  std::string bytes(std::size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }

 private:
  std::span<const std::uint8_t> rest_;
};

class Fuzzed {
 public:
  Fuzzed() : bridge_(options()) {}

  void step(Input& input) {
    auto& peer = peers_[input.byte() % peers_.size()];
    if (!peer || peer->closed) {
      peer.reset();
      peer = std::make_unique<FakePeer>(
          bridge_, true, std::string(16, 'k'), input.byte() % 4 == 0 ? 2000 : 0);
    }
    switch (input.byte() % 16) {
      case 0:
        peer->send_bytes(input.bytes(input.byte()));
        break;
      case 1: {
        const std::string bytes = input.bytes(input.byte());
        const std::size_t cut = bytes.empty() ? 0 : input.byte() % bytes.size();
        peer->send_pieces(bytes, {cut}, input.byte() % 2 == 0);
        break;
      }
      case 2:
        peer->tick(milliseconds(input.byte() * input.byte()));
        break;
      case 3:
        subscribe(*peer, input);
        break;
      case 4:
        peer->disconnect(input.byte() % 2 == 0);
        peer.reset();
        break;
      case 5:
        peer->advertise(1 + input.byte() % 3,
                        std::string(1, static_cast<char>('a' + input.byte() % 3)),
                        input.byte() % 4,
                        static_cast<v1::Policy>(input.byte() % 3),
                        input.byte() % 2 == 0);
        break;
      case 6:
        part(*peer, input);
        break;
      case 7:
        peer->unsubscribe(input.byte() % 3);
        break;
      case 8:
        peer->credit(input.byte() % 3, input.byte() % 4, input.byte());
        break;
      case 9:
        if (peer->has_batch()) {
          peer->finish_batch();
        } else {
          peer->take_batch();
        }
        break;
      case 10:
        peer->reading = !peer->reading;
        break;
      case 11:
        bridge_.store->set_budget(Bytes{(1ULL + input.byte() % 16) << 20U});
        break;
      case 12:
        bridge_.store->set_depth(1 + input.byte() % 8);
        break;
      case 13: {  // half a message, then whatever comes next breaks it off
        const auto whole = frame(input).SerializeAsString();
        peer->begin(input.byte() % 2 == 0 ? std::optional<std::uint64_t>(whole.size())
                                          : std::nullopt);
        const auto taken = peer->chunk(std::string_view(whole).substr(0, whole.size() / 2));
        if (taken.flow == session::Flow::kContinue) peer->session().end_message();
        break;
      }
      case 14:
        if (input.byte() % 16 == 0) {
          peer->half_close();
        } else {
          peer->send_pieces(frame(input).SerializeAsString(), {3, 40}, input.byte() % 2 == 0);
        }
        break;
      default:
        peer->send(frame(input));
        break;
    }
    if (peer) {
      peer->pump();
      if (peer->received.size() > 1000) peer->received.clear();
    }
  }

  void rest() {
    for (int round = 0; round < 20; ++round) {
      for (auto& peer : peers_) {
        if (!peer) continue;
        if (peer->has_batch()) peer->finish_batch();
        peer->reading = true;
        peer->tick(milliseconds(50));
      }
    }
    bridge_.check_books(false);  // what waits for credit may wait
    for (auto& peer : peers_) peer.reset();
    const auto stats = bridge_.store->stats();
    if (stats.ingest_held.count != 0 || stats.pins_held.count != 0 || stats.pinned.count != 0)
      __builtin_trap();
  }

 private:
  static session::HubOptions options() {
    session::HubOptions options;
    options.accept_rate = 1e9;
    options.max_message_bytes = 1 << 20;
    options.window_bytes = 5'000;
    return options;
  }
  static v1::ClientMessage frame(Input& input) {
    const std::uint32_t channel = 1 + input.byte() % 3;
    const std::uint64_t sequence = input.byte() % 32;
    const std::size_t bytes = input.byte() * (input.byte() % 8 == 0 ? 500U : 3U);
    auto message = opaque_frame(channel, sequence, pattern_bytes(sequence, bytes));
    if (input.byte() % 16 == 0) message.mutable_frame()->set_epoch(input.byte() % 4);
    if (input.byte() % 16 == 0) message.mutable_frame()->set_crc32c(7);
    return message;
  }
  static void part(FakePeer& peer, Input& input) {
    const std::string whole = frame(input).frame().SerializeAsString();
    const std::uint32_t count = 1 + input.byte() % 4;
    const std::size_t piece = 1 + whole.size() / count;
    v1::ClientMessage message;
    auto* part = message.mutable_part();
    part->set_transfer(input.byte() % 8);
    part->set_index(input.byte() % count);
    part->set_count(count);
    part->set_total_bytes(whole.size());
    part->set_channel(1);
    part->set_sequence(input.byte());
    const std::size_t at = std::min(part->index() * piece, whole.size());
    part->set_data(whole.substr(at, piece));
    peer.send(message);
  }
  static void subscribe(FakePeer& peer, Input& input) {
    const std::uint32_t id = input.byte() % 3;
    const bool all = input.byte() % 2 == 0;
    peer.subscribe(id, all ? "*" : "a", [&](v1::Subscribe& s) {
      s.set_history(static_cast<v1::History>(input.byte() % 5));
      s.set_queue_frames(input.byte() % 16);
      s.set_reliable(input.byte() % 2 == 0);
      s.set_credit(input.byte() % 4);
      s.set_max_age_ms(input.byte() % 4 == 0 ? 10 : 0);
      if (input.byte() % 4 == 0) s.mutable_quality()->set_max_hz(static_cast<float>(input.byte()));
      auto* position = s.add_from();
      position->set_channel("a");
      position->set_epoch(input.byte() % 4);
      position->set_sequence(input.byte() % 32);
    });
  }

  TestBridge bridge_;
  std::array<std::unique_ptr<FakePeer>, 3> peers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const wire::test::QuietProtobuf quiet;
  Input input({data, size});
  Fuzzed fuzzed;
  while (!input.empty()) fuzzed.step(input);
  fuzzed.rest();
  return 0;
}
