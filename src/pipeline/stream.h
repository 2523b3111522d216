#pragma once
// What: the inside of a derived stream: a word for each raw position that is asked for, the ring of
// results, and the work on one frame.
// Owner: shared by the readers and the jobs that wait; the pipeline knows it weakly.
// Threads: ask(), drop() any; run() the pool's threads; nobody waits for anybody but one worker for
// another where they publish.
#include "pipeline/entry.h"
#include "pipeline/pool.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/mutex.h"
#include "simbridge/cloud/decimator.h"
#include "simbridge/pipeline/pipeline.h"
#include "simbridge/wire/frame_head.h"

#include <array>
#include <atomic>
#include <memory>
#include <vector>

namespace simbridge::metrics {
struct PipelineMetrics;
}

namespace simbridge::pipeline {

/// What a thread keeps from frame to frame.
class Worker {
 public:
  explicit Worker(std::unique_ptr<cloud::Decimator> decimator) : decimator_(std::move(decimator)) {}

 private:
  friend class Stream;
  std::unique_ptr<cloud::Decimator> decimator_;
  wire::FrameHead head_;
  std::vector<cloud::Field> fields_;
  cloud::DecimatedCloud result_;
};

class Stream final : public DerivedStream, public std::enable_shared_from_this<Stream> {
 public:
  Stream(frame::FrameStore& store,
         const Clock& clock,
         Pool& pool,
         metrics::PipelineMetrics& metrics,
         std::shared_ptr<frame::FrameRing> raw,
         wire::Quality quality,
         std::uint32_t depth);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() override;

  Answer ask(const frame::FrameInfo& raw, bool first) override;
  [[nodiscard]] State look(std::uint64_t position) const override;
  void drop(std::uint64_t position) override;
  void add_watcher(std::shared_ptr<const frame::Watcher> watcher) override;
  void remove_watcher(const frame::Watcher* watcher) override;
  [[nodiscard]] const frame::FrameRing& ring() const override { return *derived_; }

  /// The job: from the raw frame to the derived one, or why not.
  void run(std::uint64_t position, Worker& worker);
  [[nodiscard]] bool is_of(const frame::FrameRing* raw, const wire::Quality& quality) const {
    return raw == raw_.get() && quality == quality_;
  }
  void set_depth(std::uint32_t frames) { derived_->set_depth(frames); }

 private:
  enum class Failure : std::uint8_t { kNone, kForm, kNoMemory };
  using Place = std::atomic<std::uint64_t>;
  Answer answer_of(const Entry& entry, const frame::FrameInfo& raw) const;
  bool begin_waiting(Place& place, std::uint64_t& word, std::uint64_t position, Entry next);
  void settle(std::uint64_t position, Stage stage, std::uint32_t derived);
  Failure make(const frame::FrameRef& raw, Worker& worker);
  Failure publish(const frame::FrameRef& raw, std::uint64_t position, Worker& worker);

  frame::FrameStore& store_;
  const Clock& clock_;
  Pool& pool_;
  metrics::PipelineMetrics& metrics_;
  const std::shared_ptr<frame::FrameRing> raw_;
  const wire::Quality quality_;  // canonical
  const cloud::Request request_;
  const std::shared_ptr<frame::FrameRing> derived_;
  std::array<Place, kPlaces> places_{};

  /// Between workers only: a ring has one producer at a time.
  Mutex publishing_;
  frame::Producer producer_ SB_GUARDED_BY(publishing_);
};

}  // namespace simbridge::pipeline
