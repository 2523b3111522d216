#include "app/process.h"

#include "app/config.h"
#include "app/version.h"
#include "app/words.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace simbridge::app {
namespace {

TEST_CASE("the process's own figures are those of the kernel", "[app][process]") {
  const ProcessFigures before = process_figures();
  CHECK(before.resident_bytes > 1U << 20U);
  CHECK(before.cpu_us > 0);
  const int fd = dup(0);
  REQUIRE(fd >= 0);
  CHECK(process_figures().open_descriptors == before.open_descriptors + 1);
  close(fd);
  CHECK(process_figures().open_descriptors == before.open_descriptors);
}

TEST_CASE("the descriptor limit is raised to what the process may have", "[app][process]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit lowered = before;
  lowered.rlim_cur = 64;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &lowered) == 0);
  CHECK(process_figures().descriptor_limit == 64);
  CHECK(raise_descriptor_limit() == before.rlim_max);
  CHECK(process_figures().descriptor_limit == before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("two boots have two ids, and none is 0", "[app][process]") {
  CHECK(random_boot_id() != 0);
  CHECK(random_boot_id() != random_boot_id());
}

TEST_CASE("there is at least one CPU", "[app][process]") {
  CHECK(cpus_here() >= 1);
}

TEST_CASE("IPv6 addresses stand in brackets before their port", "[app]") {
  CHECK(host_port("127.0.0.1", 80) == "127.0.0.1:80");
  CHECK(host_port("::1", 80) == "[::1]:80");
}

TEST_CASE("version tells the same to people and programs", "[app]") {
  const auto json = nlohmann::json::parse(version_json());
  CHECK(json["version"] == version());
  CHECK_THAT(version_text(), Catch::Contains(std::string(version())));
}

TEST_CASE("words in brackets are hidden from CLI11 and shown again as they were", "[app][words]") {
  const std::vector<std::string> typed = {
      "[a,b]", "[]", "[", "a", "", "[a]b", "{}", "\x01", "\x01[a]", "--set=[a]"};
  std::vector<std::string> words = with_hidden_brackets(typed);
  REQUIRE(words.size() == typed.size());
  for (std::string& word : words) {
    CHECK_FALSE((word.starts_with('[') && word.ends_with(']') && word.size() > 1));
    CHECK(show_brackets(word).empty());
  }
  CHECK(words == typed);
}

TEST_CASE("the words after --history end where the globs begin", "[app][words]") {
  struct Row {
    std::vector<std::string> words, globs, history, rest;
  };
  const std::vector<Row> rows = {
      {{}, {"a"}, {}, {"a"}},
      {{"last"}, {"a"}, {"last"}, {"a"}},
      {{"last", "**"}, {}, {"last"}, {"**"}},
      {{"all", "a/*", "b"}, {"c"}, {"all"}, {"a/*", "b", "c"}},
      {{"from", "5:10"}, {"a"}, {"from", "5:10"}, {"a"}},
      {{"from", "5:10", "a/b"}, {}, {"from", "5:10"}, {"a/b"}},
      {{"from", "a/b=5:10", "c=1:2", "a/b", "c"}, {}, {"from", "a/b=5:10", "c=1:2"}, {"a/b", "c"}},
      {{"from", "a:b"}, {}, {"from"}, {"a:b"}},
      {{"from", "5:"}, {}, {"from"}, {"5:"}},
  };
  for (const Row& row : rows) {
    std::vector<std::string> words = row.words;
    std::vector<std::string> globs = row.globs;
    split_history(words, globs);
    CHECK(words == row.history);
    CHECK(globs == row.rest);
  }
}

}  // namespace
}  // namespace simbridge::app
