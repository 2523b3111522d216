#include "client/watcher.h"

#include "client/fake_bridge.h"
#include "client/part_assembler.h"
#include "client/watch_output.h"
#include "support/manual_clock.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

namespace simbridge::client {
namespace {

using namespace std::chrono_literals;
using test::FakeBridge;
using test::FakeSession;

v1::ServerMessage announced(std::uint32_t id, const std::string& name) {
  v1::ServerMessage message;
  auto& info = *message.mutable_channels()->add_channel();
  info.set_id(id);
  info.set_name(name);
  message.mutable_channels()->set_complete(true);
  return message;
}

v1::ServerMessage frame_of(std::uint32_t channel, std::uint64_t sequence, const std::string& data) {
  v1::ServerMessage message;
  auto& frame = *message.mutable_frame();
  frame.set_subscription(1);
  frame.set_channel(channel);
  frame.set_epoch(9);
  frame.set_sequence(sequence);
  frame.mutable_opaque()->set_data(data);
  return message;
}

v1::ServerMessage gap_of(std::uint64_t first, std::uint64_t last, v1::GapReason reason) {
  v1::ServerMessage message;
  auto& gap = *message.mutable_gap();
  gap.set_subscription(1);
  gap.set_channel(4);
  gap.set_epoch(first == 0 ? 0 : 9);
  gap.set_first(first);
  gap.set_last(last);
  gap.set_frames(last - first + 1);
  gap.set_reason(reason);
  return message;
}

v1::Subscribe subscribed(FakeSession& session) {
  auto message = session.receive();
  if (!message.has_subscribe()) throw std::runtime_error("a Subscribe was due");
  return message.subscribe();
}

/// Waits for Unsubscribe and gives the last word.
void end_with(FakeSession& session, std::uint64_t delivered) {
  if (!session.receive().has_unsubscribe()) throw std::runtime_error("an Unsubscribe was due");
  v1::ServerMessage message;
  auto& state = *message.mutable_subscription_state();
  state.set_id(1);
  state.set_ended(true);
  state.mutable_counters()->set_promised(delivered);
  state.mutable_counters()->set_delivered(delivered);
  session.send(message);
  session.receive_within(5s);  // Goodbye
  session.receive_within(5s);  // the close
}

struct Driven {
  Driven(const std::string& url, SubscribeOptions subscribe, bool reconnect = true)
      : watcher({.peer = {.url = url, .name = "test"}, .reconnect = {.enabled = reconnect}},
                {std::move(subscribe)},
                {.frame =
                     [this](const WatchedFrame& frame) {
                       frames.push_back(std::string(frame.channel) + " " +
                                        std::to_string(frame.sequence) + " " +
                                        std::string(frame.data.substr(0, 8)));
                     },
                 .gap =
                     [this](const WatchedGap& gap) {
                       gaps.push_back(gap.reason + " " + std::to_string(gap.first) + "-" +
                                      std::to_string(gap.last));
                     },
                 .status =
                     [this](auto level, auto code, auto /*detail*/) {
                       statuses += std::string(level) + " " + std::string(code) + "\n";
                     },
                 .drain = {}}) {}
  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (auto stepped = watcher.step(deadline); !stepped) {
        failed = true;
        error = stepped.error();
        return false;
      }
    }
    return true;
  }
  void finish() {
    const auto ended = watcher.unsubscribe(std::chrono::steady_clock::now() + 5s);
    CHECK(ended);
    watcher.goodbye("done", std::chrono::steady_clock::now() + 2s);
  }

  std::vector<std::string> frames, gaps;
  std::string statuses;
  bool failed = false;
  Error error;  // where it failed
  Watcher watcher;
};

v1::FramePart part_of(std::uint64_t transfer,
                      std::uint32_t index,
                      std::uint32_t count,
                      std::uint64_t total,
                      const std::string& data) {
  v1::FramePart part;
  part.set_transfer(transfer);
  part.set_index(index);
  part.set_count(count);
  part.set_total_bytes(total);
  part.set_data(data);
  return part;
}

}  // namespace

