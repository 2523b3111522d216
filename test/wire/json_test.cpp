// JSON control (protocol.md §5): read as strictly as the page says, printed with every field.
#include "simbridge/wire/flat.h"
#include "support/seed.h"
#include "wire/flat_judge.h"
#include "wire/quiet_protobuf.h"

#include <catch2/catch.hpp>
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <regex>
#include <string>
#include <vector>

namespace simbridge::wire {
namespace {

using google::protobuf::FieldDescriptor;

const std::string kNoFault;

/// What parse_json() made of a text: the body's name, or why there is none.
std::string kind_of(const ClientMessage& message) {
  if (std::holds_alternative<Malformed>(message)) return "MALFORMED";
  if (std::holds_alternative<Unsupported>(message)) return "UNSUPPORTED";
  if (std::holds_alternative<FrameBody>(message)) return "frame";
  if (std::holds_alternative<Part>(message)) return "part";
  const v1::ClientMessage typed = test::to_proto(message);
  const auto* body = typed.GetDescriptor()->FindFieldByNumber(static_cast<int>(typed.body_case()));
  return body == nullptr ? "nothing" : body->name();
}

std::string detail_of(const ClientMessage& message) {
  if (const auto* malformed = std::get_if<Malformed>(&message)) return malformed->detail;
  if (const auto* unsupported = std::get_if<Unsupported>(&message)) return unsupported->detail;
  return {};
}

struct Row {
  std::string text;
  std::string kind;
  std::string says;  // the message, as protobuf shows it; of a refused one, a piece of the detail
};

void judge_rows(const std::vector<Row>& rows) {
  const test::QuietProtobuf quiet;
  for (const Row& row : rows) {
    INFO(row.text.substr(0, 300));
    const ClientMessage message = parse_json(row.text);
    const std::string detail = detail_of(message);
    INFO(detail);
    CHECK(kind_of(message) == row.kind);
    if (detail.empty()) {
      if (!row.says.empty()) CHECK(test::to_proto(message).ShortDebugString() == row.says);
    } else {
      CHECK(detail.find(row.says) != std::string::npos);
    }
    CHECK(test::judge_json(row.text) == kNoFault);
  }
}

std::string repeated(const std::string& piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

bool has_unknown_enumerator(const google::protobuf::Message& message) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const int number = reflection.GetEnumValue(message, field);
      if (field->enum_type()->FindValueByNumber(number) == nullptr) return true;
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      if (has_unknown_enumerator(reflection.GetMessage(message, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      if (has_unknown_enumerator(reflection.GetRepeatedMessage(message, field, i))) return true;
  }
  return false;
}

/// Every field of the type is there, also those that are at their default.
void check_complete(const nlohmann::json& json, const google::protobuf::Descriptor& type) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    INFO(type.name() << "." << field.json_name());
    const bool may_be_absent =
        field.real_containing_oneof() != nullptr ||
        (!field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE);
    if (!json.contains(field.json_name())) {
      CHECK(may_be_absent);
      continue;
    }
    const nlohmann::json& value = json.at(field.json_name());
    if (field.is_repeated()) CHECK(value.is_array());
    const nlohmann::json& one = field.is_repeated() && !value.empty() ? value.at(0) : value;
    if (field.is_repeated() && value.empty()) continue;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
      case FieldDescriptor::CPPTYPE_UINT64:
        CHECK(one.is_string());
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        CHECK(one.is_number());
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        CHECK(one.is_string());
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        check_complete(one, *field.message_type());
        break;
      default:
        break;
    }
  }
}

}  // namespace

