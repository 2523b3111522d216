#include "transport/grpc_side.h"

#include "simbridge/wire/rpc.h"

#include <fmt/core.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace simbridge::transport::rpc {
namespace {

constexpr std::size_t kRequestBytes = std::size_t{64} << 10U;
constexpr std::chrono::seconds kRequestTime{10};  // from the call to its request
constexpr std::string_view kBridgeService = "simbridge.v1.Bridge";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// One of so many side calls.
class Place {
 public:
  explicit Place(Side& side)
      : side_(side), had_(side.open.fetch_add(1, std::memory_order_relaxed) < side.most) {}
  ~Place() { side_.open.fetch_sub(1, std::memory_order_relaxed); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  [[nodiscard]] bool had() const { return had_; }

 private:
  Side& side_;
  bool had_ = false;
};

Ending full(const Side& side) {
  return {.code = Code::kResourceExhausted,
          .text = fmt::format("{} calls beside Connect are the limit", side.most),
          .retry_after = milliseconds(1000)};
}

/// A request, then whatever its kind makes of it.
class SideCall : public Logic {
 public:
  SideCall(Side& side, Call& call) : side_(side), place_(side), call_(call) {}

  void start() override {
    if (!place_.had()) return end(full(side_));
    call_.set_timer(std::chrono::steady_clock::now() + kRequestTime);
    call_.read();
  }
  void on_read(bool ok) override {
    call_.drop_timer();
    if (ended_) return;
    if (!ok) return on_no_request();
    const Received request = call_.take();
    if (request.bytes() > kRequestBytes) {
      return end({.code = Code::kResourceExhausted,
                  .text = fmt::format(
                      "a request of {} bytes; {} are the limit", request.bytes(), kRequestBytes),
                  .retry_after = {}});
    }
    on_request(request.text());
  }
  void on_written(bool /*ok*/) override {}
  void on_time() override {
    end({.code = Code::kDeadlineExceeded, .text = "no request came", .retry_after = {}});
  }
  void on_over() override { ended_ = true; }

 protected:
  virtual void on_request(const std::string& request) = 0;
  virtual void on_no_request() {
    end({.code = Code::kInvalidArgument, .text = "the call has no request", .retry_after = {}});
  }
  void end(const Ending& ending) {
    if (std::exchange(ended_, true)) return;
    call_.finish(ending);
  }
  void answer(const std::string& response) {
    if (std::exchange(ended_, true)) return;
    call_.write_and_finish(response, {});
  }
  void refuse_request() {
    end({.code = Code::kInvalidArgument, .text = "the request does not parse", .retry_after = {}});
  }
  [[nodiscard]] Call& call() { return call_; }
  [[nodiscard]] const Side& side() const { return side_; }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  Side& side_;
  Place place_;
  Call& call_;
  bool ended_ = false;
};

class InfoCall final : public SideCall {
 public:
  using SideCall::SideCall;

 private:
  void on_request(const std::string& request) override {
    if (!wire::is_info_request(bytes_of(request))) return refuse_request();
    answer(wire::info_response(side().info()));
  }
};

wire::Health health_of(const std::string& service, Phase phase) {
  if (!service.empty() && service != kBridgeService) return wire::Health::kServiceUnknown;
  return phase == Phase::kServing ? wire::Health::kServing : wire::Health::kNotServing;
}

class HealthCheck final : public SideCall {
 public:
  HealthCheck(Side& side, Call& call, Roster& roster) : SideCall(side, call), roster_(roster) {}

 private:
  void on_request(const std::string& request) override {
    const auto service = wire::health_request(bytes_of(request));
    if (!service) return refuse_request();
    const wire::Health health = health_of(*service, roster_.phase());
    if (health == wire::Health::kServiceUnknown) {
      return end({.code = Code::kNotFound,
                  .text = fmt::format("no service has this name; {} and the empty one are known",
                                      kBridgeService),
                  .retry_after = {}});
    }
    answer(wire::health_response(health));
  }

  Roster& roster_;
};

class HealthWatch final : public SideCall {
 public:
  HealthWatch(Side& side, Call& call, Roster& roster) : SideCall(side, call), roster_(roster) {
    roster_.add(call);
  }

  void on_phase(Phase phase) override {
    if (phase == Phase::kStopping)
      return end({.code = Code::kUnavailable, .text = "the bridge has stopped", .retry_after = {}});
    tell();
  }
  void on_written(bool ok) override {
    writing_ = false;
    if (ok) tell();
  }
  void on_over() override {
    SideCall::on_over();
    roster_.remove(call());
  }

 private:
  void on_request(const std::string& request) override {
    service_ = wire::health_request(bytes_of(request));
    if (!service_) return refuse_request();
    tell();
  }
  void tell() {
    if (!service_ || writing_ || ended()) return;
    const wire::Health health = health_of(*service_, roster_.phase());
    if (told_ == health) return;
    told_ = health;
    writing_ = true;
    call().write(wire::health_response(health));
  }

  Roster& roster_;
  std::optional<std::string> service_;
  std::optional<wire::Health> told_;
  bool writing_ = false;
};

class ReflectionCall final : public SideCall {
 public:
  using SideCall::SideCall;

  void on_written(bool ok) override {
    if (!ok || ended()) return;
    call().set_timer(std::chrono::steady_clock::now() + kIdleTime);
    call().read();
  }
  void on_time() override { end({}); }

 private:
  static constexpr std::chrono::minutes kIdleTime{5};
  void on_request(const std::string& request) override {
    const auto response = wire::reflection_response(bytes_of(request));
    if (!response) return refuse_request();
    call().write(*response);
  }
  void on_no_request() override { end({}); }
};

class RefusedCall final : public Logic {
 public:
  RefusedCall(Call& call, Ending ending) : call_(call), ending_(std::move(ending)) {}
  void start() override { call_.finish(ending_); }
  void on_read(bool /*ok*/) override {}
  void on_written(bool /*ok*/) override {}
  void on_over() override {}

 private:
  Call& call_;
  Ending ending_;
};

}  // namespace

std::unique_ptr<Logic> make_info(Side& side, Call& call) {
  return std::make_unique<InfoCall>(side, call);
}
std::unique_ptr<Logic> make_health_check(Side& side, Call& call, Roster& roster) {
  return std::make_unique<HealthCheck>(side, call, roster);
}
std::unique_ptr<Logic> make_health_watch(Side& side, Call& call, Roster& roster) {
  return std::make_unique<HealthWatch>(side, call, roster);
}
std::unique_ptr<Logic> make_reflection(Side& side, Call& call) {
  return std::make_unique<ReflectionCall>(side, call);
}
std::unique_ptr<Logic> make_refusal(Call& call, Ending ending) {
  return std::make_unique<RefusedCall>(call, std::move(ending));
}

}  // namespace simbridge::transport::rpc
