#include "client/frame_sources.h"

#include "simbridge/client/pcd.h"

#include <cstring>
#include <optional>
#include <utility>

namespace simbridge::client {
namespace {

constexpr std::uint64_t kKeptBytesMax = 512U << 20;

class FileSource final : public FrameSource {
 public:
  struct File {
    std::string path;
    std::uint64_t data_bytes = 0;
    std::optional<PointCloudData> cloud;  // empty: read when its turn comes
  };

  explicit FileSource(std::vector<File> files) : files_(std::move(files)) {}

  [[nodiscard]] std::uint64_t data_bytes(std::uint64_t sequence) const override {
    return files_[index_of(sequence)].data_bytes;
  }
  [[nodiscard]] Result<EncodedFrame> make(const FrameHeader& header) override {
    const auto& file = files_[index_of(header.sequence)];
    if (file.cloud) return encode_cloud(header, *file.cloud);
    const auto cloud = read_pcd(file.path);
    if (!cloud) return std::unexpected(cloud.error());
    return encode_cloud(header, *cloud);
  }
  [[nodiscard]] std::uint64_t round() const override { return files_.size(); }

 private:
  [[nodiscard]] std::size_t index_of(std::uint64_t sequence) const {
    return (sequence - 1) % files_.size();
  }

  std::vector<File> files_;
};

class LidarSource final : public FrameSource {
 public:
  explicit LidarSource(const LidarOptions& options) : lidar_(options) {}

  [[nodiscard]] std::uint64_t data_bytes(std::uint64_t /*sequence*/) const override {
    return lidar_.scan_bytes();
  }
  [[nodiscard]] Result<EncodedFrame> make(const FrameHeader& header) override {
    return encode_cloud(header, lidar_.scan(header.sequence - 1));
  }
  [[nodiscard]] std::uint64_t round() const override { return 0; }

 private:
  Lidar lidar_;
};

class TelemetrySource final : public FrameSource {
 public:
  explicit TelemetrySource(std::uint64_t bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t data_bytes(std::uint64_t /*sequence*/) const override {
    return bytes_;
  }
  [[nodiscard]] Result<EncodedFrame> make(const FrameHeader& header) override {
    std::string data(bytes_, '\0');
    std::uint64_t state = header.sequence;
    for (std::size_t at = 0; at < data.size(); at += sizeof(state)) {
      std::memcpy(data.data() + at, &state, std::min(sizeof(state), data.size() - at));
      state = state * 6364136223846793005U + 1442695040888963407U;
    }
    return encode_opaque(header, data);
  }
  [[nodiscard]] std::uint64_t round() const override { return 0; }

 private:
  std::uint64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<FrameSource>> make_file_source(std::vector<std::string> files) {
  std::vector<FileSource::File> read;
  std::uint64_t kept = 0;
  for (auto& path : files) {
    auto cloud = read_pcd(path);
    if (!cloud) return std::unexpected(cloud.error());
    FileSource::File file{.path = std::move(path), .data_bytes = cloud->data.size()};
    if (kept + file.data_bytes <= kKeptBytesMax) {
      kept += file.data_bytes;
      file.cloud = std::move(*cloud);
    }
    read.push_back(std::move(file));
  }
  return std::make_unique<FileSource>(std::move(read));
}

std::unique_ptr<FrameSource> make_lidar_source(const LidarOptions& options) {
  return std::make_unique<LidarSource>(options);
}

std::unique_ptr<FrameSource> make_telemetry_source(std::uint64_t bytes) {
  return std::make_unique<TelemetrySource>(bytes);
}

}  // namespace simbridge::client