TEST_CASE("each control message is read from JSON with all its values", "[wire][json]") {
  judge_rows({
      {R"({"hello": {"name": "n", "agent": "a", "maxMessageBytes": "18446744073709551615",
           "token": "t", "peerKey": "AP+AEA=="}})",
       "hello",
       R"(hello { name: "n" agent: "a" max_message_bytes: 18446744073709551615 token: "t" )"
       R"(peer_key: "\000\377\200\020" })"},
      {R"({"advertise": {"channel": 4294967295, "name": "n", "epoch": "7", "frameId": "f",
           "schema": "s", "encoding": "e", "schemaData": "AQI=", "policy": "POLICY_BACKPRESSURE",
           "latched": true, "schemaEncoding": "se"}})",
       "advertise",
       R"(advertise { channel: 4294967295 name: "n" epoch: 7 frame_id: "f" schema: "s" )"
       R"(encoding: "e" schema_data: "\001\002" policy: POLICY_BACKPRESSURE latched: true )"
       R"(schema_encoding: "se" })"},
      {R"({"unadvertise": {"channel": 1}})", "unadvertise", "unadvertise { channel: 1 }"},
      {R"({"subscribe": {"id": 1, "channel": "lidar_*", "quality": {"maxHz": 2.5,
           "maxPoints": "9", "leaf": 0.2, "sampling": "SAMPLING_STRIDE",
           "region": {"min": {"x": -1}, "max": {"z": 1e3}}, "minRange": 1, "maxRange": 2,
           "keepInvalid": true, "fields": ["a", "b"], "output": 2}, "history": "HISTORY_FROM",
           "queueFrames": 3, "queueBytes": "4", "reliable": true, "credit": 5, "maxAgeMs": 6,
           "from": [{"channel": "c", "epoch": "7", "sequence": "8"}]}})",
       "subscribe",
       R"(subscribe { id: 1 channel: "lidar_*" quality { max_hz: 2.5 max_points: 9 leaf: 0.2 )"
       R"(sampling: SAMPLING_STRIDE region { min { x: -1 } max { z: 1000 } } min_range: 1 )"
       R"(max_range: 2 keep_invalid: true fields: "a" fields: "b" output: OUTPUT_FLAT } )"
       R"(history: HISTORY_FROM queue_frames: 3 queue_bytes: 4 reliable: true credit: 5 )"
       R"(max_age_ms: 6 from { channel: "c" epoch: 7 sequence: 8 } })"},
      {R"({"unsubscribe": {"id": 1}})", "unsubscribe", "unsubscribe { id: 1 }"},
      {R"({"credit": {"subscription": 1, "channel": 2, "frames": 3}})",
       "credit",
       "credit { subscription: 1 channel: 2 frames: 3 }"},
      {R"({"ping": {"cookie": "1", "sentNs": "-2"}})", "ping", "ping { cookie: 1 sent_ns: -2 }"},
      {R"({"goodbye": {"reason": "done"}})", "goodbye", R"(goodbye { reason: "done" })"},
      // Names as in the schema, numbers as strings and the other way round, nothing said at all.
      {R"({"hello": {"max_message_bytes": 5, "peer_key": "_-8"}})",
       "hello",
       R"(hello { max_message_bytes: 5 peer_key: "\377\357" })"},
      {R"({"unadvertise": {"channel": "12"}})", "unadvertise", "unadvertise { channel: 12 }"},
      {R"({"ping": {"cookie": 9007199254740992, "sentNs": -9007199254740992}})",
       "ping",
       "ping { cookie: 9007199254740992 sent_ns: -9007199254740992 }"},
      {R"({"ping": {"cookie": 1e3, "sentNs": 5.0}})", "ping", "ping { cookie: 1000 sent_ns: 5 }"},
      {R"({"ping": {"cookie": 9007199254740992.0}})", "ping", "ping { cookie: 9007199254740992 }"},
      {R"({"ping": {"cookie": "9007199254740993"}})", "ping", "ping { cookie: 9007199254740993 }"},
      {R"({"ping": {}})", "ping", "ping { }"},
      {R"({"ping": {"cookie": null, "sentNs": null}})", "ping", "ping { }"},
      {R"({"advertise": {"policy": 2}})", "advertise", "advertise { policy: POLICY_BACKPRESSURE }"},
      {R"({"subscribe": {"quality": {"maxHz": "NaN", "leaf": "-Infinity"}}})",
       "subscribe",
       "subscribe { quality { max_hz: nan leaf: -inf } }"},
      {R"({"goodbye": {"reason": "\u00e9\ud83d\ude97\n\u0000"}})",
       "goodbye",
       R"(goodbye { reason: "\303\251\360\237\232\227\n\000" })"},
      {" \t\r\n{ \"ping\" : { } }\n ", "ping", "ping { }"},
  });
}

