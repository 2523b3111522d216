#include "client/part_assembler.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <utility>

namespace simbridge::client {

Result<void> PartAssembler::judge(const v1::FramePart& part) const {
  const auto bad = [&](std::string_view why) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format(
            "transfer {}, part {} of {}: {}", part.transfer(), part.index(), part.count(), why));
  };
  if (part.index() == 0) {
    if (part.transfer() <= transfer_) return bad("its number does not rise");
    if (part.count() == 0) return bad("no parts");
    if (part.total_bytes() > total_bytes_max_)
      return bad(fmt::format("{} bytes, at most {}", part.total_bytes(), total_bytes_max_));
    if (part.data().size() > part.total_bytes()) return bad("more bytes than announced");
    return {};
  }
  if (!open_ || part.transfer() != transfer_) return bad("its beginning was not seen");
  if (part.index() != next_index_) return bad(fmt::format("part {} was due", next_index_));
  if (part.count() != count_ || part.total_bytes() != total_bytes_)
    return bad("it contradicts part 0");
  if (part.data().size() > total_bytes_ - bytes_.size()) return bad("more bytes than announced");
  return {};
}

Result<std::optional<std::string>> PartAssembler::add(const v1::FramePart& part) {
  if (auto judged = judge(part); !judged) {
    open_ = false;
    bytes_ = {};
    return std::unexpected(judged.error());
  }
  if (part.index() == 0) {
    open_ = true;
    transfer_ = part.transfer();
    count_ = part.count();
    total_bytes_ = part.total_bytes();
    bytes_.clear();
    bytes_.reserve(total_bytes_);
  }
  bytes_ += part.data();
  next_index_ = part.index() + 1;
  if (next_index_ < count_) return std::nullopt;
  open_ = false;
  auto whole = std::exchange(bytes_, {});
  if (whole.size() != total_bytes_)
    return fail(ErrorCode::kInvalid,
                fmt::format("transfer {}: {} bytes of {}", transfer_, whole.size(), total_bytes_));
  return whole;
}

}  // namespace simbridge::client
