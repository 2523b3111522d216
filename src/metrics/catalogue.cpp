// The catalogue as text: docs/metrics.md and the list that test/metrics holds.
#include "simbridge/metrics/catalogue.h"

#include "simbridge/metrics/metrics.h"

#include <fmt/format.h>

#include <string>

namespace simbridge::metrics {
namespace {

// The enums and the value arrays are indexed alike.
static_assert(kEvictReasons.size() == static_cast<std::size_t>(EvictReason::kCount));
static_assert(kCloseCauses.size() == static_cast<std::size_t>(CloseCause::kCount));
static_assert(kRefuseCauses.size() == static_cast<std::size_t>(RefuseCause::kCount));
static_assert(kDirections.size() == static_cast<std::size_t>(Direction::kCount));
static_assert(kGrpcMethods.size() == static_cast<std::size_t>(GrpcMethod::kCount));
static_assert(kCloseCodes.size() == static_cast<std::size_t>(CloseCode::kCount));
static_assert(kHandshakeCauses.size() == static_cast<std::size_t>(HandshakeCause::kCount));
static_assert(kAcceptErrors.size() == static_cast<std::size_t>(AcceptError::kCount));
static_assert(kStatusClasses.size() == static_cast<std::size_t>(StatusClass::kCount));
static_assert(kAdminRefusals.size() == static_cast<std::size_t>(AdminRefusal::kCount));

std::string_view type_name(Type type) {
  switch (type) {
    case Type::kCounter:
      return "counter";
    case Type::kGauge:
      return "gauge";
    case Type::kHistogram:
      return "histogram";
    case Type::kInfo:
      return "info";
  }
  return "";
}

/// "reason: depth, budget" or the names of an info's labels.
std::string labels(const Metric& metric, std::string_view quote) {
  std::string text;
  const auto add = [&](std::string_view word, std::string_view separator) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : separator, quote, word, quote);
  };
  if (!metric.label.empty()) {
    std::string values;
    for (const std::string_view value : metric.values) {
      if (!value.empty()) values += fmt::format("{}{}", values.empty() ? "" : ", ", value);
    }
    return fmt::format("{}{}{}: {}", quote, metric.label, quote, values);
  }
  for (const std::string_view name : metric.info_labels) add(name, ", ");
  return text;
}

std::string_view module_of(std::string_view name) {
  name.remove_prefix(std::string_view("simbridge_").size());
  return name.substr(0, name.find('_'));
}

}  // namespace

std::string catalogue_markdown() {
  std::string text =
      "# Metrics\n\n"
      "Made from `include/simbridge/metrics/catalogue.h`; do not edit by hand "
      "(`SIMBRIDGE_UPDATE_GOLDEN=1 "
      "metrics_test` writes it anew).\n"
      "Served at `/metrics` of the admin address in Prometheus' text format 0.0.4. Every series "
      "exists from the "
      "start, at 0.\nFigures of single channels and subscriptions are at `/api/v1/channels` and "
      "`/api/v1/subscriptions`, so that no peer can make new series.\n";
  std::string_view module;
  for (const Metric* metric : kCatalogue) {
    if (module_of(metric->name) != module) {
      module = module_of(metric->name);
      text += fmt::format(
          "\n## {}\n\n| name | type | labels | meaning |\n| --- | --- | --- | --- |\n", module);
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n",
                        metric->name,
                        type_name(metric->type),
                        labels(*metric, "`"),
                        metric->help);
  }
  return text;
}

std::string catalogue_list() {
  std::string text;
  for (const Metric* metric : kCatalogue) {
    const std::string with = labels(*metric, "");
    text += fmt::format("{} {}{}{}{}\n",
                        type_name(metric->type),
                        metric->name,
                        with.empty() ? "" : " {",
                        with,
                        with.empty() ? "" : "}");
  }
  return text;
}

}  // namespace simbridge::metrics
