// What: the program `simbridge`: the command line, and nothing else. Each command is a function
// elsewhere.
#include "app/config.h"
#include "app/decimate.h"
#include "app/serve.h"
#include "app/version.h"
#include "app/words.h"
#include "simbridge/client/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simbridge::app {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 configuration or command line, 3 unreachable, 4 refused.";

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) all.emplace_back(*each);
  return all;
}

void add_config_options(CLI::App& command, Given& given) {
  command.add_option("--config", given.file, "YAML file of knobs");
  command
      .add_option(
          "--set", given.sets, "key=value: one knob, over file and environment; may be repeated")
      ->allow_extra_args(false);
}

int print_config(const Given& given, bool json) {
  const Result<Loaded> loaded = load_config(given);
  if (!loaded) {
    fmt::print(stderr, "simbridge: {}\n", loaded.error().detail);
    return kExitConfiguration;
  }
  for (const std::string& warning : loaded->warnings)
    fmt::print(stderr, "simbridge: warning: {}\n", warning);
  fmt::print("{}", json ? config_json(loaded->config) : config_text(loaded->config));
  return kExitDone;
}

/// A number within bounds, with words for them: CLI11's own would print limits of 309 digits.
CLI::Validator number_from(double low,
                           double high,
                           const std::string& allowed,
                           bool or_zero = false) {
  const auto check = [=](const std::string& word) -> std::string {
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool is_number = error == std::errc{} && end == word.data() + word.size();
    if (is_number && ((number >= low && number <= high) || (or_zero && number == 0))) return {};
    return fmt::format("{} is not {}", word, allowed);
  };
  return {check, ""};
}

CLI::Validator seconds_or_zero() {
  return number_from(0, 1e9, "a number of seconds, 0 to 1000000000");
}

CLI::Validator timeout_seconds() {
  return number_from(0.001, 3600, "a number of seconds, 0.001 to 3600");
}

/// Words arrive as they were typed; see with_hidden_brackets().
void take_words_as_typed(CLI::App& command) {
  for (CLI::Option* option : command.get_options())
    if (option->get_items_expected_max() > 0) option->transform(CLI::Validator(show_brackets, ""));
}

void add_send(CLI::App& root, client::SendOptions& options) {
  CLI::App& send =
      *root.add_subcommand("send", "Send recordings or a simulated sensor to a bridge");
  send.add_option("--to", options.to, "ws://HOST:PORT or grpc://HOST:PORT")->required();
  send.add_option("--channel", options.channel, "Name of the channel")->required();
  send.add_option("files", options.files, "PCD files, sent in this order");
  send.add_option("--simulate", options.simulate, "A simulated sensor: lidar")
      ->check(CLI::IsMember({"lidar"}));
  send.add_option("--telemetry",
                  options.telemetry_bytes,
                  "Opaque frames of so many bytes, on NAME/telemetry beside another source");
  send.add_option("--rate",
                  options.rate_hz,
                  "Frames a second, 0.001 to 1000000; 0 = 10 for --simulate and --telemetry, as "
                  "fast as the window for files")
      ->check(number_from(
          0.001, 1e6, "from 0.001 to 1000000 frames a second, or 0 for the default", true));
  send.add_option(
      "--count",
      options.count,
      "Frames, then the end; 0 = each file once, or for ever with --loop or --simulate");
  send.add_flag("--loop", options.loop, "Begin again after the last file");
  send.add_option("--state",
                  options.state_file,
                  "A file for peer key, epoch and last acknowledged sequence, so that the next run "
                  "goes on where this one was; one sender at a time");
  send.add_option("--policy", options.policy, "drop-oldest or backpressure")
      ->check(CLI::IsMember({"drop-oldest", "backpressure"}));
  send.add_flag("--latched",
                options.latched,
                "New subscriptions get the newest frame, and it is evicted last");
  send.add_option("--name", options.name, "Of this peer, for logs");
  send.add_option("--frame-id", options.frame_id, "Coordinate frame of the points");
  send.add_option("--token", options.token, "Bearer token");
  send.add_option("--seed", options.seed, "Of the simulation");
  send.add_option("--rings", options.rings, "Of the simulated lidar")->check(CLI::Range(1, 1024));
  send.add_option("--azimuths", options.azimuths, "Of the simulated lidar")
      ->check(CLI::Range(1, 65536));
  send.add_flag("--checksum", options.checksum, "CRC-32C in every frame");
  send.add_flag("--json", options.json, "The summary as one JSON object on standard output");
  send.add_flag("--quiet", options.quiet, "No sentences but errors");
  send.add_option("--connect-for",
                  options.connect_for_s,
                  "Try the first connection for so many seconds; 0 = once")
      ->check(seconds_or_zero());
  send.add_option("--give-up-after",
                  options.give_up_after_s,
                  "Seconds without a connection, later on; 0 = never")
      ->check(seconds_or_zero());
  send.add_flag("--reconnect",
                options.reconnect,
                "Wait for a bridge whose first answer is 503 (it drains, or is full); broken "
                "connections are mended in any case");
  take_words_as_typed(send);
}

