// The commands as a user meets them: what they say, and the number they end with.
#include "simbridge/client/commands.h"

#include "client/fake_bridge.h"
#include "client/state_lock.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace simbridge::client {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using test::FakeBridge;
using test::FakeSession;

constexpr std::uint64_t kWindow = 1000;
constexpr const char* kNobody = "ws://127.0.0.1:1";

/// Both streams of a command, in memory.
class Heard {
 public:
  Heard() : out_(std::tmpfile()), err_(std::tmpfile()) {}
  ~Heard() {
    (void)std::fclose(out_);
    (void)std::fclose(err_);
  }
  Heard(const Heard&) = delete;
  Heard& operator=(const Heard&) = delete;

  [[nodiscard]] Console console() const { return {.out = out_, .err = err_}; }
  [[nodiscard]] std::string out() const { return read(out_); }
  [[nodiscard]] std::string err() const { return read(err_); }

 private:
  static std::string read(std::FILE* file) {
    std::string text;
    REQUIRE(std::fseek(file, 0, SEEK_END) == 0);
    text.resize(static_cast<std::size_t>(std::ftell(file)));
    REQUIRE(std::fseek(file, 0, SEEK_SET) == 0);
    REQUIRE(std::fread(text.data(), 1, text.size(), file) == text.size());
    return text;
  }

  std::FILE* out_;
  std::FILE* err_;
};

std::string scratch_path(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("simbridge-commands-" + std::to_string(::getpid()) + "-" + name))
      .string();
}

SendOptions telemetry(const std::string& url) {
  return {.to = url, .channel = "a", .telemetry_bytes = 8, .rate_hz = 1000, .count = 1};
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Takes one channel's frames until the sender has gone.
void serve_sender(FakeSession& session) {
  session.hello();
  session.advertised(0, kWindow);
  session.frames_until_goodbye(kWindow);
}

/// Announces a channel and sends it so many frames.
void send_frames(FakeSession& session, std::uint64_t frames) {
  session.hello();
  if (!session.receive().has_subscribe()) throw std::runtime_error("a Subscribe was due");
  v1::ServerMessage message;
  auto& info = *message.mutable_channels()->add_channel();
  info.set_id(4);
  info.set_name("a");
  message.mutable_channels()->set_complete(true);
  session.send(message);
  for (std::uint64_t sequence = 1; sequence <= frames; ++sequence) {
    message.Clear();
    auto& frame = *message.mutable_frame();
    frame.set_subscription(1);
    frame.set_channel(4);
    frame.set_epoch(9);
    frame.set_sequence(sequence);
    frame.mutable_opaque()->set_data("x");
    session.send(message);
  }
}

/// The same, and then the last word.
void serve_watcher(FakeSession& session, std::uint64_t frames) {
  send_frames(session, frames);
  if (!session.receive().has_unsubscribe()) throw std::runtime_error("an Unsubscribe was due");
  v1::ServerMessage message;
  message.mutable_subscription_state()->set_id(1);
  message.mutable_subscription_state()->set_ended(true);
  session.send(message);
  session.receive_within(5s);  // Goodbye
  session.receive_within(5s);  // the close
}

}  // namespace

TEST_CASE("watch --count prints and counts exactly so many frames", "[client][commands]") {
  FakeBridge bridge({[](FakeSession& session) {
    serve_watcher(session, 6);
  }});
  const Heard heard;
  CHECK(run_watch({.from = bridge.url(), .json = true, .count = 4}, heard.console()) == 0);
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(count_of(heard.out(), R"("type":"frame")") == 4);
  CHECK_THAT(heard.out(), Contains(R"("reason":"count","frames":4,)"));
  CHECK_THAT(heard.out(), Contains(R"("received":4,"received_this_session":4,"surplus":2)"));
}

