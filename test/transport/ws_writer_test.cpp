// The codec's writer, read back by the codec's reader in the client's role.
#include "transport/ws_writer.h"

#include "support/seed.h"
#include "transport/ws_peer.h"

#include <catch2/catch.hpp>

#include <random>

namespace simbridge::test {
namespace {

using session::OutMessage;
using transport::ws::Writer;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const iovec> entries) {
  std::string all;
  for (const iovec& entry : entries) {
    all.append(static_cast<const char*>(entry.iov_base), entry.iov_len);
  }
  return all;
}

// One write, of which at most so many bytes are taken.
std::string write_some(Writer& writer, std::size_t most = SIZE_MAX) {
  std::string taken = text_of(writer.gather());
  taken.resize(std::min(taken.size(), most));
  writer.advance(taken.size());
  return taken;
}

std::string write_all(Writer& writer) {
  std::string all;
  while (!writer.idle()) all += write_some(writer);
  return all;
}

Transcript read_as_client(std::string_view stream) {
  return read_whole(stream, UINT64_MAX, Role::kClient);
}

TEST_CASE("many small messages leave in one write, and their payload is not copied",
          "[transport][ws]") {
  const std::string header(60, 'h');
  const std::string payload(1024, 'p');
  std::vector<OutMessage> batch(32, OutMessage{bytes(header), bytes(payload)});
  Writer writer;
  writer.load(batch);
  const auto entries = writer.gather();
  CHECK(entries.size() == 64);
  std::size_t lent = 0;
  for (const iovec& entry : entries) lent += entry.iov_base == payload.data() ? 1U : 0U;
  CHECK(lent == 32);
  const auto transcript = read_as_client(write_some(writer));
  CHECK(writer.batch_done());
  CHECK(writer.idle());
  CHECK((transcript.events == std::vector<std::string>(32, "binary:" + header + payload)));
}

TEST_CASE("messages without payload share one entry", "[transport][ws]") {
  const std::vector<OutMessage> batch(10, OutMessage{bytes("ack"), {}});
  Writer writer;
  writer.load(batch);
  CHECK(writer.gather().size() == 1);
  CHECK(read_as_client(write_all(writer)).events == std::vector<std::string>(10, "binary:ack"));
}

TEST_CASE("a write stays below 64 entries and 128 KiB unless one frame is larger",
          "[transport][ws]") {
  const std::string payload(50'000, 'p');
  const std::string large(900'000, 'q');
  std::vector<OutMessage> batch(5, OutMessage{bytes("h"), bytes(payload)});
  batch.push_back({bytes("h"), bytes(large)});
  batch.push_back({bytes("h"), bytes("tail")});
  Writer writer;
  writer.load(batch);
  std::vector<std::size_t> sizes;
  std::string all;
  while (!writer.idle()) {
    all += write_some(writer);
    sizes.push_back(all.size());
  }
  // two, two, one; the large one alone; the tail
  CHECK(sizes.size() == 5);
  const auto events = read_as_client(all).events;
  REQUIRE(events.size() == 7);
  CHECK((events[5] == "binary:h" + large));
  CHECK(events[6] == "binary:htail");
}

TEST_CASE("a message above 1 MiB leaves in fragments between which a pong and a close can stand",
          "[transport][ws]") {
  const std::string payload((3U << 20U) + 5, 'p');
  const std::vector<OutMessage> batch = {{bytes("head"), bytes(payload)}};
  Writer writer;
  writer.load(batch);
  std::string all = write_some(writer);
  CHECK(all.size() == (256U << 10U) + 10);
  writer.pong(bytes("now"));
  const std::string second = write_some(writer);
  CHECK(second.substr(0, 5) == "\x8A\x03now");
  all += second + write_all(writer);
  const auto transcript = read_as_client(all);
  REQUIRE(transcript.events.size() == 2);
  CHECK(transcript.events[0] == "pong:now");
  CHECK((transcript.events[1] == "binary:head" + payload));

  writer.load(batch);
  all = write_some(writer);
  writer.close(1001, "bye");
  all += write_all(writer);
  CHECK(writer.batch_done());
  CHECK(writer.closed());
  const auto cut = read_as_client(all);
  CHECK(cut.code == 1001);
  CHECK(cut.reason == "bye");
  CHECK(cut.inside);
  CHECK(cut.events.empty());
}

TEST_CASE("exactly 1 MiB is one frame, one byte more is fragments", "[transport][ws]") {
  const std::string payload((1U << 20U) - 4, 'p');
  for (const bool over : {false, true}) {
    const std::string head = over ? "head+" : "head";
    const std::vector<OutMessage> batch = {{bytes(head), bytes(payload)}};
    Writer writer;
    writer.load(batch);
    const std::string first = write_some(writer);
    CHECK(first.substr(0, 1) == (over ? "\x02" : "\x82"));
    CHECK(read_as_client(first + write_all(writer)).events.size() == 1);
  }
}

TEST_CASE("pongs go ahead of waiting frames, the newest sixteen of them", "[transport][ws]") {
  const std::vector<OutMessage> batch = {{bytes("frame"), {}}};
  Writer writer;
  writer.load(batch);
  for (int i = 0; i < 1000; ++i) writer.pong(bytes("p" + std::to_string(i)));
  writer.ping(bytes("q"));
  std::vector<std::string> expected;
  for (int i = 984; i < 1000; ++i) expected.push_back("pong:p" + std::to_string(i));
  expected.insert(expected.end(), {"ping:q", "binary:frame"});
  CHECK(read_as_client(write_all(writer)).events == expected);
}

TEST_CASE("a control frame never enters a frame that is partly written", "[transport][ws]") {
  const std::string payload(100'000, 'p');
  const std::vector<OutMessage> batch = {{bytes("h"), bytes(payload)}};
  Writer writer;
  writer.load(batch);
  std::string all = write_some(writer, 10);
  writer.pong(bytes("x"));
  writer.close(1000, "");
  while (!writer.idle()) all += write_some(writer, 7'000);
  const auto transcript = read_as_client(all);
  CHECK((transcript.events == std::vector<std::string>{"binary:h" + payload, "pong:x"}));
  CHECK(transcript.code == 1000);
}

TEST_CASE("what is left of a small batch is copied, so that a slow peer holds no frames",
          "[transport][ws]") {
  std::string payload(10'000, 'p');
  const std::vector<OutMessage> batch = {{bytes("h"), bytes(payload)}, {bytes("h"), bytes("next")}};
  Writer writer;
  writer.load(batch);
  std::string all = write_some(writer, 4'000);
  writer.keep_rest(1'000);
  CHECK_FALSE(writer.batch_done());  // too much to copy
  writer.keep_rest(10'000);
  CHECK(writer.batch_done());
  CHECK_FALSE(writer.idle());
  payload.assign(payload.size(), 'x');  // no longer lent
  const std::vector<OutMessage> second = {{bytes("more"), {}}};
  writer.load(second);
  while (!writer.idle()) all += write_some(writer, 900);
  const std::vector<std::string> expected{
      "binary:h" + std::string(10'000, 'p'), "binary:hnext", "binary:more"};
  CHECK((read_as_client(all).events == expected));
}

TEST_CASE("nothing follows a close", "[transport][ws]") {
  const std::vector<OutMessage> batch = {{bytes("late"), {}}};
  Writer writer;
  writer.load(batch);
  writer.close(1009, "too big");
  CHECK(writer.batch_done());  // what had not begun to leave is given back at once
  writer.close(1000, "second");
  writer.pong(bytes("late"));
  writer.load(batch);
  CHECK(writer.batch_done());
  const auto transcript = read_as_client(write_all(writer));
  CHECK(transcript.events.empty());
  CHECK(transcript.code == 1009);
  CHECK(transcript.reason == "too big");
  CHECK(writer.closed());
}

TEST_CASE("random batches, written in random pieces, are read as they were sent",
          "[transport][ws]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) {
    return static_cast<std::size_t>(random() % n);
  };
  std::string source(4U << 20U, '\0');
  for (char& byte : source) byte = static_cast<char>(random());
  for (int round = 0; round < 200; ++round) {
    Writer writer;
    std::string all;
    std::vector<std::string> sent;
    std::size_t pongs = 0;
    for (std::size_t batches = below(4) + 1; batches > 0; --batches) {
      std::vector<OutMessage> batch;
      for (std::size_t n = below(40) + 1; n > 0; --n) {
        const std::size_t sizes[] = {0, 1, 100, 520, 2'000, 9'000, 140'000, 1'500'000};
        const auto pick = [&](std::size_t kinds) {
          const std::size_t size = below(sizes[below(kinds)] + 1);
          return bytes(source).subspan(below(source.size() - size), size);
        };
        batch.push_back({pick(below(20) == 0 ? 8 : 5), pick(below(10) == 0 ? 8 : 6)});
        sent.emplace_back("binary:");
        for (const auto part : {batch.back().prefix, batch.back().data}) {
          sent.back().append(reinterpret_cast<const char*>(part.data()), part.size());
        }
      }
      writer.load(batch);
      while (!writer.batch_done()) {
        if (below(5) == 0) writer.pong(bytes("pong"));
        REQUIRE(writer.gather().size() <= transport::ws::kMaxGather);
        all += write_some(writer, below(4) == 0 ? below(300'000) + 1 : SIZE_MAX);
      }
    }
    all += write_all(writer);
    auto got = read_as_client(all).events;
    pongs = static_cast<std::size_t>(std::erase(got, "pong:pong"));
    INFO("pongs " << pongs);
    REQUIRE((got == sent));
  }
}

}  // namespace
}  // namespace simbridge::test
