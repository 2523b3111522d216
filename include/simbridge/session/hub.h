#pragma once
// What: all sessions and channels of this bridge: who may come in, who holds which name, who is
// told what. Owner: app, one per process; outlives the transports. FrameStore, Pipeline and Clock
// outlive it.
// Threads: any. Its lock is for control (advertise, subscribe, come and go), never for frames.
#include "simbridge/base/bytes.h"
#include "simbridge/base/clock.h"
#include "simbridge/frame/store.h"
#include "simbridge/session/peer.h"
#include "simbridge/session/session.h"
#include "simbridge/wire/messages.h"

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace simbridge::metrics {
struct SessionMetrics;
}
namespace simbridge::pipeline {
class Pipeline;
}

namespace simbridge::session {

/// The limits of protocol.md §2 and §3; each is a knob. Those marked live may change while sessions
/// run.
struct HubOptions {
  std::string bridge_name = "simbridge";
  std::string version;
  std::uint64_t boot_id = 0;          // 0: random
  std::uint32_t max_sessions = 4096;  // live
  double accept_rate = 200;           // sessions a second, burst of one second
  std::uint64_t max_message_bytes = 64ULL << 20;
  milliseconds hello_timeout{10'000};
  std::uint32_t ping_interval_ms = 10'000;
  std::uint32_t max_channels = 4096;
  std::uint32_t max_channels_per_session = 256;
  std::uint32_t max_subscriptions_per_session = 64;
  std::uint64_t max_schema_bytes = 1ULL << 20;
  std::uint64_t max_schema_bytes_total = 16ULL << 20;
  std::uint64_t max_points = 1ULL << 22;
  std::uint32_t queue_frames = 2;  // default of a subscription
  std::uint64_t queue_bytes = 32ULL << 20;
  std::uint64_t window_bytes =
      16ULL << 20;  // of a channel; BACKPRESSURE: less what reliable readers hold back
  milliseconds reliable_timeout{30'000};
  milliseconds memory_wait{250};       // for room at the door
  milliseconds stall_timeout{10'000};  // of a peer that holds a ticket others wait for
  milliseconds channel_remove_after{600'000};
  milliseconds latched_remove_after{86'400'000};
};

/// A counted place among max_sessions; given back when destroyed.
class [[nodiscard]] Admission {
 public:
  Admission() = default;
  Admission(Admission&& other) noexcept : hub_(std::exchange(other.hub_, nullptr)) {}
  Admission& operator=(Admission&& other) noexcept {
    std::swap(hub_, other.hub_);
    return *this;
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  ~Admission();

 private:
  friend class Hub;
  explicit Admission(Hub* hub) : hub_(hub) {}
  Hub* hub_ = nullptr;
};
struct Refusal {
  enum class Cause : std::uint8_t { kDraining, kMaxSessions, kAcceptRate } cause = Cause::kDraining;
  std::string text;
  std::uint32_t retry_after_s = 1;
};

// ---- snapshots for the admin page, made from values; no references into the bridge
struct ChannelSnapshot {
  std::string name;
  std::uint64_t received = 0, rejected = 0, duplicate = 0, published = 0, kept_frames = 0,
                kept_bytes = 0;
  bool live = false, latched = false;
  std::uint64_t epoch = 0, last_sequence = 0;
};
struct SubscriptionSnapshot {
  std::uint64_t session = 0;
  std::uint32_t id = 0;
  std::string channel;
  std::uint64_t promised = 0, delivered = 0, skipped = 0, waiting = 0, lost = 0;
  std::vector<std::pair<wire::GapReason, std::uint64_t>> gaps;  // frames by reason, those above 0
};
struct SessionSnapshot {
  std::uint64_t id = 0;
  std::string name, agent, transport, address;
  double age_s = 0;
  std::uint64_t channels = 0, subscriptions = 0, frames_in = 0, bytes_in = 0, frames_out = 0,
                bytes_out = 0, outbox_bytes = 0;
};

class Hub {
 public:
  Hub(frame::FrameStore& store,
      pipeline::Pipeline& pipeline,
      const Clock& clock,
      HubOptions options,
      metrics::SessionMetrics& metrics);
  ~Hub();  // checks that no session is left
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  /// Before a transport says yes to a peer: a place, or why not.
  std::expected<Admission, Refusal> admit();
  /// Starts a session. peer outlives it until on_closed(); waker posts on_wake() to the session's
  /// strand, from any thread, and must tolerate that the connection is gone; role asks the strand.
  std::shared_ptr<Session> open(Admission admission,
                                PeerInfo info,
                                Peer& peer,
                                std::move_only_function<void() const> waker,
                                StrandRole role);

  /// Drain: no new sessions, producers first, spread over the deadline (protocol.md §2.6). Returns
  /// at once.
  void drain(milliseconds deadline, milliseconds retry_after, std::string reason);
  [[nodiscard]] bool draining() const;
  [[nodiscard]] std::size_t sessions() const;

  /// Housekeeping that no session does: channels without producer and reader. Call about once a
  /// second.
  void sweep();

  void set_max_sessions(std::uint32_t sessions);
  [[nodiscard]] const HubOptions& options() const;

  /// Each asks the sessions' published figures; never waits for a session.
  [[nodiscard]] std::vector<ChannelSnapshot> channels() const;
  [[nodiscard]] std::vector<SubscriptionSnapshot> subscriptions() const;
  [[nodiscard]] std::vector<SessionSnapshot> session_list() const;
  /// As a new session would be told them.
  [[nodiscard]] std::vector<wire::ChannelInfo> channel_infos() const;

  struct Impl;  // private to the session module
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  friend class Admission;
  std::unique_ptr<Impl> impl_;
};

}  // namespace simbridge::session