/// What `watch` asks of a bridge and `decimate` does to a file.
void add_quality(CLI::App& command, client::QualityWords& words) {
  const auto metres = number_from(0, 1e6, "from 0 to 1000000 metres; 0 = none");
  command.add_option("--leaf", words.leaf, "Edge of a voxel in metres: one point for each")
      ->check(metres);
  command.add_option("--max-points", words.max_points, "Points of a cloud, at most; 0 = all");
  command
      .add_option(
          "--sampling",
          words.sampling,
          "centroid (default with --leaf or --max-points), nearest, first, stride or random")
      ->check(CLI::IsMember({"centroid", "nearest", "first", "stride", "random"}));
  command.add_option(
      "--region", words.region, "XMIN,YMIN,ZMIN:XMAX,YMAX,ZMAX in metres; points outside go");
  command.add_option("--min-range", words.min_range, "Metres from zero; nearer points go")
      ->check(metres);
  command.add_option("--max-range", words.max_range, "Metres from zero; farther points go")
      ->check(metres);
  command
      .add_option("--output",
                  words.output,
                  "as-sent (default), xyz (coordinates only) or flat (xyz, intensity, rgba, ring, "
                  "time and the rest)")
      ->check(CLI::IsMember({"as-sent", "xyz", "flat"}));
}

void add_watch(CLI::App& root, client::WatchOptions& options) {
  CLI::App& watch = *root.add_subcommand("watch", "Show what a bridge delivers");
  watch.add_option("--from", options.from, "ws://HOST:PORT or grpc://HOST:PORT")->required();
  watch.add_option("globs", options.globs, "Channels: names, or patterns with * ? **; default **");
  watch.add_flag("--json", options.json, "One JSON object a line: frame, gap, status, drain, end");
  watch.add_flag("--sha256", options.sha256, "Of each frame's payload data, in JSON lines");
  watch
      .add_option("--history",
                  options.history,
                  "none, last (default), all, or from EPOCH:SEQUENCE (NAME=EPOCH:SEQUENCE…)")
      ->expected(1, 4096);
  watch.add_option("--max-hz", options.max_hz, "Frames a second and channel, at most")
      ->check(number_from(0, 1e6, "from 0 to 1000000 frames a second; 0 = all"));
  add_quality(watch, options.quality);
  watch.add_option("--out",
                   options.out,
                   "A folder: every cloud that arrives becomes a PCD file there; none is written "
                   "over");
  watch.add_flag(
      "--reliable", options.reliable, "Frames of backpressure channels wait for this consumer");
  watch.add_option("--credit",
                   options.credit,
                   "Frames unanswered, at most; each is answered when it is written");
  watch.add_option("--max-age-ms", options.max_age_ms, "Older frames become gaps");
  watch.add_option(
      "--queue-frames", options.queue_frames, "How far to trail before jumping to the newest");
  watch.add_option("--queue-bytes", options.queue_bytes, "The same in bytes");
  watch.add_option("--count", options.count, "Frames, then the end");
  watch.add_option("--for", options.for_s, "Seconds, then the end")->check(seconds_or_zero());
  watch.add_flag("--reconnect",
                 options.reconnect,
                 "Come back after a broken connection, and go on from the last frames; wait for a "
                 "bridge whose first answer is 503");
  watch
      .add_option(
          "--give-up-after", options.give_up_after_s, "Seconds without a connection; 0 = never")
      ->check(seconds_or_zero());
  watch
      .add_option("--connect-for",
                  options.connect_for_s,
                  "Try the first connection for so many seconds; 0 = once")
      ->check(seconds_or_zero());
  watch.add_option("--max-message-bytes",
                   options.max_message_bytes,
                   "That this consumer accepts; 0 = the bridge's limit");
  watch.add_option("--name", options.name, "Of this peer, for logs");
  watch.add_option("--token", options.token, "Bearer token");
  take_words_as_typed(watch);
}