TEST_CASE("output that cannot be written ends a command with 1 and the reason",
          "[client][commands]") {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"),
                                                             &std::fclose);
  REQUIRE(full);
  const Heard heard;
  auto console = heard.console();
  console.out = full.get();
  SECTION("watch") {
    const bool json = GENERATE(true, false);
    FakeBridge bridge({[](FakeSession& session) {
      send_frames(session, 1);
      while (session.receive_within(5s)) {
      }
    }});
    CHECK(run_watch({.from = bridge.url(), .json = json, .for_s = 30}, console) == 1);
    CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  }
  SECTION("health") {
    FakeBridge bridge({[](FakeSession& session) {
      session.refuse(200, "", "ready\n");
    }});
    CHECK(run_health({.url = "http" + bridge.url().substr(2)}, console) == 1);
  }
  CHECK_THAT(heard.err(), Contains("cannot write the output: No space left on device"));
}

TEST_CASE("a bridge that says later is an error of its own, or is waited for with --reconnect",
          "[client][commands]") {
  const bool send = GENERATE(true, false);
  const bool reconnect = GENERATE(true, false);
  INFO((send ? "send" : "watch") << (reconnect ? " --reconnect" : ""));
  std::vector<FakeBridge::Script> scripts{[](FakeSession& session) {
    session.refuse(503, "1");
  }};
  if (reconnect)
    scripts.emplace_back([send](FakeSession& session) {
      if (send) {
        serve_sender(session);
      } else {
        serve_watcher(session, 1);
      }
    });
  FakeBridge bridge(scripts);
  const Heard heard;
  const auto begin = std::chrono::steady_clock::now();
  auto sending = telemetry(bridge.url());
  sending.reconnect = reconnect;
  const int exit =
      send ? run_send(sending, heard.console())
           : run_watch({.from = bridge.url(), .count = 1, .reconnect = reconnect}, heard.console());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(exit == (reconnect ? 0 : 4));
  CHECK_THAT(heard.err(), Contains("HTTP 503") && Contains("Retry-After: 1"));
  if (reconnect) CHECK(std::chrono::steady_clock::now() - begin >= 1s);
}

TEST_CASE("a bridge that goes on saying later is given up, and is a refusal",
          "[client][commands]") {
  FakeBridge bridge({[](FakeSession& session) { session.refuse(503, "3600"); },
                     [](FakeSession& session) {
                       session.refuse(503, "3600");
                     }});
  const Heard heard;
  auto options = telemetry(bridge.url());
  options.reconnect = true;
  options.give_up_after_s = 0.3;  // less than it asks for: one last attempt at the end
  CHECK(run_send(options, heard.console()) == 4);
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
}

TEST_CASE("stopped before there was ever a connection, a command was unreachable",
          "[client][commands]") {
  const Heard heard;
  auto console = heard.console();
  int asked = 0;
  console.should_stop = [&] {
    return ++asked > 3;
  };
  SECTION("send") {
    auto options = telemetry(kNobody);
    options.connect_for_s = 60;
    CHECK(run_send(options, console) == 3);
  }
  SECTION("watch") {
    CHECK(run_watch({.from = kNobody, .reconnect = true, .connect_for_s = 60}, console) == 3);
  }
  SECTION("watch whose time is over") {
    console.should_stop = {};
    CHECK(run_watch({.from = kNobody, .for_s = 0.05, .connect_for_s = 60}, console) == 3);
  }
  CHECK_THAT(heard.err(), Contains("127.0.0.1:1 was never reached"));
}

TEST_CASE("names and patterns that no bridge takes are refused before it is asked",
          "[client][commands]") {
  const Heard heard;
  for (const auto* const name : {"", "a*", "a?", "a\n", "\xff"}) {
    auto options = telemetry(kNobody);
    options.channel = name;
    CHECK(run_send(options, heard.console()) == 2);
  }
  auto two = telemetry(kNobody);  // only with the second channel's name it is too long
  two.channel = std::string(250, 'n');
  two.simulate = "lidar";
  CHECK(run_send(two, heard.console()) == 2);
  for (const auto& glob : {std::string(), std::string("a\n"), std::string(257, 'g')})
    CHECK(run_watch({.from = kNobody, .globs = {"good", glob}}, heard.console()) == 2);
  CHECK(count_of(heard.err(), "a channel's name is 1 to 256 bytes") == 6);
  CHECK(count_of(heard.err(), "a pattern is 1 to 256 bytes") == 3);
}

