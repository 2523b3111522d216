#pragma once
// What: the opening handshake, without a socket: bytes of an HTTP request in, the answer out.
// Owner: one handshake.   Threads: one at a time.
#include "simbridge/metrics/catalogue.h"
#include "simbridge/session/peer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::transport::ws {

inline constexpr std::size_t kMaxRequestBytes = 8U << 10U;  // request line and fields together

/// What a listener serves.
struct UpgradeRules {
  struct Subprotocol {
    std::string_view name;
    session::Encoding encoding = session::Encoding::kProtobuf;
  };
  std::string_view path = "/v1/connect";  // empty: every path
  /// Empty: none is asked for and none is given; then text is taken as well.
  std::vector<Subprotocol> subprotocols = {
      {"simbridge.v1", session::Encoding::kProtobuf},
      {"simbridge.flat.v1", session::Encoding::kFlat},
  };
};

/// What a request that does not become a WebSocket is told. Always with Connection: close.
struct HttpRefusal {
  unsigned status = 400;
  std::string text;                              // a sentence, sent as the body
  std::optional<std::string> field;              // one more header field, without its end of line
  std::optional<metrics::HandshakeCause> cause;  // none: refused by the hub, which counts itself
};

[[nodiscard]] std::string http_response(const HttpRefusal& refusal);

class UpgradeReader {
 public:
  explicit UpgradeReader(const UpgradeRules& rules);
  ~UpgradeReader();
  UpgradeReader(const UpgradeReader&) = delete;
  UpgradeReader& operator=(const UpgradeReader&) = delete;

  enum class State : std::uint8_t { kMore, kAsked, kRefused };
  /// The next bytes that came. After kAsked or kRefused nothing more is to be fed.
  State feed(std::span<const std::byte> bytes);

  /// After kRefused.
  [[nodiscard]] const HttpRefusal& refusal() const { return refusal_; }
  /// After kAsked: what was chosen, the first known of those that the peer offers. A name only
  /// where one was asked for.
  [[nodiscard]] const UpgradeRules::Subprotocol& chosen() const { return chosen_; }
  /// After kAsked: what to send if the peer may come in.
  [[nodiscard]] std::string acceptance() const;
  /// After kAsked: bytes that came behind the request, the first of the conversation.
  [[nodiscard]] std::span<const std::byte> rest() const;

 private:
  struct Parser;
  State refuse(HttpRefusal refusal);
  State judge();

  UpgradeRules rules_;
  UpgradeRules::Subprotocol chosen_;
  std::unique_ptr<Parser> parser_;
  std::string bytes_;  // not yet parsed
  std::size_t fed_ = 0;
  std::string key_;
  HttpRefusal refusal_;
};

}  // namespace simbridge::transport::ws
