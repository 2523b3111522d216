#include "client/grpc_line.h"

#include "simbridge/base/check.h"

#include <fmt/core.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <deque>
#include <limits>
#include <utility>

namespace simbridge::client {
namespace {

// Beyond this, received messages wait in gRPC and the kernel: a slow caller is a slow reader.
constexpr std::size_t kInboxBytesMax = 4U << 20;
constexpr int kPingTimeMs = 10'000;
constexpr int kPingTimeoutMs = 20'000;
constexpr milliseconds kLastWait{2'000};  // for events that a cancelled call still owes

Monotonic now() {
  return std::chrono::steady_clock::now();
}

gpr_timespec until(Monotonic deadline) {
  const auto left = std::chrono::duration_cast<nanoseconds>(deadline - now());
  if (left.count() <= 0) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

/// What a status means, in the codes that every road has (protocol.md §2).
std::uint16_t close_code(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return 1000;
    case grpc::StatusCode::UNAVAILABLE:
      return 1001;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return 1002;
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return 1008;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 1009;
    default:
      return 1006;
  }
}

bool is_pointless(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNIMPLEMENTED || code == grpc::StatusCode::UNAUTHENTICATED ||
         code == grpc::StatusCode::PERMISSION_DENIED || code == grpc::StatusCode::INVALID_ARGUMENT;
}

struct Outgoing {
  std::string head;
  std::shared_ptr<const std::string> body;
  std::size_t offset = 0;
  std::size_t length = 0;

  [[nodiscard]] std::size_t size() const { return head.size() + length; }
  [[nodiscard]] grpc::ByteBuffer buffer() const {
    std::array<grpc::Slice, 2> slices{grpc::Slice(head.data(), head.size())};
    if (length == 0) return {slices.data(), 1};
    // gRPC may keep it beyond the write.
    auto* kept = new std::shared_ptr<const std::string>(body);
    slices[1] = grpc::Slice(
        const_cast<char*>(body->data() + offset),
        length,
        [](void* given) { delete static_cast<std::shared_ptr<const std::string>*>(given); },
        kept);
    return {slices.data(), 2};
  }
};

class GrpcLine final : public Line {
 public:
  GrpcLine() = default;
  GrpcLine(const GrpcLine&) = delete;
  GrpcLine& operator=(const GrpcLine&) = delete;
  ~GrpcLine() override { abort(); }

  std::optional<ConnectFailure> open(const Url& url, const LineOptions& options) {
    const Monotonic deadline = now() + options.timeout;
    grpc::ChannelArguments arguments;
    arguments.SetUserAgentPrefix(options.agent);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetMaxReceiveMessageSize(static_cast<int>(
        std::min<std::uint64_t>(options.max_message_bytes, std::numeric_limits<int>::max())));
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingTimeMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    channel_ =
        grpc::CreateCustomChannel(url.authority(), grpc::InsecureChannelCredentials(), arguments);
    // The first failure is the answer; coming again is the caller's business.
    for (auto state = channel_->GetState(true); state != GRPC_CHANNEL_READY;
         state = channel_->GetState(true)) {
      if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN)
        return failure(url, why_unreachable());
      channel_->NotifyOnStateChange(state, until(deadline), &queue_, tag(Step::kState));
      void* seen = nullptr;
      bool ok = false;
      static_cast<void>(queue_.Next(&seen, &ok));  // at the deadline at the latest
      if (!ok) return failure(url, "no connection in time");
    }
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
    call_ = stub_->PrepareCall(&context_, "/simbridge.v1.Bridge/Connect", &queue_);
    call_->StartCall(tag(Step::kStart));
    ++owed_;
    return std::nullopt;
  }

  void send(std::string head,
            std::shared_ptr<const std::string> body,
            std::size_t offset,
            std::size_t length) override {
    if (closed_) return;
    outbox_.push_back(
        {.head = std::move(head), .body = std::move(body), .offset = offset, .length = length});
    outbox_bytes_ += outbox_.back().size();
    write_on();
  }
  void send_text(std::string /*message*/) override {
    SB_CHECK(false, "text is sent over WebSocket only");
  }
  [[nodiscard]] std::size_t queued_bytes() const override { return outbox_bytes_; }

  bool run_until(Monotonic deadline) override {
    if (closed_) return true;
    const auto before = events_;
    return run(deadline, [&] { return events_ != before; });
  }
  bool run_until(Monotonic deadline, const std::function<bool()>& condition) override {
    run(deadline, [&] { return closed_ || condition(); });
    return condition();
  }
  [[nodiscard]] std::optional<LineMessage> take() override {
    if (inbox_.empty()) return std::nullopt;
    LineMessage message{.text = false, .data = std::move(inbox_.front())};
    inbox_.pop_front();
    inbox_bytes_ -= message.data.size();
    read_on();
    return message;
  }
  void pause_reading(bool paused) override {
    paused_ = paused;
    read_on();
  }
  /// gRPC pings by itself, and ends the call where nobody answers.
  [[nodiscard]] Monotonic last_heard() const override { return now(); }
  [[nodiscard]] const std::optional<LineClosed>& closed() const override { return closed_; }

  void close(std::uint16_t /*code*/, std::string_view /*reason*/, Monotonic deadline) override {
    run(deadline, [&] { return closed_ || (outbox_.empty() && !writing_); });
    if (!closed_ && outbox_.empty() && !writing_) {
      writing_ = true;  // nothing is written after it
      ++owed_;
      call_->WritesDone(tag(Step::kWritten));
      run(deadline, [&] { return closed_.has_value(); });
    }
    abort();
  }
  void abort() override {
    if (!call_) return;
    context_.TryCancel();
    paused_ = false;
    aborted_ = true;
    read_on();
    run(now() + kLastWait, [&] { return closed_ && owed_ == 0; });
    SB_CHECK(owed_ == 0, "a cancelled call ends");
    call_.reset();
    queue_.Shutdown();
    void* seen = nullptr;
    bool ok = false;
    while (queue_.Next(&seen, &ok)) {
    }
    if (closed_ && aborted_ && closed_->code != 1000 && closed_->reason.empty())
      closed_->reason = "closed by us";
  }

 private:
  enum class Step : std::uintptr_t { kState = 1, kStart, kRead, kWritten, kFinished };
  static void* tag(Step step) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): gRPC's tags are pointers, and none is followed
    return reinterpret_cast<void*>(step);
  }

