#include "app/knobs.h"

#include <fmt/format.h>

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace simbridge::app {
namespace {

struct Unit {
  std::string_view name;
  double factor;
  bool shown;  // also used for output
};
constexpr std::array kByteUnits{Unit{"B", 1, false},
                                Unit{"KiB", kKi, true},
                                Unit{"MiB", kMi, true},
                                Unit{"GiB", kGi, true},
                                Unit{"TiB", kTi, true},
                                Unit{"Ki", kKi, false},  // as Kubernetes writes them
                                Unit{"Mi", kMi, false},
                                Unit{"Gi", kGi, false},
                                Unit{"Ti", kTi, false},
                                Unit{"kB", 1e3, false},
                                Unit{"MB", 1e6, false},
                                Unit{"GB", 1e9, false},
                                Unit{"TB", 1e12, false}};
constexpr std::array kMillisecondUnits{
    Unit{"ms", 1, true}, Unit{"s", 1e3, true}, Unit{"min", 6e4, true}, Unit{"h", 3.6e6, true}};
constexpr std::array kSecondUnits{
    Unit{"s", 1, true}, Unit{"min", 60, true}, Unit{"h", 3600, true}, Unit{"d", 86'400, true}};

std::span<const Unit> units_of_kind(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return kByteUnits;
    case Kind::kMilliseconds:
      return kMillisecondUnits;
    case Kind::kSeconds:
      return kSecondUnits;
    default:
      return {};
  }
}

bool is_whole(Kind kind) {
  return kind == Kind::kCount || kind == Kind::kPort || !units_of_kind(kind).empty();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string show_number(const Knob& knob, double number) {
  const Unit* best = nullptr;
  for (const Unit& unit : units_of_kind(knob.kind)) {
    if (number == 0 || !unit.shown || std::fmod(number, unit.factor) != 0) continue;
    if (best == nullptr || unit.factor > best->factor) best = &unit;
  }
  if (best == nullptr) return fmt::format("{}", number);
  return fmt::format("{}{}", number / best->factor, best->name);
}

/// Quoted for a message, with a limit: a value may be a whole file by mistake.
std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  return text.size() <= kLongest ? fmt::format("\"{}\"", text)
                                 : fmt::format("\"{}…\"", text.substr(0, kLongest));
}

Result<Value> parse_number(const Knob& knob, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto unit_text = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  if (error != std::errc() || !std::isfinite(number)) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is not a number; set it to {}", quoted(text), range_of(knob)));
  }
  if (!unit_text.empty()) {
    const auto units = units_of_kind(knob.kind);
    const auto unit = std::ranges::find(units, unit_text, &Unit::name);
    if (unit == units.end()) {
      std::string known;
      for (const Unit& each : units)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
      return fail(ErrorCode::kInvalid,
                  fmt::format("{} has a unit that is not known here; allowed: {}",
                              quoted(text),
                              known.empty() ? "a plain number" : known));
    }
    number *= unit->factor;
  }
  if (is_whole(knob.kind) && number != std::floor(number)) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("{} is not a whole number{}; set it to {}",
                    quoted(text),
                    unit_of(knob.kind).empty() ? "" : fmt::format(" of {}", unit_of(knob.kind)),
                    range_of(knob)));
  }
  if (number < knob.low || number > knob.high) {
    const bool below = number < knob.low;
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is {} {}; set it between {} and {}",
                            text,
                            below ? "below" : "above",
                            show_number(knob, below ? knob.low : knob.high),
                            show_number(knob, knob.low),
                            show_number(knob, knob.high)));
  }
  return Value{.number = number, .text = {}};
}

Result<Value> parse_flag(std::string_view text) {
  // YAML 1.2's two words only: "yes" and "on" mean different things to different readers.
  if (text == "true") return Value{.number = 1, .text = {}};
  if (text == "false") return Value{.number = 0, .text = {}};
  return fail(ErrorCode::kInvalid, fmt::format("{} is neither true nor false", quoted(text)));
}

Result<Value> parse_choice(const Knob& knob, std::string_view text) {
  if (std::ranges::find(knob.choices, text) != knob.choices.end()) {
    return Value{.number = 0, .text = std::string(text)};
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("{} is not one of: {}", quoted(text), range_of(knob)));
}

Result<Value> parse_text(const Knob& knob, std::string_view text) {
  if (text.empty() || static_cast<double>(text.size()) > knob.high) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("{} has {} bytes; allowed: {}", quoted(text), text.size(), range_of(knob)));
  }
  const bool control = std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (control) return fail(ErrorCode::kInvalid, quoted(text) + " has control characters");
  return Value{.number = 0, .text = std::string(text)};
}

Result<Value> parse_address(std::string_view text) {
  const std::string address(text);
  in6_addr buffer{};
  if (inet_pton(AF_INET, address.c_str(), &buffer) == 1 ||
      inet_pton(AF_INET6, address.c_str(), &buffer) == 1) {
    return Value{.number = 0, .text = address};
  }
  return fail(
      ErrorCode::kInvalid,
      fmt::format("{} is not a numeric address; set it to 127.0.0.1, ::1, 0.0.0.0, :: or an "
                  "address of this machine",
                  quoted(text)));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row.back();
}

}  // namespace

