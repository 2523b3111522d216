#include "session/channel.h"

namespace simbridge::session {

void ChannelNumbers::add_unpublished(frame::Unpublished why, std::uint64_t count) {
  if (count == 0) return;
  for (auto& run : pending) {
    const bool last = &run == &pending.back();
    if (run.count == 0 || run.why == why || last) {
      // Only the newest used run may grow: runs are in the order of their numbers.
      const bool newest = last || (&run)[1].count == 0;
      if (!newest) continue;
      if (run.count == 0) run.why = why;
      run.count += count;
      return;
    }
  }
}

void ChannelNumbers::use_number(std::uint64_t sequence, bool published) {
  // The first number that this boot sees of an epoch explains nothing about the ones before it.
  if (seen && sequence > last_sequence + 1) {
    add_unpublished(frame::Unpublished::kSource, sequence - last_sequence - 1);
  }
  if (!published) add_unpublished(frame::Unpublished::kRejected, 1);
  seen = true;
  last_sequence = sequence;
  if (retry_from != 0 && sequence >= retry_from) retry_from = 0;
}

}  // namespace simbridge::session
