// What a quality makes of a channel's frames: a reading asks the pipeline for the position at which
// it stands, and goes on when the answer is there. Its place, its promises and its gaps stay those
// of the raw ring, so that a change of quality goes on at the next frame.
#include "session/session_impl.h"

#include <algorithm>

namespace simbridge::session {
namespace {

using pipeline::DerivedStream;

// So many frames behind the cursor are asked for at one time where all of them were promised.
constexpr std::uint64_t kAhead = 2;
constexpr milliseconds kAskAgain{10};
constexpr std::uint32_t kOutputAsSent = 0;
constexpr std::uint32_t kOutputFlat = 2;

}  // namespace

/// A quality as it is applied on this session.
wire::Quality SessionImpl::applied(const wire::Quality& asked) const {
  wire::Quality quality = asked;
  // A cloud that goes out flat is a flat cloud, whatever its sensor's layout (protocol.md §5).
  if (is_flat() && quality.output == kOutputAsSent) quality.output = kOutputFlat;
  return quality;
}

/// After the quality was given or changed: the stream that has it, none where frames pass
/// unchanged.
void SessionImpl::set_stream(Reading& reading) {
  const wire::Quality quality = applied(reading.subscription->spec.quality);
  std::shared_ptr<DerivedStream> stream;
  if (!quality.unchanged()) stream = hub_.pipeline.open(reading.channel->ring, quality);
  if (stream == reading.stream) return;
  leave_stream(reading);
  reading.stream = std::move(stream);
  if (reading.stream) reading.stream->add_watcher(reading.watcher);
}

void SessionImpl::leave_stream(Reading& reading) {
  if (!reading.stream) return;
  drop_asked(reading, reading.asked_until);
  reading.stream->remove_watcher(reading.watcher.get());
  reading.stream.reset();
}

/// The cursor moves up to there: what it was to get before is not needed any more.
void SessionImpl::drop_asked(Reading& reading, std::uint64_t to) {
  const std::uint64_t end = std::min(to, reading.asked_until);
  for (std::uint64_t position = reading.cursor; position < end; ++position)
    reading.stream->drop(position);
  if (to > reading.cursor) reading.awaits = reading.not_taken = false;
}

SessionImpl::Form SessionImpl::form_of(const Reading& reading, const frame::FrameInfo& info) {
  if (!reading.stream) return Form::kAsSent;
  switch (static_cast<wire::PayloadKind>(info.kind)) {
    case wire::PayloadKind::kCloud:
      return Form::kDerived;
    case wire::PayloadKind::kDepth: {
      const wire::Quality& asked = reading.subscription->spec.quality;
      const bool as_cloud = asked.output != kOutputAsSent || asked.sampling != 0 ||
                            asked.leaf > 0 || asked.max_points > 0;
      return as_cloud ? Form::kImpossible : Form::kAsSent;
    }
    case wire::PayloadKind::kOpaque:
    case wire::PayloadKind::kNone:
      break;
  }
  return Form::kAsSent;
}

/// derived is set where the answer is kThere.
SessionImpl::Made SessionImpl::ask_derived(Reading& reading,
                                           const frame::FrameInfo& info,
                                           std::uint64_t head,
                                           frame::FrameRef& derived) {
  const bool first = info.position >= reading.asked_until;
  DerivedStream::Answer answer = reading.stream->ask(info, first);
  const bool taken = answer.state != DerivedStream::State::kNotTaken;
  if (first && taken) reading.asked_until = info.position + 1;
  switch (answer.state) {
    case DerivedStream::State::kReady: {
      const std::uint64_t behind = head - info.position - 1;
      reading.behind_threads = reading.awaits && behind > reading.subscription->queue_frames;
      derived = std::move(answer.frame);
      return Made::kThere;
    }
    case DerivedStream::State::kFailed:
      return Made::kFailed;
    case DerivedStream::State::kNotTaken:
      reading.not_taken = true;
      arm(hub_.clock.now() + kAskAgain);
      break;
    case DerivedStream::State::kWaits:
    case DerivedStream::State::kRuns:
      ask_ahead(reading, head);
      break;
  }
  reading.awaits = true;
  return Made::kNotYet;
}

/// All that history or a claim promised will be wanted: the threads need not wait for each
/// question.
void SessionImpl::ask_ahead(Reading& reading, std::uint64_t head) {
  const bool all_wanted = reading.claim || reading.cursor < reading.history_until;
  if (!all_wanted || reading.subscription->spec.quality.max_hz > 0) return;
  const std::uint64_t end = std::min(head, reading.cursor + 1 + kAhead);
  while (reading.asked_until < end) {
    const frame::ReadResult seen = reading.channel->ring->read(reading.asked_until);
    if (seen.state != frame::ReadResult::State::kFrame) return;
    const bool asked =
        form_of(reading, seen.frame.info()) == Form::kDerived &&
        reading.stream->ask(seen.frame.info(), true).state != DerivedStream::State::kNotTaken;
    if (!asked) return;
    ++reading.asked_until;
  }
}

/// Questions that found no place are put again.
void SessionImpl::ask_again() {
  for (auto& [id, subscription] : subscriptions_) {
    for (auto& reading : subscription->readings) {
      if (std::exchange(reading->not_taken, false)) queue(*reading);
    }
  }
}

}  // namespace simbridge::session
