#include "admin/routes.h"

#include "simbridge/base/log.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>

namespace simbridge::admin {
namespace {

using Json = nlohmann::ordered_json;

/// Names come from peers; what is not UTF-8 (none should be) is shown as U+FFFD and never throws.
std::string written(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string channels_json(const std::vector<ChannelRow>& rows) {
  Json json = Json::array();
  for (const ChannelRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"received", row.received},
                    {"rejected", row.rejected},
                    {"duplicate", row.duplicate},
                    {"published", row.published},
                    {"kept_frames", row.kept_frames},
                    {"kept_bytes", row.kept_bytes}});
  }
  return written(json);
}

std::string subscriptions_json(const std::vector<SubscriptionRow>& rows) {
  Json json = Json::array();
  for (const SubscriptionRow& row : rows) {
    Json gaps = Json::object();
    for (const auto& [reason, frames] : row.gaps) gaps[reason] = frames;
    json.push_back({{"session", row.session},
                    {"id", row.id},
                    {"channel", row.channel},
                    {"promised", row.promised},
                    {"delivered", row.delivered},
                    {"skipped", row.skipped},
                    {"waiting", row.waiting},
                    {"lost", row.lost},
                    {"gaps", std::move(gaps)}});
  }
  return written(json);
}

std::string sessions_json(const std::vector<SessionRow>& rows) {
  Json json = Json::array();
  for (const SessionRow& row : rows) {
    json.push_back({{"id", row.id},
                    {"name", row.name},
                    {"agent", row.agent},
                    {"transport", row.transport},
                    {"address", row.address},
                    {"age_s", row.age_s},
                    {"channels", row.channels},
                    {"subscriptions", row.subscriptions},
                    {"frames_in", row.frames_in},
                    {"bytes_in", row.bytes_in},
                    {"frames_out", row.frames_out},
                    {"bytes_out", row.bytes_out},
                    {"outbox_bytes", row.outbox_bytes}});
  }
  return written(json);
}

std::string limits_json(const Limits& limits) {
  const Json json{
      {"source", "configuration"},
      {"memory",
       {{"budget_bytes", limits.budget_bytes},
        {"warm_reserve_bytes", limits.warm_reserve_bytes},
        {"ingest_bytes", limits.ingest_bytes},
        {"pin_bytes", limits.pin_bytes},
        {"max_frame_bytes", limits.max_frame_bytes},
        {"depth_frames", limits.depth_frames}}},
      {"threads", {{"io", limits.io_threads}}},
      {"descriptors", limits.descriptors},
      {"sessions",
       {{"max", limits.sessions_max},
        {"open", limits.sessions_open},
        {"accept_rate", limits.accept_rate}}},
      {"channels", {{"max", limits.channels_max}, {"per_session", limits.channels_per_session}}},
      {"subscriptions", {{"per_session", limits.subscriptions_per_session}}},
      {"messages",
       {{"max_bytes", limits.max_message_bytes},
        {"window_bytes", limits.window_bytes},
        {"max_points", limits.max_points}}}};
  return written(json);
}

Answer serve(const Route& route, const Snapshots& snapshots) {
  Answer answer{.status = 200, .type = route.type, .body = {}, .allow_header = false};
  if (route.path == "/healthz") {
    answer.body = "ok\n";
  } else if (route.path == "/readyz") {
    const Readiness readiness = snapshots.readiness();
    answer.status = readiness.ready ? 200 : 503;
    answer.body = readiness.why + "\n";
  } else if (route.path == "/metrics") {
    answer.body = snapshots.metrics();
  } else if (route.path == "/api/v1/channels") {
    answer.body = channels_json(snapshots.channels());
  } else if (route.path == "/api/v1/subscriptions") {
    answer.body = subscriptions_json(snapshots.subscriptions());
  } else if (route.path == "/api/v1/sessions") {
    answer.body = sessions_json(snapshots.sessions());
  } else if (route.path == "/api/v1/limits") {
    answer.body = limits_json(snapshots.limits());
  }
  return answer;
}

std::string all_paths() {
  std::string text;
  for (const Route& route : kRoutes)
    text += fmt::format("{}{}", text.empty() ? "" : " ", route.path);
  return text;
}

}  // namespace

Answer answer(std::string_view method, std::string_view target, const Snapshots& snapshots) {
  const std::string_view path = target.substr(0, target.find('?'));
  const auto* const route = std::ranges::find(kRoutes, path, &Route::path);
  if (route == kRoutes.end()) {
    return {.status = 404,
            .type = kText,
            .body = fmt::format("no such page; there are: {}\n", all_paths())};
  }
  if (method != "GET" && method != "HEAD") {
    return {.status = 405,
            .type = kText,
            .body = "this page is read with GET or HEAD\n",
            .allow_header = true};
  }
  try {  // a provider allocates; the admin thread outlives a page that could not be made
    return serve(*route, snapshots);
  } catch (const std::exception& error) {
    log(LogLevel::kError, "admin_page", "{} could not be made: {}", route->path, error.what());
    return {.status = 500, .type = kText, .body = "the page could not be made; the log says why\n"};
  }
}

std::string endpoints_markdown() {
  std::string text =
      "# Endpoints\n\n"
      "Made from the tables in `src/admin/routes.h`; do not edit by hand "
      "(`SIMBRIDGE_UPDATE_GOLDEN=1 admin_test` "
      "writes it anew).\n\n"
      "WebSocket: `ws://HOST:8080/v1/connect` (`websocket.bind`, `websocket.port`), subprotocols "
      "`simbridge.v1` (protobuf) and `simbridge.flat.v1` (JSON control, flat frames); the first "
      "known that a peer offers.\n\n"
      "gRPC: `HOST:9090` (`grpc.bind`, `grpc.port`), HTTP/2 without TLS: `simbridge.v1.Bridge` "
      "with "
      "`Connect` and `GetInfo`, `grpc.health.v1.Health`, server reflection (v1 and v1alpha).\n\n"
      "Admin: `http://HOST:8090` (`admin.bind`, `admin.port`), HTTP/1.1, GET and HEAD only, "
      "keep-alive. At most 64 "
      "connections, request headers of 8 KiB, bodies of 64 KiB, 10 s for a request or an answer. "
      "Nothing here "
      "changes the bridge.\n\n"
      "| path | content | schema | what |\n| --- | --- | --- | --- |\n";
  for (const Route& route : kRoutes) {
    text += fmt::format(
        "| `{}` | {} | {} | {} |\n",
        route.path,
        route.type,
        route.schema.empty() ? "" : fmt::format("`docs/api/{}.schema.json`", route.schema),
        route.help);
  }
  text +=
      "\nOther answers: 400 (not HTTP), 404 (no such path; the body lists all), 405 (another "
      "method), "
      "413 and 431 (body, headers too large), 500 (the page could not be made; the log says why), "
      "503 (too many connections; or `/readyz`). A request or an answer that takes longer than 10 "
      "s "
      "ends the connection.\n";
  return text;
}

}  // namespace simbridge::admin
