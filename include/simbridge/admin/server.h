#pragma once
// What: the admin server: /healthz, /readyz, /metrics and /api/v1 over HTTP/1.1, for people, probes
// and scrapers. It reads snapshots and changes nothing. Owner: app.   Threads: one of its own, on
// which every provider below is called; a slow client can keep that thread's connections busy and
// nothing else. start(), stop() and the destructor: the owner.
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simbridge::metrics {
struct AdminMetrics;
}

namespace simbridge::admin {

// ---- what the pages show: plain values of this module, so that it knows no other ----------------

struct ChannelRow {
  std::string name;
  std::uint64_t received = 0, rejected = 0, duplicate = 0, published = 0;
  std::uint64_t kept_frames = 0, kept_bytes = 0;
};
/// One row for each channel that a subscription has met.
struct SubscriptionRow {
  std::uint64_t session = 0;
  std::uint32_t id = 0;
  std::string channel;
  std::uint64_t promised = 0, delivered = 0, skipped = 0, waiting = 0, lost = 0;
  std::vector<std::pair<std::string, std::uint64_t>> gaps;  // reason, frames
};
struct SessionRow {
  std::uint64_t id = 0;
  std::string name, agent, transport, address;
  double age_s = 0;
  std::uint64_t channels = 0, subscriptions = 0;
  std::uint64_t frames_in = 0, bytes_in = 0, frames_out = 0, bytes_out = 0, outbox_bytes = 0;
};
/// What holds now. In this version all of it comes from the configuration.
struct Limits {
  std::uint64_t budget_bytes = 0, warm_reserve_bytes = 0, ingest_bytes = 0, pin_bytes = 0,
                max_frame_bytes = 0;
  std::uint64_t depth_frames = 0;
  std::uint64_t io_threads = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t sessions_max = 0, sessions_open = 0;
  double accept_rate = 0;
  std::uint64_t channels_max = 0, channels_per_session = 0, subscriptions_per_session = 0;
  std::uint64_t max_message_bytes = 0, window_bytes = 0, max_points = 0;
};
struct Readiness {
  bool ready = false;
  std::string why;  // one word: ready, starting, draining
};

/// Each is called on the admin thread and must not wait for a session.
struct Snapshots {
  std::function<Readiness()> readiness;
  std::function<std::string()> metrics;  // Prometheus' text
  std::function<std::vector<ChannelRow>()> channels;
  std::function<std::vector<SubscriptionRow>()> subscriptions;
  std::function<std::vector<SessionRow>()> sessions;
  std::function<Limits()> limits;
};

struct ServerOptions {
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;
  std::size_t max_connections = 64;
  std::size_t max_header_bytes = std::size_t{8} * 1024;
  std::size_t max_body_bytes = std::size_t{64} * 1024;
  milliseconds timeout{10'000};  // to send a request, to take an answer, between two requests
};

class Server {
 public:
  /// Listens and serves when it returns.
  static Result<std::unique_ptr<Server>> start(ServerOptions options,
                                               Snapshots snapshots,
                                               metrics::AdminMetrics& metrics);
  virtual ~Server() = default;  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] virtual std::uint16_t port() const = 0;  // the one that the kernel chose for 0

 protected:
  Server() = default;
};

/// docs/endpoints.md, whole.
[[nodiscard]] std::string endpoints_markdown();

}  // namespace simbridge::admin
