#pragma once
// What: the configuration as the operator gave it: defaults < file < environment < --set, judged as
// a whole. Owner: app; a value.   Threads: any.
#include "app/knobs.h"
#include "simbridge/base/bytes.h"
#include "simbridge/base/clock.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::app {

/// What the operator gave, before anything was read. environment is like environ: "NAME=value".
struct Given {
  std::optional<std::string> file;  // --config
  std::vector<std::string> environment;
  std::vector<std::string> sets;  // --set key=value
};

class Config {
 public:
  Config();  // all defaults

  [[nodiscard]] const Value& value(const Knob& knob) const { return entry(knob).value; }
  /// "default", "/etc/simbridge.yaml:3", "environment SIMBRIDGE_…", "--set".
  [[nodiscard]] const std::string& source(const Knob& knob) const { return entry(knob).source; }
  void set(const Knob& knob, Value value, std::string source);

  // By what the knob is; a wrong kind is a defect.
  [[nodiscard]] bool flag(const Knob& knob) const;
  [[nodiscard]] std::uint64_t count(const Knob& knob) const;
  [[nodiscard]] Bytes bytes(const Knob& knob) const;
  [[nodiscard]] milliseconds time(const Knob& knob) const;  // kMilliseconds and kSeconds
  [[nodiscard]] double ratio(const Knob& knob) const;       // kRatio and kRate
  [[nodiscard]] const std::string& text(const Knob& knob) const;
  [[nodiscard]] std::uint16_t port(const Knob& knob) const;

 private:
  struct Entry {
    Value value;
    std::string source = "default";
  };
  [[nodiscard]] const Entry& entry(const Knob& knob) const;

  std::array<Entry, kKnobs.size()> entries_;
};

struct Loaded {
  Config config;
  std::vector<std::string> warnings;  // one sentence each, for the log
};

/// Reads every source. The error is one sentence that names key, value, what is allowed and the
/// source.
[[nodiscard]] Result<Loaded> load_config(const Given& given);

/// Rules between knobs; the sentences of what is allowed but unwise.
[[nodiscard]] Result<std::vector<std::string>> check_config(const Config& config);

[[nodiscard]] bool is_loopback(std::string_view address);
/// "127.0.0.1:80", "[::1]:80".
[[nodiscard]] std::string host_port(const std::string& address, std::uint16_t port);

/// `simbridge config`: a table for people, or an array of objects.
[[nodiscard]] std::string config_text(const Config& config);
[[nodiscard]] std::string config_json(const Config& config);

}  // namespace simbridge::app
