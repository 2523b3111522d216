// The gRPC road by scripted sessions: what a plain client sees of it, and what a session does.
#include "simbridge/metrics/instruments.h"
#include "simbridge/wire/rpc.h"
#include "transport/grpc_client.h"
#include "transport/grpc_door.h"
#include "transport/grpc_server.h"
#include "transport/script_door.h"

#include <catch2/catch.hpp>

#include "simbridge/v1/bridge.pb.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace simbridge::test {
namespace {

using namespace std::chrono_literals;
using session::CloseKind;
using session::Flow;
using std::chrono::steady_clock;

class RpcDoor final : public transport::rpc::Door {
 public:
  explicit RpcDoor(Script script, std::optional<session::Refusal> refusal = {})
      : script_(std::move(script)), refusal_(std::move(refusal)) {}

  std::expected<Place, session::Refusal> admit() override {
    if (refusal_) return std::unexpected(*refusal_);
    return Place([this](const session::PeerInfo& info,
                        session::Peer& peer,
                        std::move_only_function<void() const> waker,
                        StrandRole role) -> std::shared_ptr<session::Session> {
      role.assert_held();
      notes.add("open " + info.transport + " " + info.address);
      return std::make_shared<ScriptSession>(script_, notes, peer, std::move(waker));
    });
  }

  Notes notes;

