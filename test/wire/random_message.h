#pragma once
// What: random messages from the protocol's own descriptors, and encodings of them that are valid
// but not canonical, or broken.   Owner: the test.   Threads: one, the generator's.
#include <google/protobuf/message.h>

#include <random>
#include <string>

namespace simbridge::wire::test {

using Random = std::mt19937_64;

/// Each field set or not, to common and to extreme values; enums to numbers outside them too.
void fill_random(google::protobuf::Message& message, Random& random);

/// An encoding of a message of that type, its fields in any order, some twice, messages in two
/// pieces, unknown fields and groups among them, lengths and tags longer than need be.
std::string scramble(const std::string& encoded,
                     const google::protobuf::Descriptor& type,
                     Random& random);

/// A few bytes changed, inserted, removed or cut off.
std::string damage(std::string encoded, Random& random);

}  // namespace simbridge::wire::test
