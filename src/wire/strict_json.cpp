#include "wire/strict_json.h"

#include "wire/utf8.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

namespace simbridge::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr std::size_t kDeepest = 32;
constexpr std::int64_t kExact = std::int64_t{1} << 53;  // up to here integers are exact in a double
constexpr std::size_t kDetailBytes = 200;

bool is_integer(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_ENUM:
      return true;
    default:
      return false;
  }
}

const FieldDescriptor* field_named(const Descriptor& type, const std::string& name) {
  if (const auto* field = type.FindFieldByName(name)) return field;
  for (int i = 0; i < type.field_count(); ++i)
    if (type.field(i)->json_name() == name) return type.field(i);
  return nullptr;
}

/// Called by the parser for each token; false ends the walk.
class Walk final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Walk(const Descriptor& type, std::string_view opaque) : type_(type), opaque_(opaque) {}

  JsonLook look;

  bool null() override {
    if (levels_.empty()) return refuse("the message is not an object");
    const Level& level = levels_.back();
    if (!level.array || level.field == nullptr) return true;  // absent, says the mapping
    return refuse(fmt::format("{}: null where a value is due", level.field->json_name()));
  }
  bool boolean(bool /*value*/) override { return scalar(); }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<long double>(value), value >= -kExact && value <= kExact);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<long double>(value), value <= std::uint64_t{kExact});
  }
  bool number_float(number_float_t value, const string_t& text) override {
    // Of 9007199254740993.0 a double would not tell that it is above 2^53.
    if (std::abs(value) < static_cast<double>(kExact)) return number(value, true);
    const long double wide = std::strtold(text.c_str(), nullptr);
    return number(wide, std::abs(wide) <= static_cast<long double>(kExact));
  }
  bool string(string_t& value) override {
    if (!scalar()) return false;
    const FieldDescriptor* field = levels_.back().field;
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return true;
    const auto* type = field->enum_type();
    if (type->FindValueByName(value) != nullptr) return true;
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = error == std::errc{} && end == value.data() + value.size();
    if (is_number && type->FindValueByNumber(number) != nullptr) return true;
    return refuse(fmt::format("{}: {} is not one of its values", field->json_name(), value));
  }
  bool binary(binary_t& /*value*/) override { return refuse("binary in a text"); }

  bool start_object(std::size_t /*elements*/) override {
    if (levels_.size() >= kDeepest) return refuse("nested too deeply");
    if (levels_.empty()) {
      levels_.push_back({.type = &type_});
      return true;
    }
    if (!value_comes()) return false;
    const Level& level = levels_.back();
    const Descriptor* inside = nullptr;
    if (level.field != nullptr) {
      if (level.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
        return refuse(fmt::format("{}: an object where a value is due", level.field->json_name()));
      if (level.field->is_repeated() && !level.array)
        return refuse(fmt::format("{}: an array is due", level.field->json_name()));
      inside = level.field->message_type();
    }
    levels_.push_back({.type = inside});
    return true;
  }
  bool end_object() override {
    levels_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (levels_.empty()) return refuse("the message is not an object");
    if (levels_.size() >= kDeepest) return refuse("nested too deeply");
    if (!value_comes()) return false;
    const FieldDescriptor* field = levels_.back().field;
    if (field != nullptr && (!field->is_repeated() || levels_.back().array))
      return refuse(fmt::format("{}: an array where one value is due", field->json_name()));
    levels_.push_back({.field = field, .array = true});
    return true;
  }
  bool end_array() override {
    levels_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.field = level.member = nullptr;
    if (level.type == nullptr) return true;
    const FieldDescriptor* field = field_named(*level.type, name);
    const bool outermost = levels_.size() == 1;
    if (field == nullptr) {
      if (!outermost)
        return refuse(fmt::format("{}: {} has no such member", name, level.type->name()));
      look.unknown_body = name;
      return true;
    }
    if (!level.seen.insert(field->number()).second)
      return refuse(fmt::format("{}: the member comes twice", name));
    level.member = field;
    // What is not looked into is walked over as if it were unknown.
    if (!outermost || !is_opaque(field->name())) level.field = field;
    return true;
  }
  bool parse_error(std::size_t at,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    return refuse(fmt::format("byte {}: {}", at, error.what()));
  }

 private:
  struct Level {
    const Descriptor* type = nullptr;         // null: not known, only walked over
    const FieldDescriptor* member = nullptr;  // whose value comes
    const FieldDescriptor* field = nullptr;   // the same, where its value is looked into
    bool array = false;
    std::set<int> seen = {};
    std::set<const google::protobuf::OneofDescriptor*> oneofs = {};
  };

  [[nodiscard]] bool is_opaque(std::string_view name) const {
    return !opaque_.empty() &&
           (" " + std::string(opaque_) + " ").find(" " + std::string(name) + " ") !=
               std::string::npos;
  }
  bool refuse(const std::string& why) {
    if (!look.fault) look.fault = cut_detail(why);
    return false;
  }
  /// Of the member at hand, and it is not null: of a oneof it is the one that counts.
  bool value_comes() {
    Level& level = levels_.back();
    const FieldDescriptor* member = std::exchange(level.member, nullptr);
    const auto* oneof = member == nullptr ? nullptr : member->real_containing_oneof();
    if (oneof == nullptr) return true;
    if (!level.oneofs.insert(oneof).second)
      return refuse(fmt::format("{}: a second {}", member->json_name(), oneof->name()));
    if (levels_.size() == 1) look.body = member->name();
    return true;
  }
  bool scalar() {
    if (levels_.empty()) return refuse("the message is not an object");
    if (!value_comes()) return false;
    const FieldDescriptor* field = levels_.back().field;
    if (field == nullptr || !field->is_repeated() || levels_.back().array) return true;
    return refuse(fmt::format("{}: an array is due", field->json_name()));
  }
  bool number(long double value, bool exact) {
    if (!scalar()) return false;
    const FieldDescriptor* field = levels_.back().field;
    if (field == nullptr || !is_integer(*field)) return true;
    if (!exact)
      return refuse(
          fmt::format("{}: a number above 2^53; write it as a string", field->json_name()));
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return true;
    const bool known = value == std::floor(value) && std::abs(value) < 0x1p31L &&
                       field->enum_type()->FindValueByNumber(static_cast<int>(value)) != nullptr;
    return known ||
           refuse(fmt::format(
               "{}: {} is not one of its values", field->json_name(), static_cast<double>(value)));
  }

  const Descriptor& type_;
  const std::string_view opaque_;
  std::vector<Level> levels_;
};

}  // namespace

JsonLook look_at_json(std::string_view text, const Descriptor& type, std::string_view opaque) {
  Walk walk(type, opaque);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &walk) && !walk.look.fault)
    walk.look.fault = "not JSON";
  return std::move(walk.look);
}

std::optional<std::string> read_json(std::string_view text, google::protobuf::Message& message) {
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &message);
  if (status.ok()) return std::nullopt;
  const auto said = status.message();
  return cut_detail({said.data(), said.size()});
}

void write_json(const google::protobuf::Message& message, std::string& out) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string json;
  // Of messages that this module built: their strings are UTF-8, so nothing can fail.
  static_cast<void>(google::protobuf::util::MessageToJsonString(message, &json, options));
  out += json;
}

std::string cut_detail(std::string_view text) {
  std::string out;
  append_utf8(text.substr(0, kDetailBytes), out);
  if (text.size() > kDetailBytes) out += "…";
  return out;
}

}  // namespace simbridge::wire
