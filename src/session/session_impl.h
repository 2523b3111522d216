#pragma once
// What: the protocol state machine (protocol.md §2 to §4). The parts: session_impl.cpp (opening,
// closing, timers, drain), session_control.cpp (control messages), session_subscribe.cpp
// (subscriptions), session_ingest.cpp (whole frames in), session_pieces.cpp (what arrives in
// pieces), session_output.cpp (frames out), session_derived.cpp (what a quality makes of them).
// Owner: the transport's connection.   Threads: the session's strand; the WakeQueue any.
#include "session/hub_impl.h"
#include "session/intake.h"
#include "session/outbox.h"
#include "session/producing.h"
#include "session/reading.h"
#include "simbridge/session/hub.h"
#include "simbridge/session/session.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace simbridge::session {

class SessionImpl final : public Session {
 public:
  SessionImpl(Hub::Impl& hub,
              Admission admission,
              std::uint64_t id,
              PeerInfo info,
              Peer& peer,
              std::move_only_function<void() const> waker,
              StrandRole role);
  SessionImpl(const SessionImpl&) = delete;
  SessionImpl& operator=(const SessionImpl&) = delete;
  ~SessionImpl() override;

  [[nodiscard]] SessionId id() const override { return SessionId{id_}; }
  Flow on_message(std::span<const std::byte> message, MessageType type) override;
  void begin_message(std::optional<std::uint64_t> total_bytes, MessageType type) override;
  Taken on_chunk(std::span<const std::byte> chunk) override;
  std::span<std::byte> direct_buffer() override;
  void direct_filled(std::size_t bytes) override;
  Flow end_message() override;
  [[nodiscard]] std::uint64_t max_message_bytes() const override;
  bool next_batch(Batch& batch) override;
  void batch_progress(std::size_t bytes) override;
  void batch_done() override;
  std::shared_ptr<void> take_references() override;
  void on_wake() override;
  void on_timer() override;
  void on_half_close() override;
  void on_closed(const CloseReason& reason, bool clean) override;

 private:
  enum class State : std::uint8_t { kNeedHello, kOpen, kClosing, kClosed };

  // ---- session_impl.cpp
  void close(CloseKind kind, std::string text) SB_REQUIRES(role_);
  void arm(Monotonic when) SB_REQUIRES(role_);
  void announce_output() SB_REQUIRES(role_);
  [[nodiscard]] bool has_output() const SB_REQUIRES(role_);
  void send(const wire::ServerMessage& message) SB_REQUIRES(role_);
  void send_gap(const wire::Gap& gap) SB_REQUIRES(role_);
  void account_outbox() SB_REQUIRES(role_);
  [[nodiscard]] bool input_blocked() const SB_REQUIRES(role_);
  void resume_if_possible() SB_REQUIRES(role_);
  void drain_step(Monotonic now) SB_REQUIRES(role_);
  void begin_drain(Monotonic now) SB_REQUIRES(role_);
  void free_everything() SB_REQUIRES(role_);
  [[nodiscard]] bool all_at_head() const SB_REQUIRES(role_);

  [[nodiscard]] bool is_flat() const { return info_.encoding == Encoding::kFlat; }

  // ---- session_control.cpp
  Flow handle(const wire::ClientMessage& message,
              std::span<const std::byte> bytes,
              MessageType type) SB_REQUIRES(role_);
  Flow refuse_malformed(std::string detail) SB_REQUIRES(role_);
  void reject_request(wire::Reject reject) SB_REQUIRES(role_);
  void sync_channels() SB_REQUIRES(role_);
  Flow on_hello(const wire::Hello& hello) SB_REQUIRES(role_);
  void on_advertise(const wire::Advertise& message) SB_REQUIRES(role_);
  void end_producing(std::uint32_t number) SB_REQUIRES(role_);
  void end_all_producing() SB_REQUIRES(role_);
  void cut_frames(std::uint32_t number, wire::RejectCode code, const std::string& why)
      SB_REQUIRES(role_);

  // ---- session_subscribe.cpp
  void on_subscribe(const wire::Subscribe& message) SB_REQUIRES(role_);
  void apply_change(Subscription& subscription, const wire::Subscribe& message) SB_REQUIRES(role_);
  void on_unsubscribe(std::uint32_t id) SB_REQUIRES(role_);
  void finish_subscription(Subscription& subscription) SB_REQUIRES(role_);
  void on_credit(const wire::Credit& credit) SB_REQUIRES(role_);
  void meet(Subscription& subscription, const std::shared_ptr<Channel>& channel) SB_REQUIRES(role_);
  void place(Reading& reading, const wire::Subscribe& spec, Channel& channel) SB_REQUIRES(role_);
  void place_after(Reading& reading,
                   const wire::Position& had,
                   const Channel& channel,
                   std::uint64_t head,
                   std::uint64_t tail) SB_REQUIRES(role_);
  void set_claim(Reading& reading) SB_REQUIRES(role_);
  void end_reading(Reading& reading) SB_REQUIRES(role_);
  void send_state(Subscription& subscription, bool ended) SB_REQUIRES(role_);
  [[nodiscard]] static wire::Counters counters_of(const Reading& reading, bool ends);

