// Control messages as text, for peers without protobuf: the same messages through protobuf's JSON
// mapping.
#include "simbridge/wire/flat.h"
#include "wire/strict_json.h"

#include <fmt/format.h>

#include "simbridge/v1/bridge.pb.h"

#include <span>

namespace simbridge::wire {

ClientMessage parse_json(std::string_view text) {
  JsonLook look = look_at_json(text, *v1::ClientMessage::descriptor(), "frame part");
  if (look.fault) return Malformed{std::move(*look.fault)};
  if (!look.unknown_body.empty() && !look.body.empty())
    return Malformed{fmt::format("{}: a second body", cut_detail(look.unknown_body))};
  if (!look.unknown_body.empty())
    return Unsupported{fmt::format("body: {} is not known", cut_detail(look.unknown_body))};
  if (look.body.empty()) return Unsupported{"the message has no body"};
  if (look.body == "frame") return FrameBody{};
  if (look.body == "part") return Part{};
  v1::ClientMessage typed;
  if (auto fault = read_json(text, typed)) return Malformed{std::move(*fault)};
  // From here on it is the message that the protobuf road knows, and judged like it.
  const std::string bytes = typed.SerializeAsString();
  FrameHead none;
  return parse(std::as_bytes(std::span(bytes)), none);
}

void encode_json(const ServerMessage& message, std::string& out) {
  std::string bytes;
  encode(message, bytes);
  v1::ServerMessage typed;
  static_cast<void>(typed.ParseFromString(bytes));
  write_json(typed, out);
}

}  // namespace simbridge::wire
