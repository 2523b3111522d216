#include "simbridge/wire/frame_head.h"
#include "support/seed.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <random>

namespace simbridge::wire {
namespace {

// The definition, for short patterns: tries everything.
bool matches_by_trying(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.starts_with("**")) {
    for (std::size_t i = 0; i <= name.size(); ++i)
      if (matches_by_trying(pattern.substr(2), name.substr(i))) return true;
    return false;
  }
  if (pattern.front() == '*') {
    for (std::size_t i = 0;; ++i) {
      if (matches_by_trying(pattern.substr(1), name.substr(i))) return true;
      if (i == name.size() || name[i] == '/') return false;
    }
  }
  if (name.empty()) return false;
  const bool fits = pattern.front() == '?' ? name.front() != '/' : pattern.front() == name.front();
  return fits && matches_by_trying(pattern.substr(1), name.substr(1));
}

}  // namespace

TEST_CASE("a pattern matches the names that the protocol says", "[wire][glob]") {
  struct Row {
    std::string_view pattern, name;
    bool match;
  };
  const std::vector<Row> rows{
      {"lidar/points", "lidar/points", true},
      {"lidar/points", "lidar/Points", false},
      {"*", "lidar", true},
      {"*", "lidar/points", false},
      {"**", "lidar/points", true},
      {"**", "", true},
      {"lidar_*/points", "lidar_front/points", true},
      {"lidar_*/points", "lidar_/points", true},
      {"lidar_*/points", "lidar_a/b/points", false},
      {"lidar_**/points", "lidar_a/b/points", true},
      {"**/points", "a/b/points", true},
      {"**/points", "points", false},
      {"a/**", "a/", true},
      {"a/**", "a", false},
      {"?", "a", true},
      {"?", "/", false},
      {"?", "é", true},
      {"??", "é", false},
      {"?", "點", true},
      {"a?c", "a點c", true},
      {"é*", "é/", false},
      {"***", "a/b", true},
      {"*/*", "a/b", true},
      {"*/*", "a/b/c", false},
      {"*a*b", "xaxbxb", true},
      {"**a*b", "a/b/xab", true},
      {"", "", true},
      {"", "a", false},
  };
  for (const Row& row : rows) {
    INFO(row.pattern << " and " << row.name);
    CHECK(matches(row.pattern, row.name) == row.match);
  }
}

TEST_CASE("a pattern matches what trying everything matches", "[wire][glob]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto pick = [&random](std::string_view from, std::size_t longest) {
    std::string text(random() % (longest + 1), ' ');
    for (char& c : text) c = from[random() % from.size()];
    return text;
  };
  int matched = 0;
  for (int round = 0; round < 40000; ++round) {
    const std::string pattern = pick("ab/**?", 8);
    const std::string name = pick("ab/", 8);
    INFO(pattern << " and " << name);
    const bool expected = matches_by_trying(pattern, name);
    matched += expected ? 1 : 0;
    REQUIRE(matches(pattern, name) == expected);
  }
  CHECK(matched > 1000);
}

TEST_CASE("a pattern made to be slow is not", "[wire][glob]") {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "**a*";
  pattern += "b";
  const std::string name(256, 'a');
  const auto before = std::chrono::steady_clock::now();
  CHECK_FALSE(matches(pattern, name));
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(2));
}

TEST_CASE("names are 1 to 256 bytes of UTF-8 without control characters and wildcards",
          "[wire][glob]") {
  CHECK(check_channel_name("lidar_front/points").ok());
  CHECK(check_channel_name("點雲 é").ok());
  CHECK(check_channel_name(std::string(256, 'n')).ok());
  CHECK(check_channel_name("\xC2\xA0").ok());  // U+00A0 is a space, not a control character
  for (const std::string& bad : {std::string(),
                                 std::string(257, 'n'),
                                 std::string("a\nb"),
                                 std::string("a\0b", 3),
                                 std::string("\x7F"),
                                 std::string("\xC2\x85"),
                                 std::string("a*"),
                                 std::string("a?"),
                                 std::string("\xFF"),
                                 std::string("\xC3")}) {
    INFO(bad);
    const Verdict refused = check_channel_name(bad);
    CHECK(refused.code == RejectCode::kLimit);
    CHECK_FALSE(refused.detail.empty());
  }
}

TEST_CASE("patterns are names that may have wildcards", "[wire][glob]") {
  CHECK(check_pattern("**/points?").ok());
  CHECK(check_pattern(std::string(256, '*')).ok());
  CHECK(check_pattern("").code == RejectCode::kPattern);
  CHECK(check_pattern("a\tb").code == RejectCode::kPattern);
  CHECK(check_pattern("\xFF*").code == RejectCode::kPattern);
  CHECK(check_pattern(std::string(257, '*')).code == RejectCode::kLimit);
  CHECK(has_wildcards("a*"));
  CHECK(has_wildcards("a?"));
  CHECK_FALSE(has_wildcards("a/b"));
}

}  // namespace simbridge::wire
