#pragma once
// What: the hub's inside, for the session module only.   Owner: Hub.   Threads: as annotated.
#include "session/books.h"
#include "session/channel.h"
#include "simbridge/base/mutex.h"
#include "simbridge/frame/store.h"
#include "simbridge/metrics/instruments.h"
#include "simbridge/pipeline/pipeline.h"
#include "simbridge/session/hub.h"

#include <atomic>
#include <expected>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace simbridge::session {

/// What a successful Advertise gives to the producing session.
struct Production {
  std::shared_ptr<Channel> channel;
  std::uint64_t token = 0;
  frame::Producer producer;
  std::uint64_t epoch = 0;
  std::uint64_t last_sequence = 0;
  std::vector<std::uint64_t> past_epochs;
  std::uint64_t version = 0;  // of the hub's log: what announces it
};

/// One entry of the log of changes: a channel as it is now, or the number of one that is gone.
struct ChangedChannel {
  std::shared_ptr<Channel> channel;  // empty: removed
  std::uint32_t removed = 0;
};

struct DrainPlan {
  Monotonic start{};
  milliseconds deadline{};
  milliseconds retry_after{};
  std::string reason;
};

struct Hub::Impl {
  Impl(frame::FrameStore& frame_store,
       pipeline::Pipeline& a_pipeline,
       const Clock& a_clock,
       HubOptions hub_options,
       metrics::SessionMetrics& instruments);

  frame::FrameStore& store;
  pipeline::Pipeline& pipeline;
  const Clock& clock;
  const HubOptions options;
  metrics::SessionMetrics& metrics;

  // Live limits and state. relaxed: each stands for itself.
  std::atomic<std::uint32_t> max_sessions;
  std::atomic<std::uint32_t> places{0};

  // ---- channels
  std::expected<Production, wire::Reject> advertise(std::uint64_t session,
                                                    const std::string& peer_key,
                                                    const wire::Advertise& message)
      SB_EXCLUDES(mutex);
  /// The producer is done with the channel, if the token is still the valid one.
  void unadvertise(Channel& channel, std::uint64_t token) SB_EXCLUDES(mutex);
  void sweep() SB_EXCLUDES(mutex);
  /// What an earlier life of the channel left untold, if anything.
  std::optional<PastTail> past_tail(const Channel& channel, std::uint64_t epoch) SB_EXCLUDES(mutex);

  /// The log of changes after a version, oldest first, at most limit entries. Returns the version
  /// reached.
  std::uint64_t changes_after(std::uint64_t version,
                              std::size_t limit,
                              std::vector<ChangedChannel>& changed,
                              std::vector<wire::ChannelInfo>& infos) SB_EXCLUDES(mutex);
  /// acquire: pairs with the release in log_change(), so that who sees the number finds the entry.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Channels that were already in the log at that version, for a new subscription.
  std::vector<std::shared_ptr<Channel>> known_channels(std::uint64_t up_to_version)
      SB_EXCLUDES(mutex);

  // ---- sessions
  struct Entry {
    std::shared_ptr<SessionBooks> books;
    std::shared_ptr<frame::WakeQueue> wake;
  };
  void add_session(Entry entry) SB_EXCLUDES(mutex);
  void remove_session(std::uint64_t id) SB_EXCLUDES(mutex);
  void list_reading(std::shared_ptr<ReadingBooks> books) SB_EXCLUDES(mutex);
  void unlist_reading(const ReadingBooks* books) SB_EXCLUDES(mutex);

  // ---- drain. draining is set (release) after the plan was written; who sees it (acquire) may
  // read the plan.
  std::atomic<bool> draining{false};
  DrainPlan drain_plan;
  /// Where this producer stands in the spread, 0 to 1.
  double drain_turn() SB_EXCLUDES(mutex);
  std::atomic<std::uint32_t> producing_sessions{0};

  Mutex mutex;
  std::unordered_map<std::uint64_t, Entry> sessions SB_GUARDED_BY(mutex);
  std::uint64_t next_session SB_GUARDED_BY(mutex) = 1;
  std::map<std::string, std::shared_ptr<Channel>, std::less<>> channels SB_GUARDED_BY(mutex);
  std::list<std::shared_ptr<ReadingBooks>> readings SB_GUARDED_BY(mutex);

  double tokens SB_GUARDED_BY(mutex) = 0;  // of the accept rate's bucket
  Monotonic tokens_at SB_GUARDED_BY(mutex){};

 private:
  void log_change(const std::shared_ptr<Channel>& channel) SB_REQUIRES(mutex);
  void log_removal(std::uint32_t id) SB_REQUIRES(mutex);
  void wake_all() SB_REQUIRES(mutex);
  wire::ChannelInfo describe(const Channel& channel) const SB_REQUIRES(mutex);

  std::map<std::uint64_t, ChangedChannel> changes_ SB_GUARDED_BY(mutex);
  std::atomic<std::uint64_t> version_{0};
  std::uint32_t next_channel_ SB_GUARDED_BY(mutex) = 1;
  std::uint64_t next_token_ SB_GUARDED_BY(mutex) = 1;
  std::uint64_t schema_bytes_ SB_GUARDED_BY(mutex) = 0;
  std::uint32_t drain_producers_ SB_GUARDED_BY(mutex) = 0;  // turns given
  std::uint32_t drain_producers_in_all_ = 0;                // as draining
  friend class Hub;
};

std::int64_t monotonic_ns(const Clock& clock);

}  // namespace simbridge::session
