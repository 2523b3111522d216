#include "support/golden.h"
#include "wire/judge.h"

#include <catch2/catch.hpp>
#include <google/protobuf/descriptor.h>

#include <sstream>

namespace simbridge::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

std::string type_name(const FieldDescriptor& field) {
  if (field.message_type() != nullptr) return field.message_type()->name();
  if (field.enum_type() != nullptr) return field.enum_type()->name();
  return field.type_name();
}

/// Every message, field and enumerator with its number: what must stay once it is released.
std::string numbers() {
  std::ostringstream out;
  const auto* file = v1::Frame::descriptor()->file();
  for (int m = 0; m < file->message_type_count(); ++m) {
    const Descriptor& message = *file->message_type(m);
    for (int f = 0; f < message.field_count(); ++f) {
      const FieldDescriptor& field = *message.field(f);
      out << message.name() << '.' << field.name() << " = " << field.number() << ' '
          << (field.is_repeated()            ? "repeated "
              : field.has_optional_keyword() ? "optional "
                                             : "")
          << type_name(field);
      if (const auto* oneof = field.real_containing_oneof()) out << " of " << oneof->name();
      out << '\n';
    }
  }
  for (int e = 0; e < file->enum_type_count(); ++e) {
    const EnumDescriptor& type = *file->enum_type(e);
    for (int v = 0; v < type.value_count(); ++v)
      out << type.name() << '.' << type.value(v)->name() << " = " << type.value(v)->number()
          << '\n';
  }
  return out.str();
}

/// Our enumerator by number has the name that the protocol gives that number.
template <typename Enum>
void compare(const EnumDescriptor& protocol, std::string_view prefix, std::size_t count) {
  for (int v = 0; v < protocol.value_count(); ++v) {
    const auto& value = *protocol.value(v);
    INFO(value.name());
    REQUIRE(static_cast<std::size_t>(value.number()) < count);
    CHECK(std::string(prefix) + std::string(name_of(static_cast<Enum>(value.number()))) ==
          value.name());
  }
}

}  // namespace

TEST_CASE("the protocol's numbers are those that were released", "[wire][protocol]") {
  // Lines may be added, none may change or go: numbers are final once released.
  simbridge::test::compare_with_file("test/wire/protocol_numbers.golden", numbers());
}

TEST_CASE("our enumerators carry the protocol's numbers and names", "[wire][protocol]") {
  compare<RejectCode>(*v1::RejectCode_descriptor(), "REJECT_", kRejectCodes);
  compare<GapReason>(*v1::GapReason_descriptor(), "GAP_", kGapReasons);
  CHECK(v1::RejectCode_descriptor()->value_count() == 21);
  CHECK(v1::RejectCode_MAX + 1 == kRejectCodes);
  CHECK(v1::GapReason_MAX + 1 == kGapReasons);
  CHECK(static_cast<int>(Policy::kDropOldest) == v1::POLICY_DROP_OLDEST);
  CHECK(static_cast<int>(Policy::kBackpressure) == v1::POLICY_BACKPRESSURE);
  CHECK(v1::Policy_ARRAYSIZE == 3);
  CHECK(static_cast<int>(History::kNone) == v1::HISTORY_NONE);
  CHECK(static_cast<int>(History::kLast) == v1::HISTORY_LAST);
  CHECK(static_cast<int>(History::kAllKept) == v1::HISTORY_ALL_KEPT);
  CHECK(static_cast<int>(History::kFrom) == v1::HISTORY_FROM);
  CHECK(v1::History_ARRAYSIZE == 4);
  CHECK(static_cast<int>(Level::kInfo) == v1::LEVEL_INFO);
  CHECK(static_cast<int>(Level::kWarning) == v1::LEVEL_WARNING);
  CHECK(static_cast<int>(Level::kError) == v1::LEVEL_ERROR);
  CHECK(v1::Level_ARRAYSIZE == 4);
}

}  // namespace simbridge::wire
