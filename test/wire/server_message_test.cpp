#include "wire/judge.h"

#include <catch2/catch.hpp>

namespace simbridge::wire {
namespace {

v1::ServerMessage decoded(const ServerMessage& message) {
  std::string bytes;
  encode(message, bytes);
  v1::ServerMessage typed;
  REQUIRE(typed.ParseFromString(bytes));
  // Canonical, whether written by hand or not.
  CHECK(typed.SerializeAsString() == bytes);
  return typed;
}

}  // namespace

TEST_CASE("what the bridge says arrives with all its values", "[wire][encode]") {
  const auto welcome = decoded(Welcome{.bridge = "b",
                                       .version = "v",
                                       .boot_id = 1,
                                       .session = 2,
                                       .max_message_bytes = 3,
                                       .max_frame_bytes = 4,
                                       .ping_interval_ms = 5,
                                       .now_ns = -6});
  CHECK(welcome.ShortDebugString() ==
        R"(welcome { bridge: "b" version: "v" boot_id: 1 session: 2 max_message_bytes: 3 )"
        R"(max_frame_bytes: 4 ping_interval_ms: 5 now_ns: -6 })");
  const auto channels = decoded(Channels{.channel = {{.id = 1,
                                                      .name = "n",
                                                      .frame_id = "f",
                                                      .schema = "s",
                                                      .encoding = "e",
                                                      .schema_data = "\xFF",
                                                      .schema_encoding = "se",
                                                      .epoch = 2,
                                                      .first_sequence = 3,
                                                      .last_sequence = 4,
                                                      .live = true,
                                                      .latched = true,
                                                      .policy = Policy::kBackpressure}},
                                         .removed = {8, 9},
                                         .complete = true});
  CHECK(channels.ShortDebugString() ==
        R"(channels { channel { id: 1 name: "n" frame_id: "f" schema: "s" encoding: "e" )"
        R"(schema_data: "\377" epoch: 2 first_sequence: 3 last_sequence: 4 live: true )"
        R"(latched: true schema_encoding: "se" policy: POLICY_BACKPRESSURE } removed: 8 )"
        R"(removed: 9 complete: true })");
  CHECK(
      decoded(Advertised{.channel = 1, .id = 2, .last_sequence = 3, .window_bytes = 4, .epoch = 5})
          .ShortDebugString() ==
      "advertised { channel: 1 id: 2 last_sequence: 3 window_bytes: 4 epoch: 5 }");
  CHECK(decoded(Ack{.channel = 1, .sequence = ~0ULL, .window_bytes = 3}).ShortDebugString() ==
        "ack { channel: 1 sequence: 18446744073709551615 window_bytes: 3 }");
  CHECK(decoded(Ack{}).ShortDebugString() == "ack { }");
  CHECK(
      decoded(Reject{.channel = 1,
                     .sequence = 2,
                     .code = RejectCode::kWindow,
                     .detail = "d",
                     .subscription = 3,
                     .retry = true})
          .ShortDebugString() ==
      R"(reject { channel: 1 sequence: 2 code: REJECT_WINDOW detail: "d" subscription: 3 retry: true })");
  CHECK(decoded(Gap{.subscription = ~0U,
                    .channel = ~0U,
                    .epoch = ~0ULL,
                    .first = ~0ULL,
                    .last = ~0ULL,
                    .reason = GapReason::kShutdown,
                    .frames = ~0ULL})
            .gap()
            .frames() == ~0ULL);
  CHECK(
      decoded(Gap{.subscription = 1,
                  .channel = 2,
                  .epoch = 3,
                  .first = 4,
                  .last = 5,
                  .reason = GapReason::kEvicted,
                  .frames = 6})
          .ShortDebugString() ==
      "gap { subscription: 1 channel: 2 epoch: 3 first: 4 last: 5 reason: GAP_EVICTED frames: 6 }");
  CHECK(decoded(Drain{.reason = "r", .deadline_ms = 1, .retry_after_ms = 2}).ShortDebugString() ==
        R"(drain { reason: "r" deadline_ms: 1 retry_after_ms: 2 })");
  CHECK(decoded(Pong{.cookie = 1, .sent_ns = -2, .now_ns = 3}).ShortDebugString() ==
        "pong { cookie: 1 sent_ns: -2 now_ns: 3 }");
  CHECK(decoded(Status{.level = Level::kWarning, .code = "c", .detail = "d"}).ShortDebugString() ==
        R"(status { level: LEVEL_WARNING code: "c" detail: "d" })");
  const auto state = decoded(
      SubscriptionState{.id = 1,
                        .channel = {2, 3},
                        .applied = {.max_hz = 1,
                                    .max_points = 2,
                                    .leaf = 3,
                                    .sampling = 4,
                                    .region = std::array<Vector3, 2>{Vector3{1, 2, 3}, Vector3{}},
                                    .min_range = 5,
                                    .max_range = 6,
                                    .keep_invalid = true,
                                    .fields = {"f"},
                                    .output = 2},
                        .degraded = true,
                        .detail = "d",
                        .ended = true,
                        .counters = {.promised = 1, .delivered = 2, .skipped = 3, .lost = 4}});
  CHECK(
      state.ShortDebugString() ==
      R"(subscription_state { id: 1 channel: 2 channel: 3 applied { max_hz: 1 max_points: 2 leaf: 3 )"
      R"(sampling: SAMPLING_RANDOM region { min { x: 1 y: 2 z: 3 } max { } } min_range: 5 max_range: 6 )"
      R"(keep_invalid: true fields: "f" output: OUTPUT_FLAT } degraded: true detail: "d" ended: true )"
      R"(counters { promised: 1 delivered: 2 skipped: 3 lost: 4 } })");
}

TEST_CASE("text that quotes a peer is always UTF-8 on the wire", "[wire][encode]") {
  CHECK(decoded(Reject{.detail = "bad \xFF\xC3 end"}).reject().detail() == "bad ?? end");
  CHECK(decoded(Status{.code = "é", .detail = "cut \xE9\xBB"}).status().detail() == "cut ??");
}

TEST_CASE("messages are appended", "[wire][encode]") {
  std::string bytes;
  encode(Ack{.channel = 1}, bytes);
  const std::size_t first = bytes.size();
  encode(Status{.code = "c"}, bytes);
  v1::ServerMessage typed;
  REQUIRE(typed.ParseFromString(bytes.substr(first)));
  CHECK(typed.status().code() == "c");
}

TEST_CASE("control messages from a peer have all their values", "[wire][parser]") {
  // judge_message compares every value of random messages; this shows one of each by hand.
  const auto parsed = [](const v1::ClientMessage& typed) {
    FrameHead head;
    const std::string bytes = typed.SerializeAsString();
    return parse(test::as_bytes(bytes), head);
  };
  v1::ClientMessage message;
  v1::Subscribe& subscribe = *message.mutable_subscribe();
  subscribe.set_id(3);
  subscribe.set_channel("**");
  subscribe.set_history(v1::HISTORY_FROM);
  subscribe.mutable_quality()->set_leaf(0.5);
  subscribe.mutable_quality()->mutable_region()->mutable_max()->set_x(1);
  v1::Position& position = *subscribe.add_from();
  position.set_channel("a");
  position.set_epoch(7);
  position.set_sequence(9);
  const auto result = std::get<Subscribe>(parsed(message));
  CHECK(result.id == 3);
  CHECK(result.history == 3);
  CHECK(result.quality.leaf == 0.5);
  CHECK(result.quality.region == std::array<Vector3, 2>{Vector3{}, Vector3{1, 0, 0}});
  REQUIRE(result.from.size() == 1);
  CHECK(result.from[0].sequence == 9);

  v1::Advertise& advertise = *message.mutable_advertise();
  advertise.GetReflection()->SetEnumValue(
      &advertise, v1::Advertise::descriptor()->FindFieldByName("policy"), 77);
  CHECK(std::get<Advertise>(parsed(message)).policy == Policy::kUnspecified);
  message.mutable_unadvertise()->set_channel(4);
  CHECK(std::get<Unadvertise>(parsed(message)).channel == 4);
  message.mutable_credit()->set_frames(5);
  CHECK(std::get<Credit>(parsed(message)).frames == 5);
}

}  // namespace simbridge::wire
