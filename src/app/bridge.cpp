#include "app/bridge.h"

#include "app/logging.h"
#include "app/process.h"
#include "app/version.h"
#include "simbridge/admin/server.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/log.h"
#include "simbridge/base/mutex.h"
#include "simbridge/frame/store.h"
#include "simbridge/metrics/instruments.h"
#include "simbridge/pipeline/pipeline.h"
#include "simbridge/session/hub.h"
#include "simbridge/transport/grpc_listener.h"
#include "simbridge/transport/io_pool.h"
#include "simbridge/transport/websocket_listener.h"
#include "simbridge/wire/rpc.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

namespace simbridge::app {
namespace {

unsigned io_threads(const Config& config) {
  const auto asked = static_cast<unsigned>(config.count(kIoThreads));
  return asked != 0 ? asked : cpus_here();
}

unsigned decimate_threads(const Config& config) {
  const auto asked = static_cast<unsigned>(config.count(kDecimateThreads));
  return asked != 0 ? asked : cpus_here();
}

pipeline::PipelineOptions pipeline_options(const Config& config) {
  return {.threads = decimate_threads(config),
          .depth = static_cast<std::uint32_t>(config.count(kDecimateDepth))};
}

frame::StoreOptions store_options(const Config& config) {
  frame::StoreOptions options;
  options.budget = config.bytes(kFrameBudget);
  options.warm_reserve = config.bytes(kFrameWarmReserve);
  options.ingest_share = config.ratio(kFrameIngestShare);
  options.pin_share = config.ratio(kFramePinShare);
  options.depth = static_cast<std::uint32_t>(config.count(kFrameDepth));
  options.idle_return = config.time(kFrameIdleReturn);
  return options;
}

session::HubOptions hub_options(const Config& config) {
  const auto count = [&config](const Knob& knob) {
    return static_cast<std::uint32_t>(config.count(knob));
  };
  session::HubOptions options;
  options.bridge_name = config.text(kBridgeName);
  options.version = std::string(version());
  options.boot_id = random_boot_id();
  options.max_sessions = count(kSessionMax);
  options.accept_rate = config.ratio(kSessionAcceptRate);
  options.max_message_bytes = config.bytes(kSessionMaxMessage).count;
  options.hello_timeout = config.time(kSessionHelloTimeout);
  options.ping_interval_ms = static_cast<std::uint32_t>(config.time(kSessionPingInterval).count());
  options.max_channels = count(kChannelsMax);
  options.max_channels_per_session = count(kChannelsPerSession);
  options.max_subscriptions_per_session = count(kSubscriptionsPerSession);
  options.max_schema_bytes = config.bytes(kChannelsSchema).count;
  options.max_schema_bytes_total = config.bytes(kChannelsSchemaTotal).count;
  options.max_points = config.count(kValidateMaxPoints);
  options.queue_frames = count(kSessionQueueFrames);
  options.queue_bytes = config.bytes(kSessionQueueBytes).count;
  options.window_bytes = config.bytes(kSessionWindow).count;
  options.reliable_timeout = config.time(kSessionReliableTimeout);
  options.memory_wait = config.time(kSessionMemoryWait);
  options.stall_timeout = config.time(kSessionStallTimeout);
  options.channel_remove_after = config.time(kChannelsRemoveAfter);
  options.latched_remove_after = config.time(kChannelsLatchedRemoveAfter);
  return options;
}

transport::WebSocketOptions websocket_options(const Config& config) {
  transport::WebSocketOptions options;
  options.bind = config.text(kWebSocketBind);
  options.port = config.port(kWebSocketPort);
  options.handshake_timeout = config.time(kWebSocketHandshakeTimeout);
  options.max_handshakes = config.count(kWebSocketMaxHandshakes);
  options.ping_interval = config.time(kSessionPingInterval);
  return options;
}

transport::GrpcOptions grpc_options(const Config& config) {
  transport::GrpcOptions options;
  options.bind = config.text(kGrpcBind);
  options.port = config.port(kGrpcPort);
  options.queues = static_cast<unsigned>(config.count(kGrpcQueues));
  options.max_message_bytes = config.bytes(kSessionMaxMessage).count;
  options.memory_bytes = config.bytes(kGrpcMemory).count;
  options.handshake_timeout = config.time(kWebSocketHandshakeTimeout);
  options.ping_interval = config.time(kSessionPingInterval);
  return options;
}

enum class Phase : std::uint8_t { kStarting, kReady, kDraining };

class RunningBridge final : public Bridge {
 public:
  explicit RunningBridge(const Config& config)
      : config_(config),
        frame_metrics_(registry_),
        session_metrics_(registry_),
        transport_metrics_(registry_),
        pipeline_metrics_(registry_),
        grpc_metrics_(registry_),
        admin_metrics_(registry_),
        app_metrics_(registry_) {}

