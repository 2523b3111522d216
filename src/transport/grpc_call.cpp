#include "transport/grpc_call.h"

#include "transport/grpc_address.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <string>
#include <utility>

namespace simbridge::transport::rpc {

// Each answers one kind of operation, of which gRPC allows one at a time.
struct Call::Tag final : Event {
  void happened(bool ok) override { call->happened(what, ok); }
  Call* call = nullptr;
  What what = What::kArrived;
};

struct Call::Rpc {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer incoming;
  std::array<Tag, 5> tags;

  void* tag(What what) { return static_cast<Event*>(&tags[static_cast<std::size_t>(what)]); }
};

namespace {

grpc::ByteBuffer buffer_of(std::string_view message) {
  const grpc::Slice slice(message.data(), message.size());
  return {&slice, 1};
}

}  // namespace

Call::Call(std::shared_ptr<Queue> queue) : queue_(std::move(queue)), rpc_(std::make_unique<Rpc>()) {
  for (std::size_t i = 0; i < rpc_->tags.size(); ++i) {
    rpc_->tags[i].call = this;
    rpc_->tags[i].what = static_cast<What>(i);
  }
}

Call::~Call() = default;

void Call::request(grpc::AsyncGenericService& service, Queue& notified, Waiting& waiting) {
  self_ = shared_from_this();
  waiting_ = &waiting;
  queue_->expect();
  notified.expect();
  rpc_->context.AsyncNotifyWhenDone(rpc_->tag(What::kDone));
  service.RequestCall(&rpc_->context,
                      &rpc_->stream,
                      &queue_->completions(),
                      &notified.completions(),
                      rpc_->tag(What::kArrived));
}

void Call::begin(Dispatch dispatch, void* server) {
  dispatch_ = dispatch;
  server_ = server;
  queue_->add_user();
  wake();
}

void Call::happened(What what, bool ok) {
  if (what == What::kArrived) {  // on the server's queue, not on ours
    if (!ok) {
      const auto keep = std::move(self_);
      waiting_->arrived(keep, false);
      return;
    }
    waiting_->arrived(shared_from_this(), true);
    return;
  }
  const auto keep = shared_from_this();
  if (what == What::kDone) {
    done_ = true;
    if (!started_) return;  // its begin() is still in the mail
    maybe_over();
    return;
  }
  --owed_;
  if (!over_) {
    switch (what) {
      case What::kRead:
        logic_->on_read(ok);
        break;
      case What::kWritten:
        logic_->on_written(ok);
        break;
      case What::kFinished:
        logic_->on_finished();
        break;
      case What::kArrived:
      case What::kDone:
        break;
    }
  }
  maybe_over();
}

// The logic hears of the end at once; the call itself stays while gRPC owes it an event.
void Call::maybe_over() {
  if (!done_) return;
  if (!over_) {
    over_ = true;
    drop_timer();
    logic_->on_over();
  }
  if (owed_ != 0) return;
  logic_.reset();
  rpc_->incoming.Clear();
  const auto keep = std::move(self_);
  if (keep) queue_->remove_user();
}

void Call::on_mail() {
  const auto keep = shared_from_this();
  if (!started_) {
    started_ = true;
    logic_ = dispatch_(server_, *this);
    logic_->start();
    maybe_over();
    return;
  }
  if (!over_) logic_->on_mail();
}

void Call::on_time() {
  const auto keep = shared_from_this();
  if (!over_) logic_->on_time();
}

void Call::on_idle() {
  if (!over_) logic_->on_idle();
}

std::string Call::method() const {
  return rpc_->context.method();
}

std::string Call::peer() const {
  return plain_address(rpc_->context.peer());
}

void Call::read() {
  ++owed_;
  rpc_->stream.Read(&rpc_->incoming, rpc_->tag(What::kRead));
}

Received Call::take() {
  return Received(rpc_->incoming);
}

void Call::write(const grpc::ByteBuffer& message, WriteHow how) {
  ++owed_;
  grpc::WriteOptions options;
  options.set_no_compression();
  if (how.more_follows) options.set_buffer_hint();
  if (how.until_written) options.set_write_through();
  rpc_->stream.Write(message, options, rpc_->tag(What::kWritten));
}

void Call::write(std::string_view message) {
  write(buffer_of(message), {});
}

namespace {

grpc::Status status_of(grpc::ServerContext& context, const Ending& ending) {
  if (ending.retry_after) {
    context.AddTrailingMetadata("grpc-retry-pushback-ms",
                                std::to_string(ending.retry_after->count()));
  }
  return {static_cast<grpc::StatusCode>(ending.code), ending.text};
}

}  // namespace

void Call::finish(const Ending& ending) {
  ++owed_;
  rpc_->stream.Finish(status_of(rpc_->context, ending), rpc_->tag(What::kFinished));
}

void Call::write_and_finish(std::string_view message, const Ending& ending) {
  ++owed_;
  rpc_->stream.WriteAndFinish(buffer_of(message),
                              grpc::WriteOptions(),
                              status_of(rpc_->context, ending),
                              rpc_->tag(What::kFinished));
}

void Call::cancel() {
  rpc_->context.TryCancel();
}

}  // namespace simbridge::transport::rpc
