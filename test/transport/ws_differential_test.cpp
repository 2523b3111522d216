// The codec beside Boost.Beast's stream on the same bytes: same messages, same verdict. A fuzz
// target (test/fuzz/ws_differential_fuzz.cpp) does the same for longer.
#include "support/seed.h"
#include "transport/beast_reader.h"

#include <catch2/catch.hpp>

#include <random>

namespace simbridge::test {
namespace {

TEST_CASE("the codec and Beast read the same out of streams that are mostly right",
          "[transport][ws]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::size_t failed = 0;
  std::size_t closed = 0;
  std::size_t messages = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string program(20 + random() % 400, '\0');
    for (char& byte : program) byte = static_cast<char>(random());
    const std::string stream = stream_from(program);
    const auto told = difference(stream, 100'000);
    INFO("round " << round << ": " << told.value_or("same"));
    REQUIRE_FALSE(told.has_value());
    const auto transcript = read_whole(stream, 100'000);
    failed += transcript.failed ? 1U : 0U;
    closed += !transcript.failed && transcript.code != 0 ? 1U : 0U;
    messages += transcript.events.size();
  }
  INFO(failed << " failed, " << closed << " closed, " << messages << " messages");
  CHECK(failed > 40);
  CHECK(closed > 10);
  CHECK(messages > 4000);
}

TEST_CASE("the codec and Beast read the same out of noise", "[transport][ws]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 4000; ++round) {
    std::string stream(random() % 40, '\0');
    for (char& byte : stream) byte = static_cast<char>(random());
    const auto told = difference(stream, 100'000);
    INFO("round " << round << ": " << told.value_or("same"));
    REQUIRE_FALSE(told.has_value());
  }
}

}  // namespace
}  // namespace simbridge::test