TEST_CASE("a rate out of its range is refused with the range", "[client][commands]") {
  for (const double rate : {-1.0, 1e-10, 0.0009, 1.1e6, std::numeric_limits<double>::quiet_NaN()}) {
    const Heard heard;
    auto options = telemetry(kNobody);
    options.rate_hz = rate;
    CHECK(run_send(options, heard.console()) == 2);
    CHECK_THAT(heard.err(), Contains("--rate is from 0.001 to 1000000 frames a second"));
    CHECK(heard.err().size() < 120);
  }
}

TEST_CASE("an input file that is missing or broken is refused before anybody is asked",
          "[client][commands]") {
  const auto path = scratch_path("broken.pcd");
  std::ofstream(path) << "this is no recording\n";
  for (const auto& file : {path, scratch_path("missing.pcd")}) {
    const Heard heard;
    CHECK(run_send({.to = kNobody, .channel = "a", .files = {file}}, heard.console()) == 2);
    CHECK_THAT(heard.err(), Contains(file));
  }
  std::filesystem::remove(path);
}

TEST_CASE("a state that is a directory, or another sender's, is refused with the reason",
          "[client][commands]") {
  const auto path = scratch_path("state");
  auto options = telemetry(kNobody);
  SECTION("a directory") {
    const Heard heard;
    std::filesystem::create_directory(path);
    options.state_file = path;
    CHECK(run_send(options, heard.console()) == 2);
    CHECK_THAT(heard.err(), Contains("--state: " + path + " is a directory; name a file"));
    CHECK_FALSE(std::filesystem::exists(path + ".lock"));
  }
  SECTION("another sender's") {
    const Heard heard;
    const auto held = StateLock::take(path, "simbridge send --channel other");
    REQUIRE(held);
    options.state_file = path;
    CHECK(run_send(options, heard.console()) == 2);
    CHECK_THAT(heard.err(),
               Contains(path + " is in use by process ") &&
                   Contains("simbridge send --channel other") && Contains("a file of its own"));
    CHECK_FALSE(std::filesystem::exists(path));
  }
  std::filesystem::remove_all(path);
  std::filesystem::remove(path + ".lock");
}

TEST_CASE("health believes only what the admin side of a bridge says", "[client][commands]") {
  struct Row {
    const char* path;
    unsigned status;
    const char* body;
    int exit;
  };
  for (const auto& row : {Row{"", 200, "ready\n", 0},
                          Row{"/readyz", 200, "ready\n", 0},
                          Row{"/healthz", 200, "ok\n", 0},
                          Row{"", 503, "draining\n", 1},
                          Row{"", 200, "welcome to another server", 1},
                          Row{"/readyz", 200, "ok\n", 1},
                          Row{"", 404, "WebSocket peers connect to /v1/connect.", 1}}) {
    INFO(row.path << " " << row.status << " " << row.body);
    FakeBridge bridge({[&row](FakeSession& session) {
      session.refuse(row.status, "", row.body);
    }});
    const Heard heard;
    CHECK(run_health({.url = "http" + bridge.url().substr(2) + row.path}, heard.console()) ==
          row.exit);
    CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
    const bool said = row.exit == 0 || row.status == 503;
    CHECK(heard.out() == (said ? row.body : ""));
    CHECK(heard.err().empty() == said);
  }
  const Heard heard;
  CHECK(run_health({.url = "http://127.0.0.1:1/metrics"}, heard.console()) == 2);
  CHECK_THAT(heard.err(), Contains("/readyz") && Contains("\"/metrics\""));
}

TEST_CASE("info says when the port is the WebSocket's, or nobody's we know", "[client][commands]") {
  FakeBridge bridge({[](FakeSession& session) {
                       session.refuse(404, "", "WebSocket peers connect to /v1/connect.");
                     },
                     [](FakeSession& session) {
                       session.refuse(200, "", "<html>");
                     }});
  const auto authority = bridge.url().substr(5);
  const Heard websocket;
  CHECK(run_info({.url = "http://" + authority}, websocket.console()) == 1);
  CHECK_THAT(websocket.err(),
             Contains("looks like the WebSocket port") && Contains("ws://" + authority));
  const Heard other;
  CHECK(run_info({.url = "http://" + authority}, other.console()) == 1);
  CHECK_THAT(other.err(), Contains("not the admin side of a bridge"));
  CHECK(other.out().empty());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
}

}  // namespace simbridge::client
