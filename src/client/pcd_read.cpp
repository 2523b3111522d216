#include "client/lzf.h"
#include "simbridge/base/check.h"
#include "simbridge/client/pcd.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>

namespace simbridge::client {
namespace {

static_assert(std::endian::native == std::endian::little, "PCD data is read as it lies in memory");

constexpr std::size_t kHeaderBytesMax = 1U << 20;
constexpr std::size_t kFieldsMax = 4096;
constexpr std::uint32_t kCountMax = 1U << 20;
constexpr std::uint64_t kPointStepMax = 1U << 24;

std::unexpected<Error> at_line(std::size_t line, std::string_view why) {
  return fail(ErrorCode::kInvalid, fmt::format("line {}: {}", line, why));
}

std::unexpected<Error> at_byte(std::size_t byte, std::string_view why) {
  return fail(ErrorCode::kInvalid, fmt::format("byte {}: {}", byte, why));
}

/// What a file says is quoted, but not at any length.
std::string quote(std::string_view text) {
  constexpr std::size_t kQuotedMax = 40;
  std::string out = "\"";
  for (const char c : text.substr(0, kQuotedMax)) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code >= 0x7F) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += c;
    }
  }
  out += text.size() > kQuotedMax ? "…\"" : "\"";
  return out;
}

/// Lines and words of a text, with the number of the line they stand in.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  /// The next line without its end; nullopt at the end of the text.
  std::optional<std::string_view> next() {
    if (at_ >= text_.size()) return std::nullopt;
    ++number_;
    const auto end = std::min(text_.find('\n', at_), text_.size());
    auto line = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] std::size_t offset() const { return at_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t number_ = 0;
};

/// Takes the next word from the front of a line; empty at its end.
std::string_view take_word(std::string_view& line) {
  constexpr std::string_view kBlank = " \t\v\f\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  const auto word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (auto word = take_word(line); !word.empty(); word = take_word(line)) words.push_back(word);
  return words;
}

template <typename Number>
bool parse_number(std::string_view word, Number& number) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (stopped != word.data() + word.size() || word.empty()) return false;
  if constexpr (std::is_floating_point_v<Number>) {
    // Too small or too large for the type: the nearest it has, as C's strtod gives it.
    if (error == std::errc::result_out_of_range) {
      number = static_cast<Number>(std::strtod(std::string(word).c_str(), nullptr));
      return true;
    }
  }
  return error == std::errc{};
}

FieldType field_type(char kind, std::uint32_t size) {
  switch (kind) {
    case 'I':
      switch (size) {
        case 1:
          return FieldType::kInt8;
        case 2:
          return FieldType::kInt16;
        case 4:
          return FieldType::kInt32;
        case 8:
          return FieldType::kInt64;
        default:
          return FieldType::kUnspecified;
      }
    case 'U':
      switch (size) {
        case 1:
          return FieldType::kUint8;
        case 2:
          return FieldType::kUint16;
        case 4:
          return FieldType::kUint32;
        case 8:
          return FieldType::kUint64;
        default:
          return FieldType::kUnspecified;
      }
    case 'F':
      switch (size) {
        case 4:
          return FieldType::kFloat32;
        case 8:
          return FieldType::kFloat64;
        default:
          return FieldType::kUnspecified;
      }
    default:
      return FieldType::kUnspecified;
  }
}

/// One line of the header: its words after the keyword, and where it stood (0 = not seen).
struct Entry {
  std::size_t line = 0;
  std::vector<std::string_view> words;
};

struct Header {
  PointCloudData cloud;  // all but the data
  std::string_view form;
  std::size_t data_offset = 0;
  std::size_t data_line = 0;  // of the DATA line
};

/// Reads the lines up to DATA, then judges them together: SIZE, TYPE and COUNT against FIELDS.
class HeaderReader {
 public:
  HeaderReader(std::string_view file, const PcdLimits& limits)
      : lines_(file.substr(0, kHeaderBytesMax)), limits_(limits) {}

  Result<Header> read();

 private:
  Result<void> collect();
  Result<void> judge_fields();
  Result<void> judge_size();
  Result<void> judge_viewpoint();
  Result<std::uint32_t> number(const Entry& entry, std::string_view keyword) const;
  /// For a fault in what is missing: the line of DATA, where it should have stood before.
  [[nodiscard]] std::unexpected<Error> missing(std::string_view keyword) const {
    return at_line(data_.line, fmt::format("{} is missing before DATA", keyword));
  }

  Lines lines_;
  PcdLimits limits_;
  Entry version_, fields_, size_, type_, count_, width_, height_, viewpoint_, points_, data_;
  Header header_;
};

