#pragma once
// What: the shape of a failure that the caller can go on from.   Threads: values, any.
#include <cerrno>
#include <expected>
#include <string>
#include <system_error>
#include <utility>

namespace simbridge {

enum class ErrorCode {
  kInvalid,      // what was given is wrong
  kUnavailable,  // the other side is not there
  kRefused,      // the other side said no
  kNoMemory,
  kSystem,  // errno, quoted in the detail
  kTimeout,
};

struct Error {
  ErrorCode code = ErrorCode::kInvalid;
  std::string detail;  // one sentence that quotes the value
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorCode code, std::string detail) {
  return std::unexpected<Error>(Error{code, std::move(detail)});
}

/// What errno says now, in words. Unlike strerror() it may be asked by any thread.
inline std::string errno_text() {
  return std::generic_category().message(errno);
}

}  // namespace simbridge
