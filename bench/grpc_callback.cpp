#include "grpc_callback.h"

#include <fmt/core.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "simbridge/v1/bridge.pb.h"

#include <cstdio>

namespace simbridge::bench {
namespace {

class Sink final : public grpc::ServerGenericBidiReactor {
 public:
  Sink() { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    grpc::ProtoBufferReader reader(&message_);
    v1::ClientMessage typed;
    static_cast<void>(typed.ParseFromZeroCopyStream(&reader));
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
};

class Service final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    return new Sink;
  }
};

}  // namespace

void serve_callback() {
  Service service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  fmt::print("callback on 127.0.0.1:{}\n", port);
  static_cast<void>(std::fflush(stdout));
  server->Wait();
}

}  // namespace simbridge::bench