Result<Header> HeaderReader::read() {
  if (auto collected = collect(); !collected) return std::unexpected(collected.error());
  if (auto judged = judge_fields(); !judged) return std::unexpected(judged.error());
  if (auto judged = judge_size(); !judged) return std::unexpected(judged.error());
  if (auto judged = judge_viewpoint(); !judged) return std::unexpected(judged.error());
  header_.form = data_.words.front();
  header_.data_line = data_.line;
  header_.data_offset = lines_.offset();
  return std::move(header_);
}

Result<void> HeaderReader::collect() {
  const std::array<std::pair<std::string_view, Entry*>, 11> keywords{{{"VERSION", &version_},
                                                                      {"FIELDS", &fields_},
                                                                      {"COLUMNS", &fields_},
                                                                      {"SIZE", &size_},
                                                                      {"TYPE", &type_},
                                                                      {"COUNT", &count_},
                                                                      {"WIDTH", &width_},
                                                                      {"HEIGHT", &height_},
                                                                      {"VIEWPOINT", &viewpoint_},
                                                                      {"POINTS", &points_},
                                                                      {"DATA", &data_}}};
  while (const auto line = lines_.next()) {
    if (line->starts_with('#')) continue;
    auto words = words_of(*line);
    if (words.empty()) continue;
    const auto keyword = words.front();
    const auto* const found =
        std::ranges::find(keywords, keyword, &std::pair<std::string_view, Entry*>::first);
    if (found == keywords.end())
      return at_line(lines_.number(), fmt::format("unknown keyword {}", quote(keyword)));
    auto& entry = *found->second;
    if (entry.line != 0)
      return at_line(lines_.number(),
                     fmt::format("{} stands already in line {}", keyword, entry.line));
    if (words.size() < 2) return at_line(lines_.number(), fmt::format("{} says nothing", keyword));
    entry.line = lines_.number();
    entry.words.assign(words.begin() + 1, words.end());
    if (&entry != &data_) continue;
    const auto form = entry.words.front();
    if (entry.words.size() != 1 ||
        (form != "ascii" && form != "binary" && form != "binary_compressed"))
      return at_line(
          entry.line,
          fmt::format("DATA is ascii, binary or binary_compressed, not {}", quote(form)));
    return {};
  }
  return at_line(lines_.number() + 1, "the header ends without a DATA line");
}

Result<std::uint32_t> HeaderReader::number(const Entry& entry, std::string_view keyword) const {
  std::uint32_t parsed = 0;
  if (entry.words.size() != 1 || !parse_number(entry.words.front(), parsed))
    return at_line(entry.line,
                   fmt::format("{} is one number from 0 to {}, not {}",
                               keyword,
                               std::numeric_limits<std::uint32_t>::max(),
                               quote(entry.words.front())));
  return parsed;
}

Result<void> HeaderReader::judge_fields() {
  if (fields_.line == 0) return missing("FIELDS");
  if (size_.line == 0) return missing("SIZE");
  if (type_.line == 0) return missing("TYPE");
  const auto many = fields_.words.size();
  if (many > kFieldsMax)
    return at_line(fields_.line, fmt::format("{} fields; at most {}", many, kFieldsMax));
  for (const auto& [entry, keyword] :
       {std::pair{&size_, "SIZE"}, std::pair{&type_, "TYPE"}, std::pair{&count_, "COUNT"}}) {
    if (entry->line != 0 && entry->words.size() != many)
      return at_line(
          entry->line,
          fmt::format("{} has {} values for {} fields", keyword, entry->words.size(), many));
  }
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < many; ++i) {
    CloudField field{.name = std::string(fields_.words[i])};
    std::uint32_t size = 0;
    if (!parse_number(size_.words[i], size) || size == 0 || size > 8 || !std::has_single_bit(size))
      return at_line(size_.line,
                     fmt::format("SIZE is 1, 2, 4 or 8, not {}", quote(size_.words[i])));
    const auto kind = type_.words[i];
    field.type = field_type(kind.size() == 1 ? kind.front() : '?', size);
    if (field.type == FieldType::kUnspecified)
      return at_line(type_.line, fmt::format("there is no type {} of {} bytes", quote(kind), size));
    if (count_.line != 0 && (!parse_number(count_.words[i], field.count) || field.count == 0 ||
                             field.count > kCountMax))
      return at_line(
          count_.line,
          fmt::format("COUNT is from 1 to {}, not {}", kCountMax, quote(count_.words[i])));
    field.offset = static_cast<std::uint32_t>(offset);
    offset += std::uint64_t{size} * field.count;
    if (offset > kPointStepMax)
      return at_line(count_.line, fmt::format("a point of more than {} bytes", kPointStepMax));
    header_.cloud.fields.push_back(std::move(field));
  }
  header_.cloud.point_step = static_cast<std::uint32_t>(offset);
  return {};
}