  // ---- session_ingest.cpp
  /// A message that is here in full; a frame is in head_ then.
  wire::ClientMessage parse_whole(std::span<const std::byte> message, MessageType type)
      SB_REQUIRES(role_);
  Flow on_frame(std::span<const std::byte> bytes, wire::FrameHead& head, bool may_wait)
      SB_REQUIRES(role_);
  Producing* producing(std::uint32_t number) SB_REQUIRES(role_);
  /// Everything that protocol.md §3 judges on the head, in its order.
  Outcome judge(const wire::FrameHead& head, std::uint32_t& warnings) SB_REQUIRES(role_);
  Outcome judge_place(const wire::FrameHead& head, Producing& from) SB_REQUIRES(role_);
  enum class Room : std::uint8_t { kGranted, kWait, kRefused };
  /// at_hand: the whole message is there, and the frame is published before the strand goes on.
  Room take_room(const wire::FrameHead& head,
                 bool at_hand,
                 frame::Reservation& room,
                 Outcome& outcome) SB_REQUIRES(role_);
  void publish(const wire::FrameHead& head, frame::Reservation room, std::uint32_t warnings)
      SB_REQUIRES(role_);
  void count_duplicate(const wire::FrameHead& head) SB_REQUIRES(role_);
  void refuse_frame(const wire::FrameHead& head, const Outcome& outcome) SB_REQUIRES(role_);
  void tell_warnings(Channel& channel, std::uint32_t fresh) SB_REQUIRES(role_);
  void count_ack(Producing& from, std::uint64_t data_bytes, Monotonic now) SB_REQUIRES(role_);
  void acknowledge(Producing& from) SB_REQUIRES(role_);
  void watch_window(const Producing& from, Monotonic now) SB_REQUIRES(role_);
  [[nodiscard]] std::uint64_t window(const Producing& from) const SB_REQUIRES(role_);
  void send_acks(Monotonic now) SB_REQUIRES(role_);
  [[nodiscard]] wire::FrameLimits frame_limits() const SB_REQUIRES(role_);

  // ---- session_pieces.cpp
  Taken feed(FrameInProgress& frame, std::span<const std::byte> chunk, bool envelope)
      SB_REQUIRES(role_);
  std::size_t feed_head(FrameInProgress& frame, std::span<const std::byte> chunk, bool envelope)
      SB_REQUIRES(role_);
  void start_whole(FrameInProgress& frame) SB_REQUIRES(role_);
  void start_data(FrameInProgress& frame) SB_REQUIRES(role_);
  Flow finish(FrameInProgress& frame, bool envelope) SB_REQUIRES(role_);
  Flow finish_whole(std::span<const std::byte> bytes, bool envelope) SB_REQUIRES(role_);
  Flow finish_flat_tail(FrameInProgress& frame) SB_REQUIRES(role_);
  void keep_flat_tail(FrameInProgress& frame, std::span<const std::byte> bytes) SB_REQUIRES(role_);
  std::optional<std::string> judge_flat_tail(FrameInProgress& frame) SB_REQUIRES(role_);
  std::size_t control_limit(std::span<const std::byte> first) const SB_REQUIRES(role_);
  Taken feed_part(std::span<const std::byte> chunk) SB_REQUIRES(role_);
  Taken feed_control(std::span<const std::byte> chunk) SB_REQUIRES(role_);
  Flow on_part(const wire::Part& part, bool may_wait) SB_REQUIRES(role_);
  bool begin_part(const wire::Part& part, std::uint64_t data_bytes) SB_REQUIRES(role_);
  Flow end_part() SB_REQUIRES(role_);
  void drop_transfer() SB_REQUIRES(role_);
  void refuse_part(const wire::Part& part, std::string detail) SB_REQUIRES(role_);
  FrameInProgress* filling() SB_REQUIRES(role_);
  void check_slow(FrameInProgress& frame, Monotonic now) SB_REQUIRES(role_);
  void take_whole_room(FrameInProgress& frame, std::uint64_t bytes) SB_REQUIRES(role_);
  void grow_whole(FrameInProgress& frame, std::span<const std::byte> more) SB_REQUIRES(role_);