TEST_CASE("a text without a body that is known is UNSUPPORTED", "[wire][json]") {
  judge_rows({
      {"{}", "UNSUPPORTED", "no body"},
      {R"({"ping": null})", "UNSUPPORTED", "no body"},
      {R"({"frame": null})", "UNSUPPORTED", "no body"},
      {R"({"teleport": {"to": {"x": 1}}})", "UNSUPPORTED", "teleport"},
      {R"({"teleport": 1e5})", "UNSUPPORTED", "teleport"},
      {R"({"welcome": {}})", "UNSUPPORTED", "welcome"},
      {R"({"": {}})", "UNSUPPORTED", ""},
      {R"({")" + repeated("x", 100'000) + R"(": {}})", "UNSUPPORTED", "xxx"},
  });
}

TEST_CASE("a frame or a part as text is seen as such, and not read", "[wire][json]") {
  judge_rows({
      {R"({"frame": {}})", "frame", ""},
      {R"({"frame": {"nothing": {"like": ["it", 9007199254740993]}}})", "frame", ""},
      {R"({"frame": 5})", "frame", ""},
      {R"({"part": {"transfer": "1", "data": "AAAA"}})", "part", ""},
      {R"({"ping": null, "part": {}})", "part", ""},
      {R"({"frame": {})", "MALFORMED", ""},
  });
}

