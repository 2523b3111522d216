#include "client/frame_files.h"

#include "client/crc32c.h"
#include "simbridge/client/pcd.h"
#include "simbridge/client/raw_cloud.h"

#include <fmt/format.h>

#include "simbridge/v1/bridge.pb.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace simbridge::client {
namespace {

constexpr std::size_t kNameMax = 160;  // with epoch, sequence and the ending below 255

RawCloud raw_cloud_of(const v1::Frame& frame) {
  const auto& cloud = frame.cloud();
  RawCloud raw{.width = cloud.width(),
               .height = cloud.height(),
               .point_step = cloud.point_step(),
               .row_step = cloud.height() > 1 ? cloud.row_step() : 0,
               .big_endian = cloud.is_bigendian(),
               .soa = cloud.layout() == v1::LAYOUT_SOA,
               .data = cloud.data()};
  const std::uint64_t tight = std::uint64_t{cloud.width()} * cloud.point_step();
  if (std::uint64_t{raw.row_step} * raw.height > raw.data.size() &&
      tight * raw.height == raw.data.size())
    raw.row_step = 0;  // as the bridge reads it, too
  for (const auto& field : cloud.fields()) {
    const bool is_bool = field.type() == v1::TYPE_BOOL;
    const bool known = field.type() >= v1::TYPE_INT8 && field.type() <= v1::TYPE_UINT64;
    const auto type = is_bool ? FieldType::kUint8
                      : known ? static_cast<FieldType>(field.type())
                              : FieldType::kUnspecified;
    raw.fields.push_back({.name = field.name(),
                          .offset = field.offset(),
                          .type = type,
                          .count = std::max(1U, field.count())});
  }
  if (frame.has_pose()) {
    const auto& position = frame.pose().position();
    raw.viewpoint.x = position.x();
    raw.viewpoint.y = position.y();
    raw.viewpoint.z = position.z();
    if (frame.pose().has_orientation()) {
      const auto& turn = frame.pose().orientation();
      raw.viewpoint.qw = turn.w();
      raw.viewpoint.qx = turn.x();
      raw.viewpoint.qy = turn.y();
      raw.viewpoint.qz = turn.z();
    }
  }
  return raw;
}

std::unexpected<Error> cannot_write(const std::filesystem::path& path) {
  const std::string why = errno_text();
  return fail(ErrorCode::kSystem, fmt::format("--out: cannot write {}: {}", path.string(), why));
}

Result<void> write_new(const std::filesystem::path& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return cannot_write(path);
  Result<void> written;
  while (!bytes.empty() && written) {
    const auto count = ::write(file, bytes.data(), bytes.size());
    if (count >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR)
      written = cannot_write(path);
  }
  if (::close(file) != 0 && written) written = cannot_write(path);
  if (!written) static_cast<void>(::unlink(path.c_str()));
  return written;
}

bool holds(const std::filesystem::path& path, std::string_view bytes) {
  std::ifstream in(path, std::ios::binary);
  const std::string there{std::istreambuf_iterator<char>(in), {}};
  return in && there == bytes;
}

// Under another name until it is whole; the last step fails where the name is taken.
Result<void> write_whole(const std::filesystem::path& path, std::string_view bytes) {
  const auto unfinished =
      path.parent_path() / fmt::format(".{}.{}", path.filename().string(), ::getpid());
  static_cast<void>(::unlink(unfinished.c_str()));
  if (auto written = write_new(unfinished, bytes); !written) return written;
  Result<void> named;
  if (::link(unfinished.c_str(), path.c_str()) != 0) {
    if (errno != EEXIST)
      named = cannot_write(path);
    else if (!holds(path, bytes))  // two patterns of one channel bring the same frame twice
      named = fail(ErrorCode::kSystem,
                   fmt::format("--out: {} is there already, with other content", path.string()));
  }
  static_cast<void>(::unlink(unfinished.c_str()));
  return named;
}

}  // namespace

std::string file_name_of(std::string_view channel, std::uint64_t epoch, std::uint64_t sequence) {
  std::string name(channel);
  std::ranges::replace(name, '/', '_');
  // What no channel's name should hold, and a file's name must not.
  std::ranges::replace_if(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '_');
  if (name.empty() || name.front() == '.') name.insert(0, 1, '_');
  if (name.size() > kNameMax) {
    std::size_t kept = kNameMax;
    while (kept > 0 && (static_cast<unsigned char>(name[kept]) & 0xC0U) == 0x80U) --kept;
    name.resize(kept);
    name += fmt::format("~{:08x}", crc32c(channel));
  }
  return fmt::format("{}-{}-{:06}.pcd", name, epoch, sequence);
}

Result<FrameFiles> FrameFiles::open(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && std::filesystem::is_directory(folder, error) &&
      ::access(folder.c_str(), W_OK | X_OK) == 0)
    return FrameFiles(folder);
  const std::string why = error ? error.message() : errno_text();
  return fail(ErrorCode::kSystem,
              fmt::format("--out: {} is no folder to write into: {}", folder.string(), why));
}

Result<std::filesystem::path> FrameFiles::write(std::string_view channel,
                                                const v1::Frame& frame) const {
  if (!frame.has_cloud() || frame.cloud().codec() != v1::CODEC_RAW) return std::filesystem::path();
  auto path = folder_ / file_name_of(channel, frame.epoch(), frame.sequence());
  const auto records = to_records(raw_cloud_of(frame));
  if (!records)
    return fail(ErrorCode::kInvalid,
                fmt::format("--out: {}: {}", path.string(), records.error().detail));
  const auto file = format_pcd(*records, PcdForm::kBinary);
  if (!file)
    return fail(ErrorCode::kInvalid,
                fmt::format("--out: {}: {}", path.string(), file.error().detail));
  if (auto written = write_whole(path, *file); !written) return std::unexpected(written.error());
  return path;
}

}  // namespace simbridge::client
