#include "client/console.h"
#include "client/http_get.h"
#include "client/json_line.h"
#include "client/messages.h"
#include "simbridge/client/commands.h"
#include "simbridge/client/peer.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace simbridge::client {
namespace {

using ChannelList = std::vector<v1::ChannelInfo>;

constexpr double kTimeoutMax = 3600;

int number(Exit exit) {
  return static_cast<int>(exit);
}

/// 0, negative or no number at all is a mistake that the caller would not want to wait for.
milliseconds timeout_of(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return milliseconds(1);
  return milliseconds(static_cast<std::int64_t>(std::min(seconds, kTimeoutMax) * 1000));
}

int exit_of(const Console& console, std::string_view command, const Error& error) {
  say(console, "simbridge {}: {}", command, error.detail);
  switch (error.code) {
    case ErrorCode::kInvalid:
      return number(Exit::kFailed);
    case ErrorCode::kRefused:
      return number(Exit::kRefused);
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      return number(Exit::kUnreachable);
    default:
      return number(Exit::kFailed);
  }
}

/// JSON with line breaks and indentation, for people; it is not judged.
std::string indented(std::string_view json) {
  std::string out;
  std::size_t depth = 0;
  bool in_string = false;
  const auto break_line = [&] {
    out += "\n" + std::string(2 * depth, ' ');
  };
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < json.size()) {
        out += json[++i];
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (blank) continue;
    if (c == '}' || c == ']') {
      depth -= depth > 0 ? 1 : 0;
      break_line();
    }
    out += c;
    in_string = c == '"';
    if (c == '{' || c == '[') {
      ++depth;
      break_line();
    } else if (c == ',') {
      break_line();
    } else if (c == ':') {
      out += ' ';
    }
  }
  return out;
}

Result<ChannelList> all_channels(Peer& peer, milliseconds timeout) {
  ChannelList list;
  while (true) {
    const auto message = peer.await([](const auto& got) { return got.has_channels(); }, timeout);
    if (!message) return std::unexpected(message.error());
    for (const auto& channel : (*message)->channels().channel()) list.push_back(channel);
    if ((*message)->channels().complete()) return list;
  }
}

std::string_view policy_name(v1::Policy policy) {
  return policy == v1::POLICY_BACKPRESSURE ? "backpressure" : "drop-oldest";
}

std::string as_json(const WelcomeInfo& welcome, const ChannelList& channels) {
  std::string list;
  for (const auto& channel : channels) {
    list += list.empty() ? "[" : ",";
    list += JsonLine()
                .add("id", channel.id())
                .add("name", channel.name())
                .add("frame_id", channel.frame_id())
                .add("schema", channel.schema())
                .add("encoding", channel.encoding())
                .add_as_string("epoch", channel.epoch())
                .add("first_sequence", channel.first_sequence())
                .add("last_sequence", channel.last_sequence())
                .add("live", channel.live())
                .add("latched", channel.latched())
                .add("policy", policy_name(channel.policy()))
                .str();
  }
  if (list.empty()) list = "[";
  const auto head = JsonLine()
                        .add("bridge", welcome.bridge)
                        .add("version", welcome.version)
                        .add_as_string("boot_id", welcome.boot_id)
                        .add("session", welcome.session)
                        .add("max_message_bytes", welcome.max_message_bytes)
                        .add("max_frame_bytes", welcome.max_frame_bytes)
                        .add("ping_interval_ms", welcome.ping_interval_ms)
                        .str();
  return JsonLine().add_raw("welcome", head).add_raw("channels", list + "]").str();
}

std::string as_text(const WelcomeInfo& welcome, const ChannelList& channels) {
  auto text =
      fmt::format("bridge {} {}, boot {:016x}, messages up to {} bytes, frames up to {} bytes",
                  welcome.bridge,
                  welcome.version,
                  welcome.boot_id,
                  welcome.max_message_bytes,
                  welcome.max_frame_bytes);
  text += fmt::format("\n{} channels", channels.size());
  for (const auto& channel : channels)
    text += fmt::format("\n  {:>5} {} {} {}{} frames {}..{} epoch {}{}{}",
                        channel.id(),
                        json_string(channel.name()),
                        channel.live() ? "live" : "idle",
                        policy_name(channel.policy()),
                        channel.latched() ? " latched" : "",
                        channel.first_sequence(),
                        channel.last_sequence(),
                        channel.epoch(),
                        channel.schema().empty() ? "" : " schema ",
                        channel.schema().empty() ? "" : json_string(channel.schema()));
  return text;
}

