#pragma once
// What: a subscription, and its cursor in the ring of each channel that it matched.
// Owner: the session.   Threads: its strand.
#include "session/books.h"
#include "session/channel.h"
#include "simbridge/pipeline/pipeline.h"
#include "simbridge/wire/messages.h"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace simbridge::session {

struct Subscription;

struct Reading : std::enable_shared_from_this<Reading> {
  Subscription* subscription = nullptr;  // null once it was ended: what is in flight still counts
  std::shared_ptr<Channel> channel;
  std::shared_ptr<ReadingBooks> books;
  std::shared_ptr<const frame::Watcher> watcher;
  bool queued = false;  // in the session's list of readings that may have something

  std::uint64_t cursor = 0;         // next position to look at
  std::uint64_t history_until = 0;  // positions below were promised by history: no queue limit
  // What the consumer knows of the numbers.
  std::uint64_t epoch = 0;  // 0: nothing yet
  std::uint64_t told = 0;   // every number up to here of this epoch was delivered or explained
  bool explain = false;     // it has a position: numbers that are missing before a frame are told
  std::uint64_t had_epoch = 0,
                had_sequence = 0;  // FROM, ahead of the ring: frames up to here are not promised
  /// FROM a time before this boot: numbers missing before the frame at this position were lost
  /// with an earlier boot.
  std::uint64_t restart_at = ~std::uint64_t{0};
  std::vector<wire::Gap> gaps;  // to be told before the next frame

  /// What the quality makes of the channel's clouds; none where they pass as they came.
  std::shared_ptr<pipeline::DerivedStream> stream;
  std::uint64_t asked_until = 0;  // positions from the cursor up to here were asked of it
  bool awaits = false;            // the cursor's answer was not there yet
  bool not_taken = false;         // nor was the question taken: it is put again by the timer
  bool behind_threads = false;    // when the last answer came, too many frames waited behind it

  /// What the #meta of a flat frame says and frames have in common; the last that was sent.
  struct Meta {
    std::string frame_id, encoding, time_field;
    std::array<double, 4> intrinsics{};
    std::int64_t time_scale_num = 0, time_scale_den = 0;
    bool time_absolute = false;
    friend bool operator==(const Meta&, const Meta&) = default;
  };
  std::optional<Meta> meta_told;
  std::uint32_t frames_since_meta = 0;

  Monotonic due{};  // max_hz
  bool due_known = false;
  std::uint64_t skipped_since = 0;
  std::uint32_t unanswered = 0;       // credit
  std::uint64_t first_in_flight = 0;  // position; while frames are in flight
  std::shared_ptr<frame::ReliableCursor> claim;
  std::deque<std::uint64_t> claimed;  // with credit: positions sent and unanswered
  Monotonic claim_progress{};
  bool claim_waits = false;  // frames wait for it, since claim_progress or earlier
  bool claim_ended = false;  // it made no progress: none again until it is asked for again
};

/// Where a reading ended whose channel the pattern no longer matched: nothing comes twice if it
/// matches again.
struct LeftPlace {
  std::uint64_t cursor = 0, epoch = 0, told = 0;
  bool explain = false;
};

struct Subscription {
  std::uint32_t id = 0;
  wire::Subscribe spec;
  std::uint64_t queue_frames = 0, queue_bytes = 0;
  std::vector<std::shared_ptr<Reading>> readings;
  /// The hub's version when the pattern was given: later channels are read from their first frame.
  std::uint64_t born = 0;
  wire::Counters past;                      // of readings that ended
  std::map<std::uint32_t, LeftPlace> left;  // by channel
  bool state_dirty = false;                 // a SubscriptionState is owed
  bool ending = false;                      // Unsubscribe came while frames were in flight
  std::string ending_detail;

  // At most 10 changes a second: the last one wins. While it is ending: what its id is to be next.
  Monotonic change_window{};
  std::uint32_t changes_in_window = 0;
  std::unique_ptr<wire::Subscribe> postponed;
};

}  // namespace simbridge::session