TEST_CASE("what breaks a rule of the JSON is MALFORMED, in a sentence", "[wire][json]") {
  judge_rows({
      // No JSON.
      {"", "MALFORMED", "byte"},
      {" ", "MALFORMED", ""},
      {"hello", "MALFORMED", ""},
      {"{", "MALFORMED", ""},
      {R"({"ping": {}} x)", "MALFORMED", ""},
      {R"({"ping": {}}{"ping": {}})", "MALFORMED", ""},
      {R"({"ping": {},})", "MALFORMED", ""},
      {R"({'ping': {}})", "MALFORMED", ""},
      {R"({ping: {}})", "MALFORMED", ""},
      {"{\"ping\": {} /* why */}", "MALFORMED", ""},
      {R"({"ping": {"cookie": 01}})", "MALFORMED", ""},
      {R"({"ping": {"cookie": +1}})", "MALFORMED", ""},
      {R"({"subscribe": {"quality": {"leaf": NaN}}})", "MALFORMED", ""},
      {R"({"subscribe": {"quality": {"leaf": 1e999}}})", "MALFORMED", ""},
      {"{\"goodbye\": {\"reason\": \"\xC3\"}}", "MALFORMED", ""},
      {"{\"goodbye\": {\"reason\": \"\xED\xA0\x80\"}}", "MALFORMED", ""},
      {"{\"\xFF\": {}}", "MALFORMED", ""},
      {"{\"goodbye\": {\"reason\": \"\n\"}}", "MALFORMED", ""},
      {R"({"goodbye": {"reason": "\ud83d"}})", "MALFORMED", ""},
      {R"({"goodbye": {"reason": "\ud83d\u0041"}})", "MALFORMED", ""},
      {R"({"goodbye": {"reason": "\udc00"}})", "MALFORMED", ""},
      {std::string("{\"ping\": {}}\0", 13), "MALFORMED", ""},
      // Not an object.
      {"[]", "MALFORMED", "not an object"},
      {R"([{"ping": {}}])", "MALFORMED", "not an object"},
      {R"("ping")", "MALFORMED", "not an object"},
      {"5", "MALFORMED", "not an object"},
      {"9007199254740993", "MALFORMED", "not an object"},
      {"true", "MALFORMED", "not an object"},
      {"null", "MALFORMED", "not an object"},
      // Members.
      {R"({"ping": {"kookie": 1}})", "MALFORMED", "kookie: Ping has no such member"},
      {R"({"subscribe": {"quality": {"colour": 1}}})", "MALFORMED", "colour"},
      {R"({"subscribe": {"from": [{}, {"chanel": "c"}]}})", "MALFORMED", "chanel"},
      {R"({"ping": {}, "goodbye": {}})", "MALFORMED", "a second body"},
      {R"({"ping": {}, "frame": {}})", "MALFORMED", "a second body"},
      {R"({"ping": {}, "teleport": {}})", "MALFORMED", "a second body"},
      {R"({"teleport": {}, "ping": {}})", "MALFORMED", "a second body"},
      {R"({"ping": {}, "ping": {}})", "MALFORMED", "twice"},
      {R"({"ping": null, "ping": {}})", "MALFORMED", "twice"},
      {R"({"ping": {"cookie": "1", "cookie": "1"}})", "MALFORMED", "twice"},
      {R"({"advertise": {"frameId": "a", "channel": 1, "frame_id": "a"}})", "MALFORMED", "twice"},
      {R"({"advertise": {"frame_id": "a", "frameId": "b"}})", "MALFORMED", "twice"},
      {R"({"subscribe": {"from": [{"epoch": 1, "epoch": 2}]}})", "MALFORMED", "twice"},
      // Values.
      {R"({"advertise": {"policy": "POLICY_OF_TRUTH"}})", "MALFORMED", "POLICY_OF_TRUTH"},
      {R"({"advertise": {"policy": "policy_backpressure"}})", "MALFORMED", "policy"},
      {R"({"advertise": {"policy": 3}})", "MALFORMED", "policy: 3"},
      {R"({"advertise": {"policy": -1}})", "MALFORMED", "policy: -1"},
      {R"({"advertise": {"policy": 1.5}})", "MALFORMED", "policy: 1.5"},
      {R"({"advertise": {"policy": 4294967297}})", "MALFORMED", "policy"},
      {R"({"advertise": {"policy": "3"}})", "MALFORMED", "policy"},
      {R"({"subscribe": {"history": 9}})", "MALFORMED", "history: 9"},
      {R"({"ping": {"cookie": 9007199254740993}})", "MALFORMED", "above 2^53"},
      {R"({"ping": {"cookie": 9007199254740993.0}})", "MALFORMED", "above 2^53"},
      {R"({"ping": {"cookie": 1e17}})", "MALFORMED", "above 2^53"},
      {R"({"ping": {"cookie": 18446744073709551616}})", "MALFORMED", "above 2^53"},
      {R"({"ping": {"sentNs": -9007199254740993}})", "MALFORMED", "above 2^53"},
      {R"({"ping": {"sentNs": -9223372036854775808}})", "MALFORMED", "above 2^53"},
      {R"({"unadvertise": {"channel": 9007199254740993}})", "MALFORMED", "above 2^53"},
      {R"({"unadvertise": {"channel": 4294967296}})", "MALFORMED", "4294967296"},
      {R"({"unadvertise": {"channel": -1}})", "MALFORMED", "-1"},
      {R"({"unadvertise": {"channel": 1.5}})", "MALFORMED", "1.5"},
      {R"({"unadvertise": {"channel": true}})", "MALFORMED", ""},
      {R"({"ping": {"cookie": "18446744073709551616"}})", "MALFORMED", "18446744073709551616"},
      {R"({"ping": {"cookie": "-1"}})", "MALFORMED", "-1"},
      {R"({"ping": {"cookie": "one"}})", "MALFORMED", "one"},
      {R"({"ping": {"cookie": ""}})", "MALFORMED", ""},
      {R"({"ping": []})", "MALFORMED", "ping: an array where one value is due"},
      {R"({"ping": 5})", "MALFORMED", ""},
      {R"({"ping": "x"})", "MALFORMED", ""},
      {R"({"ping": {"cookie": {}}})", "MALFORMED", "cookie: an object where a value is due"},
      {R"({"ping": {"cookie": ["1"]}})", "MALFORMED", "cookie: an array where one value is due"},
      {R"({"advertise": {"latched": "maybe"}})", "MALFORMED", "maybe"},
      {R"({"advertise": {"latched": 1}})", "MALFORMED", ""},
      {R"({"goodbye": {"reason": 5}})", "MALFORMED", ""},
      {R"({"hello": {"peerKey": "no base64!"}})", "MALFORMED", "no base64!"},
      {R"({"hello": {"peerKey": 5}})", "MALFORMED", ""},
      {R"({"subscribe": {"quality": {"maxHz": 1e39}}})", "MALFORMED", ""},
      {R"({"subscribe": {"quality": {"leaf": "wide"}}})", "MALFORMED", "wide"},
      {R"({"subscribe": {"quality": {"fields": "a"}}})", "MALFORMED", "fields: an array is due"},
      {R"({"subscribe": {"quality": {"fields": [["a"]]}}})", "MALFORMED", "fields"},
      {R"({"subscribe": {"quality": {"fields": [5]}}})", "MALFORMED", ""},
      {R"({"subscribe": {"quality": {"fields": [null]}}})", "MALFORMED", ""},
      {R"({"subscribe": {"from": {}}})", "MALFORMED", "from: an array is due"},
      {R"({"subscribe": {"from": [null]}})", "MALFORMED", ""},
      {R"({"subscribe": {"from": [5]}})", "MALFORMED", ""},
  });
}