int info_of_bridge(const InfoOptions& options, const Console& console) {
  const auto timeout = timeout_of(options.timeout_s);
  auto peer = Peer::connect({.url = options.url,
                             .name = "simbridge-info",
                             .agent = std::string(kAgent),
                             .token = options.token,
                             .timeout = timeout});
  if (!peer) return exit_of(console, "info", peer.error());
  const auto channels = all_channels(**peer, timeout);
  if (!channels) return exit_of(console, "info", channels.error());
  const auto& welcome = (*peer)->welcome();
  const bool printed = print(
      console, "info", options.json ? as_json(welcome, *channels) : as_text(welcome, *channels));
  (*peer)->goodbye("done");
  (*peer)->close();
  return number(printed ? Exit::kDone : Exit::kFailed);
}

/// A WebSocket listener answers plain HTTP too, with a sentence that names what it wants.
bool is_websocket_port(const HttpAnswer& answer) {
  return answer.status == 426 || (answer.status == 404 && answer.body.contains("WebSocket peers"));
}

bool is_json(std::string_view body) {
  const auto begin = body.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && (body[begin] == '{' || body[begin] == '[');
}

int info_of_admin(const Url& given, const InfoOptions& options, const Console& console) {
  Url url = given;
  const bool limits = url.path == "/";
  if (limits) url.path = "/api/v1/limits";
  const auto answer = http_get(url, timeout_of(options.timeout_s));
  if (!answer) return exit_of(console, "info", answer.error());
  const auto asked = url.authority() + url.path;
  if (is_websocket_port(*answer)) {
    say(console,
        "simbridge info: {} answered HTTP {}: this looks like the WebSocket port; ask ws://{}, or "
        "the admin port by http://",
        asked,
        answer->status,
        url.authority());
    return number(Exit::kFailed);
  }
  if (answer->status != 200) {
    say(console, "simbridge info: {} answered HTTP {}", asked, answer->status);
    const bool refused = answer->status == 401 || answer->status == 403 || answer->status == 503;
    return number(refused ? Exit::kRefused : Exit::kFailed);
  }
  if (limits && !is_json(answer->body)) {
    say(console,
        "simbridge info: {} answered something that is not the admin side of a bridge",
        asked);
    return number(Exit::kFailed);
  }
  const bool raw = options.json || !is_json(answer->body);
  const bool printed = print(console, "info", raw ? answer->body : indented(answer->body));
  return number(printed ? Exit::kDone : Exit::kFailed);
}

/// What a healthy bridge says there; empty: no health is told at this path.
std::string_view good_answer(std::string_view path) {
  if (path == "/readyz") return "ready";
  return path == "/healthz" ? "ok" : "";
}

int judge_health(const HttpAnswer& answer,
                 std::string_view good,
                 std::string_view asked,
                 const Console& console) {
  std::string_view body = answer.body;
  while (body.ends_with('\n')) body.remove_suffix(1);
  if (answer.status == 200 && body == good)
    return number(print(console, "health", body) ? Exit::kDone : Exit::kFailed);
  if (answer.status == 503) {
    static_cast<void>(print(console, "health", body.empty() ? "HTTP 503" : body));
    return number(Exit::kFailed);  // whether it could be printed or not
  }
  // Whoever is there says nothing about a bridge's health, whatever his status means to him.
  say(console,
      "simbridge health: {} answered HTTP {}, not \"{}\": {}",
      asked,
      answer.status,
      good,
      is_websocket_port(answer) ? "this looks like the WebSocket port; health is told at the admin "
                                  "port"
                                : "this is not the admin port of a bridge");
  return number(Exit::kFailed);
}

}  // namespace

int run_info(const InfoOptions& options, const Console& console) {
  auto url = parse_url(options.url);
  if (!url) {
    say(console, "simbridge info: {}", url.error().detail);
    return number(Exit::kConfiguration);
  }
  if (url->scheme == Url::Scheme::kHttp) return info_of_admin(*url, options, console);
  return info_of_bridge(options, console);
}

int run_health(const HealthOptions& options, const Console& console) {
  auto url = parse_url(options.url);
  if (!url || url->scheme != Url::Scheme::kHttp) {
    say(console,
        "simbridge health: {}",
        url ? "the address of the admin side begins with http://" : url.error().detail);
    return number(Exit::kConfiguration);
  }
  if (url->path == "/") url->path = "/readyz";
  const auto good = good_answer(url->path);
  if (good.empty()) {
    say(console,
        "simbridge health: it asks /readyz, or /healthz where the address ends so; not {}",
        json_string(url->path));
    return number(Exit::kConfiguration);
  }
  const auto answer = http_get(*url, timeout_of(options.timeout_s));
  if (!answer) return exit_of(console, "health", answer.error());
  return judge_health(*answer, good, url->authority() + url->path, console);
}

}  // namespace simbridge::client
