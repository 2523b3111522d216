#include "transport/grpc_server.h"

#include "simbridge/base/check.h"
#include "simbridge/base/log.h"
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/instruments.h"
#include "transport/grpc_address.h"
#include "transport/grpc_call.h"
#include "transport/grpc_connection.h"
#include "transport/grpc_permits.h"
#include "transport/grpc_queue.h"
#include "transport/grpc_roster.h"
#include "transport/grpc_side.h"

#include <fmt/core.h>
#include <grpc/compression.h>
#include <grpc/impl/codegen/grpc_types.h>
#include <grpc/support/log.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simbridge::transport::rpc {
namespace {

constexpr unsigned kMostQueues = 64;
constexpr milliseconds kStopGrace{200};    // for the last words that are on their way
constexpr milliseconds kStopWait{10'000};  // what was cancelled ends at once; longer is a defect
constexpr int kMetadataBytes = 8192;
constexpr int kStreamsPerConnection = 256;
constexpr milliseconds kUnusedConnection{600'000};
// A peer that pings every 5 s may come a little early.
constexpr milliseconds kLeastPingInterval{4'000};

/// What gRPC has to say goes where ours goes.
void note(gpr_log_func_args* said) {
  log(said->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug,
      "grpc",
      "{}",
      said->message);
}

int whole(milliseconds time) {
  return static_cast<int>(std::min<std::int64_t>(time.count(), std::numeric_limits<int>::max()));
}

int whole(std::uint64_t bytes) {
  return static_cast<int>(std::min<std::uint64_t>(bytes, std::numeric_limits<int>::max()));
}

unsigned queues_wanted(unsigned asked) {
  if (asked != 0) return std::min(asked, kMostQueues);
  const long cpus = ::sysconf(_SC_NPROCESSORS_CONF);
  return std::clamp(static_cast<unsigned>(std::max(cpus, 1L)), 1U, kMostQueues);
}

enum class Method : std::uint8_t { kConnect, kInfo, kCheck, kWatch, kReflection, kUnknown };

Method method_named(std::string_view name) {
  if (name == "/simbridge.v1.Bridge/Connect") return Method::kConnect;
  if (name == "/simbridge.v1.Bridge/GetInfo") return Method::kInfo;
  if (name == "/grpc.health.v1.Health/Check") return Method::kCheck;
  if (name == "/grpc.health.v1.Health/Watch") return Method::kWatch;
  if (name == "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo" ||
      name == "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") {
    return Method::kReflection;
  }
  return Method::kUnknown;
}

metrics::GrpcMethod counted(Method method) {
  switch (method) {
    case Method::kConnect:
      return metrics::GrpcMethod::kConnect;
    case Method::kInfo:
      return metrics::GrpcMethod::kInfo;
    case Method::kCheck:
    case Method::kWatch:
      return metrics::GrpcMethod::kHealth;
    case Method::kReflection:
      return metrics::GrpcMethod::kReflection;
    case Method::kUnknown:
      break;
  }
  return metrics::GrpcMethod::kUnknown;
}

Ending ending_of(const session::Refusal& refusal) {
  // What passes by itself is UNAVAILABLE, which clients try again by themselves.
  const bool full = refusal.cause == session::Refusal::Cause::kMaxSessions;
  return {.code = full ? Code::kResourceExhausted : Code::kUnavailable,
          .text = refusal.text,
          .retry_after = std::chrono::seconds(refusal.retry_after_s)};
}

class Server final : public GrpcListener, private Call::Waiting {
 public:
  Server(const GrpcOptions& options,
         unsigned pollers,
         Door& door,
         InfoSource info,
         metrics::GrpcMetrics& metrics)
      : options_(options),
        info_(std::move(info)),
        metrics_(metrics),
        permits_(static_cast<int>(pollers), metrics.permits),
        around_{.door = door,
                .metrics = metrics,
                .lent = std::make_shared<Lent>(),
                .close_timeout = options.close_timeout},
        side_{.info = info_, .most = options.max_side_calls} {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() override { stop(); }

  Result<void> listen(unsigned pollers) {
    const auto address = listen_address(options_.bind, options_.port);
    if (!address) return std::unexpected(address.error());
    gpr_set_log_function(note);
    grpc::ServerBuilder builder;
    set_limits(builder);
    int port = 0;
    builder.AddListeningPort(*address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterAsyncGenericService(&service_);
    const unsigned count = queues_wanted(options_.queues);
    for (unsigned i = 0; i < count; ++i) {
      lanes_.push_back({.queue = std::make_shared<Queue>(
                            i,
                            builder.AddCompletionQueue(),
                            Queue::Shared{.permits = permits_, .threads = metrics_.pollers}),
                        .roster = std::make_shared<Roster>()});
    }
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) {
      server_.reset();
      close_queues();
      return fail(
          ErrorCode::kSystem,
          fmt::format("{} port {}: gRPC cannot listen there", options_.bind, options_.port));
    }
    port_ = static_cast<std::uint16_t>(port);
    resize(pollers);
    request_next();
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] std::size_t streams() const override {
    return static_cast<std::size_t>(std::max<std::int64_t>(metrics_.streams.value(), 0));
  }
  [[nodiscard]] unsigned queues() const override { return static_cast<unsigned>(lanes_.size()); }
  [[nodiscard]] unsigned pollers() const override {
    return static_cast<unsigned>(std::max<std::int64_t>(metrics_.pollers.value(), 0));
  }

  void resize(unsigned pollers) override {
    SB_CHECK(pollers >= 1, "queues without a poller would never serve anybody");
    const MutexLock lock(mutex_);
    if (stopped_) return;
    const auto active = std::min<unsigned>(pollers, static_cast<unsigned>(lanes_.size()));
    permits_.set(static_cast<int>(active));
    // relaxed: where the next call goes; one that is asked for already may still come to a queue
    // that is not wanted any more, and then keeps its poller.
    active_.store(active, std::memory_order_relaxed);
    for (unsigned i = 0; i < lanes_.size(); ++i) lanes_[i].queue->set_wanted(i < active);
  }

  void drain() override { tell(Phase::kDraining); }

  void stop() override {
    {
      const MutexLock lock(mutex_);
      if (stopped_) return;
      stopped_ = true;
    }
    if (!server_) return;
    tell(Phase::kStopping);
    server_->Shutdown(std::chrono::system_clock::now() + kStopGrace);
    server_->Wait();
    for (const Lane& lane : lanes_) {
      SB_CHECK(lane.queue->wait_unused(std::chrono::steady_clock::now() + kStopWait),
               "calls end when the listener stops");
    }
    close_queues();
    server_.reset();
    SB_CHECK(around_.lent->wait_none(std::chrono::steady_clock::now() + kStopWait),
             "gRPC lets go of what it was lent when the listener stops");
  }

 private:
  struct Lane {
    std::shared_ptr<Queue> queue;
    std::shared_ptr<Roster> roster;
  };

  void set_limits(grpc::ServerBuilder& builder) const {
    // The session's own limit is judged first (grpc_inbound), with a text that names its knob.
    builder.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
    builder.SetMaxSendMessageSize(whole(options_.max_message_bytes));
    // Identity only: a small message cannot become a large one behind the limit.
    for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
      builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
    builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
    grpc::ResourceQuota quota("simbridge");
    quota.Resize(options_.memory_bytes);
    builder.SetResourceQuota(quota);
    const auto set = [&builder](const char* name, int value) {
      builder.AddChannelArgument(name, value);
    };
    set(GRPC_ARG_KEEPALIVE_TIME_MS, whole(options_.ping_interval));
    set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, whole(2 * options_.ping_interval));
    set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, whole(kLeastPingInterval));
    set(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
    set(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
    set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, whole(kUnusedConnection));
    set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, whole(options_.handshake_timeout));
    set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  }

  // ---- calls. One is asked for at a time, always told on the first queue, so that no queue that
  // is left has a call waiting in it.
  void request_next() {
    const unsigned active = active_.load(std::memory_order_relaxed);
    const auto least =
        std::min_element(lanes_.begin(), lanes_.begin() + active, [](const Lane& a, const Lane& b) {
          return a.queue->users() < b.queue->users();
        });
    const auto call = std::make_shared<Call>(least->queue);
    call->request(service_, *lanes_.front().queue, *this);
  }

  void arrived(const std::shared_ptr<Call>& call, bool ok) override {
    if (!ok) return;  // the server shuts down
    call->begin(&Server::dispatch, this);
    request_next();
  }

  static std::unique_ptr<Logic> dispatch(void* server, Call& call) {
    return static_cast<Server*>(server)->logic_for(call);
  }

  std::unique_ptr<Logic> logic_for(Call& call) {
    const std::string name = call.method();
    const Method method = method_named(name);
    metrics_.calls[counted(method)].add();
    switch (method) {
      case Method::kConnect: {
        auto place = around_.door.admit();
        if (!place) return make_refusal(call, ending_of(place.error()));
        return make_connection(around_, call, roster_of(call), std::move(*place));
      }
      case Method::kInfo:
        return make_info(side_, call);
      case Method::kCheck:
        return make_health_check(side_, call, roster_of(call));
      case Method::kWatch:
        return make_health_watch(side_, call, roster_of(call));
      case Method::kReflection:
        return make_reflection(side_, call);
      case Method::kUnknown:
        break;
    }
    return make_refusal(call,
                        {.code = Code::kUnimplemented,
                         .text = "no such method; simbridge.v1.Bridge has Connect and GetInfo",
                         .retry_after = {}});
  }

  Roster& roster_of(Call& call) {
    const auto lane = std::ranges::find_if(
        lanes_, [&call](const Lane& each) { return each.queue.get() == &call.queue(); });
    return *lane->roster;
  }

  void tell(Phase phase) {
    for (const Lane& lane : lanes_) lane.roster->set(phase, *lane.queue);
  }

  void close_queues() {
    for (const Lane& lane : lanes_) lane.queue->close();
  }

  const GrpcOptions options_;
  const InfoSource info_;
  metrics::GrpcMetrics& metrics_;
  Permits permits_;
  Surroundings around_;
  Side side_;
  grpc::AsyncGenericService service_;
  std::vector<Lane> lanes_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<unsigned> active_{1};
  std::uint16_t port_ = 0;
  Mutex mutex_;
  bool stopped_ SB_GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<GrpcListener>> listen(const GrpcOptions& options,
                                             unsigned pollers,
                                             Door& door,
                                             InfoSource info,
                                             metrics::GrpcMetrics& metrics) {
  auto server = std::make_unique<Server>(options, pollers, door, std::move(info), metrics);
  if (auto listening = server->listen(pollers); !listening)
    return std::unexpected(std::move(listening.error()));
  return server;
}

}  // namespace simbridge::transport::rpc
