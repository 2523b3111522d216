#include "simbridge/base/check.h"
#include "simbridge/metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

namespace simbridge::metrics {
namespace {

prometheus::MetricType type_of(Type type) {
  switch (type) {
    case Type::kCounter:
      return prometheus::MetricType::Counter;
    case Type::kHistogram:
      return prometheus::MetricType::Histogram;
    case Type::kGauge:
    case Type::kInfo:
      return prometheus::MetricType::Gauge;
  }
  SB_UNREACHABLE("every metric type has an exposition");
}

prometheus::ClientMetric histogram_sample(const Histogram& histogram, double scale) {
  prometheus::ClientMetric sample;
  std::uint64_t below = 0;
  const auto bounds = histogram.bounds();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    below += histogram.in_bucket(i);
    sample.histogram.bucket.push_back({below, static_cast<double>(bounds[i]) * scale});
  }
  // The serializer adds +Inf from the count, which is thereby never below the last bucket.
  sample.histogram.sample_count = below + histogram.in_bucket(bounds.size());
  sample.histogram.sample_sum = static_cast<double>(histogram.sum()) * scale;
  return sample;
}

}  // namespace

/// Lives for one scrape, under the registry's mutex.
class Registry::Collector final : public prometheus::Collectable {
 public:
  explicit Collector(const Registry& registry) : registry_(registry) {}

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (std::size_t row = 0; row < kCatalogue.size(); ++row) {
      const Metric& metric = *kCatalogue[row];
      prometheus::MetricFamily family;
      family.name = metric.name;
      family.help = metric.help;
      family.type = type_of(metric.type);
      fill(metric, registry_.cells_[row], family.metric);
      if (!family.metric.empty()) families.push_back(std::move(family));
    }
    return families;
  }

 private:
  static void fill(const Metric& metric,
                   const Cells& cells,
                   std::vector<prometheus::ClientMetric>& samples) {
    switch (metric.type) {
      case Type::kGauge: {
        prometheus::ClientMetric sample;
        sample.gauge.value = static_cast<double>(cells.gauge->value()) * metric.scale;
        samples.push_back(std::move(sample));
        return;
      }
      case Type::kHistogram:
        samples.push_back(histogram_sample(*cells.histogram, metric.scale));
        return;
      case Type::kInfo: {
        if (cells.info.empty()) return;  // not told yet
        prometheus::ClientMetric sample;
        for (std::size_t i = 0; i < cells.info.size(); ++i) {
          sample.label.push_back({std::string(metric.info_labels[i]), cells.info[i]});
        }
        sample.gauge.value = 1;
        samples.push_back(std::move(sample));
        return;
      }
      case Type::kCounter:
        break;
    }
    const std::size_t series = std::max<std::size_t>(metric.values.size(), 1);
    for (std::size_t i = 0; i < series; ++i) {
      prometheus::ClientMetric sample;
      if (!metric.label.empty()) {
        if (metric.values[i].empty()) continue;
        sample.label.push_back({std::string(metric.label), std::string(metric.values[i])});
      }
      sample.counter.value = static_cast<double>(cells.counters[i].value()) * metric.scale;
      samples.push_back(std::move(sample));
    }
  }

  const Registry& registry_;
};

Registry::Registry() {
  for (std::size_t row = 0; row < kCatalogue.size(); ++row) {
    const Metric& metric = *kCatalogue[row];
    Cells& cells = cells_[row];
    switch (metric.type) {
      case Type::kCounter:
        cells.counters =
            std::make_unique<Counter[]>(std::max<std::size_t>(metric.values.size(), 1));
        break;
      case Type::kGauge:
        cells.gauge = std::make_unique<Gauge>();
        break;
      case Type::kHistogram:
        SB_CHECK(metric.bounds.size() <= Histogram::kMaxBounds,
                 "a histogram's bounds fit its buckets");
        cells.histogram = std::make_unique<Histogram>();
        cells.histogram->bounds_ = metric.bounds;
        break;
      case Type::kInfo:
        break;
    }
  }
}

Registry::~Registry() {
  const MutexLock lock(mutex_);
  SB_CHECK(hooks_.empty(), "every scrape hook is released before the registry goes");
}

Registry::Cells& Registry::cells(const Metric& metric, Type type) {
  const auto* const found = std::find(kCatalogue.begin(), kCatalogue.end(), &metric);
  SB_CHECK(found != kCatalogue.end(), "every metric is a row of the catalogue");
  SB_CHECK(metric.type == type, "a metric is used as the type it is declared as");
  return cells_[static_cast<std::size_t>(found - kCatalogue.begin())];
}

Counter& Registry::counter(const Metric& metric) {
  SB_CHECK(metric.label.empty(), "a labelled counter is resolved as a family");
  return cells(metric, Type::kCounter).counters[0];
}

Gauge& Registry::gauge(const Metric& metric) {
  return *cells(metric, Type::kGauge).gauge;
}

Histogram& Registry::histogram(const Metric& metric) {
  return *cells(metric, Type::kHistogram).histogram;
}

std::span<Counter> Registry::counter_cells(const Metric& metric) {
  SB_CHECK(!metric.label.empty(), "a family has a label");
  return {cells(metric, Type::kCounter).counters.get(), metric.values.size()};
}

void Registry::set_info(const Metric& metric, std::vector<std::string> values) {
  SB_CHECK(values.size() == metric.info_labels.size(),
           "an info metric has a value for every label");
  const MutexLock lock(mutex_);
  cells(metric, Type::kInfo).info = std::move(values);
}

ScrapeHook Registry::on_scrape(std::function<void()> hook) {
  const MutexLock lock(mutex_);
  const std::uint64_t id = next_hook_++;
  hooks_.push_back({id, std::move(hook)});
  return {this, id};
}

void Registry::remove_hook(std::uint64_t id) {
  const MutexLock lock(mutex_);
  std::erase_if(hooks_, [id](const Hook& hook) { return hook.id == id; });
}

void ScrapeHook::release() {
  if (Registry* const registry = std::exchange(registry_, nullptr)) registry->remove_hook(id_);
}

std::string Registry::scrape() {
  const MutexLock lock(mutex_);
  for (const Hook& hook : hooks_) hook.run();
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, Collector(*this).Collect());
  return std::move(out).str();
}

}  // namespace simbridge::metrics
