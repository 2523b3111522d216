#pragma once
// What: decimation as its definition reads: one point at a time, std::map for a grid, no block, no
// table, no shared code with src/cloud or kernels. Slow, and meant to be obviously right.
// Owner: nobody, a function.   Threads: any.
#include "simbridge/cloud/decimator.h"

namespace simbridge::test {

cloud::DecimatedCloud decimate_naively(const cloud::CloudView& view, const cloud::Request& request);

/// "" where both say the same, else what differs first.
std::string difference(const cloud::DecimatedCloud& a, const cloud::DecimatedCloud& b);

}  // namespace simbridge::test
