// The gRPC road: throughput and the server's processor time a message beside raw TCP and gRPC's
// callback API, fan-out beside our own WebSocket writer, idle sessions, and what a frame takes
// after a silence.
#include "grpc_callback.h"
#include "report.h"
#include "servers.h"

#include <fmt/core.h>
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/slice.h>

#include "simbridge/v1/bridge.pb.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

namespace simbridge::bench {
namespace {

constexpr std::size_t kLarge = 1U << 20U;
constexpr int kIdleSessions = 300;

grpc::ByteBuffer buffer_of(const v1::ClientMessage& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

v1::ClientMessage hello() {
  v1::ClientMessage message;
  message.mutable_hello()->set_name("bench");
  return message;
}

/// One call on a connection of its own; its events come to a queue that may be shared.
class Call {
 public:
  Call(std::uint16_t port, grpc::CompletionQueue& queue) : queue_(queue) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ = grpc::CreateCustomChannel(
        fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials(), arguments);
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
    stream_ = stub_->PrepareCall(&context_, "/simbridge.v1.Bridge/Connect", &queue_);
    stream_->StartCall(this);
    wait();
    write(hello());
    wait();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  void write(const v1::ClientMessage& message) { stream_->Write(buffer_of(message), this); }
  void write(const grpc::ByteBuffer& message) { stream_->Write(message, this); }
  void read() { stream_->Read(&in_, &read_tag_); }
  /// Of this call's last write or start; not while a read is out.
  void wait() {
    void* tag = nullptr;
    bool ok = false;
    static_cast<void>(queue_.Next(&tag, &ok));
  }
  void cancel() { context_.TryCancel(); }
  [[nodiscard]] grpc::ByteBuffer& in() { return in_; }
  /// The tag of a read points to whose it is.
  struct ReadTag {
    Call* call;
  };
  [[nodiscard]] void* read_tag() { return &read_tag_; }

 private:
  grpc::CompletionQueue& queue_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer in_;
  ReadTag read_tag_{this};
};

struct Load {
  double mb_per_s = 0, cpu_us = 0;
};

/// Writes frames as fast as the server takes them; its Acks are read beside.
Load blast(std::uint16_t port, const Child& server, std::size_t data_bytes, double seconds) {
  grpc::CompletionQueue queue;
  Call call(port, queue);
  v1::ClientMessage advertise;
  advertise.mutable_advertise()->set_channel(1);
  advertise.mutable_advertise()->set_name("bench");
  advertise.mutable_advertise()->set_epoch(
      static_cast<std::uint64_t>(now_seconds() * 1e9));  // each run is a life of its own
  call.write(advertise);
  call.wait();
  call.read();
  v1::ClientMessage frame;
  frame.mutable_frame()->set_channel(1);
  frame.mutable_frame()->mutable_opaque()->mutable_data()->assign(data_bytes, 'x');
  std::uint64_t sequence = 0;
  const auto next = [&] {
    frame.mutable_frame()->set_sequence(++sequence);
    call.write(frame);
  };
  const auto run_until = [&](const auto& enough) {
    while (!enough()) {
      void* tag = nullptr;
      bool ok = false;
      static_cast<void>(queue.Next(&tag, &ok));
      if (!ok) throw std::runtime_error("the server ended the call");
      if (tag == call.read_tag()) {
        call.read();
      } else {
        next();
      }
    }
  };
  next();
  const std::uint64_t warm = kBridgeBudget / 4 * 5 / data_bytes;
  run_until([&] { return sequence > warm; });
  const double cpu = server.cpu_seconds();
  const double start = now_seconds();
  const std::uint64_t first = sequence;
  run_until([&] { return now_seconds() >= start + seconds; });
  const double took = now_seconds() - start;
  const auto frames = static_cast<double>(sequence - first);
  const Load load{frames * static_cast<double>(data_bytes) / took * 1e-6,
                  (server.cpu_seconds() - cpu) / frames * 1e6};
  call.cancel();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return load;
}

double raw_mb_per_s(const Child& server, double seconds) {
  const Socket socket(server.port());
  const std::string bytes(256U << 10U, 'x');
  socket.write_all(bytes);
  const double start = now_seconds();
  std::uint64_t sent = 0;
  for (; now_seconds() < start + seconds; sent += bytes.size()) socket.write_all(bytes);
  return static_cast<double>(sent) / (now_seconds() - start) * 1e-6;
}

void ingest_rows(const Settings& settings, Report& report) {
  std::vector<double> ours, ours_cpu, raw, callback_cpu;
  const auto bridge = start_bridge(settings.simbridge, true);
  const auto raw_server = start_raw_sink();
  const auto callback = Child::run({"/proc/self/exe", kServeCallback}, "callback on 127.0.0.1:");
  for (int i = 0; i < settings.repetitions; ++i) {
    raw.push_back(raw_mb_per_s(*raw_server, settings.seconds));
    const Load theirs = blast(callback->port(), *callback, kLarge, settings.seconds);
    const Load own = blast(bridge->port(), *bridge, kLarge, settings.seconds);
    ours.push_back(own.mb_per_s);
    ours_cpu.push_back(own.cpu_us);
    callback_cpu.push_back(theirs.cpu_us);
  }
  report.add({.name = "gRPC ingest, 1 MiB",
              .value = median(ours),
              .unit = "MB/s",
              .peer = "raw TCP into a memfd",
              .peer_value = median(raw),
              .goal = ">= 0.4",
              .goal_low = 0.4,
              .note = ""});
  report.add({.name = "gRPC ingest, 1 MiB, processor",
              .value = median(ours_cpu),
              .unit = "us/message",
              .peer = "gRPC's callback API, typed",
              .peer_value = median(callback_cpu),
              .goal = "<= 0.75",
              .goal_high = 0.75,
              .note = ""});
}

/// Consumers on one queue, read by one thread; counts the frames' bytes.
class Readers {
 public:
  Readers(std::uint16_t port, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      calls_.push_back(std::make_unique<Call>(port, queue_));
      v1::ClientMessage subscribe;
      subscribe.mutable_subscribe()->set_id(1);
      subscribe.mutable_subscribe()->set_channel("**");
      calls_.back()->write(subscribe);
      calls_.back()->wait();
    }
    for (const auto& call : calls_) call->read();
    thread_ = std::thread([this] { run(); });
  }
  ~Readers() {
    for (const auto& call : calls_) call->cancel();
    queue_.Shutdown();
    thread_.join();
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(); }

 private:
  void run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      if (!ok) continue;
      Call* call = static_cast<Call::ReadTag*>(tag)->call;
      bytes_.fetch_add(call->in().Length());
      call->in().Clear();
      call->read();
    }
  }
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::atomic<std::uint64_t> bytes_{0};
  std::thread thread_;
};