Result<void> HeaderReader::judge_size() {
  auto& cloud = header_.cloud;
  // Old files have POINTS only; an unorganised cloud is one row.
  if (width_.line == 0 && points_.line == 0) return missing("WIDTH");
  const auto points = points_.line != 0 ? number(points_, "POINTS") : 0;
  if (!points) return std::unexpected(points.error());
  const auto width = width_.line != 0 ? number(width_, "WIDTH") : points;
  if (!width) return std::unexpected(width.error());
  const auto height = height_.line != 0 ? number(height_, "HEIGHT") : 1;
  if (!height) return std::unexpected(height.error());
  cloud.width = *width;
  cloud.height = *height;
  if (points_.line != 0 && cloud.points() != *points)
    return at_line(
        points_.line,
        fmt::format("POINTS {} is not WIDTH {} x HEIGHT {}", *points, cloud.width, cloud.height));
  if (cloud.points() > limits_.data.count / cloud.point_step)
    return at_line(std::max(points_.line, width_.line),
                   fmt::format("{} points of {} bytes are above the limit of {} bytes",
                               cloud.points(),
                               cloud.point_step,
                               limits_.data.count));
  return {};
}

Result<void> HeaderReader::judge_viewpoint() {
  if (viewpoint_.line == 0) return {};
  auto& view = header_.cloud.viewpoint;
  const std::array<double*, 7> parts{
      &view.x, &view.y, &view.z, &view.qw, &view.qx, &view.qy, &view.qz};
  if (viewpoint_.words.size() != parts.size())
    return at_line(viewpoint_.line,
                   fmt::format("VIEWPOINT has seven numbers, not {}", viewpoint_.words.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parse_number(viewpoint_.words[i], *parts[i]) || !std::isfinite(*parts[i]))
      return at_line(
          viewpoint_.line,
          fmt::format("VIEWPOINT has finite numbers, not {}", quote(viewpoint_.words[i])));
  }
  return {};
}

template <typename Number>
bool store_as(std::string_view word, char* to) {
  Number number{};
  if (!parse_number(word, number)) return false;
  std::memcpy(to, &number, sizeof(number));
  return true;
}

bool store(std::string_view word, FieldType type, char* to) {
  switch (type) {
    case FieldType::kInt8:
      return store_as<std::int8_t>(word, to);
    case FieldType::kUint8:
      return store_as<std::uint8_t>(word, to);
    case FieldType::kInt16:
      return store_as<std::int16_t>(word, to);
    case FieldType::kUint16:
      return store_as<std::uint16_t>(word, to);
    case FieldType::kInt32:
      return store_as<std::int32_t>(word, to);
    case FieldType::kUint32:
      return store_as<std::uint32_t>(word, to);
    case FieldType::kFloat32:
      return store_as<float>(word, to);
    case FieldType::kFloat64:
      return store_as<double>(word, to);
    case FieldType::kInt64:
      return store_as<std::int64_t>(word, to);
    case FieldType::kUint64:
      return store_as<std::uint64_t>(word, to);
    case FieldType::kUnspecified:
      break;
  }
  return false;
}

Result<void> read_ascii_point(const Header& header,
                              std::string_view line,
                              std::size_t line_number,
                              char* to) {
  for (const auto& field : header.cloud.fields) {
    for (std::uint32_t i = 0; i < field.count; ++i) {
      const auto word = take_word(line);
      if (word.empty())
        return at_line(line_number, fmt::format("ends before field {}", quote(field.name)));
      if (!store(word, field.type, to))
        return at_line(line_number,
                       fmt::format("{} is no value of field {}", quote(word), quote(field.name)));
      to += size_of(field.type);
    }
  }
  if (const auto more = take_word(line); !more.empty())
    return at_line(line_number, fmt::format("{} after the last field", quote(more)));
  return {};
}

Result<void> read_ascii(Header& header, std::string_view body) {
  auto& cloud = header.cloud;
  const auto points = cloud.points();
  // A value takes two characters at least ("0 "), so a short body cannot ask for much.
  std::uint64_t values = 0;
  for (const auto& field : cloud.fields) values += field.count;
  SB_CHECK(values > 0, "a header without fields was refused");
  if (points > body.size() / values + 1)
    return at_line(
        header.data_line,
        fmt::format("{} points cannot stand in the {} bytes after it", points, body.size()));
  cloud.data.resize(points * cloud.point_step);
  Lines lines(body);
  std::uint64_t read = 0;
  while (const auto line = lines.next()) {
    const auto line_number = header.data_line + lines.number();
    if (line->find_first_not_of(" \t\v\f\r") == std::string_view::npos) continue;
    if (read == points)
      return at_line(line_number, fmt::format("a line more than the {} points", points));
    auto point =
        read_ascii_point(header, *line, line_number, cloud.data.data() + read * cloud.point_step);
    if (!point) return point;
    ++read;
  }
  if (read < points)
    return at_line(header.data_line + lines.number() + 1,
                   fmt::format("the file ends after {} of {} points", read, points));
  return {};
}

