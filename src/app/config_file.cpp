#include "app/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace simbridge::app {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20U;
constexpr int kDeepest = 8;

int line_of(const YAML::Mark& mark) {
  return mark.line + 1;
}

/// Walks maps and takes scalars; throws nothing of its own.
Result<void> flatten(const YAML::Node& node,
                     const std::string& prefix,
                     int depth,
                     const std::string& name,
                     std::vector<FileEntry>& out) {
  if (depth > kDeepest) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}:{}: {} is nested too deeply", name, line_of(node.Mark()), prefix));
  }
  for (const auto& pair : node) {
    if (!pair.first.IsScalar()) {
      return fail(
          ErrorCode::kInvalid,
          fmt::format("{}:{}: a key is not a plain word", name, line_of(pair.first.Mark())));
    }
    const std::string key =
        prefix.empty() ? pair.first.Scalar() : prefix + "." + pair.first.Scalar();
    const int line = line_of(pair.first.Mark());
    if (pair.second.IsMap()) {
      if (Result<void> inner = flatten(pair.second, key, depth + 1, name, out); !inner)
        return inner;
    } else if (pair.second.IsScalar()) {
      out.push_back({key, pair.second.Scalar(), line});
    } else if (pair.second.IsNull()) {
      return fail(
          ErrorCode::kInvalid,
          fmt::format(
              "{}: it has no value; give it one or leave the line out ({}:{})", key, name, line));
    } else {
      return fail(ErrorCode::kInvalid,
                  fmt::format("{}: a list stands where one value is due ({}:{})", key, name, line));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<FileEntry>> parse_config_text(const std::string& text, const std::string& name) {
  std::vector<FileEntry> entries;
  try {  // yaml-cpp throws; nothing of it leaves this function
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return entries;  // empty, or comments only
    if (!root.IsMap()) {
      return fail(
          ErrorCode::kInvalid,
          fmt::format(
              "{}:{}: the file is not a map of keys to values", name, line_of(root.Mark())));
    }
    if (Result<void> flat = flatten(root, "", 0, name, entries); !flat)
      return std::unexpected(flat.error());
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}:{}: not YAML: {}", name, line_of(error.mark), error.msg));
  }
  return entries;
}

Result<std::vector<FileEntry>> read_config_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return fail(ErrorCode::kInvalid,
                fmt::format("--config {}: {}", path, error ? error.message() : "not a file"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (file) {
    text.resize(kLargestFile + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) {
    return fail(ErrorCode::kInvalid,
                text.size() > kLargestFile ? fmt::format("--config {}: larger than 1 MiB", path)
                                           : fmt::format("--config {}: cannot be read", path));
  }
  return parse_config_text(text, path);
}

}  // namespace simbridge::app