void idle_row(const Settings& settings, Report& report) {
  const auto bridge = start_bridge(settings.simbridge, true);
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(std::make_unique<Call>(bridge->port(), queue));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double before = bridge->rss_bytes();
  for (int i = 0; i < kIdleSessions; ++i)
    calls.push_back(std::make_unique<Call>(bridge->port(), queue));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  report.add({.name = "idle gRPC session, resident memory",
              .value = (bridge->rss_bytes() - before) / kIdleSessions / 1024,
              .unit = "KiB",
              .goal = "<= 48 KiB",
              .goal_high = 48,
              .note = fmt::format("{} sessions after Hello, a connection each", kIdleSessions)});
  for (const auto& call : calls) call->cancel();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

/// A Ping after more than a second in which nothing happened, to its Pong.
void silence_row(const Settings& settings, Report& report) {
  const auto bridge = start_bridge(settings.simbridge, true);
  std::vector<double> took;
  {
    grpc::CompletionQueue queue;
    Call call(bridge->port(), queue);
    call.read();
    std::uint64_t cookie = 0;
    const auto until_pong = [&] {
      for (;;) {
        void* tag = nullptr;
        bool ok = false;
        static_cast<void>(queue.Next(&tag, &ok));
        if (!ok) throw std::runtime_error("the bridge ended the call");
        if (tag != call.read_tag()) continue;
        grpc::Slice whole;
        static_cast<void>(call.in().DumpToSingleSlice(&whole));
        v1::ServerMessage message;
        static_cast<void>(message.ParseFromArray(whole.begin(), static_cast<int>(whole.size())));
        call.in().Clear();
        call.read();
        if (message.has_pong() && message.pong().cookie() == cookie) return;
      }
    };
    for (int i = 0; i < 2 * settings.repetitions; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1070));
      v1::ClientMessage ping;
      ping.mutable_ping()->set_cookie(++cookie);
      const double start = now_seconds();
      call.write(ping);
      until_pong();
      took.push_back((now_seconds() - start) * 1e3);
    }
    call.cancel();
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }
  report.add({.name = "gRPC round trip after 1.07 s of silence, p50",
              .value = median(took),
              .unit = "ms",
              .goal = "<= 2 ms",
              .goal_high = 2,
              .note = "Ping to Pong"});
}

