// The WebSocket road below the protocol: handshakes, limits, deadlines, the end of connections.
// The peer is written by hand, byte by byte (raw_client.h); the session is a script
// (script_door.h).
#include "simbridge/metrics/instruments.h"
#include "simbridge/metrics/metrics.h"
#include "simbridge/transport/io_pool.h"
#include "transport/raw_client.h"
#include "transport/script_door.h"
#include "transport/ws_accept.h"

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace simbridge::test {
namespace {

using namespace std::chrono_literals;
using session::CloseKind;
using session::Flow;
using std::chrono::steady_clock;

// A listener on a port of its own, with two threads.
struct Bridge {
  explicit Bridge(Script script = {}, transport::WebSocketOptions options = {})
      : door(std::move(script)) {
    options.port = 0;
    auto made = transport::ws::listen(options, pool, door, transport_metrics);
    REQUIRE(made.has_value());
    listener = std::move(*made);
  }
  [[nodiscard]] RawClient connect(int receive_bytes = 0) const {
    return RawClient(listener->port(), receive_bytes);
  }
  [[nodiscard]] RawClient open() const {
    RawClient client = connect();
    REQUIRE(client.upgrade().starts_with("HTTP/1.1 101 "));
    return client;
  }
  [[nodiscard]] bool wait_until(const std::function<bool()>& condition) const {
    const auto deadline = steady_clock::now() + 10s;
    while (!condition()) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  [[nodiscard]] bool wait_connections(std::size_t count) const {
    return wait_until([&] { return listener->connections() == count; });
  }

  metrics::Registry registry;
  metrics::TransportMetrics transport_metrics{registry};
  transport::IoPool pool{2, transport_metrics.io_threads};
  ScriptDoor door;
  std::unique_ptr<transport::WebSocketListener> listener;
};

std::string kind(CloseKind kind) {
  return std::to_string(static_cast<int>(kind));
}

Transcript read_server(RawClient& client) {
  return read_whole(client.read_to_end(), UINT64_MAX, Role::kClient);
}

TEST_CASE("a request that is no upgrade gets its status and a sentence", "[transport][ws]") {
  Bridge bridge;
  struct Row {
    std::string request;
    std::string status;
    std::string says;
    metrics::HandshakeCause cause;
  };
  using enum metrics::HandshakeCause;
  const std::string good = "Sec-WebSocket-Protocol: simbridge.v1\r\n";
  const auto without = [](std::string request, std::string_view line) {
    request.erase(request.find(line), line.size());
    return request;
  };
  const std::vector<Row> rows = {
      {upgrade_request("/"), "404 Not Found", "/v1/connect", kPath},
      {upgrade_request("/v1/connect/"), "404 Not Found", "/v1/connect", kPath},
      {"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n", "404 Not Found", "/v1/connect", kPath},
      {"GET /v1/connect HTTP/1.1\r\nHost: b\r\n\r\n",
       "426 Upgrade Required",
       "RFC 6455",
       kNotUpgrade},
      {"POST /v1/connect HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
       "426 Upgrade Required",
       "RFC 6455",
       kNotUpgrade},
      {without(upgrade_request(), "Upgrade: websocket\r\n"),
       "426 Upgrade Required",
       "RFC 6455",
       kNotUpgrade},
      {without(upgrade_request(), ", Upgrade"), "426 Upgrade Required", "RFC 6455", kNotUpgrade},
      {upgrade_request("/v1/connect", good, "12"),
       "426 Upgrade Required",
       "Sec-WebSocket-Version: 13",
       kVersion},
      {without(upgrade_request(), "Sec-WebSocket-Version: 13\r\n"),
       "426 Upgrade Required",
       "Sec-WebSocket-Version: 13",
       kVersion},
      {without(upgrade_request(), "ZQ=="), "400 Bad Request", "Sec-WebSocket-Key", kMalformed},
      {without(upgrade_request(), "Host: bridge\r\n"), "400 Bad Request", "Host", kMalformed},
      {upgrade_request("/v1/connect", good + "Content-Length: 3\r\n") + "abc",
       "400 Bad Request",
       "no body",
       kMalformed},
      {upgrade_request("/v1/connect", ""), "400 Bad Request", "simbridge.v1", kSubprotocol},
      {upgrade_request("/v1/connect", "Sec-WebSocket-Protocol: mqtt, simbridge.v2\r\n"),
       "400 Bad Request",
       "simbridge.v1",
       kSubprotocol},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", 11),  // TLS
       "400 Bad Request",
       "not an HTTP request",
       kMalformed},
      {upgrade_request("/v1/connect", good + "X: " + std::string(9000, 'x') + "\r\n"),
       "431 Request Header Fields Too Large",
       "8192",
       kTooLarge},
      {"GET /" + std::string(9000, 'x'), "431 Request Header Fields Too Large", "8192", kTooLarge},
  };
  for (const Row& row : rows) {
    INFO(row.request.substr(0, 200));
    const auto before = bridge.transport_metrics.handshakes_refused[row.cause].value();
    RawClient client = bridge.connect();
    CHECK(client.send(row.request));
    const std::string answer = client.read_to_end();
    INFO(answer);
    CHECK(answer.starts_with("HTTP/1.1 " + row.status + "\r\n"));
    CHECK(answer.find(row.says) != std::string::npos);
    CHECK(answer.find("Connection: close") != std::string::npos);
    CHECK(client.end == RawClient::End::kEnd);
    CHECK(bridge.transport_metrics.handshakes_refused[row.cause].value() == before + 1);
  }
  CHECK(bridge.wait_connections(0));
}

TEST_CASE("an upgrade is answered with the first subprotocol known, and no extension",
          "[transport][ws]") {
  Bridge bridge;
  for (const std::string fields :
       {"Sec-WebSocket-Protocol: simbridge.v1\r\n",
        "Sec-WebSocket-Protocol: other, simbridge.v1\r\n",
        "Sec-WebSocket-Protocol: other\r\nSec-WebSocket-Protocol: simbridge.v1\r\n",
        "Sec-WebSocket-Protocol: simbridge.v1\r\nSec-WebSocket-Extensions: "
        "permessage-deflate\r\n"}) {
    INFO(fields);
    RawClient client = bridge.connect();
    // Byte by byte, and the first frame right behind it: nothing is lost on the way.
    const std::string request = upgrade_request("/v1/connect?name=x", fields) + binary("early");
    for (const char byte : request) CHECK(client.send({&byte, 1}));
    const std::string answer = client.read_until("\r\n\r\n");
    INFO(answer);
    CHECK(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"));
    CHECK(answer.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") !=
          std::string::npos);
    CHECK(answer.find("Sec-WebSocket-Protocol: simbridge.v1\r\n") != std::string::npos);
    CHECK(answer.find("Extensions") == std::string::npos);
    CHECK(bridge.door.notes.wait("message early"));
  }
  CHECK(bridge.door.notes.wait_count("message early", 4));
}

TEST_CASE("a peer for whom there is no place gets 503 and when to come back", "[transport][ws]") {
  Bridge bridge;
  bridge.door.refusal = session::Refusal{.cause = session::Refusal::Cause::kMaxSessions,
                                         .text = "All 4 sessions are taken.",
                                         .retry_after_s = 17};
  RawClient client = bridge.connect();
  client.send(upgrade_request());
  const std::string answer = client.read_to_end();
  INFO(answer);
  CHECK(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  CHECK(answer.find("Retry-After: 17\r\n") != std::string::npos);
  CHECK(answer.find("All 4 sessions are taken.") != std::string::npos);
  client.close();
  CHECK(bridge.wait_connections(0));
}

TEST_CASE("a slow handshake is cut off at its deadline, whatever it drips", "[transport][ws]") {
  Bridge bridge({}, {.handshake_timeout = 300ms});
  RawClient silent = bridge.connect();
  RawClient dripping = bridge.connect();
  const auto start = steady_clock::now();
  const std::string request = upgrade_request();
  std::size_t sent = 0;
  while (dripping.send({&request[sent % 20], 1}) && steady_clock::now() - start < 10s) {
    ++sent;
    if (!dripping.read_some(10ms).empty() || dripping.end != RawClient::End::kOpen) break;
  }
  CHECK(dripping.end == RawClient::End::kReset);
  CHECK(steady_clock::now() - start >= 300ms);
  CHECK(steady_clock::now() - start < 5s);
  CHECK(silent.read_to_end().empty());
  CHECK(silent.end == RawClient::End::kReset);
  CHECK(bridge.wait_connections(0));
  CHECK(bridge.transport_metrics.handshakes_refused[metrics::HandshakeCause::kTimeout].value() ==
        2);
}

TEST_CASE("slow handshakes cannot keep others out: the oldest makes room", "[transport][ws]") {
  Bridge bridge({}, {.max_handshakes = 8});
  std::vector<RawClient> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(bridge.connect());
  RawClient good = bridge.open();
  CHECK(good.send(binary("served")));
  CHECK(bridge.door.notes.wait("message served"));
  // With the good one the last seven; or the last eight, if it was through before they were
  // counted.
  CHECK(bridge.wait_until([&] { return bridge.listener->connections() <= 9; }));
  CHECK(bridge.listener->connections() >= 8);
  CHECK(idle.front().read_to_end().empty());
  CHECK(idle.front().end == RawClient::End::kReset);
  CHECK(idle.back().read_some(0ms).empty());
  CHECK(idle.back().end == RawClient::End::kOpen);
}

TEST_CASE("what a peer must not send ends its connection with the right code", "[transport][ws]") {
  Bridge bridge(Script{.max_message_bytes = 1000});
  struct Row {
    std::string bytes;
    unsigned code;
    std::string reason;
    CloseKind kind;
  };
  const std::vector<Row> rows = {
      {bytes_of({.first = 0x81, .payload = "{}"}),
       1003,
       "text message",
       CloseKind::kUnsupportedData},
      {bytes_of({.lie = true, .declared = 5000}),
       1009,
       "a message of at least 5000 bytes is above the limit of 1000 bytes",
       CloseKind::kTooLarge},
      {bytes_of({.first = 0x02, .payload = std::string(999, 'a')}) + bytes_of({.payload = "x"}),
       1002,
       "new message",
       CloseKind::kProtocol},
      {bytes_of({.first = 0x02, .payload = std::string(999, 'a')}) +
           bytes_of({.first = 0, .payload = "xy"}),
       1009,
       "1001",
       CloseKind::kTooLarge},
      {bytes_of({.payload = "x", .masked = false}), 1002, "not masked", CloseKind::kProtocol},
      {bytes_of({.first = 0xC2}), 1002, "reserved bit", CloseKind::kProtocol},
      {bytes_of({.first = 0x83}), 1002, "opcode 3", CloseKind::kProtocol},
      {bytes_of({.first = 0x88, .payload = close_payload(1005)}),
       1002,
       "1005",
       CloseKind::kProtocol},
      {bytes_of({.first = 0x88, .payload = close_payload(1000, "\xFF")}),
       1007,
       "UTF-8",
       CloseKind::kMalformed},
  };
  std::size_t ended = 0;
  for (const Row& row : rows) {
    INFO(row.code << " " << row.reason);
    RawClient client = bridge.open();
    // Behind it more than anybody will read: the close comes through all the same.
    CHECK(client.send(binary("good") + row.bytes + std::string(100'000, '\0')));
    const Transcript transcript = read_server(client);
    CHECK(transcript.code == row.code);
    CHECK(transcript.reason.find(row.reason) != std::string::npos);
    CHECK(client.end == RawClient::End::kEnd);  // not a reset, which could overtake the close frame
    client.close();
    ++ended;
    CHECK(bridge.door.notes.wait_count("closed ", ended));
    CHECK(bridge.door.notes.wait("closed " + kind(row.kind) + " broken"));
  }
  CHECK(bridge.wait_connections(0));
  CHECK(bridge.transport_metrics.closes[metrics::CloseCode::kTooBig].value() == 2);
}

TEST_CASE("each reason of a session to close has its code, and its last words go out first",
          "[transport][ws]") {
  struct Row {
    CloseKind kind;
    unsigned code;
  };
  for (const Row row : {Row{CloseKind::kNormal, 1000},
                        Row{CloseKind::kGoingAway, 1001},
                        Row{CloseKind::kProtocol, 1002},
                        Row{CloseKind::kUnsupportedData, 1003},
                        Row{CloseKind::kMalformed, 1007},
                        Row{CloseKind::kPolicy, 1008},
                        Row{CloseKind::kHelloTimeout, 1008},
                        Row{CloseKind::kUnauthorized, 1008},
                        Row{CloseKind::kTooLarge, 1009}}) {
    INFO(row.code);
    Script script;
    script.on_message = [&](ScriptSession& session, const std::string&) {
      session.peer.output_ready();
      session.peer.close({row.kind, "because"});
      return Flow::kStop;
    };
    script.next_batch = [](ScriptSession& session, session::Batch& batch) {
      if (session.turns++ == 3) return false;
      ScriptSession::put(batch, "last words");
      return true;
    };
    Bridge bridge(script);
    RawClient client = bridge.open();
    CHECK(client.send(binary("go")));
    std::string stream = client.read_bytes(3 * 12 + 2 + 2 + 7);
    CHECK(client.send(bytes_of({.first = 0x88, .payload = close_payload(row.code)})));
    stream += client.read_to_end();
    const Transcript transcript = read_whole(stream, UINT64_MAX, Role::kClient);
    CHECK(transcript.events == std::vector<std::string>(3, "binary:last words"));
    CHECK(transcript.code == row.code);
    CHECK(transcript.reason == "because");
    CHECK(client.end == RawClient::End::kEnd);
    CHECK(bridge.door.notes.wait("closed " + kind(row.kind) + " clean because"));
  }
}

TEST_CASE("a peer that closes gets the last Acks, its own code back, and a clean end",
          "[transport][ws]") {
  Script script;
  script.on_half_close = [](ScriptSession& session) {
    session.peer.output_ready();
  };
  script.next_batch = [](ScriptSession&, session::Batch& batch) {
    ScriptSession::put(batch, "ack");
    return true;  // it would go on for ever
  };
  Bridge bridge(script);
  RawClient client = bridge.open();
  CHECK(
      client.send(binary("x") + bytes_of({.first = 0x88, .payload = close_payload(4321, "bye")})));
  const Transcript transcript = read_server(client);
  CHECK(transcript.events == std::vector<std::string>{"binary:ack"});
  CHECK(transcript.code == 4321);
  CHECK(client.end == RawClient::End::kEnd);
  CHECK(bridge.door.notes.wait("closed " + kind(CloseKind::kNormal) + " clean"));
  client.close();
  CHECK(bridge.wait_connections(0));
}

TEST_CASE("a peer that breaks off, in the middle of a frame or with a reset, is lost",
          "[transport][ws]") {
  Bridge bridge;
  {
    RawClient client = bridge.open();
    CHECK(client.send(bytes_of({.payload = "whole"}) + bytes_of({.lie = true, .declared = 1000})));
    CHECK(bridge.door.notes.wait("message whole"));
    client.close();
    CHECK(bridge.door.notes.wait_count("closed " + kind(CloseKind::kLost) + " broken", 1));
  }
  {
    RawClient client = bridge.open();
    client.reset();
    CHECK(bridge.door.notes.wait_count("closed " + kind(CloseKind::kLost) + " broken", 2));
  }
  CHECK(bridge.wait_connections(0));
}

TEST_CASE("a peer that does not read cannot hold up the end: reset after the deadline",
          "[transport][ws]") {
  Script script;
  script.on_open = [](ScriptSession& session) {
    session.peer.output_ready();
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    session.lent.emplace_back(1U << 20U, 'x');
    ScriptSession::put(batch, session.lent.back());
    return true;
  };
  script.on_message = [](ScriptSession& session, const std::string&) {
    session.peer.close({CloseKind::kPolicy, "enough"});
    return Flow::kStop;
  };
  Bridge bridge(script, {.close_timeout = 300ms});
  RawClient client = bridge.connect(4096);
  client.send(upgrade_request());
  CHECK(client.send(binary("end this")));
  const auto start = steady_clock::now();
  CHECK(bridge.door.notes.wait("closed " + kind(CloseKind::kPolicy) + " broken enough"));
  CHECK(steady_clock::now() - start >= 250ms);
  CHECK(steady_clock::now() - start < 5s);
  CHECK(bridge.wait_connections(0));
  client.read_to_end();
  CHECK(client.end == RawClient::End::kReset);
}

TEST_CASE("a peer that answers no close is cut off at the deadline", "[transport][ws]") {
  Script script;
  script.on_message = [](ScriptSession& session, const std::string&) {
    session.peer.close({CloseKind::kGoingAway, ""});
    return Flow::kStop;
  };
  Bridge bridge(script, {.close_timeout = 300ms});
  RawClient client = bridge.open();
  CHECK(client.send(binary("end this")));
  CHECK(bridge.door.notes.wait("closed " + kind(CloseKind::kGoingAway) + " broken"));
  CHECK(bridge.wait_connections(0));
}

TEST_CASE("a silent peer is given up after three ping intervals, any byte is life",
          "[transport][ws]") {
  Bridge bridge({}, {.ping_interval = 200ms});
  RawClient silent = bridge.open();
  RawClient answering = bridge.open();
  RawClient sending = bridge.open();
  CHECK(sending.send(bytes_of({.lie = true, .declared = 1'000'000})));  // and never ends
  const auto start = steady_clock::now();
  std::string heard;
  while (!bridge.door.notes.wait("closed " + kind(CloseKind::kDead) + " broken", 20ms)) {
    REQUIRE(steady_clock::now() - start < 10s);
    heard += answering.read_some(1ms);
    for (; heard.size() >= 2; heard.erase(0, 2)) {
      CHECK(heard.substr(0, 2) == std::string("\x89\x00", 2));
      answering.send(bytes_of({.first = 0x8A}));
    }
    CHECK(sending.send("x"));
  }
  CHECK(steady_clock::now() - start >= 550ms);
  CHECK(steady_clock::now() - start < 3s);
  CHECK(bridge.wait_connections(2));
}

TEST_CASE("a full descriptor table makes new peers wait, not fail", "[transport][ws]") {
  Bridge bridge;
  RawClient before = bridge.open();
  std::vector<RawClient> waiting;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // Room for the client's own sockets, and for none of the bridge's.
  for (int i = 0; i < 3; ++i) waiting.push_back(bridge.connect());
  for (auto& client : waiting) REQUIRE(client.connected());
  REQUIRE(bridge.wait_connections(4));
  const int next_free = ::dup(0);
  ::close(next_free);
  const rlimit full{.rlim_cur = static_cast<rlim_t>(next_free) + 1, .rlim_max = limit.rlim_max};
  // No assertions in between: a sanitizer's checks need descriptors themselves.
  const bool lowered = ::setrlimit(RLIMIT_NOFILE, &full) == 0;
  RawClient late = bridge.connect();
  const auto& errors = bridge.transport_metrics.accept_errors[metrics::AcceptError::kDescriptors];
  const auto deadline = steady_clock::now() + 10s;
  while (errors.value() < 2 && steady_clock::now() < deadline) std::this_thread::yield();
  const auto seen = errors.value();
  const bool served =
      before.send(binary("still served")) && bridge.door.notes.wait("message still served");
  ::setrlimit(RLIMIT_NOFILE, &limit);
  REQUIRE(lowered);
  CHECK(seen >= 2);   // it happened, and again:
  CHECK(seen < 200);  // backing off, not spinning
  CHECK(served);
  CHECK(late.upgrade().starts_with("HTTP/1.1 101 "));
}

TEST_CASE("a paused session is offered the same bytes again, and nothing is lost behind them",
          "[transport][ws]") {
  Script script;
  script.on_message = [](ScriptSession& session, const std::string&) {
    if (session.turns++ % 3 != 2) {  // not the first time, not the second
      session.peer.wake_at(steady_clock::now() + 1ms);
      return Flow::kPause;
    }
    return Flow::kContinue;
  };
  script.on_timer = [](ScriptSession& session) {
    session.peer.resume_input();
  };
  Bridge bridge(script);
  RawClient client = bridge.open();
  std::string stream;
  for (int i = 0; i < 20; ++i) stream += binary("number " + std::to_string(i));
  stream += bytes_of({.first = 0x89, .payload = "ping"});
  CHECK(client.send(stream));
  CHECK(bridge.door.notes.wait("message number 19"));
  CHECK(client.read_bytes(6) == "\x8A\x04ping");
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) expected.push_back("message number " + std::to_string(i));
  auto got = bridge.door.notes.all();
  std::erase(got, "timer");
  CHECK(got == expected);
}

TEST_CASE("the payload of a large frame is read into the session's own memory", "[transport][ws]") {
  Notes* notes = nullptr;
  std::string received;
  Script script;
  script.direct_bytes = 100'000;
  script.max_message_bytes = 10U << 20U;
  script.on_message = [&](ScriptSession&, const std::string& message) {
    received = message;
    return Flow::kContinue;
  };
  Bridge bridge(script);
  notes = &bridge.door.notes;
  RawClient client = bridge.open();
  std::string payload(5U << 20U, '\0');
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 31 + i / 997);
  for (int round = 1; round <= 3; ++round) {
    CHECK(client.send(binary(payload)));
    CHECK(notes->wait_count("message ", static_cast<std::size_t>(round)));
    CHECK((received == payload));
  }
  CHECK(notes->wait_count("direct", 30));
  CHECK(notes->wait("begin " + std::to_string(payload.size())));
}

TEST_CASE("a pong stands between the fragments of a large message to a slow reader",
          "[transport][ws]") {
  Script script;
  script.on_open = [](ScriptSession& session) {
    session.peer.output_ready();
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    if (session.turns++ != 0) return false;
    session.lent.emplace_back(32U << 20U, 'x');
    ScriptSession::put(batch, session.lent.back());
    return true;
  };
  Bridge bridge(script);
  RawClient client = bridge.connect(4096);
  client.send(upgrade_request());
  client.read_until("\r\n\r\n");
  CHECK(client.send(bytes_of({.first = 0x89, .payload = "now"}) + binary("seen")));
  CHECK(bridge.door.notes.wait("message seen"));  // the ping before it was answered in the plan
  const std::string stream = client.read_bytes((32U << 20U) + 128 * 10 + 5);
  const auto transcript = read_whole(stream, UINT64_MAX, Role::kClient);
  REQUIRE(transcript.events.size() == 2);
  CHECK(transcript.events[0] == "pong:now");
  CHECK(transcript.events[1].size() == 7 + (32U << 20U));
}

TEST_CASE("a consumer that does not read holds up nobody else", "[transport][ws]") {
  Script script;
  script.on_message = [](ScriptSession& session, const std::string&) {
    session.peer.output_ready();
    return Flow::kContinue;
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    session.lent.emplace_back(100'000, 'x');
    ScriptSession::put(batch, session.lent.back());
    return true;
  };
  Bridge bridge(script);
  std::vector<RawClient> stalled;
  for (int i = 0; i < 4; ++i) {  // more than there are threads
    stalled.push_back(bridge.open());
    CHECK(stalled.back().send(binary("start")));
  }
  CHECK(bridge.door.notes.wait_count("message start", 4));
  RawClient reader = bridge.open();
  CHECK(reader.send(binary("reader")));
  CHECK(reader.read_bytes(50'000'000).size() == 50'000'000);
  CHECK(stalled.front().send(binary("still read")));
  CHECK(bridge.door.notes.wait("message still read"));
}

TEST_CASE("a woken session gets its turn on its strand, and a late wake is harmless",
          "[transport][ws]") {
  std::shared_ptr<std::move_only_function<void() const>> waker;
  Script script;
  script.on_open = [&](ScriptSession& session) {
    waker = std::make_shared<std::move_only_function<void() const>>(std::move(session.waker));
  };
  script.on_wake = [](ScriptSession& session) {
    session.peer.output_ready();
  };
  script.next_batch = [](ScriptSession& session, session::Batch& batch) {
    if (session.turns++ % 2 != 0) return false;
    ScriptSession::put(batch, "woken");
    return true;
  };
  {
    Bridge bridge(script);
    RawClient client = bridge.open();
    client.send(binary("opened"));
    REQUIRE(bridge.door.notes.wait("message opened"));
    (*waker)();
    CHECK(client.read_bytes(7) == "\x82\x05woken");
    client.close();
    CHECK(bridge.door.notes.wait("closed "));
    (*waker)();
  }
  (*waker)();
}

TEST_CASE("a listener that stops says so and waits until every session was told",
          "[transport][ws]") {
  Bridge bridge;
  std::vector<RawClient> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(bridge.open());
  RawClient unfinished = bridge.connect();
  for (auto& client : clients) CHECK(client.send(binary("here")));
  CHECK(bridge.door.notes.wait_count("message here", 10));
  const auto port = bridge.listener->port();
  bridge.listener->stop();
  CHECK(bridge.listener->connections() == 0);
  CHECK(bridge.door.notes.wait_count("closed " + kind(CloseKind::kGoingAway) + " broken", 10, 0ms));
  CHECK_FALSE(RawClient(port).connected());
  CHECK(bridge.transport_metrics.closes[metrics::CloseCode::kGoingAway].value() == 10);
}

TEST_CASE("a listener may stop at any moment of a peer's coming", "[transport][ws]") {
  // The peer has its 101 and the listener stops: the session is opened and told, or never opened.
  for (int round = 0; round < 200; ++round) {
    Bridge bridge;
    RawClient client = bridge.connect();
    client.send(upgrade_request());
    if (round % 2 == 0) client.read_until("\r\n\r\n");
    bridge.listener.reset();
    client.read_to_end();
    CHECK(client.end != RawClient::End::kOpen);
  }
}

TEST_CASE("an address that cannot be listened on is told in one sentence", "[transport][ws]") {
  Bridge bridge;
  const auto again = transport::ws::listen(
      {.port = bridge.listener->port()}, bridge.pool, bridge.door, bridge.transport_metrics);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().detail.find("Address already in use") != std::string::npos);
  const auto name = transport::ws::listen(
      {.bind = "localhost"}, bridge.pool, bridge.door, bridge.transport_metrics);
  REQUIRE_FALSE(name.has_value());
  CHECK(name.error().detail == "'localhost' is not a numeric IPv4 or IPv6 address");
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // whose shadow memory would be counted
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST_CASE("a peer that has said nothing yet costs less than 16 KiB, in either stage",
          "[transport][ws]") {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit most{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
  Bridge bridge;
  RawClient warm = bridge.open();
  for (const bool upgraded : {false, true}) {
    constexpr std::size_t kPeers = 400;
    std::vector<RawClient> peers;
    peers.reserve(kPeers);
    const auto before = resident_bytes();
    for (std::size_t i = 0; i < kPeers; ++i) {
      peers.push_back(bridge.connect());
      peers.back().send(upgraded ? upgrade_request() : upgrade_request().substr(0, 150));
      if (upgraded) peers.back().read_until("\r\n\r\n");
    }
    REQUIRE(bridge.wait_connections(kPeers + 1));
    const auto each = (resident_bytes() - std::min(before, resident_bytes())) / kPeers;
    INFO((upgraded ? "open: " : "handshake: ") << each << " bytes");
    CHECK(each < 16U << 10U);
  }
  ::setrlimit(RLIMIT_NOFILE, &limit);
}
#endif

}  // namespace
}  // namespace simbridge::test