  RunningBridge(const RunningBridge&) = delete;
  RunningBridge& operator=(const RunningBridge&) = delete;
  ~RunningBridge() override {
    phase_.store(Phase::kDraining, std::memory_order_relaxed);
    // The way down is the way up backwards: nobody new, nobody left, no thread that could touch
    // them, and only then the figures and the memory. The admin server outlives the listener, so
    // that an operator can watch.
    if (websocket_) websocket_->stop();
    if (grpc_) grpc_->stop();
    websocket_.reset();
    grpc_.reset();
    if (pool_) pool_->stop();
    admin_.reset();
    stop_counting_log_lines();
    scrape_ = {};
    // Members go in reverse order: pool, hub (checks that no session is left), pipeline (that no
    // reader is), store (that every frame is home).
  }

  Result<void> start() {
    start_logging(config_.text(kLogFormat) == "json" ? LogFormat::kJson : LogFormat::kText,
                  &app_metrics_);
    set_log_level(log_level_named(config_.text(kLogLevel)));
    Result<std::unique_ptr<frame::FrameStore>> store =
        frame::FrameStore::create(store_options(config_), clock_);
    if (!store) {
      return fail(ErrorCode::kSystem, fmt::format("frame.budget_bytes: {}", store.error().detail));
    }
    store_ = *std::move(store);
    pipeline_ = std::make_unique<pipeline::Pipeline>(
        *store_, clock_, pipeline_options(config_), pipeline_metrics_);
    hub_ = std::make_unique<session::Hub>(
        *store_, *pipeline_, clock_, hub_options(config_), session_metrics_);
    pool_ = std::make_unique<transport::IoPool>(io_threads(config_), transport_metrics_.io_threads);
    note_live_figures();
    tell_figures();

    Result<std::unique_ptr<admin::Server>> admin =
        admin::Server::start({.bind = config_.text(kAdminBind), .port = config_.port(kAdminPort)},
                             snapshots(),
                             admin_metrics_);
    if (!admin) {
      return fail(ErrorCode::kSystem, cannot_listen(kAdminPort, kAdminBind, admin.error()));
    }
    admin_ = *std::move(admin);

    auto websocket = transport::make_websocket_listener(
        websocket_options(config_), *pool_, *hub_, transport_metrics_);
    if (!websocket) {
      return fail(ErrorCode::kSystem,
                  cannot_listen(kWebSocketPort, kWebSocketBind, websocket.error()));
    }
    websocket_ = *std::move(websocket);
    auto grpc = transport::make_grpc_listener(
        grpc_options(config_), *pool_, *hub_, [this] { return info(); }, grpc_metrics_);
    if (!grpc) {
      return fail(ErrorCode::kSystem, cannot_listen(kGrpcPort, kGrpcBind, grpc.error()));
    }
    grpc_ = *std::move(grpc);
    phase_.store(Phase::kReady, std::memory_order_relaxed);
    return {};
  }

  [[nodiscard]] ListeningAt listening_at() const override {
    return {.websocket = fmt::format("ws://{}/v1/connect",
                                     host_port(config_.text(kWebSocketBind), websocket_->port())),
            .grpc = fmt::format("grpc://{}", host_port(config_.text(kGrpcBind), grpc_->port())),
            .admin = fmt::format("http://{}", host_port(config_.text(kAdminBind), admin_->port()))};
  }

  void tick() override { hub_->sweep(); }

