#include "app/config.h"

#include "app/config_file.h"
#include "simbridge/base/check.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <utility>

namespace simbridge::app {
namespace {

std::size_t index_of(const Knob& knob) {
  const auto* const found = std::ranges::find(kKnobs, &knob);
  SB_CHECK(found != kKnobs.end(), "every knob is a row of the table");
  return static_cast<std::size_t>(found - kKnobs.begin());
}

bool is_one_of(const Knob& knob, std::initializer_list<Kind> kinds) {
  return std::ranges::find(kinds, knob.kind) != kinds.end();
}

std::unexpected<Error> unknown_key(std::string_view key, std::string_view source) {
  const Knob* const near = nearest_knob(key);
  return fail(ErrorCode::kInvalid,
              fmt::format("{}: there is no such knob{} (`simbridge config` lists all) ({})",
                          key,
                          near != nullptr ? fmt::format("; did you mean {}?", near->key) : "",
                          source));
}

/// One value from one source into the configuration.
Result<void> apply(Config& config,
                   std::string_view key,
                   std::string_view text,
                   std::string source) {
  const Knob* const knob = find_knob(key);
  if (knob == nullptr) return unknown_key(key, source);
  Result<Value> value = parse_value(*knob, text);
  if (!value) {
    return fail(ErrorCode::kInvalid, fmt::format("{}: {} ({})", key, value.error().detail, source));
  }
  config.set(*knob, *std::move(value), std::move(source));
  return {};
}

/// SIMBRIDGE_ADMIN_PORT=tcp://10.0.0.1:8090 and its kin, which Kubernetes puts into every pod
/// beside a Service whose name begins with simbridge.
bool is_service_link(std::string_view name, std::string_view value) {
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos)
    return true;
  if (name.find("_TCP") != std::string_view::npos || name.find("_UDP") != std::string_view::npos) {
    return name.find("_PORT_") != std::string_view::npos;
  }
  return name.ends_with("_PORT") && (value.starts_with("tcp://") || value.starts_with("udp://"));
}

/// Whether the name begins like a knob's: then it is a mistyped knob and not some script's own
/// variable.
bool names_a_section(std::string_view name) {
  return std::ranges::any_of(kKnobs, [name](const Knob* knob) {
    return name.starts_with(environment_name(knob->key.substr(0, knob->key.find('.') + 1)));
  });
}

/// SIMBRIDGE_FRAME_BUDGET_BYTE looks like frame.budget_byte.
std::string key_like(std::string_view name) {
  std::string key(name.substr(std::string_view("SIMBRIDGE_").size()));
  for (char& c : key) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (const auto dot = key.find('_'); dot != std::string::npos) key[dot] = '.';
  return key;
}

Result<void> apply_environment(Loaded& loaded, const std::vector<std::string>& environment) {
  for (const std::string& line : environment) {
    const std::string_view text = line;
    if (!text.starts_with("SIMBRIDGE_")) continue;
    const auto equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals);
    const std::string_view value = text.substr(std::min(equals + 1, text.size()));
    if (is_service_link(name, value)) {
      loaded.warnings.push_back(
          fmt::format("{} looks like a Kubernetes service link and is passed over", name));
      continue;
    }
    const auto* const found = std::ranges::find(
        kKnobs, name, [](const Knob* knob) { return environment_name(knob->key); });
    const std::string source = fmt::format("environment {}", name);
    if (found == kKnobs.end()) {
      if (!names_a_section(name)) continue;  // a script's own, such as SIMBRIDGE_TEST_DATA
      const Knob* const near = nearest_knob(key_like(name));
      return fail(
          ErrorCode::kInvalid,
          fmt::format(
              "{}: no knob has this variable{} (`simbridge config` lists all) (environment)",
              name,
              near == nullptr ? ""
                              : fmt::format("; did you mean {}?", environment_name(near->key))));
    }
    if (Result<void> applied = apply(loaded.config, (*found)->key, value, source); !applied) {
      return applied;
    }
  }
  return {};
}

