// The codec's reader: one row for each MUST of RFC 6455 that a reading endpoint can break, and the
// rule that cuts in the stream change nothing.
#include "transport/ws_codec.h"

#include "support/seed.h"
#include "transport/ws_peer.h"

#include <catch2/catch.hpp>

#include <random>

namespace simbridge::test {
namespace {

struct Row {
  std::string_view rule;
  std::string stream;
  Transcript expected;
  std::uint64_t limit = 1U << 20U;
};

Transcript events(std::vector<std::string> list) {
  return {.events = std::move(list)};
}

Transcript refused(unsigned code, std::string reason, std::vector<std::string> before = {}) {
  return {.events = std::move(before), .code = code, .failed = true, .reason = std::move(reason)};
}

Transcript refused_inside(unsigned code, std::string reason, std::vector<std::string> before = {}) {
  Transcript transcript = refused(code, std::move(reason), std::move(before));
  transcript.inside = true;
  return transcript;
}

Transcript closed(unsigned code, std::string reason = {}, std::vector<std::string> before = {}) {
  return {.events = std::move(before), .code = code, .reason = std::move(reason)};
}

std::string close_frame(const std::string& payload) {
  return bytes_of({.first = 0x88, .payload = payload});
}

std::string text_frame(const std::string& payload) {
  return bytes_of({.first = 0x81, .payload = payload});
}

const std::string kReserved = "a reserved bit is set, and no extension was agreed";
const std::string kShortest = "a length is not in its shortest form";
const std::string kBadText = "a text is not valid UTF-8";

std::vector<Row> framing_rows() {
  return {
      {"5.1 a client's frame must be masked",
       bytes_of({.payload = "x", .masked = false}),
       refused(1002, "a frame from a client is not masked")},
      {"5.2 RSV1 must be 0", bytes_of({.first = 0xC2}), refused(1002, kReserved)},
      {"5.2 RSV2 must be 0", bytes_of({.first = 0xA2}), refused(1002, kReserved)},
      {"5.2 RSV3 must be 0", bytes_of({.first = 0x92}), refused(1002, kReserved)},
      {"5.2 RSV must be 0 in control frames", bytes_of({.first = 0xC9}), refused(1002, kReserved)},
      {"5.2 opcode 3 is reserved",
       bytes_of({.first = 0x83}),
       refused(1002, "opcode 3 is reserved")},
      {"5.2 opcode 4 is reserved",
       bytes_of({.first = 0x84}),
       refused(1002, "opcode 4 is reserved")},
      {"5.2 opcode 5 is reserved",
       bytes_of({.first = 0x85}),
       refused(1002, "opcode 5 is reserved")},
      {"5.2 opcode 6 is reserved",
       bytes_of({.first = 0x86}),
       refused(1002, "opcode 6 is reserved")},
      {"5.2 opcode 7 is reserved",
       bytes_of({.first = 0x87}),
       refused(1002, "opcode 7 is reserved")},
      {"5.2 opcode 11 is reserved",
       bytes_of({.first = 0x8B}),
       refused(1002, "opcode 11 is reserved")},
      {"5.2 opcode 12 is reserved",
       bytes_of({.first = 0x8C}),
       refused(1002, "opcode 12 is reserved")},
      {"5.2 opcode 13 is reserved",
       bytes_of({.first = 0x8D}),
       refused(1002, "opcode 13 is reserved")},
      {"5.2 opcode 14 is reserved",
       bytes_of({.first = 0x8E}),
       refused(1002, "opcode 14 is reserved")},
      {"5.2 opcode 15 is reserved",
       bytes_of({.first = 0x8F}),
       refused(1002, "opcode 15 is reserved")},
      {"5.2 an empty message is a message", bytes_of({}), events({"binary:"})},
      {"5.2 the longest 7-bit length",
       bytes_of({.payload = std::string(125, 'a')}),
       events({"binary:" + std::string(125, 'a')})},
      {"5.2 the shortest 16-bit length",
       bytes_of({.payload = std::string(126, 'a')}),
       events({"binary:" + std::string(126, 'a')})},
      {"5.2 the longest 16-bit length",
       bytes_of({.payload = std::string(65535, 'a')}),
       events({"binary:" + std::string(65535, 'a')})},
      {"5.2 the shortest 64-bit length",
       bytes_of({.payload = std::string(65536, 'a')}),
       events({"binary:" + std::string(65536, 'a')})},
      {"5.2 16 bits must not be used below 126",
       bytes_of({.payload = std::string(125, 'a'), .length_form = 16}),
       refused(1002, kShortest)},
      {"5.2 64 bits must not be used below 65536",
       bytes_of({.payload = std::string(126, 'a'), .length_form = 64}),
       refused(1002, kShortest)},
      {"5.2 64 bits must not be used for nothing",
       bytes_of({.length_form = 64}),
       refused(1002, kShortest)},
      {"5.2 the top bit of a 64-bit length must be 0",
       bytes_of({.length_form = 64, .lie = true, .declared = 1ULL << 63U}),
       refused(1002, "the highest bit of a 64-bit length is set"),
       UINT64_MAX},
      {"5.3 any key unmasks, zero too",
       bytes_of({.payload = "plain", .key = {0, 0, 0, 0}}),
       events({"binary:plain"})},
      {"5.4 fragments are one message",
       bytes_of({.first = 0x02, .payload = "a"}) + bytes_of({.first = 0x00, .payload = "b"}) +
           bytes_of({.first = 0x80, .payload = "c"}),
       events({"binary:abc"})},
      {"5.4 fragments may be empty",
       bytes_of({.first = 0x01}) + bytes_of({.first = 0x00}) + bytes_of({.first = 0x80}),
       events({"text:"})},
      {"5.4 control frames come between fragments",
       bytes_of({.first = 0x02, .payload = "a"}) + bytes_of({.first = 0x89, .payload = "p"}) +
           bytes_of({.first = 0x00, .payload = "b"}) + bytes_of({.first = 0x8A, .payload = "q"}) +
           bytes_of({.first = 0x80, .payload = "c"}),
       events({"ping:p", "pong:q", "binary:abc"})},
      {"5.4 a continuation needs a beginning",
       bytes_of({.first = 0x80, .payload = "x"}),
       refused(1002, "a continuation frame without a message to continue")},
      {"5.4 a fragment that goes on needs a beginning",
       bytes_of({.first = 0x00, .payload = "x"}),
       refused(1002, "a continuation frame without a message to continue")},
      {"5.4 after the end there is nothing to continue",
       bytes_of({.payload = "x"}) + bytes_of({.first = 0x80, .payload = "x"}),
       refused(1002, "a continuation frame without a message to continue", {"binary:x"})},
      {"5.4 fragments of two messages must not be mixed",
       bytes_of({.first = 0x02, .payload = "a"}) + bytes_of({.first = 0x82, .payload = "b"}),
       refused_inside(1002, "a new message before the end of a fragmented one")},
      {"5.4 nor text into binary",
       bytes_of({.first = 0x02, .payload = "a"}) + bytes_of({.first = 0x01, .payload = "b"}),
       refused_inside(1002, "a new message before the end of a fragmented one")},
      {"5.5 control frames must not be fragmented: ping",
       bytes_of({.first = 0x09}),
       refused(1002, "a control frame is fragmented")},
      {"5.5 control frames must not be fragmented: pong",
       bytes_of({.first = 0x0A}),
       refused(1002, "a control frame is fragmented")},
      {"5.5 control frames must not be fragmented: close",
       bytes_of({.first = 0x08}),
       refused(1002, "a control frame is fragmented")},
      {"5.5 the longest control frame",
       bytes_of({.first = 0x89, .payload = std::string(125, 'p')}),
       events({"ping:" + std::string(125, 'p')})},
      {"5.5 a control frame must not be longer than 125 bytes",
       bytes_of({.first = 0x89, .payload = std::string(126, 'p')}),
       refused(1002, "a control frame is longer than 125 bytes")},
      {"5.5 nor may it say so in 64 bits",
       bytes_of({.first = 0x88, .length_form = 64}),
       refused(1002, "a control frame is longer than 125 bytes")},
      {"5.5.2 a ping may be empty", bytes_of({.first = 0x89}), events({"ping:"})},
      {"5.5.3 an unasked pong is allowed",
       bytes_of({.first = 0x8A, .payload = "x"}),
       events({"pong:x"})},
  };
}

std::vector<Row> close_rows() {
  std::vector<Row> rows = {
      {"5.5.1 a close may say nothing", close_frame(""), closed(1005)},
      {"5.5.1 a close with half a code",
       close_frame("\x03"),
       refused(1002, "a close frame has half a code")},
      {"5.5.1 a close with a reason",
       close_frame(close_payload(1000, "done")),
       closed(1000, "done")},
      {"5.5.1 the longest reason",
       close_frame(close_payload(1000, std::string(123, 'r'))),
       closed(1000, std::string(123, 'r'))},
      {"5.5.1 what follows a close is not read",
       close_frame(close_payload(1000)) + bytes_of({.payload = "x"}) + "\xFF\xFF\xFF",
       closed(1000)},
      {"5.5.1 a close ends a fragmented message",
       bytes_of({.first = 0x02, .payload = "a"}) + close_frame(close_payload(1001)),
       Transcript{.code = 1001, .inside = true}},
      {"8.1 the reason of a close must be UTF-8",
       close_frame(close_payload(1000, "\xCE\xBA\xE1\xBD\xB9\xED\xA0\x80")),
       refused(1007, "the reason of a close is not valid UTF-8")},
      {"8.1 the reason of a close must not end inside a character",
       close_frame(close_payload(1000, "\xE2\x82")),
       refused(1007, "the reason of a close is not valid UTF-8")},
  };
  for (const unsigned code : {0U,
                              1U,
                              999U,
                              1004U,
                              1005U,
                              1006U,
                              1015U,
                              1016U,
                              1100U,
                              1999U,
                              2000U,
                              2999U,
                              5000U,
                              65535U}) {
    rows.push_back({"7.4 a code that must not be sent",
                    close_frame(close_payload(code)),
                    refused(1002, "close code " + std::to_string(code) + " may not be sent")});
  }
  for (const unsigned code : {1000U,
                              1001U,
                              1002U,
                              1003U,
                              1007U,
                              1008U,
                              1009U,
                              1010U,
                              1011U,
                              1012U,
                              1013U,
                              1014U,
                              3000U,
                              3999U,
                              4000U,
                              4999U}) {
    rows.push_back({"7.4 a code that may be sent", close_frame(close_payload(code)), closed(code)});
  }
  return rows;
}

std::vector<Row> text_rows() {
  std::vector<Row> rows = {
      {"5.6 text is text", text_frame("caf\xC3\xA9"), events({"text:caf\xC3\xA9"})},
      {"8.1 a character may be cut by a fragment",
       bytes_of({.first = 0x01, .payload = "\xE2\x82"}) +
           bytes_of({.first = 0x80, .payload = "\xAC"}),
       events({"text:\xE2\x82\xAC"})},
      {"8.1 and a ping may come inside it",
       bytes_of({.first = 0x01, .payload = "\xE2"}) + bytes_of({.first = 0x89, .payload = "p"}) +
           bytes_of({.first = 0x80, .payload = "\x82\xAC"}),
       events({"ping:p", "text:\xE2\x82\xAC"})},
      {"8.1 a text must not end inside a character",
       text_frame("\xE2\x82"),
       refused_inside(1007, "a text ends inside a character")},
      {"8.1 one text does not lend bytes to the next",
       text_frame("\xE2\x82") + text_frame("\xAC"),
       refused_inside(1007, "a text ends inside a character")},
      {"8.1 binary is not judged", bytes_of({.payload = "\xFF\xC0"}), events({"binary:\xFF\xC0"})},
      {"8.1 bad text fails before its frame has come",
       bytes_of({.first = 0x01, .payload = "\xF4\x90", .lie = true, .declared = 1000}),
       refused_inside(1007, kBadText)},
      {"8.1 a continuation is judged as the text that it continues",
       bytes_of({.first = 0x01, .payload = "ok"}) + bytes_of({.first = 0x80, .payload = "\xFF"}),
       refused_inside(1007, kBadText)},
  };
  // Markus Kuhn's list, the sorts of it: the first and last of each length, overlong, surrogates,
  // beyond.
  for (const std::string good : {"\x7F",
                                 "\xC2\x80",
                                 "\xDF\xBF",
                                 "\xE0\xA0\x80",
                                 "\xED\x9F\xBF",
                                 "\xEE\x80\x80",
                                 "\xEF\xBF\xBF",
                                 "\xF0\x90\x80\x80",
                                 "\xF4\x8F\xBF\xBF",
                                 "\xEF\xBF\xBE"}) {
    rows.push_back({"8.1 valid UTF-8", text_frame(good), events({"text:" + good})});
    const std::string inside = "0123456789" + good + "0123456789";
    rows.push_back({"8.1 valid UTF-8", text_frame(inside), events({"text:" + inside})});
  }
  for (const std::string bad : {"\x80",
                                "\xBF",
                                "\xC0\xAF",
                                "\xC1\xBF",
                                "\xE0\x80\xAF",
                                "\xE0\x9F\xBF",
                                "\xED\xA0\x80",
                                "\xED\xBF\xBF",
                                "\xF0\x80\x80\xAF",
                                "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80",
                                "\xF5\x80\x80\x80",
                                "\xF8\x88\x80\x80\x80",
                                "\xFE",
                                "\xFF",
                                "\xC3(",
                                "\xE2\x28\xA1",
                                "\xE2\x82\x28",
                                "\xF0\x28\x8C\xBC",
                                "\xF0\x90\x28\xBC",
                                "\xF0\x90\x8C\x28"}) {
    rows.push_back({"8.1 invalid UTF-8", text_frame(bad), refused_inside(1007, kBadText)});
    rows.push_back(
        {"8.1 invalid UTF-8", text_frame("01234567" + bad), refused_inside(1007, kBadText)});
  }
  return rows;
}

std::string above(std::uint64_t bytes, std::uint64_t limit) {
  return "a message of at least " + std::to_string(bytes) + " bytes is above the limit of " +
         std::to_string(limit) + " bytes";
}

std::vector<Row> limit_rows() {
  return {
      {"7.4.1 a message at the limit",
       bytes_of({.payload = std::string(100, 'a')}),
       events({"binary:" + std::string(100, 'a')}),
       100},
      {"7.4.1 above it, judged on the header alone",
       bytes_of({.lie = true, .declared = 101}).substr(0, 2),
       refused(1009, above(101, 100)),
       100},
      {"7.4.1 a length that no memory has",
       bytes_of({.lie = true, .declared = (1ULL << 63U) - 1}).substr(0, 10),
       refused(1009, above((1ULL << 63U) - 1, 100)),
       100},
      {"7.4.1 the limit is on the sum of fragments",
       bytes_of({.first = 0x02, .payload = std::string(60, 'a')}) +
           bytes_of({.first = 0x80, .payload = std::string(41, 'a')}),
       refused_inside(1009, above(101, 100)),
       100},
      {"7.4.1 the sum of fragments may be the limit, message after message",
       bytes_of({.first = 0x02, .payload = std::string(60, 'a')}) +
           bytes_of({.first = 0x80, .payload = std::string(40, 'b')}) +
           bytes_of({.payload = std::string(100, 'c')}),
       events({"binary:" + std::string(60, 'a') + std::string(40, 'b'),
               "binary:" + std::string(100, 'c')}),
       100},
      {"7.4.1 control frames do not count",
       bytes_of({.first = 0x02, .payload = std::string(100, 'a')}) +
           bytes_of({.first = 0x89, .payload = std::string(125, 'p')}) + bytes_of({.first = 0x80}),
       events({"ping:" + std::string(125, 'p'), "binary:" + std::string(100, 'a')}),
       100},
  };
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (auto part : {framing_rows(), close_rows(), text_rows(), limit_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

void require_same(const Transcript& got, const Transcript& expected) {
  CHECK(got.failed == expected.failed);
  CHECK(got.code == expected.code);
  CHECK(got.reason == expected.reason);
  CHECK(got.inside == expected.inside);
  REQUIRE((got.events == expected.events));
}

Transcript read_cut(const Row& row, const Feeding& feeding) {
  Reader reader(Role::kServer, row.limit);
  return read_all(reader, row.stream, feeding);
}

TEST_CASE("every MUST of RFC 6455 for a reading server is kept", "[transport][ws]") {
  for (const Row& row : all_rows()) {
    INFO(row.rule);
    require_same(read_whole(row.stream, row.limit), row.expected);
  }
}

TEST_CASE("where a stream is cut changes nothing", "[transport][ws]") {
  for (const Row& row : all_rows()) {
    INFO(row.rule);
    for (const std::size_t direct_from : {SIZE_MAX, std::size_t{1}}) {
      INFO("direct from " << direct_from);
      require_same(read_cut(row, {[](std::size_t) { return 1; }, direct_from}), row.expected);
      // In two, at every point of short streams and at random ones of long ones.
      const std::size_t step = row.stream.size() < 300 ? 1 : row.stream.size() / 61;
      for (std::size_t cut = 1; cut < row.stream.size(); cut += step) {
        INFO("cut at " << cut);
        const auto halves = [&, first = true](std::size_t left) mutable {
          return std::exchange(first, false) ? cut : left;
        };
        require_same(read_cut(row, {halves, direct_from}), row.expected);
      }
    }
  }
}

TEST_CASE("random streams cut at random points come out as they went in", "[transport][ws]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) {
    return static_cast<std::size_t>(random() % n);
  };
  const auto noise = [&](std::size_t n) {
    std::string bytes(n, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  for (int round = 0; round < 300; ++round) {
    Transcript expected;
    std::string stream;
    const auto frame = [&](unsigned first, std::string payload) {
      RawFrame raw{.first = first, .payload = std::move(payload)};
      for (auto& byte : raw.key) byte = static_cast<std::uint8_t>(random());
      stream += bytes_of(raw);
    };
    for (std::size_t n = below(8) + 1; n > 0; --n) {
      std::string message;
      const std::size_t fragments = below(3) == 0 ? below(5) + 1 : 1;
      for (std::size_t i = 0; i < fragments; ++i) {
        const std::size_t sizes[] = {0, 1, 7, 125, 126, 127, 1000, 40000, 70000};
        const std::string payload = noise(below(sizes[below(std::size(sizes))] + 1));
        message += payload;
        frame((i == 0 ? 0x02U : 0U) | (i + 1 == fragments ? 0x80U : 0U), payload);
        if (below(4) == 0) {
          const std::string ping = noise(below(126));
          const bool before_the_end = i + 1 < fragments;
          frame(0x89, ping);
          if (!before_the_end) expected.events.push_back("binary:" + message);
          expected.events.push_back("ping:" + ping);
          if (!before_the_end) message = "told";
        }
      }
      if (message != "told") expected.events.push_back("binary:" + message);
    }
    const std::size_t longest = std::size_t{1} << below(18);
    const Feeding feeding{.piece = [&](std::size_t) { return below(longest) + 1; },
                          .direct_from = below(2) == 0 ? std::size_t{1} << below(16) : SIZE_MAX};
    Reader reader(Role::kServer);
    require_same(read_all(reader, stream, feeding), expected);
  }
}

TEST_CASE("a client refuses masked frames and reads unmasked ones in place", "[transport][ws]") {
  require_same(read_whole(bytes_of({.payload = "x"}), 100, Role::kClient),
               refused(1002, "a frame from a server is masked"));
  require_same(read_whole(bytes_of({.payload = "x", .masked = false}), 100, Role::kClient),
               events({"binary:x"}));
}

TEST_CASE("a wrong header is refused at the byte that shows it", "[transport][ws]") {
  CHECK(read_whole("\xC2").failed);  // RSV1: nothing but the first byte has come
  CHECK(read_whole("\x83").failed);  // reserved opcode
  CHECK(read_whole(std::string("\x82\x05", 2)).failed);  // not masked
  CHECK(read_whole("\x89\xFE").failed);                  // a long ping, its length not yet read
  CHECK(read_whole(std::string("\x82\xFF\x80", 3)).code == 0);
  CHECK(read_whole(std::string("\x82\xFF\x80\0\0\0\0\0\0\0", 10)).failed);  // no key yet
}

TEST_CASE("a message begins with what is known of its size", "[transport][ws]") {
  std::string stream = bytes_of({.first = 0x02, .payload = "abc"}) + bytes_of({.first = 0x80}) +
                       bytes_of({.first = 0x81, .payload = "de"});
  std::span<std::byte> input = std::as_writable_bytes(std::span(stream));
  Reader reader(Role::kServer);
  Event event = reader.next(input);
  REQUIRE(event.kind == Event::Kind::kMessageBegin);
  CHECK_FALSE(event.final);
  CHECK(event.frame_bytes == 3);
  CHECK(reader.payload_left() == 3);
  CHECK(reader.next(input).kind == Event::Kind::kPayload);
  CHECK(reader.next(input).kind == Event::Kind::kMessageEnd);
  event = reader.next(input);
  REQUIRE(event.kind == Event::Kind::kMessageBegin);
  CHECK(event.final);
  CHECK(event.frame_bytes == 2);
  CHECK(event.opcode == transport::ws::Opcode::kText);
}

TEST_CASE("a lower limit is judged at the next frame", "[transport][ws]") {
  Reader reader(Role::kServer, 100);
  const Feeding whole{.piece = [](std::size_t left) {
    return left;
  }};
  CHECK(read_all(reader, bytes_of({.first = 0x02, .payload = std::string(60, 'a')}), whole).code ==
        0);
  reader.set_max_message_bytes(50);
  const auto after = read_all(reader, bytes_of({.first = 0x80, .payload = "b"}), whole);
  CHECK(after.code == 1009);
  CHECK(after.reason == above(61, 50));
}

TEST_CASE("headers that this side writes are read back by the other", "[transport][ws]") {
  for (const std::uint64_t size : {0ULL, 1ULL, 125ULL, 126ULL, 65535ULL, 65536ULL, 1ULL << 40U}) {
    std::array<std::byte, transport::ws::kMaxHeaderBytes> head{};
    const auto n = transport::ws::write_head(
        head, {.opcode = transport::ws::Opcode::kText, .final = false, .payload_bytes = size});
    CHECK(n == (size < 126 ? 2 : size < 65536 ? 4 : 10));
    std::span<std::byte> input = std::span(head).first(n);
    Reader client(Role::kClient);
    const Event event = client.next(input);
    CHECK(event.kind == Event::Kind::kMessageBegin);
    CHECK(event.opcode == transport::ws::Opcode::kText);
    CHECK(event.frame_bytes == size);
    CHECK_FALSE(event.final);

    const auto masked = transport::ws::write_masked_head(head, {.payload_bytes = size}, {});
    input = std::span(head).first(masked);
    Reader server(Role::kServer);
    CHECK(server.next(input).frame_bytes == size);
    CHECK(masked == n + 4);
  }
}

TEST_CASE("a reason too long for a close frame is cut between characters", "[transport][ws]") {
  std::array<std::byte, transport::ws::kMaxControlBytes> out{};
  const std::string reason = std::string(122, 'r') + "\xE2\x82\xAC";
  CHECK(transport::ws::write_close_payload(out, 1009, reason) == 2 + 122);
  CHECK(transport::ws::write_close_payload(out, 1009, std::string(200, 'r')) == 125);
  CHECK(transport::ws::write_close_payload(out, 1005, "none is given") == 0);
  CHECK(out[0] == std::byte{0x03});
  CHECK(out[1] == std::byte{0xF1});
}

TEST_CASE("masking in pieces is masking at once, at any phase and alignment", "[transport][ws]") {
  const std::array<std::byte, 4> key = {std::byte{1}, std::byte{2}, std::byte{4}, std::byte{8}};
  for (std::size_t offset = 0; offset < 8; ++offset) {
    for (std::size_t first = 0; first < 70; ++first) {
      std::vector<std::byte> bytes(offset + 140);
      const auto payload = std::span(bytes).subspan(offset);
      transport::ws::MaskKey mask(key);
      mask.apply(payload.first(first));
      mask.apply(payload.subspan(first));
      for (std::size_t i = 0; i < payload.size(); ++i) REQUIRE(payload[i] == key[i % 4]);
      for (std::size_t i = 0; i < offset; ++i) REQUIRE(bytes[i] == std::byte{});
    }
  }
}

}  // namespace
}  // namespace simbridge::test
