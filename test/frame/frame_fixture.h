#pragma once
// What: a store and frames with contents that can be checked.   Threads: values, any.
#include "simbridge/base/clock.h"
#include "simbridge/frame/ring.h"
#include "simbridge/frame/store.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

namespace simbridge::test {

inline std::unique_ptr<frame::FrameStore> make_store(frame::StoreOptions options,
                                                     const Clock& clock) {
  auto store = frame::FrameStore::create(options, clock);
  if (!store) FAIL(store.error().detail);
  return std::move(*store);
}

/// Bytes that follow from a number: a frame that was overwritten or mixed up shows.
inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t number) {
  std::uint64_t state = number * 0x9E3779B97F4A7C15ULL + bytes.size();
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    state += 0x9E3779B97F4A7C15ULL;
    std::memcpy(bytes.data() + i, &state, 8);
  }
  for (; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(number);
}

inline bool has_pattern(std::span<const std::byte> bytes, std::uint64_t number) {
  std::uint64_t state = number * 0x9E3779B97F4A7C15ULL + bytes.size();
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    state += 0x9E3779B97F4A7C15ULL;
    if (std::memcmp(bytes.data() + i, &state, 8) != 0) return false;
  }
  for (; i < bytes.size(); ++i) {
    if (bytes[i] != static_cast<std::byte>(number)) return false;
  }
  return true;
}

inline bool intact(const frame::FrameRef& frame) {
  return has_pattern(frame.head(), frame.info().sequence) &&
         has_pattern(frame.data(), frame.info().sequence + 1);
}

/// How often this process has allocated (allocation_count.cpp; only where that is linked in).
std::uint64_t allocations();

/// Reserves, fills and publishes; false when there was no room or the producer is fenced.
inline bool publish(frame::Producer& producer,
                    frame::IngestAccount& account,
                    std::uint64_t sequence,
                    std::uint64_t data_bytes,
                    std::uint64_t head_bytes = 24) {
  frame::Reservation room;
  // Both kinds in turn: they end in the same ring.
  const auto answer = sequence % 2 == 0
                          ? producer.reserve(head_bytes, data_bytes, account, room)
                          : producer.reserve_at_hand(head_bytes, data_bytes, account, room);
  if (answer != frame::Reserve::kGranted) return false;
  fill_pattern(room.head(), sequence);
  fill_pattern(room.data(), sequence + 1);
  return producer.publish(std::move(room), {.sequence = sequence}) == frame::Publish::kPublished;
}

}  // namespace simbridge::test