Result<void> apply_sets(Config& config, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    const auto equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(
          ErrorCode::kInvalid,
          fmt::format("--set \"{}\": give it as key=value, e.g. --set websocket.port=8081", set));
    }
    if (Result<void> applied = apply(config,
                                     std::string_view(set).substr(0, equals),
                                     std::string_view(set).substr(equals + 1),
                                     "--set");
        !applied) {
      return applied;
    }
  }
  return {};
}

}  // namespace

Config::Config() {
  for (std::size_t i = 0; i < kKnobs.size(); ++i) entries_[i].value = fallback_of(*kKnobs[i]);
}

const Config::Entry& Config::entry(const Knob& knob) const {
  return entries_[index_of(knob)];
}

void Config::set(const Knob& knob, Value value, std::string source) {
  entries_[index_of(knob)] = Entry{std::move(value), std::move(source)};
}

bool Config::flag(const Knob& knob) const {
  SB_CHECK(knob.kind == Kind::kFlag, "a flag is read as a flag");
  return value(knob).number != 0;
}

std::uint64_t Config::count(const Knob& knob) const {
  SB_CHECK(knob.kind == Kind::kCount, "a count is read as a count");
  return static_cast<std::uint64_t>(value(knob).number);
}

Bytes Config::bytes(const Knob& knob) const {
  SB_CHECK(knob.kind == Kind::kBytes, "bytes are read as bytes");
  return Bytes{static_cast<std::uint64_t>(value(knob).number)};
}

milliseconds Config::time(const Knob& knob) const {
  SB_CHECK((is_one_of(knob, {Kind::kMilliseconds, Kind::kSeconds})), "a time is read as a time");
  const auto number = static_cast<std::int64_t>(value(knob).number);
  return knob.kind == Kind::kSeconds ? std::chrono::seconds(number) : milliseconds(number);
}

double Config::ratio(const Knob& knob) const {
  SB_CHECK((is_one_of(knob, {Kind::kRatio, Kind::kRate})), "a share is read as a share");
  return value(knob).number;
}

const std::string& Config::text(const Knob& knob) const {
  SB_CHECK((is_one_of(knob, {Kind::kText, Kind::kChoice, Kind::kAddress})),
           "a text is read as a text");
  return value(knob).text;
}

std::uint16_t Config::port(const Knob& knob) const {
  SB_CHECK(knob.kind == Kind::kPort, "a port is read as a port");
  return static_cast<std::uint16_t>(value(knob).number);
}

Result<Loaded> load_config(const Given& given) {
  Loaded loaded;
  if (given.file) {
    const Result<std::vector<FileEntry>> entries = read_config_file(*given.file);
    if (!entries) return std::unexpected(entries.error());
    std::map<std::string, int> lines;  // of keys seen, nested or with dots
    for (const FileEntry& entry : *entries) {
      const std::string source = fmt::format("{}:{}", *given.file, entry.line);
      if (const auto [earlier, fresh] = lines.emplace(entry.key, entry.line); !fresh) {
        return fail(ErrorCode::kInvalid,
                    fmt::format("{}: \"{}\" is given a second time, after line {}; keep one ({})",
                                entry.key,
                                entry.text,
                                earlier->second,
                                source));
      }
      if (Result<void> applied = apply(loaded.config, entry.key, entry.text, source); !applied) {
        return std::unexpected(applied.error());
      }
    }
  }
  if (Result<void> applied = apply_environment(loaded, given.environment); !applied) {
    return std::unexpected(applied.error());
  }
  if (Result<void> applied = apply_sets(loaded.config, given.sets); !applied) {
    return std::unexpected(applied.error());
  }
  Result<std::vector<std::string>> warnings = check_config(loaded.config);
  if (!warnings) return std::unexpected(warnings.error());
  std::ranges::move(*warnings, std::back_inserter(loaded.warnings));
  return loaded;
}