  void reload(const Config& config) override {
    unsigned changed = 0;
    for (const Knob* knob : kKnobs) {
      if (config.value(*knob) == config_.value(*knob)) continue;
      ++changed;
      const std::string was = show_value(*knob, config_.value(*knob));
      const std::string is = show_value(*knob, config.value(*knob));
      if (knob->when == Change::kRestart) {
        log(LogLevel::kWarning,
            "reload",
            "{}: {} stays until the next start, then it is {}",
            knob->key,
            was,
            is);
        continue;
      }
      config_.set(*knob, config.value(*knob), config.source(*knob));
      apply_live(*knob);
      note_live_figures();
      log(LogLevel::kInfo, "reload", "{}: {} was {}", knob->key, is, was);
    }
    if (changed == 0) log(LogLevel::kInfo, "reload", "the configuration is as it was");
  }

  void drain(const std::string& reason) override {
    phase_.store(Phase::kDraining, std::memory_order_relaxed);
    drain_until_ = clock_.now() + config_.time(kDrainDeadline) + kDrainSlack;
    grpc_->drain();
    hub_->drain(config_.time(kDrainDeadline), config_.time(kDrainRetryAfter), reason);
  }

  [[nodiscard]] bool drained() const override {
    return hub_->sessions() == 0 || clock_.now() >= drain_until_;
  }
  [[nodiscard]] std::size_t sessions() const override { return hub_->sessions(); }

 private:
  /// Key, value, reason, what to do: the same for all listeners.
  [[nodiscard]] std::string cannot_listen(const Knob& port,
                                          const Knob& bind,
                                          const Error& error) const {
    return fmt::format(
        "{}: {} cannot be had: {}; set another port (0 = any free one) or another {}, or end what "
        "holds it (ss -ltnp tells)",
        port.key,
        config_.port(port),
        error.detail,
        bind.key);
  }

