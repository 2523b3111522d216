#pragma once
// What: what one consumer was told of one (subscription, channel): frames and gaps, checked against
// the rules that hold for all of them: in order, nothing twice, nothing unexplained, no overlap,
// nothing before it was announced (where epochs rise).
// Owner: a test.   Threads: a value of one thread.
#include "session/fake_peer.h"

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace simbridge::test {

struct Told {
  std::uint64_t epoch = 0, up_to = 0;
  std::uint64_t frames = 0, lost = 0, skipped = 0;
  std::map<int, std::uint64_t> gaps;  // frames by reason
  std::set<std::uint64_t> past_epochs;
  bool left_epoch = false;  // Gap{EPOCH} came: another epoch follows
  bool skips = false;       // its max_hz leaves numbers out, told only with the next frame
  bool may_jump = false;    // the pattern changed: it may have left the channel and come back
  std::string wrong;        // the first rule that was broken
  std::string recent;       // what came last, for whoever reads the failure

  void fail(const std::string& what) {
    if (wrong.empty()) wrong = what + " (" + recent + ")";
  }
  void note(const std::string& what) {
    recent += what + "; ";
    if (recent.size() > 600) recent.erase(0, recent.size() - 500);
  }
  void on_number(std::uint64_t at, std::uint64_t first, const std::string& what) {
    if (at != epoch) {
      if (epoch != 0 && !left_epoch && !std::exchange(may_jump, false))
        fail(what + " of a new epoch without Gap{EPOCH}");
      if (past_epochs.contains(at)) fail(what + " of an epoch that was over");
      if (epoch != 0) past_epochs.insert(epoch);
      epoch = at;
      up_to = first - 1;  // the first of an epoch may have any number
      left_epoch = false;
      return;
    }
    if (first <= up_to)
      fail(what + " " + std::to_string(first) + " after " + std::to_string(up_to));
    if (first > up_to + 1 && !skips && !std::exchange(may_jump, false))
      fail(what + " " + std::to_string(first) + " after " + std::to_string(up_to) +
           ": numbers are unexplained");
  }
  void on(const v1::Frame& frame) {
    note(std::to_string(frame.epoch()) + ":" + std::to_string(frame.sequence()));
    skipped += frame.result().skipped_frames();
    on_number(frame.epoch(), frame.sequence(), "frame");
    up_to = frame.sequence();
    ++frames;
  }
  void on(const v1::Gap& gap) {
    note(v1::GapReason_Name(gap.reason()) + " " + std::to_string(gap.epoch()) + ":" +
         std::to_string(gap.first()) + "-" + std::to_string(gap.last()) + "/" +
         std::to_string(gap.frames()));
    if (gap.reason() == v1::GAP_EPOCH) {
      if (gap.first() != 0 || gap.last() != 0 || gap.frames() != 0)
        fail("Gap{EPOCH} has no numbers");
      left_epoch = true;
      return;
    }
    if (gap.epoch() == 0 && gap.first() == 0 && gap.last() == 0 && gap.frames() > 0) {
      lost += gap.frames();  // of lives that are forgotten: only counted
      gaps[gap.reason()] += gap.frames();
      if (epoch != 0) past_epochs.insert(epoch);
      epoch = 0;
      return;
    }
    if (gap.first() == 0 || gap.last() < gap.first()) fail("a gap from its first to its last");
    if (gap.frames() > gap.last() - gap.first() + 1) fail("a gap with more frames than numbers");
    const bool explains = gap.reason() == v1::GAP_SOURCE || gap.reason() == v1::GAP_REJECTED ||
                          gap.reason() == v1::GAP_RESTART;
    if (explains != (gap.frames() == 0)) fail("frames are what was promised and lost");
    on_number(gap.epoch(), gap.first(), "gap");
    up_to = gap.last();
    lost += gap.frames();
    gaps[gap.reason()] += gap.frames();
  }
};

/// All (subscription, channel) of one consumer.
class Ledger {
 public:
  void on(const v1::ServerMessage& message) {
    if (message.has_part()) {  // the last one makes it a frame
      const auto& part = message.part();
      if (part.index() == 0) parts.clear();
      parts += part.data();
      if (part.index() + 1 < part.count()) return;
      v1::ServerMessage made;
      if (!made.mutable_frame()->ParseFromString(parts)) wrong = "parts make no frame";
      on(made);
    } else if (message.has_channels()) {
      for (const auto& info : message.channels().channel()) {
        auto& newest = announced[info.id()];
        newest = std::max(newest, info.epoch());
      }
    } else if (message.has_frame()) {
      if (announced[message.frame().channel()] < message.frame().epoch())
        wrong = "an epoch is announced before its frames";
      const auto& data = message.frame().opaque().data();
      if (data != pattern_bytes(message.frame().sequence(), data.size()))
        wrong = "what arrives is what was sent";
      check_live(message.frame().subscription());
      at(message.frame().subscription(), message.frame().channel()).on(message.frame());
    } else if (message.has_gap()) {
      check_live(message.gap().subscription());
      at(message.gap().subscription(), message.gap().channel()).on(message.gap());
    } else if (message.has_subscription_state() && message.subscription_state().ended()) {
      ended.insert(message.subscription_state().id());
      const auto& counters = message.subscription_state().counters();
      if (counters.promised() != counters.delivered() + counters.skipped() + counters.lost())
        wrong = "the last counters balance";
      std::erase_if(told, [&](const auto& one) {
        return one.first.first == message.subscription_state().id();
      });
    } else if (message.has_subscription_state()) {
      const auto& state = message.subscription_state();
      ended.erase(state.id());  // it was taken again
      if (state.applied().max_hz() > 0) {
        skipping.insert(state.id());
        for (auto& [key, one] : told) one.skips = one.skips || key.first == state.id();
      }
    }
  }
  Told& at(std::uint32_t subscription, std::uint32_t channel) {
    Told& one = told[{subscription, channel}];
    one.skips = one.skips || skipping.contains(subscription);
    return one;
  }
  void pattern_changed(std::uint32_t subscription) {
    for (auto& [key, one] : told) one.may_jump = one.may_jump || key.first == subscription;
  }
  [[nodiscard]] std::string complaint() const {
    if (!wrong.empty()) return wrong;
    for (const auto& [key, one] : told) {
      if (!one.wrong.empty())
        return "subscription " + std::to_string(key.first) + ", channel " +
               std::to_string(key.second) + ": " + one.wrong;
    }
    return {};
  }

  std::map<std::pair<std::uint32_t, std::uint32_t>, Told> told;
  std::set<std::uint32_t> ended, skipping;
  std::string wrong;
  std::map<std::uint32_t, std::uint64_t> announced;  // the newest epoch of a channel
  std::string parts;                                 // of the frame that is coming

 private:
  void check_live(std::uint32_t subscription) {
    if (ended.contains(subscription)) wrong = "nothing comes after the last state of an id";
  }
};

}  // namespace simbridge::test
