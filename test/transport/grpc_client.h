#pragma once
// What: one call of a plain gRPC client, step by step, each step with a deadline. Owner: a test.
// Threads: one at a time; nothing is read unless somebody asks.
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace simbridge::test {

inline std::shared_ptr<grpc::Channel> rpc_channel(std::uint16_t port,
                                                  grpc::ChannelArguments arguments = {}) {
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Each channel its own connection: by default equal ones share it.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments);
}

class RpcCall {
 public:
  static constexpr const char* kConnect = "/simbridge.v1.Bridge/Connect";

  explicit RpcCall(const std::shared_ptr<grpc::Channel>& channel,
                   const std::string& method = kConnect,
                   const std::map<std::string, std::string>& metadata = {})
      : stub_(channel) {
    context_.set_wait_for_ready(true);
    for (const auto& [name, value] : metadata) context_.AddMetadata(name, value);
    stream_ = stub_.PrepareCall(&context_, method, &queue_);
    stream_->StartCall(tag(kStart));
    // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): the call is started above
    started_ = wait(kStart);
  }
  RpcCall(const RpcCall&) = delete;
  RpcCall& operator=(const RpcCall&) = delete;
  ~RpcCall() {
    cancel();
    static_cast<void>(finish());
    queue_.Shutdown();
    void* seen = nullptr;
    bool ok = false;
    while (queue_.Next(&seen, &ok)) {
    }
  }

  [[nodiscard]] bool started() const { return started_; }
  bool write(const std::string& message) {
    const grpc::Slice slice(message);
    stream_->Write(grpc::ByteBuffer(&slice, 1), tag(kWrite));
    return wait(kWrite);
  }
  bool writes_done() {
    stream_->WritesDone(tag(kWrite));
    return wait(kWrite);
  }
  /// Nothing: the server sends no more.
  std::optional<std::string> read() {
    stream_->Read(&incoming_, tag(kRead));
    if (!wait(kRead)) return std::nullopt;
    grpc::Slice whole;
    static_cast<void>(incoming_.DumpToSingleSlice(&whole));
    incoming_.Clear();
    return std::string(reinterpret_cast<const char*>(whole.begin()), whole.size());
  }
  /// The status; what was not read is thrown away.
  const grpc::Status& finish() {
    if (finished_) return status_;
    finished_ = true;
    while (read()) {
    }
    stream_->Finish(&status_, tag(kFinish));
    static_cast<void>(wait(kFinish));
    return status_;
  }
  void cancel() { context_.TryCancel(); }
  [[nodiscard]] std::string trailer(const std::string& name) const {
    const auto& all = context_.GetServerTrailingMetadata();
    const auto found = all.find(name);
    return found == all.end() ? "" : std::string(found->second.data(), found->second.size());
  }
  [[nodiscard]] grpc::ClientContext& context() { return context_; }

 private:
  enum Step : std::uintptr_t { kStart = 1, kWrite, kRead, kFinish };
  static void* tag(Step step) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): gRPC's tags are pointers, and none is followed
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(step));
  }
  /// False also where nothing came within the time, which the caller's next check tells.
  bool wait(Step step) {
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(30);
    while (true) {
      void* seen = nullptr;
      bool ok = false;
      if (queue_.AsyncNext(&seen, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) {
        cancel();
        return false;
      }
      if (seen == tag(step)) return ok;
    }
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  bool started_ = false;
  bool finished_ = false;
};

}  // namespace simbridge::test