TEST_CASE("a watcher asks as it was told, and knows frames, gaps and the last word",
          "[client][watch]") {
  v1::Subscribe asked;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    asked = subscribed(session);
    session.send(announced(4, "lidar"));
    session.send(frame_of(4, 1, "one"));
    session.send(gap_of(2, 5, v1::GAP_EVICTED));
    session.send(frame_of(4, 6, "six"));
    end_with(session, 2);
  }});
  Driven driven(bridge.url(),
                {.channel = "li*",
                 .history = HistoryMode::kFrom,
                 .from = {{.channel = "lidar", .epoch = 9, .sequence = 0}},
                 .max_hz = 5,
                 .reliable = true,
                 .max_age_ms = 7,
                 .queue_frames = 8,
                 .queue_bytes = 9});
  REQUIRE(driven.until([&] { return driven.frames.size() == 2; }));
  driven.finish();
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(driven.frames == std::vector<std::string>{"lidar 1 one", "lidar 6 six"});
  CHECK(driven.gaps == std::vector<std::string>{"EVICTED 2-5"});
  const auto& watched = driven.watcher.subscriptions().front();
  CHECK(watched.received == 2);
  CHECK(watched.lost == 4);
  CHECK(watched.ended);
  CHECK(watched.counters.delivered == 2);
  CHECK(asked.id() == 1);
  CHECK(asked.channel() == "li*");
  CHECK(asked.history() == v1::HISTORY_FROM);
  REQUIRE(asked.from_size() == 1);
  CHECK(asked.from(0).channel() == "lidar");
  CHECK(asked.quality().max_hz() == 5);
  CHECK(asked.reliable());
  CHECK(asked.max_age_ms() == 7);
  CHECK(asked.queue_frames() == 8);
  CHECK(asked.queue_bytes() == 9);
}

TEST_CASE("after a broken connection a watcher goes on from where it was", "[client][watch]") {
  v1::Subscribe first;
  v1::Subscribe second;
  FakeBridge bridge({[&](FakeSession& session) {
                       session.hello();
                       first = subscribed(session);
                       session.send(announced(4, "a"));
                       session.send(announced(5, "b"));
                       session.send(frame_of(4, 1, "one"));
                       session.send(frame_of(5, 7, "seven"));
                       session.send(gap_of(2, 3, v1::GAP_QUEUE));
                       session.send(gap_of(0, 0, v1::GAP_EPOCH));  // moves nobody
                       session.receive_within(300ms);
                     },
                     [&](FakeSession& session) {
                       session.hello();
                       second = subscribed(session);
                       session.send(announced(9, "a"));  // another boot, other numbers
                       session.send(frame_of(9, 4, "four"));
                       end_with(session, 1);
                     }});
  Driven driven(bridge.url(), {.channel = "*", .history = HistoryMode::kLast});
  REQUIRE(driven.until([&] { return driven.frames.size() == 3; }));
  driven.finish();
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(first.history() == v1::HISTORY_LAST);
  CHECK(second.history() == v1::HISTORY_FROM);
  REQUIRE(second.from_size() == 2);
  CHECK(second.from(0).channel() == "a");
  CHECK(second.from(0).epoch() == 9);
  CHECK(second.from(0).sequence() == 3);
  CHECK(second.from(1).channel() == "b");
  CHECK(second.from(1).sequence() == 7);
  CHECK(driven.frames.back() == "a 4 four");
  CHECK(driven.watcher.reconnects() == 1);
  CHECK(driven.watcher.subscriptions().front().received == 3);
  CHECK(driven.watcher.subscriptions().front().received_session == 1);
  CHECK_THAT(driven.statuses, Catch::Matchers::Contains("INFO reconnected"));
}

TEST_CASE("a channel that was silent before the break brings no history after it",
          "[client][watch]") {
  const auto [history, expected] = GENERATE(std::pair{HistoryMode::kNone, std::uint64_t{41}},
                                            std::pair{HistoryMode::kLast, std::uint64_t{40}});
  v1::Subscribe second;
  FakeBridge bridge({[&](FakeSession& session) {
                       session.hello();
                       subscribed(session);
                       auto message = announced(4, "silent");
                       message.mutable_channels()->mutable_channel(0)->set_epoch(9);
                       message.mutable_channels()->mutable_channel(0)->set_last_sequence(41);
                       session.send(message);
                       message.Clear();
                       message.mutable_subscription_state()->set_id(1);
                       message.mutable_subscription_state()->add_channel(4);
                       session.send(message);
                       session.receive_within(200ms);
                     },
                     [&](FakeSession& session) {
                       session.hello();
                       second = subscribed(session);
                       end_with(session, 0);
                     }});
  Driven driven(bridge.url(), {.channel = "*", .history = history});
  REQUIRE(driven.until([&] { return driven.watcher.reconnects() == 1; }));
  driven.finish();
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(second.history() == v1::HISTORY_FROM);
  REQUIRE(second.from_size() == 1);
  CHECK(second.from(0).channel() == "silent");
  CHECK(second.from(0).epoch() == 9);
  CHECK(second.from(0).sequence() == expected);
}