 private:
  Script script_;
  std::optional<session::Refusal> refusal_;
};

struct Bridge {
  explicit Bridge(Script script = {},
                  transport::GrpcOptions options = {},
                  unsigned pollers = 2,
                  unsigned queues = 4,
                  std::optional<session::Refusal> refusal = {})
      : door(std::move(script), std::move(refusal)) {
    options.port = 0;
    options.queues = queues;
    auto made = transport::rpc::listen(
        options,
        pollers,
        door,
        [] {
          wire::Info info;
          info.welcome.bridge = "scripted";
          info.sessions = 3;
          return info;
        },
        metrics);
    REQUIRE(made.has_value());
    listener = std::move(*made);
  }
  [[nodiscard]] std::shared_ptr<grpc::Channel> channel(
      const grpc::ChannelArguments& arguments = {}) const {
    return rpc_channel(listener->port(), arguments);
  }
  [[nodiscard]] static bool wait_until(const std::function<bool()>& condition) {
    const auto deadline = steady_clock::now() + 20s;
    while (!condition()) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  metrics::Registry registry;
  metrics::GrpcMetrics metrics{registry};
  RpcDoor door;
  std::unique_ptr<transport::GrpcListener> listener;
};

/// Sends every message back; the bytes live until batch_done().
Script echo() {
  Script script;
  auto waiting = std::make_shared<std::vector<std::string>>();
  script.on_message = [waiting](ScriptSession& session, const std::string& message) {
    waiting->push_back(message);
    session.peer.output_ready();
    return Flow::kContinue;
  };
  script.next_batch = [waiting](ScriptSession& session, session::Batch& batch) {
    if (waiting->empty()) return false;
    session.lent = std::exchange(*waiting, {});
    for (const std::string& message : session.lent) {
      batch.messages[batch.count++] = {
          .prefix = std::as_bytes(std::span(message).first(message.size() / 2)),
          .data = std::as_bytes(std::span(message).subspan(message.size() / 2))};
      batch.bytes += message.size();
    }
    return true;
  };
  script.max_message_bytes = 64U << 20U;
  return script;
}

/// One message of so many bytes, once.
Script speaks(std::size_t bytes) {
  Script script;
  script.on_open = [](ScriptSession& session) {
    session.peer.output_ready();
  };
  script.next_batch = [bytes](ScriptSession& session, session::Batch& batch) {
    if (session.turns++ > 0) return false;
    session.lent.assign(1, std::string(bytes, 's'));
    ScriptSession::put(batch, session.lent.front());
    return true;
  };
  return script;
}

bool has(const std::vector<std::string>& notes, std::string_view beginning) {
  return std::ranges::any_of(notes,
                             [&](const std::string& note) { return note.starts_with(beginning); });
}

TEST_CASE("messages of every size go in and come back whole", "[transport][grpc]") {
  Bridge bridge(echo());
  RpcCall call(bridge.channel());
  REQUIRE(call.started());
  for (const std::size_t size : {std::size_t{0},
                                 std::size_t{1},
                                 std::size_t{4095},
                                 std::size_t{8192},
                                 std::size_t{20'000},
                                 std::size_t{300'000},
                                 std::size_t{5'000'001}}) {
    INFO(size);
    std::string message(size, '\0');
    for (std::size_t i = 0; i < size; ++i) message[i] = static_cast<char>(i * 7 + size);
    REQUIRE(call.write(message));
    const auto back = call.read();
    REQUIRE(back);
    CHECK((*back == message));
  }
  CHECK(bridge.metrics.messages[metrics::Direction::kIn].value() == 7);
  CHECK(bridge.metrics.messages[metrics::Direction::kOut].value() == 7);
  CHECK(bridge.metrics.streams.value() == 1);
  CHECK(has(bridge.door.notes.all(), "open grpc 127.0.0.1:"));
  CHECK(has(bridge.door.notes.all(), "begin 5000001"));
}

TEST_CASE("many messages of one batch come one by one, in order", "[transport][grpc]") {
  Script script;
  script.on_open = [](ScriptSession& session) {
    session.peer.output_ready();
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    if (session.turns == 10) return false;
    session.lent.clear();
    session.lent.reserve(32);
    for (int i = 0; i < 32; ++i) {
      const int number = session.turns * 32 + i;
      // Small ones, which are copied, and larger ones, which are lent.
      session.lent.push_back(std::to_string(number) + "," +
                             std::string(number % 3 == 0 ? 4096 : 10, 'x'));
      ScriptSession::put(batch, session.lent.back());
    }
    ++session.turns;
    return true;
  };
  Bridge bridge(std::move(script));
  RpcCall call(bridge.channel());
  for (int number = 0; number < 320; ++number) {
    const auto message = call.read();
    REQUIRE(message);
    REQUIRE(message->starts_with(std::to_string(number) + ","));
  }
  CHECK(bridge.door.notes.wait_count("batch done", 10));
}

TEST_CASE("the first messages of a call come at once, though they are several",
          "[transport][grpc]") {
  Script script;
  script.on_message = [](ScriptSession& session, const std::string& /*message*/) {
    session.peer.output_ready();
    return Flow::kContinue;
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    if (session.turns++ > 0) return false;
    session.lent = {"welcome", "channels"};
    for (const std::string& message : session.lent) ScriptSession::put(batch, message);
    return true;
  };
  Bridge bridge(std::move(script));
  const auto channel = bridge.channel();
  for (int i = 0; i < 3; ++i) {  // the later ones come on a connection that has nothing to say
    RpcCall call(channel);
    REQUIRE(call.write("hello"));
    REQUIRE(call.read() == "welcome");
    REQUIRE(call.read() == "channels");
  }
}

TEST_CASE("a peer that breaks off while its session is closing leaves no timer behind",
          "[transport][grpc]") {
  Script script;
  script.on_message = [](ScriptSession& session, const std::string& /*message*/) {
    session.peer.output_ready();
    session.peer.close({session::CloseKind::kNormal, "enough"});  // after what waits to be read
    return Flow::kContinue;
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    session.lent = {std::string(32U << 20U, 's')};
    ScriptSession::put(batch, session.lent.front());
    return true;
  };
  Bridge bridge(std::move(script), {}, 1, 1);
  for (int i = 0; i < 3; ++i) {
    RpcCall call(bridge.channel());
    REQUIRE(call.write("go"));
    REQUIRE(bridge.door.notes.wait_count("message go", static_cast<std::size_t>(i) + 1));
    call.cancel();
    static_cast<void>(call.finish());
    REQUIRE(bridge.door.notes.wait_count("closed", static_cast<std::size_t>(i) + 1));
  }
}

TEST_CASE("each way a session closes has its status, after what was to be said",
          "[transport][grpc]") {
  struct Row {
    CloseKind kind;
    grpc::StatusCode code;
  };
  const std::vector<Row> rows = {
      {CloseKind::kNormal, grpc::StatusCode::OK},
      {CloseKind::kGoingAway, grpc::StatusCode::UNAVAILABLE},
      {CloseKind::kProtocol, grpc::StatusCode::INVALID_ARGUMENT},
      {CloseKind::kUnsupportedData, grpc::StatusCode::INVALID_ARGUMENT},
      {CloseKind::kMalformed, grpc::StatusCode::INVALID_ARGUMENT},
      {CloseKind::kPolicy, grpc::StatusCode::ABORTED},
      {CloseKind::kHelloTimeout, grpc::StatusCode::DEADLINE_EXCEEDED},
      {CloseKind::kUnauthorized, grpc::StatusCode::UNAUTHENTICATED},
      {CloseKind::kTooLarge, grpc::StatusCode::RESOURCE_EXHAUSTED},
      {CloseKind::kDead, grpc::StatusCode::CANCELLED},
  };
  for (const Row& row : rows) {
    INFO(static_cast<int>(row.kind));
    Script script;
    script.on_message = [&row](ScriptSession& session, const std::string& /*message*/) {
      session.peer.close({row.kind, "because"});
      if (row.kind != CloseKind::kDead) session.peer.output_ready();
      return Flow::kStop;
    };
    script.next_batch = [](ScriptSession& session, session::Batch& batch) {
      if (session.turns++ > 0) return false;
      session.lent.assign(1, "last words");
      ScriptSession::put(batch, session.lent.front());
      return true;
    };
    Bridge bridge(std::move(script));
    RpcCall call(bridge.channel());
    REQUIRE(call.write("hello"));
    if (row.kind != CloseKind::kDead) CHECK(call.read() == "last words");
    const grpc::Status& status = call.finish();
    CHECK(status.error_code() == row.code);
    if (row.code != grpc::StatusCode::OK && row.kind != CloseKind::kDead)
      CHECK(status.error_message() == "because");
    CHECK(bridge.door.notes.wait("closed " + std::to_string(static_cast<int>(row.kind))));
    CHECK(Bridge::wait_until([&] { return bridge.metrics.streams.value() == 0; }));
  }
}

TEST_CASE("memory that was lent is the session's again when the kernel has it all",
          "[transport][grpc]") {
  Bridge bridge(speaks(32U << 20U));
  RpcCall call(bridge.channel());
  REQUIRE(bridge.door.notes.wait("open"));
  // Nobody reads: HTTP/2's window and the sockets hold a part of it, the rest stays lent.
  CHECK_FALSE(bridge.door.notes.wait("batch done", 200ms));
  const auto message = call.read();
  REQUIRE(message);
  CHECK((*message == std::string(32U << 20U, 's')));
  CHECK(bridge.door.notes.wait("batch done"));
}

TEST_CASE(
    "who breaks off while a frame is lent is gone at once, the memory is kept until gRPC lets go",
    "[transport][grpc]") {
  Bridge bridge(speaks(32U << 20U));
  {
    RpcCall call(bridge.channel());
    REQUIRE(bridge.door.notes.wait("open"));
    call.cancel();
    CHECK(call.finish().error_code() == grpc::StatusCode::CANCELLED);
    REQUIRE(bridge.door.notes.wait("closed 9 broken"));
  }
  REQUIRE(bridge.door.notes.wait("let go"));
  const auto notes = bridge.door.notes.all();
  const auto at = [&](const std::string& what) {
    return std::ranges::find_if(notes, [&](const auto& note) { return note.starts_with(what); });
  };
  CHECK(at("references taken") < at("closed 9"));
  CHECK_FALSE(has(notes, "batch done"));
}

TEST_CASE("a session that has no room is offered the same again, and nothing else is read",
          "[transport][grpc]") {
  std::atomic<session::Peer*> peer{nullptr};
  std::atomic<ScriptSession*> woken{nullptr};
  Script script;
  script.on_open = [&](ScriptSession& session) {
    woken = &session;
  };
  script.on_message = [&](ScriptSession& session, const std::string& message) {
    if (message == "second" && session.turns++ == 0) {
      peer = &session.peer;
      return Flow::kPause;
    }
    return Flow::kContinue;
  };
  script.on_wake = [](ScriptSession& session) {
    session.peer.resume_input();
  };
  Bridge bridge(std::move(script));
  RpcCall call(bridge.channel());
  for (const char* message : {"first", "second", "third"}) REQUIRE(call.write(message));
  REQUIRE(Bridge::wait_until([&] { return peer.load() != nullptr; }));
  CHECK_FALSE(bridge.door.notes.wait("message third", 100ms));
  woken.load()->waker();
  CHECK(bridge.door.notes.wait("message third"));
  std::vector<std::string> messages;
  for (const auto& note : bridge.door.notes.all()) {
    if (note.starts_with("message ")) messages.push_back(note);
  }
  CHECK(messages == std::vector<std::string>{"message first", "message second", "message third"});
}

TEST_CASE("a message above the limit ends the call, with size, limit and knob in the text",
          "[transport][grpc]") {
  Script script;
  script.max_message_bytes = 100'000;
  Bridge bridge(std::move(script));
  RpcCall call(bridge.channel());
  REQUIRE(call.write(std::string(100'000, 'x')));
  REQUIRE(bridge.door.notes.wait("message"));
  REQUIRE(call.write(std::string(100'001, 'x')));
  const grpc::Status& status = call.finish();
  CHECK(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK_THAT(status.error_message(),
             Catch::Contains("100001 bytes") && Catch::Contains("100000 are the limit") &&
                 Catch::Contains("session.max_message_bytes"));
  CHECK(bridge.door.notes.wait("closed 8 broken"));
  CHECK(bridge.metrics.endings[8].value() == 1);
}

TEST_CASE("who is not let in is told why, and when to come again", "[transport][grpc]") {
  using Cause = session::Refusal::Cause;
  struct Row {
    Cause cause;
    grpc::StatusCode code;
  };
  for (const Row& row : {Row{Cause::kDraining, grpc::StatusCode::UNAVAILABLE},
                         Row{Cause::kAcceptRate, grpc::StatusCode::UNAVAILABLE},
                         Row{Cause::kMaxSessions, grpc::StatusCode::RESOURCE_EXHAUSTED}}) {
    Bridge bridge({}, {}, 1, 1, session::Refusal{row.cause, "not now", 3});
    RpcCall call(bridge.channel());
    const grpc::Status& status = call.finish();
    CHECK(status.error_code() == row.code);
    CHECK(status.error_message() == "not now");
    CHECK(call.trailer("grpc-retry-pushback-ms") == "3000");
    CHECK(bridge.metrics.streams.value() == 0);
  }
}

TEST_CASE("a peer that sends no more is told apart from one that is gone", "[transport][grpc]") {
  Script script;
  script.on_half_close = [](ScriptSession& session) {
    session.peer.output_ready();
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    if (session.turns++ > 0) return false;
    session.lent.assign(1, "still here");
    ScriptSession::put(batch, session.lent.front());
    return true;
  };
  Bridge bridge(std::move(script));
  {
    RpcCall call(bridge.channel());
    REQUIRE(call.write("a"));
    REQUIRE(call.writes_done());
    CHECK(call.read() == "still here");
    CHECK(bridge.door.notes.wait("half close"));
    CHECK_FALSE(bridge.door.notes.wait("closed", 50ms));
  }
  CHECK(bridge.door.notes.wait("closed 9 clean"));
  {
    RpcCall call(bridge.channel());
    REQUIRE(call.write("b"));
    REQUIRE(bridge.door.notes.wait("message b"));
  }
  CHECK(bridge.door.notes.wait("closed 9 broken"));
  CHECK_FALSE(bridge.door.notes.wait_count("half close", 2, 0ms));
}

TEST_CASE("timers fire on the strand, and a wish that is replaced does not", "[transport][grpc]") {
  Script script;
  script.on_open = [](ScriptSession& session) {
    session.peer.wake_at(steady_clock::now() + 1h);
    session.peer.wake_at(steady_clock::now() + 20ms);
  };
  script.on_timer = [](ScriptSession& session) {
    if (session.turns++ < 2) session.peer.wake_at(steady_clock::now() + 5ms);
  };
  Bridge bridge(std::move(script));
  RpcCall call(bridge.channel());
  CHECK(bridge.door.notes.wait_count("timer", 3));
  CHECK_FALSE(bridge.door.notes.wait_count("timer", 4, 50ms));
}

TEST_CASE("a peer that does not read its last words is broken off in time", "[transport][grpc]") {
  Script script = speaks(32U << 20U);
  script.on_message = [](ScriptSession& session, const std::string& /*message*/) {
    session.peer.close({CloseKind::kNormal, "enough"});
    return Flow::kStop;
  };
  transport::GrpcOptions options;
  options.close_timeout = 100ms;
  Bridge bridge(std::move(script), options);
  RpcCall call(bridge.channel());
  REQUIRE(call.write("a"));
  CHECK(bridge.door.notes.wait("closed 0"));
  CHECK(call.finish().error_code() != grpc::StatusCode::OK);
}

TEST_CASE("as many pollers as asked for, and one more for each queue that still has a call",
          "[transport][grpc]") {
  Bridge bridge(echo(), {}, 1, 4);
  const auto pollers = [&](unsigned count) {
    return Bridge::wait_until([&] { return bridge.listener->pollers() == count; });
  };
  CHECK(bridge.listener->queues() == 4);
  CHECK(pollers(1));
  bridge.listener->resize(4);
  CHECK(pollers(4));
  CHECK(bridge.metrics.permits.value() == 4);

  const auto channel = bridge.channel();
  std::vector<std::unique_ptr<RpcCall>> calls;
  const auto open = [&] {
    calls.push_back(std::make_unique<RpcCall>(channel));
    REQUIRE(calls.back()->write("x"));
    REQUIRE(calls.back()->read() == "x");
  };
  const auto ask_all = [&] {
    for (const auto& call : calls) {
      REQUIRE(call->write("again"));
      REQUIRE(call->read() == "again");
    }
  };
  for (int i = 0; i < 8; ++i) open();  // two on each queue
  bridge.listener->resize(1);
  CHECK(bridge.metrics.permits.value() == 1);
  ask_all();  // no call noticed
  CHECK(bridge.listener->pollers() == 4);
  CHECK(bridge.metrics.streams.value() == 8);

  calls.clear();
  CHECK(pollers(1));
  // One call had been asked for on another queue; the rest come to the first.
  for (int i = 0; i < 6; ++i) open();
  CHECK(bridge.listener->pollers() <= 2);
  ask_all();
  bridge.listener->resize(3);
  CHECK(Bridge::wait_until([&] { return bridge.listener->pollers() >= 3; }));
  ask_all();
  bridge.listener->resize(100);  // no more than there are queues
  CHECK(bridge.metrics.permits.value() == 4);
  calls.clear();
  CHECK(pollers(4));
}

TEST_CASE("a listener that stops tells its calls, and its sessions", "[transport][grpc]") {
  Bridge bridge(echo());
  const auto channel = bridge.channel();
  std::vector<std::unique_ptr<RpcCall>> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(std::make_unique<RpcCall>(channel));
    REQUIRE(calls.back()->write("x"));
    REQUIRE(calls.back()->read() == "x");
  }
  bridge.listener->stop();
  CHECK(bridge.door.notes.wait_count("closed 1", 5, 0ms));
  for (const auto& call : calls) {
    CHECK(call->finish().error_code() == grpc::StatusCode::UNAVAILABLE);
  }
  CHECK(bridge.listener->pollers() == 0);
}

TEST_CASE("compressed messages and large metadata are refused before any memory goes to them",
          "[transport][grpc]") {
  Bridge bridge(echo());
  {
    grpc::ChannelArguments arguments;
    arguments.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
    RpcCall call(bridge.channel(arguments));
    static_cast<void>(call.write(std::string(50U << 20U, '\0')));
    CHECK(call.finish().error_code() == grpc::StatusCode::UNIMPLEMENTED);
    CHECK_FALSE(has(bridge.door.notes.all(), "message"));
  }
  {
    RpcCall call(bridge.channel(), RpcCall::kConnect, {{"x-large", std::string(20'000, 'x')}});
    CHECK(call.finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  CHECK(Bridge::wait_until([&] { return bridge.metrics.streams.value() == 0; }));
}

/// A call with one request and one answer.
std::optional<std::string> ask(const Bridge& bridge,
                               const std::string& method,
                               const std::string& request,
                               grpc::Status* status = nullptr) {
  RpcCall call(bridge.channel(), method);
  static_cast<void>(call.write(request));
  static_cast<void>(call.writes_done());
  auto answer = call.read();
  if (status != nullptr) *status = call.finish();
  return answer;
}

TEST_CASE("the calls beside Connect answer, and refuse what they do not know",
          "[transport][grpc]") {
  Bridge bridge;
  grpc::Status status;
  const auto info = ask(bridge, "/simbridge.v1.Bridge/GetInfo", "", &status);
  REQUIRE(info);
  CHECK(status.ok());
  v1::GetInfoResponse response;
  REQUIRE(response.ParseFromString(*info));
  CHECK(response.welcome().bridge() == "scripted");
  CHECK(response.sessions() == 3);

  CHECK_FALSE(ask(bridge, "/simbridge.v1.Bridge/GetInfo", "\x0f", &status));
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_FALSE(ask(bridge, "/simbridge.v1.Bridge/GetInfo", std::string(70'000, 'x'), &status));
  CHECK(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK_FALSE(ask(bridge, "/simbridge.v1.Bridge/Nothing", "", &status));
  CHECK(status.error_code() == grpc::StatusCode::UNIMPLEMENTED);

  const std::string serving("\x08\x01");
  const std::string not_serving("\x08\x02");
  CHECK(ask(bridge, "/grpc.health.v1.Health/Check", "") == serving);
  CHECK(ask(bridge, "/grpc.health.v1.Health/Check", "\x0a\x13simbridge.v1.Bridge") == serving);
  CHECK_FALSE(ask(bridge, "/grpc.health.v1.Health/Check", "\x0a\x01x", &status));
  CHECK(status.error_code() == grpc::StatusCode::NOT_FOUND);

  RpcCall watch(bridge.channel(), "/grpc.health.v1.Health/Watch");
  REQUIRE(watch.write(""));
  CHECK(watch.read() == serving);
  RpcCall other(bridge.channel(), "/grpc.health.v1.Health/Watch");
  REQUIRE(other.write("\x0a\x01x"));
  CHECK(other.read() == std::string("\x08\x03"));  // SERVICE_UNKNOWN, and the call stays
  bridge.listener->drain();
  CHECK(watch.read() == not_serving);
  CHECK(ask(bridge, "/grpc.health.v1.Health/Check", "") == not_serving);
  bridge.listener->stop();
  CHECK(watch.finish().error_code() == grpc::StatusCode::UNAVAILABLE);
}

TEST_CASE("side calls are bounded", "[transport][grpc]") {
  transport::GrpcOptions options;
  options.max_side_calls = 3;
  Bridge bridge({}, options);
  const auto channel = bridge.channel();
  std::vector<std::unique_ptr<RpcCall>> watches;
  for (int i = 0; i < 3; ++i) {
    watches.push_back(std::make_unique<RpcCall>(channel, "/grpc.health.v1.Health/Watch"));
    REQUIRE(watches.back()->write(""));
    REQUIRE(watches.back()->read());
  }
  RpcCall fourth(channel, "/grpc.health.v1.Health/Watch");
  CHECK(fourth.finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  watches.pop_back();
  CHECK(Bridge::wait_until([&] {
    RpcCall again(channel, "/grpc.health.v1.Health/Watch");
    return again.write("") && again.read().has_value();
  }));
}

TEST_CASE("an address that cannot be had is told with the kernel's reason", "[transport][grpc]") {
  Bridge bridge;
  metrics::Registry registry;
  metrics::GrpcMetrics metrics(registry);
  const auto refused = [&](const std::string& bind, std::uint16_t port) {
    transport::GrpcOptions options;
    options.bind = bind;
    options.port = port;
    auto made =
        transport::rpc::listen(options, 1, bridge.door, [] { return wire::Info{}; }, metrics);
    REQUIRE_FALSE(made.has_value());
    return made.error().detail;
  };
  CHECK_THAT(refused("127.0.0.1", bridge.listener->port()), Catch::Contains("already in use"));
  CHECK_THAT(refused("localhost", 0), Catch::Contains("'localhost' is not a numeric"));
}

}  // namespace
}  // namespace simbridge::test