bool is_loopback(std::string_view address) {
  const std::string text(address);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

std::string host_port(const std::string& address, std::uint16_t port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

Result<std::vector<std::string>> check_config(const Config& config) {
  std::vector<std::string> warnings;
  for (const Knob* bind : {&kWebSocketBind, &kGrpcBind, &kAdminBind}) {
    const std::string& address = config.text(*bind);
    if (is_loopback(address)) continue;
    if (!config.flag(kAllowAnonymous)) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("{}: {} is beyond loopback, and peers need no credentials; bind to "
                              "127.0.0.1, or set {}: true to let anybody in ({})",
                              bind->key,
                              address,
                              kAllowAnonymous.key,
                              config.source(*bind)));
    }
    warnings.push_back(
        fmt::format("{} is {}: whoever reaches the port may read and write everything, no "
                    "credentials are asked",
                    bind->key,
                    address));
  }
  struct Listener {
    const Knob& port;
    const Knob& bind;
  };
  const std::array<Listener, 3> listeners{
      {{kWebSocketPort, kWebSocketBind}, {kGrpcPort, kGrpcBind}, {kAdminPort, kAdminBind}}};
  for (const auto* later = listeners.begin(); later != listeners.end(); ++later) {
    for (const auto* earlier = listeners.begin(); earlier != later; ++earlier) {
      const std::uint16_t port = config.port(later->port);
      if (port == 0 || port != config.port(earlier->port) ||
          config.text(later->bind) != config.text(earlier->bind)) {
        continue;
      }
      return fail(ErrorCode::kInvalid,
                  fmt::format("{}: {} is also {}; give each listener its own port ({})",
                              later->port.key,
                              port,
                              earlier->port.key,
                              config.source(later->port)));
    }
  }
  const double shares = config.ratio(kFramePinShare) + config.ratio(kFrameIngestShare);
  if (shares > 0.9) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("{}: {} and {} {} leave less than a tenth of the budget for kept frames; set "
                    "them so that their sum is at most 0.9 ({})",
                    kFramePinShare.key,
                    config.ratio(kFramePinShare),
                    kFrameIngestShare.key,
                    config.ratio(kFrameIngestShare),
                    config.source(kFramePinShare)));
  }
  if (config.bytes(kFrameWarmReserve) > config.bytes(kFrameBudget) &&
      config.source(kFrameWarmReserve) != "default") {
    warnings.push_back(fmt::format("{} is above {}; what exceeds the budget has no effect",
                                   kFrameWarmReserve.key,
                                   kFrameBudget.key));
  }
  return warnings;
}

std::string config_text(const Config& config) {
  std::size_t key_width = 0;
  std::size_t value_width = 0;
  for (const Knob* knob : kKnobs) {
    key_width = std::max(key_width, knob->key.size());
    value_width = std::max(value_width, show_value(*knob, config.value(*knob)).size());
  }
  std::string text;
  for (const Knob* knob : kKnobs) {
    text += fmt::format("{:<{}}  {:<{}}  ({}; default {}; {}; {})\n    {} [{}]\n",
                        knob->key,
                        key_width,
                        show_value(*knob, config.value(*knob)),
                        value_width,
                        config.source(*knob) == "default"
                            ? "default"
                            : fmt::format("from {}", config.source(*knob)),
                        show_value(*knob, fallback_of(*knob)),
                        range_of(*knob),
                        knob->when == Change::kLive ? "live" : "restart",
                        knob->help,
                        environment_name(knob->key));
  }
  return text;
}

std::string config_json(const Config& config) {
  const auto as_json = [](const Knob& knob, const Value& value) -> nlohmann::ordered_json {
    switch (knob.kind) {
      case Kind::kFlag:
        return value.number != 0;
      case Kind::kRatio:
      case Kind::kRate:
        return value.number;
      case Kind::kText:
      case Kind::kChoice:
      case Kind::kAddress:
        return value.text;
      default:
        return static_cast<std::uint64_t>(value.number);
    }
  };
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Knob* knob : kKnobs) {
    nlohmann::ordered_json row;
    row["key"] = knob->key;
    row["value"] = as_json(*knob, config.value(*knob));
    row["source"] = config.source(*knob);
    row["default"] = as_json(*knob, fallback_of(*knob));
    row["unit"] = unit_of(knob->kind);
    row["allowed"] = range_of(*knob);
    row["change"] = knob->when == Change::kLive ? "live" : "restart";
    row["environment"] = environment_name(knob->key);
    row["help"] = knob->help;
    rows.push_back(std::move(row));
  }
  return rows.dump(2) + "\n";
}

}  // namespace simbridge::app
