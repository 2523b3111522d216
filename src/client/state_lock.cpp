#include "client/state_lock.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace simbridge::client {
namespace {

constexpr std::size_t kHolderBytesMax = 512;

/// What the holder wrote of himself; he may not have come to it yet.
std::string read_holder(int descriptor) {
  std::array<char, kHolderBytesMax> text{};
  const auto bytes = ::pread(descriptor, text.data(), text.size(), 0);
  const std::string_view holder(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return holder.empty() ? "another process" : std::string(holder.substr(0, holder.find('\n')));
}

}  // namespace

Result<StateLock> StateLock::take(const std::string& state_path, std::string_view holder) {
  const auto path = state_path + ".lock";
  constexpr int kMode = 0600;
  StateLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (lock.descriptor_ < 0)
    return fail(ErrorCode::kSystem, fmt::format("cannot make {}: {}", path, errno_text()));
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      return fail(ErrorCode::kSystem, fmt::format("cannot lock {}: {}", path, errno_text()));
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} is in use by {}; each sender needs a file of its own",
                            state_path,
                            read_holder(lock.descriptor_)));
  }
  const auto line = fmt::format("process {}, {}\n", ::getpid(), holder);
  // For people only: the lock holds whether this could be written or not.
  if (::ftruncate(lock.descriptor_, 0) == 0)
    static_cast<void>(::pwrite(lock.descriptor_, line.data(), line.size(), 0));
  return lock;
}

StateLock::~StateLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace simbridge::client