double grpc_fan_out_cost(const Settings& settings,
                         std::size_t data_bytes,
                         std::size_t consumers,
                         double seconds) {
  const auto bridge = start_bridge(settings.simbridge, true);
  Readers readers(bridge->port(), consumers);
  grpc::CompletionQueue queue;
  Call producer(bridge->port(), queue);
  v1::ClientMessage message;
  message.mutable_advertise()->set_channel(1);
  message.mutable_advertise()->set_name("bench");
  message.mutable_advertise()->set_epoch(7);
  producer.write(message);
  producer.wait();
  producer.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  v1::ClientMessage frame;
  frame.mutable_frame()->set_channel(1);
  frame.mutable_frame()->mutable_opaque()->mutable_data()->assign(data_bytes, 'x');
  const double cpu = bridge->cpu_seconds();
  const double start = now_seconds();
  const std::uint64_t before = readers.bytes();
  const std::uint64_t ahead = std::max<std::uint64_t>(256U << 10U, 2 * data_bytes) * consumers;
  std::uint64_t sent = 0;
  const auto behind = [&] {
    const std::uint64_t due = sent * data_bytes * consumers;
    return due - std::min(due, readers.bytes() - before);
  };
  while (now_seconds() < start + seconds) {
    frame.mutable_frame()->set_sequence(++sent);
    producer.write(frame);
    for (bool written = false; !written;) {  // Acks come in between
      void* tag = nullptr;
      bool ok = false;
      static_cast<void>(queue.Next(&tag, &ok));
      if (tag == producer.read_tag())
        producer.read();
      else
        written = true;
    }
    while (behind() > ahead && now_seconds() < start + seconds + 2) std::this_thread::yield();
  }
  const double until = now_seconds() + 2;
  while (behind() > 0 && now_seconds() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double delivered =
      static_cast<double>(std::min(readers.bytes() - before, sent * data_bytes * consumers)) /
      static_cast<double>(data_bytes);
  const double cost = (bridge->cpu_seconds() - cpu) / std::max(1.0, delivered) * 1e6;
  producer.cancel();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return cost;
}

}  // namespace

void grpc_road(const Settings& settings, Report& report) {
  ingest_rows(settings, report);
  for (const auto& [consumers, goal] : {std::pair<std::size_t, double>{8, 1.8}, {64, 2.5}}) {
    std::vector<double> ours, websocket;
    for (int i = 0; i < settings.repetitions; ++i) {
      websocket.push_back(websocket_fan_out_cost(settings, kLarge, consumers, settings.seconds));
      ours.push_back(grpc_fan_out_cost(settings, kLarge, consumers, settings.seconds));
    }
    report.add({.name = fmt::format("gRPC fan-out, 1 MiB, {} consumers, processor", consumers),
                .value = median(ours),
                .unit = "us/delivery",
                .peer = "our WebSocket",
                .peer_value = median(websocket),
                .goal = fmt::format("<= {}", goal),
                .goal_high = goal,
                .note = ""});
  }
  idle_row(settings, report);
  silence_row(settings, report);
}

}  // namespace simbridge::bench