Result<void> read_binary(Header& header, std::string_view body) {
  const auto size = header.cloud.points() * header.cloud.point_step;
  if (body.size() < size)
    return at_byte(header.data_offset + body.size(),
                   fmt::format("the file ends {} bytes before its {} points do",
                               size - body.size(),
                               header.cloud.points()));
  header.cloud.data = body.substr(0, size);
  return {};
}

Result<void> read_compressed(Header& header, std::string_view body) {
  auto& cloud = header.cloud;
  constexpr std::size_t kSizes = 8;
  const auto size = cloud.points() * cloud.point_step;
  if (body.size() < kSizes) {
    if (size == 0) return {};  // some writers leave the two sizes out where there is nothing
    return at_byte(header.data_offset + body.size(), "the file ends before the two sizes");
  }
  std::uint32_t compressed = 0;
  std::uint32_t raw = 0;
  std::memcpy(&compressed, body.data(), sizeof(compressed));
  std::memcpy(&raw, body.data() + sizeof(compressed), sizeof(raw));
  if (raw != size)
    return at_byte(header.data_offset + sizeof(compressed),
                   fmt::format("raw size {}, but {} points of {} bytes are {}",
                               raw,
                               cloud.points(),
                               cloud.point_step,
                               size));
  if (compressed > body.size() - kSizes)
    return at_byte(
        header.data_offset,
        fmt::format("compressed size {}, but {} bytes follow", compressed, body.size() - kSizes));
  const auto blocks = lzf_decompress(body.substr(kSizes, compressed), raw);
  if (!blocks)
    return at_byte(header.data_offset + kSizes + blocks.error().at,
                   fmt::format("LZF: {}", blocks.error().why));
  // One block a field there, one record a point here.
  cloud.data.resize(size);
  const char* from = blocks->data();
  for (const auto& field : cloud.fields) {
    const auto bytes = size_of(field.type) * field.count;
    char* to = cloud.data.data() + field.offset;
    for (std::uint64_t i = 0; i < cloud.points(); ++i, from += bytes, to += cloud.point_step)
      std::memcpy(to, from, bytes);
  }
  return {};
}

template <typename Number>
bool all_finite(const PointCloudData& cloud, const CloudField& field) {
  const char* at = cloud.data.data() + field.offset;
  for (std::uint64_t i = 0; i < cloud.points(); ++i, at += cloud.point_step) {
    Number number{};
    std::memcpy(&number, at, sizeof(number));
    if (!std::isfinite(number)) return false;
  }
  return true;
}

bool is_dense(const PointCloudData& cloud) {
  return std::ranges::all_of(cloud.fields, [&](const CloudField& field) {
    if (field.name != "x" && field.name != "y" && field.name != "z") return true;
    if (field.type == FieldType::kFloat32) return all_finite<float>(cloud, field);
    return field.type != FieldType::kFloat64 || all_finite<double>(cloud, field);
  });
}

}  // namespace

Result<PointCloudData> parse_pcd(std::string_view file, const PcdLimits& limits) {
  if (file.empty()) return at_line(1, "the file is empty");
  auto header = HeaderReader(file, limits).read();
  if (!header) return std::unexpected(header.error());
  const auto body = file.substr(header->data_offset);
  const auto read = header->form == "ascii"    ? read_ascii(*header, body)
                    : header->form == "binary" ? read_binary(*header, body)
                                               : read_compressed(*header, body);
  if (!read) return std::unexpected(read.error());
  header->cloud.is_dense = is_dense(header->cloud);
  return std::move(header->cloud);
}

Result<PointCloudData> read_pcd(const std::filesystem::path& path, const PcdLimits& limits) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const auto size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
  // A folder opens but has no size worth the name.
  std::error_code ignored;
  if (size < 0 || std::filesystem::is_directory(path, ignored))
    return fail(ErrorCode::kUnavailable, fmt::format("{}: cannot be read", path.string()));
  std::string file(static_cast<std::size_t>(size), '\0');
  stream.seekg(0);
  if (!stream.read(file.data(), size))
    return fail(ErrorCode::kUnavailable, fmt::format("{}: cannot be read", path.string()));
  auto cloud = parse_pcd(file, limits);
  if (!cloud)
    return fail(cloud.error().code, fmt::format("{}: {}", path.string(), cloud.error().detail));
  return cloud;
}

}  // namespace simbridge::client
