#pragma once
// What: between the protocol's head of a cloud and the decimators' view of it: what goes in, and
// what comes out as a frame to be stored.   Owner: one of each a thread.   Threads: one.
#include "simbridge/base/result.h"
#include "simbridge/cloud/decimator.h"
#include "simbridge/wire/frame_head.h"

#include <span>
#include <vector>

namespace simbridge::pipeline {

/// The view of a stored cloud; fields is its memory, kept from frame to frame. Fails where the data
/// would have to be decoded first and this build cannot.
Result<cloud::CloudView> view_of(const wire::FrameHead& head,
                                 std::uint64_t sequence,
                                 std::span<const std::byte> data,
                                 std::vector<cloud::Field>& fields);

/// Turns the head of the raw frame into that of the derived one; its views point into both.
void make_derived(wire::FrameHead& head,
                  const cloud::DecimatedCloud& cloud,
                  cloud::Output output,
                  wire::DecimatedBy by);

}  // namespace simbridge::pipeline
