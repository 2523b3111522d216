#include "client/channel_name.h"

#include <catch2/catch.hpp>

#include <string>

namespace simbridge::client {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("names and patterns that a bridge takes have no fault", "[client]") {
  for (const std::string name : {"a", "lidar front/points", "[a,b]", "{}", "ü/€/😀", "/", "-"}) {
    INFO(name);
    CHECK(fault_of_name(name).empty());
    CHECK(fault_of_pattern(name).empty());
  }
  CHECK(fault_of_name(std::string(256, 'n')).empty());
  for (const std::string pattern : {"*", "**", "lidar_?/*", "***"}) {
    INFO(pattern);
    CHECK(fault_of_pattern(pattern).empty());
    CHECK_FALSE(fault_of_name(pattern).empty());
  }
}

TEST_CASE("what is wrong with a name is said, and what is allowed", "[client]") {
  struct Row {
    std::string text;
    const char* fault;
  };
  for (const auto& [text, fault] : {Row{"", "it is empty"},
                                    Row{std::string(257, 'n'), "it has 257 bytes"},
                                    Row{"a\n", "byte 2 is a control character"},
                                    Row{"a\x7f", "byte 2 is a control character"},
                                    Row{"\xc2\x9f", "byte 1 is a control character"},
                                    Row{std::string("a\0b", 3), "byte 2 is a control character"},
                                    Row{"ab\xff", "byte 3 is no UTF-8"},
                                    Row{"\xc3", "byte 1 is no UTF-8"}}) {
    INFO(text);
    CHECK_THAT(fault_of_name(text), Contains(fault));
    CHECK_THAT(fault_of_name(text), Contains("a channel's name is 1 to 256 bytes"));
    CHECK_THAT(fault_of_pattern(text), Contains(fault));
    CHECK_THAT(fault_of_pattern(text), Contains("a pattern is 1 to 256 bytes"));
  }
  CHECK_THAT(fault_of_name("a*"), Contains("it has a * like a pattern"));
  CHECK(fault_of_name(std::string(5000, 'n')).size() < 300);  // one sentence, however long the name
}

}  // namespace
}  // namespace simbridge::client