const Knob* find_knob(std::string_view key) {
  const auto* const found =
      std::ranges::find(kKnobs, key, [](const Knob* knob) { return knob->key; });
  return found == kKnobs.end() ? nullptr : *found;
}

const Knob* nearest_knob(std::string_view key) {
  constexpr std::size_t kFarthest = 6;
  if (key.size() > 64) return nullptr;
  const Knob* best = nullptr;
  std::size_t distance = std::min(kFarthest, key.size() / 2 + 1);
  for (const Knob* knob : kKnobs) {
    if (const std::size_t d = edit_distance(key, knob->key); d < distance) {
      best = knob;
      distance = d;
    }
  }
  return best;
}

Value fallback_of(const Knob& knob) {
  return Value{.number = knob.fallback, .text = std::string(knob.text)};
}

Result<Value> parse_value(const Knob& knob, std::string_view given) {
  const std::string_view text = trimmed(given);
  switch (knob.kind) {
    case Kind::kFlag:
      return parse_flag(text);
    case Kind::kChoice:
      return parse_choice(knob, text);
    case Kind::kText:
      return parse_text(knob, text);
    case Kind::kAddress:
      return parse_address(text);
    default:
      return parse_number(knob, text);
  }
}

std::string show_value(const Knob& knob, const Value& value) {
  switch (knob.kind) {
    case Kind::kFlag:
      return value.number != 0 ? "true" : "false";
    case Kind::kChoice:
    case Kind::kText:
    case Kind::kAddress:
      return value.text;
    default:
      return show_number(knob, value.number);
  }
}

std::string_view unit_of(Kind kind) {
  switch (kind) {
    case Kind::kBytes:
      return "bytes";
    case Kind::kMilliseconds:
      return "ms";
    case Kind::kSeconds:
      return "s";
    case Kind::kRate:
      return "1/s";
    default:
      return "";
  }
}

std::string range_of(const Knob& knob) {
  switch (knob.kind) {
    case Kind::kFlag:
      return "true or false";
    case Kind::kText:
      return fmt::format("1 to {} bytes of text", knob.high);
    case Kind::kAddress:
      return "a numeric address";
    case Kind::kChoice: {
      std::string text;
      for (const std::string_view choice : knob.choices) {
        text += fmt::format("{}{}", text.empty() ? "" : ", ", choice);
      }
      return text;
    }
    default:
      return fmt::format("{} to {}", show_number(knob, knob.low), show_number(knob, knob.high));
  }
}

std::string environment_name(std::string_view key) {
  std::string name = "SIMBRIDGE_";
  for (const char c : key) {
    name += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

std::string knobs_markdown() {
  std::string text =
      "# Configuration\n\n"
      "Made from `src/app/knobs.h`; do not edit by hand (`SIMBRIDGE_UPDATE_GOLDEN=1 app_test` "
      "writes it anew).\n\n"
      "A knob's value is its default, unless the file of `--config FILE` (YAML) has it, unless the "
      "environment "
      "has it, unless `--set key=value` has it: the later one wins.\n"
      "`simbridge config` prints this table; with `--config`, `--set` and the environment also "
      "what would be "
      "used and where it comes from, without starting anything.\n\n"
      "```yaml\n"
      "websocket:\n  port: 8080          # nested, or\nframe.budget_bytes: 2GiB   # with dots\n"
      "```\n\n"
      "Sizes are bytes or have a unit (`KiB MiB GiB TiB`, also `Ki Mi Gi Ti` and `kB MB GB TB`); "
      "times are in the "
      "knob's own unit or have one (`ms s min h`).\n"
      "The environment's name of a key is `SIMBRIDGE_` and the key in capitals with `_` for `.`: "
      "`SIMBRIDGE_FRAME_BUDGET_BYTES=2GiB`. Variables that Kubernetes makes for a Service named "
      "simbridge "
      "(`SIMBRIDGE_ADMIN_PORT=tcp://…`) are passed over with a warning; `enableServiceLinks: "
      "false` avoids them.\n"
      "An unknown key, a bad value or one out of range stops the start with exit code 2 and a "
      "sentence that names "
      "key, value, what is allowed, and where it was read.\n\n"
      "*live*: SIGHUP reads file and environment again, and the new value holds while sessions "
      "run. *restart*: a "
      "changed value is reported and waits for the next start.\n\n"
      "| key | default | allowed | unit | change | meaning |\n| --- | --- | --- | --- | --- | --- "
      "|\n";
  for (const Knob* knob : kKnobs) {
    text += fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n",
                        knob->key,
                        show_value(*knob, fallback_of(*knob)),
                        range_of(*knob),
                        unit_of(knob->kind),
                        knob->when == Change::kLive ? "live" : "restart",
                        knob->help);
  }
  return text;
}

}  // namespace simbridge::app