TEST_CASE("deep and long texts cost what they are long, and are quoted short", "[wire][json]") {
  const int deep = 100'000;
  judge_rows({
      {repeated("[", deep), "MALFORMED", "not an object"},
      {repeated(R"({"ping":)", deep), "MALFORMED", ""},
      {R"({"frame": )" + repeated("[", deep) + repeated("]", deep) + "}", "MALFORMED", "deep"},
      {R"({"teleport": )" + repeated(R"({"a":)", deep) + "1" + repeated("}", deep) + "}",
       "MALFORMED",
       "deep"},
      {R"({"subscribe": {"from": )" + repeated("[", deep) + repeated("]", deep) + "}}",
       "MALFORMED",
       "from"},
      {R"({"ping": {"cookie": ")" + repeated("é", deep) + R"("}})", "MALFORMED", ""},
      {R"({"ping": {")" + repeated("é", deep) + R"(": 1}})", "MALFORMED", "…"},
      {R"({"advertise": {"policy": ")" + repeated("é", deep) + R"("}})", "MALFORMED", "…"},
      {R"({"ping": {"cookie": )" + repeated("1", deep) + "}}", "MALFORMED", ""},
      {R"({"goodbye": {"reason": ")" + repeated("é", deep) + R"("}})", "goodbye", ""},
      {R"({"subscribe": {"from": [{})" + repeated(",{}", deep) + "]}}", "subscribe", ""},
  });
}

TEST_CASE("whatever protobuf prints of a control message is read back", "[wire][json]") {
  const test::QuietProtobuf quiet;
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  test::Random random(seed);
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    v1::ClientMessage message;
    test::fill_random(message, random);
    google::protobuf::util::JsonPrintOptions options;
    options.always_print_primitive_fields = random() % 2 == 0;
    options.preserve_proto_field_names = random() % 2 == 0;
    options.always_print_enums_as_ints = random() % 2 == 0;
    options.add_whitespace = random() % 2 == 0;
    std::string text;
    REQUIRE(google::protobuf::util::MessageToJsonString(message, &text, options).ok());
    INFO("round " << round << ": " << text);
    REQUIRE(test::judge_json(text) == kNoFault);
    const ClientMessage parsed = parse_json(text);
    if (message.has_frame() || message.has_part()) {
      CHECK(kind_of(parsed) == (message.has_frame() ? "frame" : "part"));
    } else if (message.body_case() == v1::ClientMessage::BODY_NOT_SET) {
      CHECK(kind_of(parsed) == "UNSUPPORTED");
    } else if (has_unknown_enumerator(message)) {
      CHECK(kind_of(parsed) == "MALFORMED");
    } else if (!std::regex_search(text, std::regex("-0[,\\s}]"))) {  // protobuf reads -0 as 0
      const std::string bytes = message.SerializeAsString();
      FrameHead head;
      CHECK(test::to_proto(parsed).SerializeAsString() ==
            test::to_proto(parse(test::as_bytes(bytes), head)).SerializeAsString());
      ++read;
    }
    for (int damages = 0; damages < 2; ++damages)
      REQUIRE(test::judge_json(test::damage(text, random)) == kNoFault);
  }
  CHECK(read > 500);
}