  static ConnectFailure failure(const Url& url, std::string_view why) {
    return {.error = {.code = ErrorCode::kUnavailable,
                      .detail = fmt::format("{}: {}", url.authority(), why)}};
  }

  /// The channel does not say why; a call that fails on it does.
  std::string why_unreachable() {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::Status status;
    const auto call = stub.PrepareCall(&context, "/simbridge.v1.Bridge/Connect", &queue_);
    call->StartCall(tag(Step::kStart));
    call->Finish(&status, tag(Step::kFinished));
    for (int events = 0; events < 2; ++events) {
      void* seen = nullptr;
      bool ok = false;
      static_cast<void>(queue_.Next(&seen, &ok));
    }
    return status.error_message();
  }

  bool run(Monotonic deadline, const std::function<bool()>& condition) {
    // What is ready counts even when the deadline has passed.
    while (step(now())) {
    }
    while (!condition()) {
      if (now() >= deadline) return false;
      if (!call_) return false;
      step(deadline);
      while (step(now())) {
      }
    }
    return true;
  }
  /// False: nothing came.
  bool step(Monotonic deadline) {
    if (!call_) return false;
    void* seen = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&seen, &ok, until(deadline)) != grpc::CompletionQueue::GOT_EVENT)
      return false;
    --owed_;
    happened(static_cast<Step>(reinterpret_cast<std::uintptr_t>(seen)), ok);
    return true;
  }

  void happened(Step what, bool ok) {
    switch (what) {
      case Step::kState:
        return;
      case Step::kStart:
        writing_ = reading_ = false;
        if (ok) write_on();
        return read_on();  // where it did not start, this ends it
      case Step::kRead:
        reading_ = false;
        if (!ok) {
          ++owed_;
          call_->Finish(&status_, tag(Step::kFinished));
          return;
        }
        take_in();
        return read_on();
      case Step::kWritten:
        writing_ = false;
        ++events_;
        if (!outbox_.empty()) {
          outbox_bytes_ -= outbox_.front().size();
          outbox_.pop_front();
        }
        if (ok) write_on();
        return;
      case Step::kFinished:
        ++events_;
        closed_ = LineClosed{.code = close_code(status_.error_code()),
                             .reason = status_.error_message(),
                             .pointless = is_pointless(status_.error_code()),
                             .retry_after = pushback()};
        return;
    }
  }

  void take_in() {
    ++events_;
    if (aborted_) return incoming_.Clear();
    grpc::Slice whole;
    static_cast<void>(incoming_.DumpToSingleSlice(&whole));
    incoming_.Clear();
    inbox_.emplace_back(reinterpret_cast<const char*>(whole.begin()), whole.size());
    inbox_bytes_ += whole.size();
  }

  [[nodiscard]] milliseconds pushback() const {
    const auto& trailers = context_.GetServerTrailingMetadata();
    const auto found = trailers.find("grpc-retry-pushback-ms");
    std::int64_t wait = 0;
    if (found != trailers.end()) {
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), wait);
    }
    return milliseconds(wait);
  }

  void read_on() {
    if (reading_ || paused_ || closed_ || !call_) return;
    if (inbox_bytes_ >= kInboxBytesMax && !aborted_) return;
    reading_ = true;
    ++owed_;
    call_->Read(&incoming_, tag(Step::kRead));
  }
  void write_on() {
    if (writing_ || closed_ || outbox_.empty() || !call_) return;
    writing_ = true;
    ++owed_;
    grpc::WriteOptions options;
    if (outbox_.size() > 1) options.set_buffer_hint();
    call_->Write(outbox_.front().buffer(), options, tag(Step::kWritten));
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  std::deque<std::string> inbox_;
  std::size_t inbox_bytes_ = 0;
  std::deque<Outgoing> outbox_;
  std::size_t outbox_bytes_ = 0;
  unsigned owed_ = 0;    // events
  bool reading_ = true;  // nothing is, until the call has started
  bool writing_ = true;
  bool paused_ = false;
  bool aborted_ = false;
  std::uint64_t events_ = 0;
  std::optional<LineClosed> closed_;
};

/// gRPC writes what it finds on standard error; a command says what its user needs itself.
void stay_silent(gpr_log_func_args* /*said*/) {}

}  // namespace

std::expected<std::unique_ptr<Line>, ConnectFailure> connect_grpc(const Url& url,
                                                                  const LineOptions& options) {
  gpr_set_log_function(stay_silent);
  auto line = std::make_unique<GrpcLine>();
  if (auto failure = line->open(url, options)) return std::unexpected(std::move(*failure));
  return line;
}

}  // namespace simbridge::client
