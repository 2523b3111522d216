#pragma once
// What: the protocol's JSON, read into protobuf's generated types more strictly than protobuf's own
// parser does (protocol.md §5, "JSON control").   Owner: nobody, functions.   Threads: any.
#include <optional>
#include <string>
#include <string_view>

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace simbridge::wire {

/// What a text says before it is read into a message.
struct JsonLook {
  std::optional<std::string> fault;  // a sentence: it does not parse, or breaks a rule
  std::string unknown_body;          // of the outermost object: a member that the type lacks
  std::string body;                  // ... and one of a oneof that it has, and that is not null
};
/// Walks over the text once, beside the type: repeated and unknown members, two of a oneof, values
/// outside an enum, integers that a double cannot hold. members of the outermost object named in
/// `opaque` are not looked into. Linear, and bounded by a depth of 32.
JsonLook look_at_json(std::string_view text,
                      const google::protobuf::Descriptor& type,
                      std::string_view opaque = {});

/// After a look without fault. A sentence where protobuf's parser refuses it.
std::optional<std::string> read_json(std::string_view text, google::protobuf::Message& message);

/// Every field, camelCase, appended to out.
void write_json(const google::protobuf::Message& message, std::string& out);

/// Texts of peers and parsers, cut to what fits into a detail.
std::string cut_detail(std::string_view text);

}  // namespace simbridge::wire
