#include "simbridge/pipeline/pipeline.h"

#include "pipeline/pool.h"
#include "pipeline/quality.h"
#include "pipeline/stream.h"
#include "simbridge/base/check.h"
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/instruments.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace simbridge::pipeline {
namespace {

std::unique_ptr<Worker> make_worker() {
  return std::make_unique<Worker>(cloud::make_cpu_decimator());
}

}  // namespace

// There is one of it: its order is that of use, and bytes between do not matter.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct Pipeline::Impl {
  Impl(frame::FrameStore& frames,
       const Clock& time,
       PipelineOptions options,
       metrics::PipelineMetrics& figures)
      : store(frames),
        clock(time),
        metrics(figures),
        pool(make_worker, figures.threads),
        depth(options.depth) {}

  frame::FrameStore& store;
  const Clock& clock;
  metrics::PipelineMetrics& metrics;
  Pool pool;
  std::unique_ptr<Worker> caller;  // of run_one()
  mutable Mutex mutex;             // of the list: control path only
  std::uint32_t depth SB_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<Stream>> streams SB_GUARDED_BY(mutex);
};

Pipeline::Pipeline(frame::FrameStore& store,
                   const Clock& clock,
                   PipelineOptions options,
                   metrics::PipelineMetrics& metrics)
    : impl_(std::make_unique<Impl>(store, clock, options, metrics)) {
  impl_->pool.resize(options.threads);
}

Pipeline::~Pipeline() {
  impl_->pool.stop();
  SB_CHECK(streams() == 0, "every stream's readers are gone before the pipeline");
}

std::string Pipeline::unsupported(const wire::Quality& quality) {
  return cloud::unsupported(request_of(quality));
}

std::shared_ptr<DerivedStream> Pipeline::open(const std::shared_ptr<frame::FrameRing>& raw,
                                              const wire::Quality& quality) {
  const wire::Quality asked = canonical(quality);
  const MutexLock lock(impl_->mutex);
  std::erase_if(impl_->streams, [](const auto& stream) { return stream.expired(); });
  for (const auto& known : impl_->streams) {
    if (auto stream = known.lock(); stream && stream->is_of(raw.get(), asked)) return stream;
  }
  auto stream = std::make_shared<Stream>(
      impl_->store, impl_->clock, impl_->pool, impl_->metrics, raw, asked, impl_->depth);
  impl_->streams.push_back(stream);
  return stream;
}

void Pipeline::resize(unsigned threads) {
  impl_->pool.resize(threads);
}

unsigned Pipeline::threads() const {
  return impl_->pool.threads();
}

unsigned Pipeline::running() const {
  return impl_->pool.running();
}

void Pipeline::set_depth(std::uint32_t frames) {
  const MutexLock lock(impl_->mutex);
  impl_->depth = frames;
  for (const auto& known : impl_->streams) {
    if (const auto stream = known.lock()) stream->set_depth(frames);
  }
}

std::size_t Pipeline::streams() const {
  const MutexLock lock(impl_->mutex);
  return static_cast<std::size_t>(
      std::ranges::count_if(impl_->streams, [](const auto& stream) { return !stream.expired(); }));
}

std::size_t Pipeline::waiting() const {
  return impl_->pool.waiting();
}

bool Pipeline::run_one() {
  if (!impl_->caller) impl_->caller = make_worker();
  return impl_->pool.run_one(*impl_->caller);
}

}  // namespace simbridge::pipeline