  static constexpr milliseconds kDrainSlack{1'000};  // for the last closing handshakes

  void apply_live(const Knob& knob) {
    if (&knob == &kFrameBudget) {
      const frame::ShrinkReport report = store_->set_budget(config_.bytes(kFrameBudget));
      log(LogLevel::kInfo,
          "budget",
          "{} frames with {} bytes were evicted, {} bytes given back, {} bytes are still being "
          "written",
          report.frames,
          report.bytes.count,
          report.returned.count,
          report.still_pinned.count);
    } else if (&knob == &kFrameWarmReserve) {
      store_->set_warm_reserve(config_.bytes(kFrameWarmReserve));
    } else if (&knob == &kFrameDepth) {
      store_->set_depth(static_cast<std::uint32_t>(config_.count(kFrameDepth)));
    } else if (&knob == &kFramePinShare) {
      store_->set_pin_share(config_.ratio(kFramePinShare));
    } else if (&knob == &kSessionMax) {
      hub_->set_max_sessions(static_cast<std::uint32_t>(config_.count(kSessionMax)));
    } else if (&knob == &kIoThreads) {
      pool_->resize(io_threads(config_));
    } else if (&knob == &kDecimateThreads) {
      pipeline_->resize(decimate_threads(config_));
    } else if (&knob == &kDecimateDepth) {
      pipeline_->set_depth(static_cast<std::uint32_t>(config_.count(kDecimateDepth)));
    } else if (&knob == &kLogLevel) {
      set_log_level(log_level_named(config_.text(kLogLevel)));
    }
    // drain.* is read when a drain begins.
  }

  void tell_figures() {
    registry_.set_info(metrics::kAppBuild, {std::string(version()), std::string(compiler())});
    registry_.set_info(metrics::kAppBoot, {fmt::format("{:016x}", hub_->options().boot_id)});
    app_metrics_.start_time.set(clock_.wall_ns() / 1'000'000);
    scrape_ = registry_.on_scrape([this] { read_figures(); });
  }

  /// Runs at every scrape, on the admin thread.
  void read_figures() {
    const frame::StoreStats stats = store_->stats();
    frame_metrics_.budget_bytes.set(stats.budget.count);
    frame_metrics_.charged_bytes.set(stats.charged.count);
    frame_metrics_.committed_bytes.set(stats.committed.count);
    frame_metrics_.pinned_bytes.set(stats.pinned.count);
    frame_metrics_.warm_reserve_bytes.set(stats.warm.count);
    frame_metrics_.ingest_bytes.set(stats.ingest_held.count);
    frame_metrics_.lent_bytes.set(stats.pins_held.count);
    frame_metrics_.rings.set(stats.rings);
    frame_metrics_.huge_pages.set(stats.huge_pages);
    frame_metrics_.evicted_frames[metrics::EvictReason::kEvicted].mirror(stats.evicted_frames);
    frame_metrics_.evicted_frames[metrics::EvictReason::kShrink].mirror(stats.shrunk_frames);
    frame_metrics_.evicted_bytes[metrics::EvictReason::kEvicted].mirror(stats.evicted_bytes);
    frame_metrics_.evicted_bytes[metrics::EvictReason::kShrink].mirror(stats.shrunk_bytes);
    frame_metrics_.reservations_failed.mirror(stats.reserve_failures);
    pipeline_metrics_.waiting.set(std::uint64_t{pipeline_->waiting()});
    const Phase phase = phase_.load(std::memory_order_relaxed);
    app_metrics_.ready.set(phase == Phase::kReady);
    app_metrics_.draining.set(phase == Phase::kDraining);
    const ProcessFigures process = process_figures();
    app_metrics_.resident_bytes.set(process.resident_bytes);
    app_metrics_.cpu_time.mirror(process.cpu_us);
    app_metrics_.open_descriptors.set(process.open_descriptors);
    app_metrics_.descriptor_limit.set(process.descriptor_limit);
  }

  [[nodiscard]] admin::Readiness readiness() const {
    switch (phase_.load(std::memory_order_relaxed)) {
      case Phase::kStarting:
        return {.ready = false, .why = "starting"};
      case Phase::kReady:
        return {.ready = true, .why = "ready"};
      case Phase::kDraining:
        break;
    }
    return {.ready = false, .why = "draining"};
  }

  /// Live knobs that nobody else can be asked for.
  struct LiveFigures {
    Bytes warm_reserve;
    std::uint64_t depth = 0;
    std::uint64_t max_sessions = 0;
  };
  [[nodiscard]] LiveFigures live_figures() const SB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return live_;
  }
  void note_live_figures() SB_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    live_ = {.warm_reserve = config_.bytes(kFrameWarmReserve),
             .depth = config_.count(kFrameDepth),
             .max_sessions = config_.count(kSessionMax)};
  }

  [[nodiscard]] admin::Limits limits() const {
    const session::HubOptions& hub = hub_->options();
    const LiveFigures live = live_figures();
    return {.budget_bytes = store_->budget().count,
            .warm_reserve_bytes = live.warm_reserve.count,
            .ingest_bytes = store_->ingest_share().count,
            .pin_bytes = store_->pin_budget().count,
            .max_frame_bytes = store_->max_frame_bytes().count,
            .depth_frames = live.depth,
            .io_threads = pool_->threads(),
            .descriptors = process_figures().descriptor_limit,
            .sessions_max = live.max_sessions,
            .sessions_open = hub_->sessions(),
            .accept_rate = hub.accept_rate,
            .channels_max = hub.max_channels,
            .channels_per_session = hub.max_channels_per_session,
            .subscriptions_per_session = hub.max_subscriptions_per_session,
            .max_message_bytes = hub.max_message_bytes,
            .window_bytes = hub.window_bytes,
            .max_points = hub.max_points};
  }

  /// What GetInfo answers; in any thread.
  [[nodiscard]] wire::Info info() const {
    const session::HubOptions& hub = hub_->options();
    const frame::StoreStats stats = store_->stats();
    wire::Info info;
    info.welcome = {.bridge = hub.bridge_name,
                    .version = hub.version,
                    .boot_id = hub.boot_id,
                    .session = 0,
                    .max_message_bytes = hub.max_message_bytes,
                    .max_frame_bytes = store_->max_frame_bytes().count,
                    .ping_interval_ms = hub.ping_interval_ms,
                    .now_ns = clock_.wall_ns()};
    info.limits.cpus = cpus_here();
    info.limits.frame_budget_bytes = stats.budget.count;
    info.limits.frame_bytes = stats.charged.count;
    info.limits.io_threads = pool_->threads();
    info.channels = hub_->channel_infos();
    info.sessions = hub_->sessions();
    info.started_ns = started_ns_;
    return info;
  }