void add_decimate(CLI::App& root, DecimateOptions& options) {
  CLI::App& decimate =
      *root.add_subcommand("decimate", "Thin a PCD file, as the bridge would for a consumer");
  decimate.add_option("in", options.in, "A PCD file")->required();
  decimate.add_option("out", options.out, "The result, a binary PCD file; written over")
      ->required();
  add_quality(decimate, options.quality);
  decimate
      .add_option("--implementation",
                  options.implementation,
                  "cpu, or pcl: PCL's VoxelGrid beside it, where this program was built with it")
      ->check(CLI::IsMember({"cpu", "pcl"}))
      ->capture_default_str();
  decimate.footer("Exit codes: 0 done, 1 a file could not be read or written, 2 command line.");
  take_words_as_typed(decimate);
}

int run_command_line(int argc, char** argv) {
  CLI::App root(
      "simbridge joins sensors to a digital twin: it takes their frames, keeps the recent ones and "
      "forwards them.",
      "simbridge");
  root.require_subcommand(1);
  root.footer(kExitCodes);
  root.set_version_flag("--version", std::string(version()));

  Given given;
  given.environment = environment();
  CLI::App& serve_command =
      *root.add_subcommand("serve", "Run the bridge until SIGTERM, then drain");
  add_config_options(serve_command, given);
  serve_command.footer(
      "SIGTERM or SIGINT: drain, exit 0; again: leave at once, exit 1. SIGHUP: read the live knobs "
      "again.\n"
      "Standard output tells the address of each listener, standard error is the log.");

  CLI::App& config_command =
      *root.add_subcommand("config", "Print every knob, and what would be used");
  bool config_as_json = false;
  add_config_options(config_command, given);
  config_command.add_flag("--json", config_as_json, "As an array of objects");

  CLI::App& version_command = *root.add_subcommand("version", "Print what this program is");
  bool version_as_json = false;
  version_command.add_flag("--json", version_as_json, "As one object");

  client::SendOptions send;
  add_send(root, send);
  client::WatchOptions watch;
  add_watch(root, watch);
  DecimateOptions decimate_options;
  add_decimate(root, decimate_options);
  client::InfoOptions info;
  CLI::App& info_command = *root.add_subcommand("info", "Print what a bridge says of itself");
  info_command
      .add_option("url",
                  info.url,
                  "ws://HOST:PORT, grpc://HOST:PORT or, for the admin server, http://HOST:PORT")
      ->required();
  info_command.add_flag("--json", info.json, "As JSON");
  info_command.add_option("--timeout", info.timeout_s, "Seconds")->check(timeout_seconds());
  info_command.add_option("--token", info.token, "Bearer token");
  client::HealthOptions health;
  CLI::App& health_command =
      *root.add_subcommand("health", "Ask the admin server whether the bridge is ready");
  health_command
      .add_option(
          "url",
          health.url,
          "http://HOST:PORT of the admin server; with /healthz at its end: only whether it lives")
      ->capture_default_str();
  health_command.add_option("--timeout", health.timeout_s, "Seconds")->check(timeout_seconds());
  health_command.footer(
      "Exit codes: 0 ready, 1 not ready or no bridge, 2 command line, 3 unreachable.");

  try {
    std::vector<std::string> words = with_hidden_brackets({argv + 1, argv + argc});
    std::ranges::reverse(words);  // CLI11 takes them from the back
    root.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    // --help and --version are "errors" with code 0; every other one is a command line that is
    // wrong.
    return root.exit(error) == 0 ? kExitDone : kExitConfiguration;
  }
  if (serve_command) return serve(given);
  if (config_command) return print_config(given, config_as_json);
  if (version_command) {
    fmt::print("{}", version_as_json ? version_json() : version_text());
    return kExitDone;
  }
  if (info_command) return client::run_info(info);
  if (health_command) return client::run_health(health);
  if (*root.get_subcommand("decimate")) return decimate(decimate_options);
  if (*root.get_subcommand("send")) return client::run_send(send);
  split_history(watch.history, watch.globs);
  return client::run_watch(watch);
}

}  // namespace
}  // namespace simbridge::app

int main(int argc, char** argv) {
  try {
    // Before anything else: the default action of an early signal would cut the start off.
    if (argc > 1 && std::string_view(argv[1]) == "serve") simbridge::app::hold_signals();
    return simbridge::app::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "simbridge: %s\n", error.what()));
    return simbridge::app::kExitFailed;
  }
}