TEST_CASE("a watcher with credit answers every frame, in halves", "[client][watch]") {
  std::uint32_t given = 0;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    const auto credit = subscribed(session).credit();
    session.send(announced(4, "a"));
    std::uint32_t open = credit;
    for (std::uint64_t sequence = 1; sequence <= 20; ++sequence) {
      while (open == 0) {
        const auto message = session.receive();
        if (!message.has_credit() || message.credit().channel() != 4)
          throw std::runtime_error("credit was due");
        open += message.credit().frames();
        given += message.credit().frames();
      }
      session.send(frame_of(4, sequence, ""));
      --open;
    }
    while (session.receive_within(200ms)) {
    }
  }});
  Driven driven(bridge.url(), {.channel = "*", .credit = 4}, false);
  CHECK_FALSE(driven.until([] { return false; }));  // until the script is over
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(driven.frames.size() == 20);
  CHECK(given >= 16);
}

TEST_CASE("a frame in parts is one frame", "[client][watch]") {
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    subscribed(session);
    session.send(announced(4, "a"));
    const auto whole = frame_of(4, 1, std::string(3000, 'z')).frame().SerializeAsString();
    for (std::uint32_t index = 0; index < 4; ++index) {
      v1::ServerMessage message;
      *message.mutable_part() =
          part_of(1, index, 4, whole.size(), whole.substr(std::size_t{index} * 1000, 1000));
      session.send(message);
      session.send(gap_of(20 + index, 20 + index, v1::GAP_AGE));  // whole messages may come between
    }
    end_with(session, 1);
  }});
  Driven driven(bridge.url(), {.channel = "*"});
  REQUIRE(driven.until([&] { return driven.frames.size() == 1; }));
  CHECK(driven.frames.front() == "a 1 zzzzzzzz");
  driven.finish();
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
}

TEST_CASE("parts that do not make a whole are refused, and the next transfer is not",
          "[client][watch]") {
  const auto fails = [](std::initializer_list<v1::FramePart> parts) {
    PartAssembler assembler(1000);
    bool failed = false;
    for (const auto& part : parts) failed = !assembler.add(part);
    const auto next = assembler.add(part_of(100, 0, 1, 2, "ok"));
    return failed && next && *next == "ok";
  };
  CHECK(fails({part_of(1, 1, 2, 4, "ab")}));                              // no beginning
  CHECK(fails({part_of(1, 0, 3, 6, "ab"), part_of(1, 2, 3, 6, "ef")}));   // a hole
  CHECK(fails({part_of(1, 0, 3, 6, "ab"), part_of(1, 0, 3, 6, "ab")}));   // a repeat
  CHECK(fails({part_of(1, 0, 2, 4, "ab"), part_of(2, 1, 2, 4, "cd")}));   // of another transfer
  CHECK(fails({part_of(1, 0, 2, 4, "ab"), part_of(1, 1, 2, 5, "cd")}));   // another sum
  CHECK(fails({part_of(1, 0, 2, 4, "ab"), part_of(1, 1, 3, 4, "cd")}));   // another count
  CHECK(fails({part_of(1, 0, 2, 4, "ab"), part_of(1, 1, 2, 4, "c")}));    // too little
  CHECK(fails({part_of(1, 0, 2, 4, "ab"), part_of(1, 1, 2, 4, "cde")}));  // too much
  CHECK(fails({part_of(1, 0, 1, 4, "abcde")}));
  CHECK(fails({part_of(1, 0, 0, 4, "")}));
  CHECK(fails({part_of(1, 0, 2, 1001, "ab")}));                          // above the limit
  CHECK(fails({part_of(0, 0, 1, 2, "ab")}));                             // 0 means none
  CHECK(fails({part_of(5, 0, 1, 2, "ab"), part_of(5, 0, 1, 2, "ab")}));  // the number does not rise
}

TEST_CASE("a subscription that is refused ends a watcher with the code", "[client][watch]") {
  bool unsubscribed = false;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    subscribed(session);
    v1::ServerMessage message;
    message.mutable_reject()->set_subscription(1);
    message.mutable_reject()->set_code(v1::REJECT_QUALITY);
    session.send(message);
    while (const auto answer = session.receive_within(5s))
      unsubscribed = unsubscribed || answer->has_unsubscribe();
  }});
  Driven driven(bridge.url(), {.channel = "*"});
  CHECK_FALSE(driven.until([] { return false; }));
  REQUIRE(driven.failed);
  CHECK(driven.error.code == ErrorCode::kRefused);
  CHECK_THAT(driven.statuses, Catch::Matchers::Contains("ERROR QUALITY"));
  // There is nothing to end: an Unsubscribe would only be refused in its turn.
  CHECK(driven.watcher.unsubscribe(std::chrono::steady_clock::now() + 5s));
  driven.watcher.goodbye("", std::chrono::steady_clock::now() + 1s);
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK_FALSE(unsubscribed);
}

