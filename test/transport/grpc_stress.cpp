// The gRPC road under calls that come, speak, half-close and break off while its pollers become
// more and fewer: every message that is answered is answered right, and nothing is left behind.
#include "simbridge/metrics/instruments.h"
#include "simbridge/wire/rpc.h"
#include "support/seed.h"
#include "transport/echo_door.h"
#include "transport/grpc_client.h"
#include "transport/grpc_door.h"
#include "transport/grpc_server.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace simbridge::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr unsigned kQueues = 4;
constexpr auto kTime = 4s;

class RpcEchoDoor final : public transport::rpc::Door {
 public:
  std::expected<Place, session::Refusal> admit() override {
    return Place([](const session::PeerInfo& /*info*/,
                    session::Peer& peer,
                    std::move_only_function<void() const> /*waker*/,
                    const StrandRole& /*role*/) -> std::shared_ptr<session::Session> {
      return std::make_shared<EchoSession>(peer, 64U << 20U);
    });
  }
};

/// Calls one after the other; counts the answers. Catch's macros are for one thread only.
class Caller {
 public:
  Caller(std::uint16_t port, std::uint64_t from) : channel_(rpc_channel(port)), random_(from) {}

  void run(steady_clock::time_point end) {
    while (steady_clock::now() < end) {
      RpcCall call(channel_);
      const int messages = pick(1, 12);
      for (int i = 0; i < messages; ++i) {
        const std::string message(
            static_cast<std::size_t>(pick(0, 3) == 0 ? pick(0, 300'000) : pick(0, 2'000)),
            static_cast<char>(pick('a', 'z')));
        if (!call.write(message)) ++failed;
        if (pick(0, 15) == 0) {  // breaks off with an answer under way
          call.cancel();
          break;
        }
        const auto answer = call.read();
        if (!answer || *answer != message) ++failed;
        ++answered;
      }
      ++calls;
    }
  }

  std::uint64_t calls = 0, answered = 0, failed = 0;

 private:
  int pick(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }

  std::shared_ptr<grpc::Channel> channel_;
  std::mt19937_64 random_;
};

bool wait_until(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + 20s;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("pollers come and go under calls, and none of them notices", "[transport][grpc]") {
  const std::uint64_t start = seed();
  INFO("SIMBRIDGE_TEST_SEED=" << start);
  RpcEchoDoor door;
  metrics::Registry registry;
  metrics::GrpcMetrics metrics{registry};
  transport::GrpcOptions options;
  options.port = 0;
  options.queues = kQueues;
  auto made = transport::rpc::listen(options, 1, door, [] { return wire::Info{}; }, metrics);
  REQUIRE(made.has_value());
  const std::unique_ptr<transport::GrpcListener> listener = std::move(*made);

  std::vector<std::unique_ptr<Caller>> callers;
  for (std::uint64_t i = 0; i < 3; ++i)
    callers.push_back(std::make_unique<Caller>(listener->port(), start + i));
  const auto end = steady_clock::now() + kTime;
  std::vector<std::thread> threads;
  for (const auto& caller : callers) threads.emplace_back([&caller, end] { caller->run(end); });
  std::mt19937_64 random(start);
  std::uint64_t resizes = 0;
  while (steady_clock::now() < end) {
    listener->resize(std::uniform_int_distribution(1U, kQueues)(random));
    ++resizes;
    std::this_thread::sleep_for(3ms);  // the pace of the plan, not a wait for anything
  }
  for (std::thread& thread : threads) thread.join();

  std::uint64_t calls = 0;
  for (const auto& caller : callers) {
    CHECK(caller->failed == 0);
    CHECK(caller->answered > 0);
    calls += caller->calls;
  }
  CHECK(calls > 10);
  CHECK(resizes > 10);
  CHECK(wait_until([&] { return metrics.streams.value() == 0; }));
  listener->resize(2);
  CHECK(wait_until([&] { return listener->pollers() == 2; }));
  listener->stop();
}

}  // namespace
}  // namespace simbridge::test
