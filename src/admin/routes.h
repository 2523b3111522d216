#pragma once
// What: from a request to an answer, without a socket.   Owner: the server; pure but for the
// providers. Threads: the admin thread.
#include "simbridge/admin/server.h"

#include <array>
#include <string>
#include <string_view>

namespace simbridge::admin {

struct Route {
  std::string_view path;
  std::string_view type;    // Content-Type
  std::string_view schema;  // file in docs/api/, empty = no JSON
  std::string_view help;
};

inline constexpr std::string_view kText = "text/plain; charset=utf-8";
inline constexpr std::string_view kJson = "application/json";

inline constexpr std::array kRoutes{
    Route{"/healthz",
          kText,
          "",
          "200 `ok` while the process answers: the liveness probe. No dependency is asked."},
    Route{"/readyz",
          kText,
          "",
          "200 `ready`, or 503 with `starting` or `draining`: the readiness probe. `simbridge "
          "health` asks it."},
    Route{"/metrics",
          "text/plain; version=0.0.4; charset=utf-8",
          "",
          "Every figure of `docs/metrics.md`, in Prometheus' text format."},
    Route{"/api/v1/channels",
          kJson,
          "channels",
          "One object a channel: received = published + duplicate + rejected, and what its ring "
          "keeps now."},
    Route{"/api/v1/subscriptions",
          kJson,
          "subscriptions",
          "One object for each channel of each subscription: promised = delivered + skipped + lost "
          "+ waiting, and "
          "lost frames by reason."},
    Route{"/api/v1/sessions",
          kJson,
          "sessions",
          "One object a session: who it is and what went through it."},
    Route{"/api/v1/limits",
          kJson,
          "limits",
          "What memory, threads, sessions and messages are limited to now."},
};

struct Answer {
  int status = 200;
  std::string_view type = kText;
  std::string body;
  bool allow_header = false;  // 405: say what is allowed
};

/// method as written ("GET"); target with or without a query. Never throws.
[[nodiscard]] Answer answer(std::string_view method,
                            std::string_view target,
                            const Snapshots& snapshots);

}  // namespace simbridge::admin