  // ---- session_derived.cpp
  [[nodiscard]] wire::Quality applied(const wire::Quality& asked) const SB_REQUIRES(role_);
  void set_stream(Reading& reading) SB_REQUIRES(role_);
  static void leave_stream(Reading& reading);
  static void drop_asked(Reading& reading, std::uint64_t to);
  enum class Form : std::uint8_t { kAsSent, kDerived, kImpossible };
  [[nodiscard]] static Form form_of(const Reading& reading, const frame::FrameInfo& info);
  enum class Made : std::uint8_t { kThere, kNotYet, kFailed };
  Made ask_derived(Reading& reading,
                   const frame::FrameInfo& info,
                   std::uint64_t head,
                   frame::FrameRef& derived) SB_REQUIRES(role_);
  void ask_ahead(Reading& reading, std::uint64_t head) SB_REQUIRES(role_);
  void ask_again() SB_REQUIRES(role_);

  // ---- session_output.cpp
  enum class Step : std::uint8_t { kTook, kIdle, kFull, kBlocked, kControlFirst };
  Step take(Reading& reading, Batch& batch) SB_REQUIRES(role_);
  /// What goes out at a position: the frame as it came, or what the quality made of it.
  struct Found {
    frame::FrameRef raw;
    frame::FrameRef derived;  // empty: the raw frame goes out
  };
  Step place_frame(Reading& reading, Found found, Batch& batch, Monotonic now) SB_REQUIRES(role_);
  Found find_frame(Reading& reading) SB_REQUIRES(role_);
  void pass_over_had(Reading& reading, std::uint64_t head) SB_REQUIRES(role_);
  [[nodiscard]] bool is_too_old(const Reading& reading,
                                const frame::FrameInfo& info,
                                std::uint64_t head) const SB_REQUIRES(role_);
  [[nodiscard]] bool is_too_early(const Reading& reading) const SB_REQUIRES(role_);
  [[nodiscard]] bool fits_peer(const frame::FrameRef& frame) const SB_REQUIRES(role_);
  bool tell_gaps(Reading& reading, Batch& batch) SB_REQUIRES(role_);

  bool place_control(const wire::ServerMessage& message, Batch& batch) SB_REQUIRES(role_);
  void jump_queue(Reading& reading, std::uint64_t head) SB_REQUIRES(role_);
  void count_lost(Reading& reading, wire::GapReason reason, std::uint64_t frames) const
      SB_REQUIRES(role_);
  void lose(Reading& reading, std::uint64_t to, wire::GapReason kept_reason) SB_REQUIRES(role_);
  void add_gap(Reading& reading, wire::Gap gap) SB_REQUIRES(role_);
  void explain_missing(Reading& reading, const frame::FrameInfo& info) SB_REQUIRES(role_);
  void explain_runs(Reading& reading,
                    std::uint64_t epoch,
                    std::uint64_t end,
                    const std::array<frame::UnpublishedRun, 3>& runs) SB_REQUIRES(role_);
  void tell_number_gap(Reading& reading,
                       std::uint64_t epoch,
                       std::uint64_t first,
                       std::uint64_t last,
                       wire::GapReason reason) SB_REQUIRES(role_);
  void leave_epoch(Reading& reading) SB_REQUIRES(role_);
  void move_cursor(Reading& reading, std::uint64_t to) SB_REQUIRES(role_);
  void queue(Reading& reading) SB_REQUIRES(role_);
  void unqueue(Reading& reading) SB_REQUIRES(role_);
  [[nodiscard]] std::uint64_t peer_limit() const SB_REQUIRES(role_);
  std::byte* scratch(std::size_t bytes) SB_REQUIRES(role_);
  void release_scratch() SB_REQUIRES(role_);

  // ---- session_wrap.cpp
  /// The bytes that go out before the frame's data and behind it.
  struct Wrapping {
    std::uint64_t prefix_max = 0;
    std::string meta;  // flat: a #meta that is due
    [[nodiscard]] std::uint64_t suffix_max() const { return meta.empty() ? 0 : meta.size() + 7; }
  };
  [[nodiscard]] Wrapping wrapping_of(Reading& reading,
                                     const frame::FrameRef& frame,
                                     const wire::Outgoing& outgoing) SB_REQUIRES(role_);
  static void note_meta(Reading& reading, const frame::FrameRef& frame, bool sent);
  [[nodiscard]] OutMessage wrap(const Wrapping& wrapping,
                                const frame::FrameRef& frame,
                                const wire::Outgoing& outgoing,
                                std::byte* place) const SB_REQUIRES(role_);
  void abandon_parts(wire::GapReason reason) SB_REQUIRES(role_);
  bool place_part(Batch& batch) SB_REQUIRES(role_);

  // ---- session_claims.cpp
  void settle_claim(Reading& reading) SB_REQUIRES(role_);
  void watch_claim(Reading& reading) SB_REQUIRES(role_);
  void check_claims(Monotonic now) SB_REQUIRES(role_);
  struct Held {
    bool shrunk = false, evicted = false;
  };
  [[nodiscard]] Held held_in_flight() SB_REQUIRES(role_);
  void check_stall(Monotonic now) SB_REQUIRES(role_);

