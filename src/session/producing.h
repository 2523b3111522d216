#pragma once
// What: a session's side of a channel that it produces.   Owner: the session.   Threads: its
// strand.
#include "session/channel.h"
#include "session/hub_impl.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace simbridge::session {

struct Producing {
  std::uint32_t number = 0;  // the producer's own
  std::shared_ptr<Channel> channel;
  std::uint64_t token = 0;
  frame::Producer producer;
  std::uint64_t epoch = 0;
  std::vector<std::uint64_t> past_epochs;
  std::shared_ptr<const frame::Watcher> room;  // signalled when reliable readers free room

  // Acknowledging: at least every 8 frames, every 100 ms, and when half the window is used.
  std::uint64_t last_sequence = 0;  // as of the channel, while we hold it
  std::uint32_t unacked_frames = 0;
  std::uint64_t unacked_bytes = 0;
  Monotonic ack_by = Monotonic::max();
  bool ack_due = false;
  std::uint64_t told_window = 0;
};

}  // namespace simbridge::session
