#include "client/state_file.h"

#include "client/json_line.h"
#include "client/state_lock.h"

#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace simbridge::client {
namespace {

std::string scratch_path() {
  return (std::filesystem::temp_directory_path() /
          ("simbridge-state-" + std::to_string(::getpid())))
      .string();
}

}  // namespace

TEST_CASE("a send state is the same after it was saved and loaded", "[client]") {
  const auto path = scratch_path();
  CHECK_FALSE(*load_state(path));
  SendState state{.peer_key = new_peer_key()};
  state.channels["lidar front/points"] = {.epoch = ~0ULL, .sequence = 12};
  state.channels["b"] = {.epoch = 1, .sequence = 0};
  REQUIRE(save_state(path, state));
  const auto loaded = load_state(path);
  REQUIRE(loaded);
  CHECK(*loaded == std::optional(state));
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);  // whoever reads the key can take the channels over
  CHECK_FALSE(std::filesystem::exists(path + ".new"));
  std::filesystem::remove(path);
  CHECK_FALSE(save_state("/nonexistent/state", state));
}

TEST_CASE("a send state is a regular file or nothing yet", "[client]") {
  const auto folder = std::filesystem::temp_directory_path().string();
  CHECK(check_state_path(scratch_path() + "-none"));
  const auto directory = check_state_path(folder);
  REQUIRE_FALSE(directory);
  CHECK_THAT(directory.error().detail, Catch::Matchers::StartsWith(folder + " is a directory"));
  const auto device = check_state_path("/dev/null");
  REQUIRE_FALSE(device);
  CHECK_THAT(device.error().detail, Catch::Matchers::StartsWith("/dev/null is no regular file"));
}

TEST_CASE("a send state has one holder at a time, who is named", "[client]") {
  const auto path = scratch_path();
  {
    const auto first = StateLock::take(path, "the first");
    REQUIRE(first);
    const auto second = StateLock::take(path, "the second");
    REQUIRE_FALSE(second);
    CHECK_THAT(second.error().detail,
               Catch::Matchers::Contains("process " + std::to_string(::getpid()) + ", the first"));
  }
  CHECK(StateLock::take(path, "the third"));
  std::filesystem::remove(path + ".lock");
  CHECK_FALSE(StateLock::take("/nonexistent/state", "nobody"));
}

TEST_CASE("a send state that is not ours is refused with its line", "[client]") {
  const std::string good = "simbridge-send-state 1\npeer_key 000102030405060708090a0b0c0d0e0f\n";
  CHECK(parse_state(good));
  CHECK(parse_state(good + "channel 1 2 a b\n")->channels.contains("a b"));
  for (const auto& [text, line] :
       {std::pair{std::string(), "line 1:"},
        {"other\n", "line 1:"},
        {"simbridge-send-state 1\n", "line 2:"},
        {"simbridge-send-state 1\npeer_key 00\n", "line 2:"},
        {"simbridge-send-state 1\npeer_key 000102030405060708090a0b0c0d0e0x\n", "line 2:"},
        {good + "channel 1 2\n", "line 3:"},
        {good + "channel 1 x a\n", "line 3:"},
        {good + "channel 1 18446744073709551616 a\n", "line 3:"},
        {good + "channel 1 2 a\nchannel 1 2 a\n", "line 4:"}}) {
    INFO(text);
    const auto state = parse_state(text);
    REQUIRE_FALSE(state);
    CHECK_THAT(state.error().detail, Catch::Matchers::StartsWith(line));
  }
}

TEST_CASE("a JSON line parses whatever the text in it is", "[client]") {
  CHECK(JsonLine("frame").add("n", 1U).add("ok", true).add("d", 0.5).add_as_string("e", 7).str() ==
        R"({"type":"frame","n":1,"ok":true,"d":0.5,"e":"7"})");
  CHECK(JsonLine().str() == "{}");
  CHECK(json_string("a\"b\\c\n\x01") == R"("a\"b\\c\u000a\u0001")");
  CHECK(json_string("ü€😀") == "\"ü€😀\"");
  CHECK(json_string("\xff"
                    "a\xc3") == R"("\ufffda\ufffd")");
  CHECK(json_string("\xed\xa0\x80") == R"("\ufffd\ufffd\ufffd")");
  CHECK(json_string("\xc0\x80") == R"("\ufffd\ufffd")");
}

}  // namespace simbridge::client