  Hub::Impl& hub_;
  Peer& peer_;
  StrandRole role_;
  const std::uint64_t id_;
  PeerInfo info_;
  std::shared_ptr<frame::WakeQueue> wake_;
  std::shared_ptr<SessionBooks> books_;

  Admission admission_ SB_GUARDED_BY(role_);
  State state_ SB_GUARDED_BY(role_) = State::kNeedHello;
  wire::Hello hello_ SB_GUARDED_BY(role_);
  Outbox outbox_ SB_GUARDED_BY(role_);  // after info_
  bool output_announced_ SB_GUARDED_BY(role_) = false;
  bool input_paused_ SB_GUARDED_BY(role_) = false;
  std::uint32_t malformed_in_a_row_ SB_GUARDED_BY(role_) = 0;
  bool goodbye_ SB_GUARDED_BY(role_) = false;
  bool half_closed_ SB_GUARDED_BY(role_) = false;
  CloseKind closing_kind_ SB_GUARDED_BY(role_) = CloseKind::kNormal;

  // timers
  Monotonic armed_ SB_GUARDED_BY(role_) = Monotonic::max();
  Monotonic hello_by_ SB_GUARDED_BY(role_){};
  std::uint32_t pongs_waiting_ SB_GUARDED_BY(role_) = 0;

  // drain
  bool drain_begun_ SB_GUARDED_BY(role_) = false;
  Monotonic drain_turn_ SB_GUARDED_BY(role_){}, drain_deadline_ SB_GUARDED_BY(role_){};

  // the hub's log of channels
  std::uint64_t seen_version_ SB_GUARDED_BY(role_) = 0, first_list_until_ SB_GUARDED_BY(role_) = 0;
  bool first_list_done_ SB_GUARDED_BY(role_) = false;
  struct OwedAdvertised {
    std::uint64_t version = 0;  // it is sent after this place of the log
    wire::Advertised message;
  };
  std::vector<OwedAdvertised> advertised_owed_ SB_GUARDED_BY(role_);

  // producing
  std::unordered_map<std::uint32_t, std::unique_ptr<Producing>> producing_ SB_GUARDED_BY(role_);
  bool counted_as_producer_ SB_GUARDED_BY(role_) = false;
  frame::IngestAccount account_;
  wire::FrameHead head_ SB_GUARDED_BY(role_);  // of whole messages; keeps its capacity
  MessageInPieces pieces_ SB_GUARDED_BY(role_);
  Transfer transfer_ SB_GUARDED_BY(role_);
  std::optional<Monotonic> room_by_ SB_GUARDED_BY(role_);  // a frame waits for memory until then
  std::shared_ptr<const frame::Watcher> memory_watcher_;

  // consuming
  std::map<std::uint32_t, std::unique_ptr<Subscription>> subscriptions_ SB_GUARDED_BY(role_);
  struct SlotUse {
    Reading* reading = nullptr;
    Producing* producing = nullptr;
  };
  std::vector<SlotUse> slots_ SB_GUARDED_BY(role_);
  std::deque<Reading*> ready_ SB_GUARDED_BY(role_);
  std::vector<std::shared_ptr<Reading>> blocked_ SB_GUARDED_BY(role_);  // wait for a ticket
  std::shared_ptr<const frame::Watcher> ticket_watcher_;

  // the batch that the transport has
  struct InFlight {
    std::shared_ptr<Reading> reading;
    frame::FrameRef frame;
    std::shared_ptr<pipeline::DerivedStream> stream;  // whose frame it is; none: the channel's own
    bool counts = true;                               // false: a part that is not the last
  };
  bool in_batch_ SB_GUARDED_BY(role_) = false;
  std::vector<InFlight> in_flight_ SB_GUARDED_BY(role_);
  frame::PinTicket ticket_ SB_GUARDED_BY(role_);
  Monotonic batch_moved_ SB_GUARDED_BY(role_){};
  std::vector<std::byte> scratch_ SB_GUARDED_BY(role_);
  std::size_t scratch_used_ SB_GUARDED_BY(role_) = 0;
  struct PartsOut {
    std::shared_ptr<Reading> reading;  // empty: none running
    frame::FrameRef frame;
    std::shared_ptr<pipeline::DerivedStream> stream;
    wire::Part part;  // of the next one
    std::uint64_t data_sent = 0, chunk = 0;
    wire::Outgoing outgoing;
  } parts_ SB_GUARDED_BY(role_);
  std::uint64_t last_transfer_out_ SB_GUARDED_BY(role_) = 0;
  std::vector<frame::LostRun> lost_runs_ SB_GUARDED_BY(role_);
};

}  // namespace simbridge::session
