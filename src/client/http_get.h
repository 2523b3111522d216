#pragma once
// What: one GET of the admin side, with a deadline over all of it.
// Owner: nobody, a function.   Threads: one at a time.
#include "client/url.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"

#include <string>

namespace simbridge::client {

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

/// kUnavailable: nobody answered in time, or not in HTTP.
[[nodiscard]] Result<HttpAnswer> http_get(const Url& url, milliseconds timeout);

}  // namespace simbridge::client
