#pragma once
// What: derived frames: what a quality makes of a channel's frames, computed once for all who ask
// for the same, by a pool of threads that grows and shrinks live. Nothing is computed that nobody
// asked for: a session asks for the raw position at which it stands, and is woken when the answer
// is there. Owner: app, one Pipeline per process; FrameStore and Clock outlive it, it outlives the
// sessions. Threads: any, everything here. ask() and drop() take no lock and never wait.
#include "simbridge/base/clock.h"
#include "simbridge/frame/ring.h"
#include "simbridge/frame/store.h"
#include "simbridge/wire/messages.h"

#include <cstdint>
#include <memory>
#include <string>

namespace simbridge::metrics {
struct PipelineMetrics;
}

namespace simbridge::pipeline {

struct PipelineOptions {
  unsigned threads = 1;  // 0: nobody works, see run_one()
  std::uint32_t depth =
      16;  // derived frames kept of each (channel, quality), for those who come later
};

/// What a quality makes of one channel's frames: the derived ring, and which raw positions are in
/// it. Everybody who asks for the same quality of the same ring has the same stream.
class DerivedStream {
 public:
  virtual ~DerivedStream() = default;
  DerivedStream(const DerivedStream&) = delete;
  DerivedStream& operator=(const DerivedStream&) = delete;

  enum class State : std::uint8_t {
    kReady,    // the derived frame is in Answer::frame
    kWaits,    // a thread will take it up
    kRuns,     // a thread is at it
    kFailed,   // it cannot be made: a tombstone
    kNotTaken  // no place for the question now: nothing was noted, ask again when woken
  };
  struct Answer {
    State state = State::kNotTaken;
    frame::FrameRef frame;
  };
  /// What has become of the raw frame at this position. The first time a reader asks for a position
  /// he says so (first), and from then on owes one drop() for it, unless the answer was kNotTaken.
  /// raw: the frame at that position, as the reader has it.
  virtual Answer ask(const frame::FrameInfo& raw, bool first) = 0;
  /// As ask(), of a position that this reader has asked for, without the frame and without effect.
  [[nodiscard]] virtual State look(std::uint64_t position) const = 0;
  /// This reader needs the position no more. What nobody needs and is not begun is not computed.
  virtual void drop(std::uint64_t position) = 0;

  /// Signalled when an answer may have changed.
  virtual void add_watcher(std::shared_ptr<const frame::Watcher> watcher) = 0;
  virtual void remove_watcher(const frame::Watcher* watcher) = 0;
  /// Of the derived frames: positions in it are not raw positions.
  [[nodiscard]] virtual const frame::FrameRing& ring() const = 0;

 protected:
  DerivedStream() = default;
};

class Pipeline {
 public:
  Pipeline(frame::FrameStore& store,
           const Clock& clock,
           PipelineOptions options,
           metrics::PipelineMetrics& metrics);
  ~Pipeline();  // ends the threads; checks that no stream is left
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// A sentence where this build cannot do what the quality asks for (which wire::check_quality has
  /// accepted); empty where it can.
  [[nodiscard]] static std::string unsupported(const wire::Quality& quality);

  /// The stream of this quality, max_hz aside; a new one where nobody has it. Control path.
  std::shared_ptr<DerivedStream> open(const std::shared_ptr<frame::FrameRing>& raw,
                                      const wire::Quality& quality);

  /// As IoPool::resize(): threads too many leave when they are through with the frame that they
  /// have.
  void resize(unsigned threads);
  [[nodiscard]] unsigned threads() const;
  [[nodiscard]] unsigned running() const;
  void set_depth(std::uint32_t frames);
  [[nodiscard]] std::size_t streams() const;
  /// Frames that wait for a thread.
  [[nodiscard]] std::size_t waiting() const;

  /// Computes one waiting frame on the caller's thread; false: none waits.
  bool run_one();

  struct Impl;  // private to the module

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace simbridge::pipeline
