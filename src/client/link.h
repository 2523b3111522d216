#pragma once
// What: the line to the bridge that Sender and Watcher share: connects, says Hello, notices
// silence, comes back after a break or a Drain, and gives up when nobody is there for too long.
// Owner: Sender, Watcher.   Threads: one at a time; it works only while step() runs.
#include "client/backoff.h"
#include "client/line.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"
#include "simbridge/client/peer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace simbridge::client {

struct LinkOptions {
  PeerOptions peer;
  Reconnect reconnect;
  std::function<void(std::string_view)> say;      // what a user wants to know, a sentence each
  std::function<void(std::string_view)> waiting;  // why nobody is connected yet; empty: to say
};

/// What its owner does at each turn.
struct LinkHooks {
  std::function<void()> opened;  // Hello is queued; what is sent now follows it
  std::function<void()> lost;
  std::function<Result<void>(const v1::ServerMessage&)> received;  // all but Welcome
};

class Link {
 public:
  Link(LinkOptions options, LinkHooks hooks);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Works until something happened or the deadline, 100 ms at most. An error is the end: nobody
  /// there for too long or no reconnecting wished (kUnavailable), or a refusal (kRefused).
  Result<void> step(Monotonic deadline);

  void send(const v1::ClientMessage& message);
  /// Null while there is no connection.
  [[nodiscard]] Line* line() { return line_.get(); }
  [[nodiscard]] const Line* line() const { return line_.get(); }
  /// Empty until the bridge has welcomed us on this connection.
  [[nodiscard]] const std::optional<WelcomeInfo>& welcome() const { return welcome_; }
  /// The bridge said that it is going away.
  [[nodiscard]] bool draining() const { return drain_retry_.has_value(); }
  [[nodiscard]] std::uint64_t reconnects() const { return reconnects_; }
  /// Welcomed at least once.
  [[nodiscard]] bool ever_connected() const { return ever_connected_; }
  [[nodiscard]] const Url& url() const { return url_; }
  void say(std::string_view text) const;

  /// Says Goodbye, if there is somebody to say it to, and closes.
  void goodbye(std::string_view reason, Monotonic deadline);

 private:
  Result<void> connect();
  Result<void> receive();
  void on_welcome(const v1::ServerMessage& message);
  Result<void> lose(std::string_view why);

  LinkOptions options_;
  LinkHooks hooks_;
  Url url_;
  std::optional<Error> bad_url_;
  Backoff backoff_;
  std::unique_ptr<Line> line_;
  std::optional<WelcomeInfo> welcome_;
  Monotonic welcome_due_;
  std::optional<milliseconds> drain_retry_;
  bool ever_connected_ = false;
  bool told_to_wait_ = false;  // and it was said
  std::uint64_t reconnects_ = 0;
};

}  // namespace simbridge::client
