#include "support/seed.h"
#include "wire/judge.h"
#include "wire/random_message.h"

#include <catch2/catch.hpp>

#include <vector>

namespace simbridge::wire {
namespace {

std::span<std::byte> writable(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a stored head gives back all that passes on", "[wire][stored]") {
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  test::Random random(seed);
  for (int round = 0; round < 3000; ++round) {
    v1::Frame frame;
    test::fill_random(frame, random);
    const std::string bytes = frame.SerializeAsString();
    FrameHead head;
    REQUIRE_FALSE(parse_frame(test::as_bytes(bytes), head));
    const auto data = test::as_bytes(bytes).subspan(head.data_offset, head.data_bytes);
    INFO("round " << round << ": " << frame.ShortDebugString());
    REQUIRE(test::judge_pass_through(head, data).empty());
  }
}

TEST_CASE("a prefix written into a place of just its longest form stays within it",
          "[wire][stored]") {
  FrameHead head;
  head.kind = PayloadKind::kOpaque;
  std::vector<std::byte> stored(stored_head_bytes(head));
  store_head(head, 1, stored);
  const Outgoing largest{.channel = ~0U,
                         .subscription = ~0U,
                         .sequence = ~0ULL,
                         .epoch = ~0ULL,
                         .forwarded_ns = -1,
                         .data_bytes = 1ULL << 40U,
                         .points_in = ~0ULL,
                         .points_out = ~0ULL,
                         .skipped_frames = ~0ULL,
                         .queue_us = ~0U,
                         .degraded = true};
  std::string out(frame_prefix_max(stored) + 8, 'S');
  const std::uint64_t length =
      frame_prefix(stored, largest, true, writable(out).first(frame_prefix_max(stored)));
  CHECK(length <= frame_prefix_max(stored));
  CHECK(out.substr(frame_prefix_max(stored)) == "SSSSSSSS");
  CHECK(out[length - 1] != 'S');
}

TEST_CASE("what the bridge did to a frame is stored, loaded and told to every consumer",
          "[wire][stored]") {
  FrameHead head;
  head.kind = PayloadKind::kCloud;
  head.cloud.width = 7;
  head.cloud.height = 1;
  head.result = Result{.points_in = ~0ULL,
                       .points_out = ~0ULL,
                       .by = DecimatedBy::kWorker,
                       .leaf = 0.2,
                       .box = std::array{Vector3{-1, -2, -3}, Vector3{1, 2, 3}},
                       .degraded = true,
                       .dropped_nonfinite = ~0ULL,
                       .dropped_zero = ~0ULL,
                       .dropped_region = ~0ULL,
                       .dropped_extent = ~0ULL};
  std::vector<std::byte> stored(stored_head_bytes(head));
  store_head(head, -1, stored);
  FrameHead loaded;
  load_head(stored, loaded);
  CHECK(loaded.result == head.result);
  CHECK(loaded.cloud.width == 7);

  const Outgoing largest{.channel = ~0U,
                         .subscription = ~0U,
                         .sequence = ~0ULL,
                         .epoch = ~0ULL,
                         .forwarded_ns = -1,
                         .data_bytes = 0,
                         .points_in = 5,
                         .points_out = 6,
                         .skipped_frames = ~0ULL,
                         .queue_us = ~0U};
  std::string out(frame_prefix_max(stored) + 8, 'S');
  const std::uint64_t length =
      frame_prefix(stored, largest, true, writable(out).first(frame_prefix_max(stored)));
  CHECK(out.substr(frame_prefix_max(stored)) == "SSSSSSSS");
  out.resize(length);
  v1::ServerMessage message;
  REQUIRE(message.ParseFromString(out));
  CHECK(message.SerializeAsString() == out);
  const v1::Result& result = message.frame().result();
  CHECK(result.points_in() == ~0ULL);
  CHECK(result.points_out() == ~0ULL);
  CHECK(result.decimator() == "worker");
  CHECK(result.leaf() == 0.2);
  CHECK(result.min().z() == -3);
  CHECK(result.max().x() == 1);
  CHECK(result.skipped_frames() == ~0ULL);
  CHECK(result.queue_us() == ~0U);
  CHECK(result.degraded());
  CHECK(result.dropped_nonfinite() == ~0ULL);
  CHECK(result.dropped_zero() == ~0ULL);
  CHECK(result.dropped_region() == ~0ULL);
  CHECK(result.dropped_extent() == ~0ULL);
}

TEST_CASE("a received time of zero is left out, as proto3 does", "[wire][stored]") {
  FrameHead head;
  head.kind = PayloadKind::kOpaque;
  std::vector<std::byte> stored(stored_head_bytes(head));
  store_head(head, 0, stored);
  std::string out(frame_prefix_max(stored), '\0');
  out.resize(frame_prefix(stored, {.channel = 1}, true, writable(out)));
  v1::ServerMessage message;
  REQUIRE(message.ParseFromString(out));
  CHECK(message.SerializeAsString() == out);
  CHECK(message.frame().received_ns() == 0);
  CHECK(message.frame().has_opaque());
}

TEST_CASE("a part's prefix and its data are one message", "[wire][stored]") {
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    for (const std::string data : {"", "0123456789"}) {
      const Part part{.transfer = number,
                      .index = static_cast<std::uint32_t>(number),
                      .count = static_cast<std::uint32_t>(number),
                      .total_bytes = number,
                      .channel = static_cast<std::uint32_t>(number),
                      .sequence = number};
      std::string out(kPartPrefixMax, '\0');
      out.resize(part_prefix(part, data.size(), writable(out)));
      out += data;
      v1::ServerMessage message;
      REQUIRE(message.ParseFromString(out));
      CHECK(message.SerializeAsString() == out);
      CHECK(message.part().sequence() == number);
      CHECK(message.part().data() == data);
    }
  }
  std::string longest(kPartPrefixMax, '\0');
  CHECK(part_prefix({.transfer = ~0ULL,
                     .index = ~0U,
                     .count = ~0U,
                     .total_bytes = ~0ULL,
                     .channel = ~0U,
                     .sequence = ~0ULL},
                    1ULL << 40U,
                    writable(longest)) <= kPartPrefixMax);
}

}  // namespace simbridge::wire
