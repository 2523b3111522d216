#include "simbridge/wire/rpc.h"

#include "grpc/health/v1/health.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include "simbridge/v1/bridge.pb.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace simbridge::wire {
namespace {

namespace reflection = ::grpc::reflection::v1alpha;

// Of gRPC's status codes, in an ErrorResponse.
constexpr int kInvalidArgument = 3;
constexpr int kNotFound = 5;
constexpr int kUnimplemented = 12;

template <typename Message>
bool parse_into(Message& message, std::span<const std::byte> bytes) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return false;
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// Through the encoder that sessions use, so that a channel is told alike on every road.
v1::ServerMessage typed(const ServerMessage& message) {
  std::string bytes;
  encode(message, bytes);
  v1::ServerMessage out;
  static_cast<void>(out.ParseFromString(bytes));
  return out;
}

void refuse(reflection::ServerReflectionResponse& response, int code, std::string text) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(std::move(text));
}

void give_file(reflection::ServerReflectionResponse& response,
               const google::protobuf::FileDescriptor* file,
               const std::string& wanted) {
  if (file == nullptr) return refuse(response, kNotFound, "there is no \"" + wanted + "\" here");
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
}

}  // namespace

bool is_info_request(std::span<const std::byte> bytes) {
  v1::GetInfoRequest request;
  return parse_into(request, bytes);
}

std::string info_response(const Info& info) {
  v1::GetInfoResponse out;
  *out.mutable_welcome() = typed(info.welcome).welcome();
  auto& limits = *out.mutable_limits();
  limits.set_memory_bytes(info.limits.memory_bytes);
  limits.set_memory_intent_bytes(info.limits.memory_intent_bytes);
  limits.set_cpus(info.limits.cpus);
  limits.set_frame_budget_bytes(info.limits.frame_budget_bytes);
  limits.set_frame_bytes(info.limits.frame_bytes);
  limits.set_io_threads(info.limits.io_threads);
  limits.set_decimate_threads(info.limits.decimate_threads);
  limits.set_decimator(info.limits.decimator);
  limits.set_shrinkable_to_bytes(info.limits.shrinkable_to_bytes);
  Channels channels;
  channels.channel = info.channels;
  *out.mutable_channel() = typed(channels).channels().channel();
  out.set_sessions(info.sessions);
  out.set_started_ns(info.started_ns);
  return out.SerializeAsString();
}

std::optional<std::string> health_request(std::span<const std::byte> bytes) {
  ::grpc::health::v1::HealthCheckRequest request;
  if (!parse_into(request, bytes)) return std::nullopt;
  return request.service();
}

std::string health_response(Health health) {
  ::grpc::health::v1::HealthCheckResponse response;
  response.set_status(static_cast<::grpc::health::v1::HealthCheckResponse::ServingStatus>(health));
  return response.SerializeAsString();
}

std::optional<std::string> reflection_response(std::span<const std::byte> bytes) {
  using Request = reflection::ServerReflectionRequest;
  constexpr std::array<std::string_view, 4> kServices{"grpc.health.v1.Health",
                                                      "grpc.reflection.v1.ServerReflection",
                                                      "grpc.reflection.v1alpha.ServerReflection",
                                                      "simbridge.v1.Bridge"};
  Request request;
  if (!parse_into(request, bytes)) return std::nullopt;
  // Asked for by name, so that the linker keeps them and the pool knows them.
  static_cast<void>(Request::descriptor());
  static_cast<void>(::grpc::health::v1::HealthCheckRequest::descriptor());
  static_cast<void>(v1::GetInfoRequest::descriptor());
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();

  reflection::ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kListServices:
      for (const std::string_view name : kServices) {
        response.mutable_list_services_response()->add_service()->set_name(name.data(),
                                                                           name.size());
      }
      break;
    case Request::kFileByFilename:
      give_file(
          response, pool->FindFileByName(request.file_by_filename()), request.file_by_filename());
      break;
    case Request::kFileContainingSymbol: {
      // v1 is known to clients by their own copy; its messages are those of v1alpha.
      const std::string& symbol = request.file_containing_symbol();
      give_file(response, pool->FindFileContainingSymbol(symbol), symbol);
      break;
    }
    case Request::kFileContainingExtension:
      refuse(response, kNotFound, "this protocol has no extensions");
      break;
    case Request::kAllExtensionNumbersOfType: {
      const std::string& type = request.all_extension_numbers_of_type();
      if (pool->FindMessageTypeByName(type) == nullptr) {
        refuse(response, kNotFound, "there is no \"" + type + "\" here");
      } else {
        response.mutable_all_extension_numbers_response()->set_base_type_name(type);
      }
      break;
    }
    case Request::MESSAGE_REQUEST_NOT_SET:
      refuse(response,
             request.ByteSizeLong() == 0 ? kInvalidArgument : kUnimplemented,
             "nothing that this reflection knows was asked");
      break;
  }
  return response.SerializeAsString();
}

}  // namespace simbridge::wire