  admin::Snapshots snapshots();

  Config config_;  // main thread only
  mutable Mutex mutex_;
  LiveFigures live_ SB_GUARDED_BY(mutex_);
  SystemClock clock_;
  const std::int64_t started_ns_ = clock_.wall_ns();
  metrics::Registry registry_;
  metrics::FrameMetrics frame_metrics_;
  metrics::SessionMetrics session_metrics_;
  metrics::TransportMetrics transport_metrics_;
  metrics::PipelineMetrics pipeline_metrics_;
  metrics::GrpcMetrics grpc_metrics_;
  metrics::AdminMetrics admin_metrics_;
  metrics::AppMetrics app_metrics_;
  // relaxed: one word for probes and figures, nothing hangs on it.
  std::atomic<Phase> phase_{Phase::kStarting};
  std::unique_ptr<frame::FrameStore> store_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::unique_ptr<session::Hub> hub_;
  std::unique_ptr<transport::IoPool> pool_;
  metrics::ScrapeHook scrape_;
  std::unique_ptr<admin::Server> admin_;
  std::unique_ptr<transport::WebSocketListener> websocket_;
  std::unique_ptr<transport::GrpcListener> grpc_;
  Monotonic drain_until_;
};

admin::Snapshots RunningBridge::snapshots() {
  admin::Snapshots snapshots;
  snapshots.readiness = [this] {
    return readiness();
  };
  snapshots.metrics = [this] {
    return registry_.scrape();
  };
  snapshots.limits = [this] {
    return limits();
  };
  snapshots.channels = [this] {
    std::vector<admin::ChannelRow> rows;
    for (session::ChannelSnapshot& channel : hub_->channels()) {
      rows.push_back({.name = std::move(channel.name),
                      .received = channel.received,
                      .rejected = channel.rejected,
                      .duplicate = channel.duplicate,
                      .published = channel.published,
                      .kept_frames = channel.kept_frames,
                      .kept_bytes = channel.kept_bytes});
    }
    return rows;
  };
  snapshots.subscriptions = [this] {
    std::vector<admin::SubscriptionRow> rows;
    for (session::SubscriptionSnapshot& one : hub_->subscriptions()) {
      admin::SubscriptionRow row{.session = one.session,
                                 .id = one.id,
                                 .channel = std::move(one.channel),
                                 .promised = one.promised,
                                 .delivered = one.delivered,
                                 .skipped = one.skipped,
                                 .waiting = one.waiting,
                                 .lost = one.lost,
                                 .gaps = {}};
      for (const auto& [reason, frames] : one.gaps)
        row.gaps.emplace_back(wire::name_of(reason), frames);
      rows.push_back(std::move(row));
    }
    return rows;
  };
  snapshots.sessions = [this] {
    std::vector<admin::SessionRow> rows;
    for (session::SessionSnapshot& one : hub_->session_list()) {
      rows.push_back({.id = one.id,
                      .name = std::move(one.name),
                      .agent = std::move(one.agent),
                      .transport = std::move(one.transport),
                      .address = std::move(one.address),
                      .age_s = one.age_s,
                      .channels = one.channels,
                      .subscriptions = one.subscriptions,
                      .frames_in = one.frames_in,
                      .bytes_in = one.bytes_in,
                      .frames_out = one.frames_out,
                      .bytes_out = one.bytes_out,
                      .outbox_bytes = one.outbox_bytes});
    }
    return rows;
  };
  return snapshots;
}

}  // namespace

Result<std::unique_ptr<Bridge>> Bridge::start(const Config& config) {
  auto bridge = std::make_unique<RunningBridge>(config);
  if (Result<void> started = bridge->start(); !started) return std::unexpected(started.error());
  return bridge;
}

}  // namespace simbridge::app
