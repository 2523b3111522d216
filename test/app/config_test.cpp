#include "app/config.h"

#include "app/config_file.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace simbridge::app {
namespace {

/// A file that goes when the test does.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "simbridge_config_XXXXXX").string();
    const int fd = mkstemp(path_.data());
    REQUIRE(fd >= 0);
    close(fd);
    std::ofstream(path_) << text;
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Result<Loaded> load_file(const std::string& text) {
  const TempFile file(text);
  return load_config({.file = file.path(), .environment = {}, .sets = {}});
}

TEST_CASE("with nothing given every knob has its default", "[app][config]") {
  const Result<Loaded> loaded = load_config({});
  REQUIRE(loaded);
  CHECK(loaded->warnings.empty());
  CHECK(loaded->config.bytes(kFrameBudget) == Bytes{1ULL << 30U});
  CHECK(loaded->config.port(kWebSocketPort) == 8080);
  CHECK(loaded->config.port(kAdminPort) == 8090);
  CHECK(loaded->config.text(kWebSocketBind) == "127.0.0.1");
  CHECK(loaded->config.time(kChannelsRemoveAfter) == std::chrono::minutes(10));
  CHECK(loaded->config.source(kFrameBudget) == "default");
}

TEST_CASE("file, environment and --set overrule each other in this order", "[app][config]") {
  const TempFile file(
      "frame:\n  budget_bytes: 64MiB\n  depth: 10\n  pin_share: 0.3\nwebsocket.port: 1\n");
  Given given{
      .file = file.path(),
      .environment = {"HOME=/", "SIMBRIDGE_FRAME_DEPTH=20", "SIMBRIDGE_FRAME_PIN_SHARE=0.4"},
      .sets = {"frame.pin_share=0.5", "frame.pin_share=0.6"}};
  const Result<Loaded> loaded = load_config(given);
  REQUIRE(loaded);
  CHECK(loaded->config.bytes(kFrameBudget) == Bytes{64ULL << 20U});
  CHECK(loaded->config.source(kFrameBudget) == file.path() + ":2");
  CHECK(loaded->config.port(kWebSocketPort) == 1);
  CHECK(loaded->config.source(kWebSocketPort) == file.path() + ":5");
  CHECK(loaded->config.count(kFrameDepth) == 20);
  CHECK(loaded->config.source(kFrameDepth) == "environment SIMBRIDGE_FRAME_DEPTH");
  CHECK(loaded->config.ratio(kFramePinShare) == 0.6);
  CHECK(loaded->config.source(kFramePinShare) == "--set");
}

TEST_CASE("a bad file is refused with one sentence that names line, key, value and what is allowed",
          "[app][config]") {
  struct Row {
    std::string text;
    std::vector<std::string> says;
  };
  const Row rows[] = {
      {"frame:\n  budget_bytes: 9TiB\n",
       {"frame.budget_bytes: 9TiB is above 1TiB; set it between 8MiB and 1TiB", ":2)"}},
      {"frame:\n  budgte_bytes: 1GiB\n",
       {"frame.budgte_bytes: there is no such knob; did you mean frame.budget_bytes?", ":2)"}},
      {"colour: red\n", {"colour: there is no such knob (`simbridge config` lists all)", ":1)"}},
      {"websocket:\n  port: [1, 2]\n",
       {"websocket.port: a list stands where one value is due", ":2)"}},
      {"websocket:\n  port:\n", {"websocket.port: it has no value", ":2)"}},
      {"websocket: 8080\n", {"websocket: there is no such knob", ":1)"}},
      {"- a\n- b\n", {":1: the file is not a map of keys to values"}},
      {"frame: {depth: 1\n", {"not YAML"}},
      {"a: b: c\n", {":1: not YAML"}},
      {"? [1, 2]\n: 3\n", {":1: a key is not a plain word"}},
      {"frame.depth: 1\nframe:\n  depth: 2\n",
       {"frame.depth: \"2\" is given a second time, after line 1; keep one", ":3)"}},
      {"frame:\n  depth: 1\n  depth: 2\n", {"frame.depth: \"2\" is given a second time"}},
      {"a: {a: {a: {a: {a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}}}\n", {"is nested too deeply"}},
      {"security:\n  allow_anonymous: yes\n",
       {"security.allow_anonymous: \"yes\" is neither true nor false"}},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const Result<Loaded> loaded = load_file(row.text);
    REQUIRE_FALSE(loaded);
    INFO(loaded.error().detail);
    CHECK(loaded.error().detail.find('\n') == std::string::npos);
    for (const std::string& says : row.says)
      CHECK_THAT(loaded.error().detail, Catch::Contains(says));
  }
}

TEST_CASE("an empty file, or one of comments, changes nothing", "[app][config]") {
  for (const std::string text : {"", "# nothing\n", "---\n"}) {
    const Result<Loaded> loaded = load_file(text);
    REQUIRE(loaded);
    CHECK(config_json(loaded->config) == config_json(Config()));
  }
}

TEST_CASE("a file that is not there, or no file, or too large, is named", "[app][config]") {
  const auto load = [](const std::string& path) {
    return load_config({.file = path, .environment = {}, .sets = {}});
  };
  CHECK_THAT(
      load("/nowhere/simbridge.yaml").error().detail,
      Catch::Contains("--config /nowhere/simbridge.yaml: ") && Catch::Contains("No such file"));
  CHECK_THAT(load("/").error().detail, Catch::Contains("--config /: not a file"));
  const TempFile large("#" + std::string((1U << 20U) + 1, 'x'));
  CHECK_THAT(load(large.path()).error().detail, Catch::Contains("larger than 1 MiB"));
}

TEST_CASE("--set and the environment are refused with the same care", "[app][config]") {
  struct Row {
    Given given;
    std::string says;
  };
  const Row rows[] = {
      {{.sets = {"frame.depth"}}, "--set \"frame.depth\": give it as key=value"},
      {{.sets = {"=5"}}, "--set \"=5\": give it as key=value"},
      {{.sets = {"frame.depth=0"}}, "frame.depth: 0 is below 1; set it between 1 and 4096 (--set)"},
      {{.sets = {"frame.dept=1"}}, "frame.dept: there is no such knob; did you mean frame.depth?"},
      {{.environment = {"SIMBRIDGE_FRAME_DEPTH=x"}},
       "frame.depth: \"x\" is not a number; set it to 1 to 4096 (environment "
       "SIMBRIDGE_FRAME_DEPTH)"},
      {{.environment = {"SIMBRIDGE_FRAME_DEPHT=1"}},
       "SIMBRIDGE_FRAME_DEPHT: no knob has this variable; did you mean SIMBRIDGE_FRAME_DEPTH?"},
  };
  for (const Row& row : rows) {
    const Result<Loaded> loaded = load_config(row.given);
    REQUIRE_FALSE(loaded);
    CHECK_THAT(loaded.error().detail, Catch::Contains(row.says));
  }
}

TEST_CASE("variables that are not ours, and Kubernetes service links, do not stop the start",
          "[app][config]") {
  const Result<Loaded> loaded =
      load_config({.file = {},
                   .environment = {"SIMBRIDGE_TEST_DATA=/data",
                                   "SIMBRIDGE_PORT=tcp://10.0.0.1:8080",
                                   "SIMBRIDGE_ADMIN_PORT=tcp://10.0.0.1:8090",
                                   "SIMBRIDGE_ADMIN_SERVICE_HOST=10.0.0.1",
                                   "SIMBRIDGE_ADMIN_SERVICE_PORT=8090",
                                   "SIMBRIDGE_ADMIN_SERVICE_PORT_HTTP=8090",
                                   "SIMBRIDGE_ADMIN_PORT_8090_TCP_ADDR=10.0.0.1",
                                   "SIMBRIDGE_ADMIN_PORT_8090_TCP=tcp://10.0.0.1:8090"},
                   .sets = {}});
  REQUIRE(loaded);
  CHECK(loaded->config.port(kAdminPort) == 8090);
  CHECK(loaded->config.source(kAdminPort) == "default");
  CHECK(loaded->warnings.size() == 7);
}

TEST_CASE("listening beyond loopback needs a word from the operator, and then warns",
          "[app][config]") {
  for (const std::string key : {"websocket.bind", "grpc.bind", "admin.bind"}) {
    for (const std::string address : {"0.0.0.0", "::", "192.168.1.1", "::ffff:10.0.0.1"}) {
      INFO(key << " " << address);
      const Result<Loaded> refused = load_config({.sets = {key + "=" + address}});
      REQUIRE_FALSE(refused);
      CHECK_THAT(refused.error().detail,
                 Catch::Contains(key + ": " + address + " is beyond loopback") &&
                     Catch::Contains("security.allow_anonymous: true") &&
                     Catch::Contains("(--set)"));
      const Result<Loaded> allowed =
          load_config({.sets = {key + "=" + address, "security.allow_anonymous=true"}});
      REQUIRE(allowed);
      REQUIRE(allowed->warnings.size() == 1);
      CHECK_THAT(allowed->warnings[0], Catch::Contains(key + " is " + address));
    }
    for (const std::string address : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) {
      INFO(key << " " << address);
      CHECK(load_config({.sets = {key + "=" + address}}).has_value());
    }
  }
}

TEST_CASE("values that contradict each other are refused", "[app][config]") {
  CHECK_THAT(load_config({.sets = {"admin.port=8080"}}).error().detail,
             Catch::Contains("admin.port: 8080 is also websocket.port"));
  CHECK_THAT(load_config({.sets = {"grpc.port=8080"}}).error().detail,
             Catch::Contains("grpc.port: 8080 is also websocket.port"));
  CHECK(load_config({.sets = {"admin.port=8080", "admin.bind=127.0.0.2"}}).has_value());
  CHECK(load_config({.sets = {"admin.port=0", "grpc.port=0", "websocket.port=0"}}).has_value());
  CHECK_THAT(
      load_config({.sets = {"frame.pin_share=0.5", "frame.ingest_share=0.5"}}).error().detail,
      Catch::Contains("frame.pin_share: 0.5") && Catch::Contains("at most 0.9"));
}

TEST_CASE("config prints every knob with its default, range and source, for people and programs",
          "[app][config]") {
  const Result<Loaded> loaded = load_config({.sets = {"frame.budget_bytes=128MiB"}});
  REQUIRE(loaded);
  const std::string text = config_text(loaded->config);
  const auto rows = nlohmann::json::parse(config_json(loaded->config));
  REQUIRE(rows.size() == kKnobs.size());
  for (std::size_t i = 0; i < kKnobs.size(); ++i) {
    INFO(kKnobs[i]->key);
    CHECK(text.find(std::string(kKnobs[i]->key)) != std::string::npos);
    CHECK(rows[i]["key"] == kKnobs[i]->key);
    for (const char* field :
         {"value", "source", "default", "unit", "allowed", "change", "environment", "help"}) {
      CHECK(rows[i].contains(field));
    }
  }
  CHECK_THAT(
      text,
      Catch::Contains("128MiB") && Catch::Contains("from --set; default 1GiB; 8MiB to 1TiB; live"));
}

}  // namespace
}  // namespace simbridge::app
