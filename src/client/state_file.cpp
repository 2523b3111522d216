#include "client/state_file.h"

#include "simbridge/base/check.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>

namespace simbridge::client {
namespace {

constexpr std::string_view kFirstLine = "simbridge-send-state 1";
constexpr std::size_t kPeerKeyBytes = 16;
constexpr std::size_t kPeerKeyBytesMax = 256;

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0 || hex.size() > 2 * kPeerKeyBytesMax) return std::nullopt;
  std::string bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    unsigned value = 0;
    const auto* const end = hex.data() + at + 2;
    if (std::from_chars(hex.data() + at, end, value, 16).ptr != end) return std::nullopt;
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

/// Takes "word " from the front.
std::string_view take(std::string_view& line) {
  const auto word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(word.size() + 1, line.size()));
  return word;
}

bool to_number(std::string_view word, std::uint64_t& number) {
  const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && stopped == word.data() + word.size();
}

bool parse_line(std::string_view line, SendState& state) {
  const auto keyword = take(line);
  if (keyword == "peer_key") {
    const auto key = from_hex(line);
    if (!key || key->size() < kPeerKeyBytes) return false;
    state.peer_key = *key;
    return true;
  }
  SendState::Channel channel;
  if (keyword != "channel" || !to_number(take(line), channel.epoch) ||
      !to_number(take(line), channel.sequence) || line.empty())
    return false;
  return state.channels.emplace(line, channel).second;
}

std::unexpected<Error> system_error(std::string_view what, const std::string& path) {
  return fail(ErrorCode::kSystem, fmt::format("{} {}: {}", what, path, errno_text()));
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string new_peer_key() {
  std::string key(kPeerKeyBytes, '\0');
  // So few bytes come whole or not at all.
  SB_CHECK(::getrandom(key.data(), key.size(), 0) == static_cast<ssize_t>(key.size()),
           "the kernel has random bytes");
  return key;
}

Result<SendState> parse_state(std::string_view text) {
  SendState state;
  std::size_t number = 0;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    const bool good = number == 1 ? line == kFirstLine : parse_line(line, state);
    if (!good)
      return fail(ErrorCode::kInvalid, fmt::format("line {}: not as written by send", number));
  }
  if (number == 0 || state.peer_key.empty())
    return fail(ErrorCode::kInvalid, fmt::format("line {}: the peer key is missing", number + 1));
  return state;
}

Result<void> check_state_path(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return system_error("cannot read", path);
  }
  if (S_ISDIR(info.st_mode))
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is a directory; name a file, which need not be there yet, as "
                            "{}{}send.state",
                            path,
                            path,
                            path.ends_with('/') ? "" : "/"));
  if (!S_ISREG(info.st_mode))
    return fail(ErrorCode::kInvalid,
                fmt::format("{} is no regular file; send replaces it at each save", path));
  return {};
}

Result<std::optional<SendState>> load_state(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    if (errno == ENOENT) return std::nullopt;
    return system_error("cannot read", path);
  }
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return system_error("cannot read", path);
  auto state = parse_state(text);
  if (!state)
    return fail(
        ErrorCode::kInvalid,
        fmt::format("{}: {}; remove the file to begin a new epoch", path, state.error().detail));
  return std::move(*state);
}

std::string format_state(const SendState& state) {
  auto text = fmt::format("{}\npeer_key {}\n", kFirstLine, to_hex(state.peer_key));
  for (const auto& [name, channel] : state.channels)
    text += fmt::format("channel {} {} {}\n", channel.epoch, channel.sequence, name);
  return text;
}

Result<void> save_state(const std::string& path, const SendState& state) {
  const auto beside = path + ".new";
  // Only the owner: the key lets its holder take the channels over.
  constexpr int kMode = 0600;
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (descriptor < 0) return system_error("cannot write", beside);
  const bool written = write_all(descriptor, format_state(state));
  const auto write_error = errno;
  if (::close(descriptor) != 0 || !written) {
    errno = written ? errno : write_error;
    return system_error("cannot write", beside);
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) return system_error("cannot replace", path);
  return {};
}

}  // namespace simbridge::client