TEST_CASE("what the bridge says is printed with every field, and read back the same",
          "[wire][json]") {
  const std::string odd = "quoted \"\\\n\x01 é \xFF";
  const std::vector<ServerMessage> messages{
      Welcome{},
      Welcome{.bridge = odd,
              .version = "v",
              .boot_id = ~0ULL,
              .session = 2,
              .max_message_bytes = 3,
              .max_frame_bytes = 4,
              .ping_interval_ms = ~0U,
              .now_ns = -6},
      Channels{},
      Channels{.channel = {{.id = 1,
                            .name = "n",
                            .schema_data = "\xFF\x01",
                            .epoch = ~0ULL,
                            .live = true,
                            .policy = Policy::kBackpressure},
                           {}},
               .removed = {8, ~0U},
               .complete = true},
      Advertised{},
      Advertised{.channel = 1, .id = 2, .last_sequence = ~0ULL, .window_bytes = 4, .epoch = 5},
      Ack{},
      Ack{.channel = 1, .sequence = (1ULL << 53U) + 1, .window_bytes = 3},
      Reject{},
      Reject{.channel = 1,
             .sequence = 2,
             .code = RejectCode::kUnsupported,
             .detail = odd,
             .subscription = 3,
             .retry = true},
      SubscriptionState{},
      SubscriptionState{.id = 1,
                        .channel = {2, 3},
                        .applied = {.max_hz = std::nanf(""),
                                    .max_points = 2,
                                    .leaf = 0.2,
                                    .sampling = 4,
                                    .region = std::array<Vector3, 2>{Vector3{1, 2, 3}, Vector3{}},
                                    .fields = {"f"},
                                    .output = 2},
                        .degraded = true,
                        .detail = "d",
                        .ended = true,
                        .counters = {.promised = 1, .delivered = 2, .skipped = 3, .lost = 4}},
      Gap{},
      Gap{.subscription = 1,
          .channel = 2,
          .epoch = 3,
          .first = 4,
          .last = 5,
          .reason = GapReason::kShutdown,
          .frames = 6},
      Drain{},
      Drain{.reason = odd, .deadline_ms = 1, .retry_after_ms = 2},
      Pong{},
      Pong{.cookie = ~0ULL, .sent_ns = -1, .now_ns = 3},
      Status{},
      Status{.level = Level::kError, .code = "c", .detail = odd},
  };
  for (const ServerMessage& message : messages) {
    std::string bytes;
    encode(message, bytes);
    v1::ServerMessage expected;
    REQUIRE(expected.ParseFromString(bytes));
    std::string text = "before";
    encode_json(message, text);
    REQUIRE(text.starts_with("before{"));
    text.erase(0, 6);
    INFO(text);
    CHECK(std::ranges::none_of(text, [](char c) { return c == '\n' || c == '\xFF'; }));
    v1::ServerMessage typed;
    REQUIRE(google::protobuf::util::JsonStringToMessage(text, &typed).ok());
    CHECK(typed.SerializeAsString() == expected.SerializeAsString());
    const auto json = nlohmann::json::parse(text);
    CHECK(json.size() == 1);  // the body
    check_complete(json, *v1::ServerMessage::descriptor());
  }
  std::string ack;
  encode_json(Ack{.channel = 1, .sequence = (1ULL << 53U) + 1}, ack);
  CHECK(ack == R"({"ack":{"channel":1,"sequence":"9007199254740993","windowBytes":"0"}})");
  std::string reject;
  encode_json(Reject{.code = RejectCode::kLayout, .detail = "é"}, reject);
  CHECK(reject == R"({"reject":{"channel":0,"sequence":"0","code":"REJECT_LAYOUT","detail":"é",)"
                  R"("subscription":0,"retry":false}})");
}

}  // namespace simbridge::wire
