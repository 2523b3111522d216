#pragma once
// What: a transport without a network: feeds a real session, pulls its batches, parses them with
// protobuf. One thread plays the strand (any one, for one peer); time is a ManualClock. What must
// hold in any test is an SB_CHECK here, because Catch's macros are for one thread only.
#include "simbridge/frame/store.h"
#include "simbridge/metrics/instruments.h"
#include "simbridge/pipeline/pipeline.h"
#include "simbridge/session/hub.h"
#include "support/manual_clock.h"

#include "simbridge/v1/bridge.pb.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::test {

/// A bridge without listeners.
struct TestBridge {
  explicit TestBridge(session::HubOptions options = {},
                      frame::StoreOptions store_options = small_store(),
                      unsigned threads = 0);  // that decimate; 0: pump() does it
  static frame::StoreOptions small_store();

  ManualClock clock;
  metrics::Registry registry;
  metrics::SessionMetrics session_metrics{registry};
  metrics::PipelineMetrics pipeline_metrics{registry};
  std::unique_ptr<frame::FrameStore> store;
  std::unique_ptr<pipeline::Pipeline> pipeline;
  std::unique_ptr<session::Hub> hub;
  bool decimates = true;  // pump() also plays the threads that decimate, when nothing else moves

  [[nodiscard]] session::ChannelSnapshot channel(const std::string& name) const;
  [[nodiscard]] std::optional<session::SubscriptionSnapshot> subscription(
      std::uint64_t session, std::uint32_t id, const std::string& channel) const;
  /// The conservation law of design §5.7, for every channel and every subscription; at rest waiting
  /// = 0 too. Throws what does not balance.
  void check_books(bool at_rest = true) const;
};

class FakePeer final : public session::Peer {
 public:
  explicit FakePeer(TestBridge& bridge,
                    bool hello = true,
                    const std::string& peer_key = {},
                    std::uint64_t max_message_bytes = 0);
  FakePeer(const FakePeer&) = delete;
  FakePeer& operator=(const FakePeer&) = delete;
  ~FakePeer() override;

  // ---- Peer
  void output_ready() override { output_ready_ = true; }
  void resume_input() override { resumed_ = true; }
  void close(const session::CloseReason& reason) override { closed = reason; }
  void wake_at(Monotonic time) override { wake_at_ = time; }
  void set_socket_bytes(std::uint64_t) override {}

  // ---- the peer's side
  session::Flow send(const v1::ClientMessage& message) {
    return send_bytes(message.SerializeAsString());
  }
  session::Flow send_bytes(const std::string& bytes);
  /// The same bytes in pieces, through begin_message, on_chunk and direct_buffer.
  session::Flow send_pieces(const std::string& bytes,
                            const std::vector<std::size_t>& cuts,
                            bool total_known,
                            bool direct = true);
  void advertise(std::uint32_t number,
                 const std::string& name,
                 std::uint64_t epoch = 7,
                 v1::Policy policy = v1::POLICY_DROP_OLDEST,
                 bool latched = false);
  void subscribe(
      std::uint32_t id,
      const std::string& pattern,
      const std::function<void(v1::Subscribe&)>& more = [](v1::Subscribe&) {});
  void unsubscribe(std::uint32_t id);
  void unadvertise(std::uint32_t number);
  void credit(std::uint32_t subscription, std::uint32_t channel, std::uint32_t frames);
  void ping(std::uint64_t cookie);
  void goodbye(const std::string& reason = {});
  /// A message by hand: begin, chunks, then session().end_message().
  void begin(std::optional<std::uint64_t> total_bytes);
  session::Taken chunk(std::string_view bytes);
  /// An opaque frame.
  session::Flow frame(std::uint32_t number,
                      std::uint64_t sequence,
                      std::size_t bytes = 100,
                      std::uint64_t epoch = 0);

  /// Runs the strand until nothing moves. stop_reading: batches are taken but never finished.
  void pump();
  bool reading = true;
  void finish_batch();  // the one that was taken while reading was false
  bool take_batch();    // without finishing it
  [[nodiscard]] bool has_batch() const { return batch_.has_value(); }
  void disconnect(bool clean = false);
  void half_close();
  void tick(milliseconds by);  // time passes, timers run

  // ---- what came
  std::vector<v1::ServerMessage> received;
  std::function<void(const v1::ServerMessage&)> observe;  // told of each as it comes
  std::optional<session::CloseReason> closed;
  /// The first message of that kind from index `from` on that was not taken yet; it is removed.
  template <typename Has>
  std::optional<v1::ServerMessage> next(Has has) {
    pump();
    for (auto it = received.begin(); it != received.end(); ++it) {
      if (!has(*it)) continue;
      v1::ServerMessage found = std::move(*it);
      received.erase(it);
      return found;
    }
    return std::nullopt;
  }
  std::optional<v1::Frame> next_frame();
  std::optional<v1::Gap> next_gap();
  std::optional<v1::Ack> next_ack();
  std::optional<v1::Reject> next_reject();
  std::optional<v1::Advertised> next_advertised();
  std::optional<v1::SubscriptionState> next_state();
  std::optional<v1::Status> next_status();
  std::optional<v1::Channels> next_channels();
  std::vector<v1::Frame> frames();
  std::vector<v1::Gap> gaps();
  std::vector<v1::Ack> acks();
  std::vector<v1::Reject> rejects();
  [[nodiscard]] std::uint64_t id() const { return value(session_->id()); }
  [[nodiscard]] session::Session& session() { return *session_; }
  std::uint64_t frames_sent = 0;
  std::uint64_t direct_bytes = 0;  // how much went through direct_buffer()

 private:
  void wait_for_held();

  TestBridge& bridge_;
  std::shared_ptr<std::atomic<bool>> woken_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<session::Session> session_;
  bool output_ready_ = false;
  bool resumed_ = false;
  std::optional<Monotonic> wake_at_;
  std::optional<session::Batch> batch_;
  std::deque<std::string> held_;  // paused messages
};

v1::ClientMessage hello_message(const std::string& peer_key = {},
                                std::uint64_t max_message_bytes = 0);
v1::ClientMessage opaque_frame(std::uint32_t channel,
                               std::uint64_t sequence,
                               const std::string& data,
                               std::uint64_t epoch = 0);
v1::ClientMessage cloud_frame(std::uint32_t channel, std::uint64_t sequence, std::uint32_t points);
std::string pattern_bytes(std::uint64_t seed, std::size_t bytes);

/// The parts of a frame: the head up to the data, then data in pieces of that size.
std::vector<v1::ClientMessage> parts_of(const v1::Frame& frame,
                                        std::uint64_t transfer,
                                        std::size_t piece);

}  // namespace simbridge::test