TEST_CASE("bytes that are no message of the protocol end a watcher", "[client][watch]") {
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    subscribed(session);
    session.send_bytes("\xff\xff\xff");
    session.receive_within(5s);
  }});
  Driven driven(bridge.url(), {.channel = "*"});
  CHECK_FALSE(driven.until([] { return false; }));
  REQUIRE(driven.failed);
  CHECK(driven.error.code == ErrorCode::kInvalid);
  driven.watcher.goodbye("", std::chrono::steady_clock::now() + 1s);
}

TEST_CASE("a rate is that of the last seconds, and no saw", "[client][watch]") {
  RateMeter meter;
  const Monotonic start(1000s);
  CHECK_FALSE(meter.rate(start));
  for (int i = 0; i < 400; ++i) meter.add(start + i * 50ms, 1000);  // 20 Hz for 20 s
  for (int i = 0; i < 10; ++i) {
    const auto rate = meter.rate(start + 19900ms + i * 10ms);
    REQUIRE(rate);
    CHECK(rate->hz == Approx(20).epsilon(0.02));
    CHECK(rate->bytes_per_s == Approx(20000).epsilon(0.02));
  }
  REQUIRE(meter.rate(start + 60s));
  CHECK(meter.rate(start + 60s)->hz == 0);
}

TEST_CASE("a rate is unknown for a second, and history is none", "[client][watch]") {
  RateMeter meter;
  const Monotonic start(1000s);
  for (int i = 0; i < 500; ++i) meter.add(start, 1000);                    // history, all at once
  for (int i = 1; i < 30; ++i) meter.add(start + i * 100ms + 50ms, 1000);  // 10 Hz
  CHECK_FALSE(meter.rate(start + 1ms));
  CHECK_FALSE(meter.rate(start + 1s));
  for (const auto later : {1300ms, 1500ms, 2000ms, 2900ms}) {
    const auto rate = meter.rate(start + later);
    REQUIRE(rate);
    CHECK(rate->hz == Approx(10).margin(2));
  }
}

TEST_CASE("the table shows no rate that it does not know, and a dead sensor's frame grows older",
          "[client][watch]") {
  test::ManualClock clock;
  struct Memory {
    Memory() : file(::open_memstream(&text, &size)) {}
    ~Memory() {
      (void)std::fclose(file);
      std::free(text);  // open_memstream's, ours once closed
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* file;
  };
  const Memory written;
  const Console console{.out = written.file, .err = written.file};
  const auto table = make_table_output(console, clock);
  const auto row = [&] {
    CHECK(table->flush());
    std::vector<std::string> words;
    const std::string all(written.text, written.size);
    std::istringstream last(all.substr(all.rfind("\nlidar")));
    for (std::string word; last >> word;) words.push_back(word);
    return words;  // channel Hz points MB/s age gaps
  };
  table->frame({.channel = "lidar", .points_out = 7, .data = "x", .age_ms = 40});  // latched
  CHECK(row() == std::vector<std::string>{"lidar", "-", "7", "-", "40.0", "0"});
  clock.advance(10s);
  CHECK(row() == std::vector<std::string>{"lidar", "0.0", "7", "0.00", "10040.0", "0"});
  clock.advance(5s);
  CHECK(row()[4] == "15040.0");
  table->frame({.channel = "lidar", .points_out = 7, .data = "x", .age_ms = 3});
  clock.advance(1s);
  CHECK(row()[4] == "1003.0");
}

TEST_CASE("frames beyond those that are wanted are counted apart", "[client][watch]") {
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    subscribed(session);
    session.send(announced(4, "a"));
    for (std::uint64_t sequence = 1; sequence <= 5; ++sequence)
      session.send(frame_of(4, sequence, "x"));
    end_with(session, 5);
  }});
  Driven driven(bridge.url(), {.channel = "*"});
  driven.watcher.want(2);
  REQUIRE(driven.until([&] { return driven.frames.size() == 2; }));
  driven.finish();
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(driven.frames == std::vector<std::string>{"a 1 x", "a 2 x"});
  const auto& watched = driven.watcher.subscriptions().front();
  CHECK(watched.received == 2);
  CHECK(watched.surplus == 3);
  CHECK(watched.counters.delivered == watched.received_session + watched.surplus);
}

}  // namespace simbridge::client
