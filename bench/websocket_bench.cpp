// WebSocket in and out: throughput, and the server's processor time a message (performance goals of
// ingest, fan-out, latency, idle sessions). The generator's own cost is kept small: frames are
// masked beforehand and only their numbers are patched.
#include "report.h"
#include "servers.h"

#include <fmt/core.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

namespace simbridge::bench {
namespace {

constexpr std::uint64_t kFirstSequence =
    1ULL << 28U;  // five varint bytes up to 2^35: all frames have one length
constexpr char kKey = 0x5a;

/// Many frames in one buffer, whose numbers can be patched.
class FrameBuffer {
 public:
  FrameBuffer(std::size_t data_bytes, std::size_t at_least) {
    const std::string data = masked_data(data_bytes);
    append_frame(bytes_, kFirstSequence, data);
    stride_ = bytes_.size();
    // The number stands behind the WebSocket head, the tag and two lengths: look for it.
    std::string plain = bytes_.substr(0, 64);
    for (auto& byte : plain) byte = static_cast<char>(byte ^ kKey);
    at_ = plain.find(std::string("\x08\x01\x18", 3)) + 3;
    while (bytes_.size() < at_least) append_frame(bytes_, kFirstSequence, data);
  }
  [[nodiscard]] std::size_t frames() const { return bytes_.size() / stride_; }
  [[nodiscard]] std::size_t stride() const { return stride_; }
  std::string& next() {
    for (std::size_t start = 0; start < bytes_.size(); start += stride_) {
      std::uint64_t value = sequence_++;
      for (int i = 0; i < 5; ++i) {
        bytes_[start + at_ + static_cast<std::size_t>(i)] =
            static_cast<char>(static_cast<char>((value & 0x7fU) | (i < 4 ? 0x80U : 0U)) ^ kKey);
        value >>= 7U;
      }
    }
    return bytes_;
  }

 private:
  std::string bytes_;
  std::size_t stride_ = 0, at_ = 0;
  std::uint64_t sequence_ = kFirstSequence;
};

void drain(const Socket& socket) {
  std::array<char, 65536> some{};
  while (socket.read_some(some, 0) > 0) {
  }
}

struct Load {
  double mb_per_s = 0, cpu_us = 0;  // of the payload; a message, of the server
};

Load blast(const Socket& socket, const Child& server, std::size_t data_bytes, double seconds) {
  FrameBuffer buffer(data_bytes, 256U << 10U);
  // Warm: large frames fill the budget, and from then on memory is used again (growing is a row of
  // its own).
  const std::size_t warm = data_bytes > 4096 ? kBridgeBudget / 4 * 5 : std::size_t{1} << 20U;
  for (std::size_t sent = 0; sent < warm; sent += buffer.frames() * data_bytes) {
    socket.write_all(buffer.next());
    drain(socket);
  }
  const double cpu = server.cpu_seconds();
  const double start = now_seconds();
  std::uint64_t frames = 0;
  while (now_seconds() < start + seconds) {
    socket.write_all(buffer.next());
    frames += buffer.frames();
    drain(socket);
  }
  const double took = now_seconds() - start;
  return {static_cast<double>(frames * data_bytes) / took * 1e-6,
          (server.cpu_seconds() - cpu) / static_cast<double>(frames) * 1e6};
}

Load blast_raw(const Child& server, std::size_t data_bytes, double seconds) {
  const Socket socket(server.port());
  const std::string bytes = masked_data(256U << 10U);
  socket.write_all(bytes);
  const double cpu = server.cpu_seconds();
  const double start = now_seconds();
  std::uint64_t sent = 0;
  while (now_seconds() < start + seconds) {
    socket.write_all(bytes);
    sent += bytes.size();
  }
  const double took = now_seconds() - start;
  return {static_cast<double>(sent) / took * 1e-6,
          (server.cpu_seconds() - cpu) /
              (static_cast<double>(sent) / static_cast<double>(data_bytes)) * 1e6};
}

std::string size_name(std::size_t bytes) {
  return bytes >= (1U << 20U)   ? fmt::format("{} MiB", bytes >> 20U)
         : bytes >= (1U << 10U) ? fmt::format("{} KiB", bytes >> 10U)
                                : fmt::format("{} B", bytes);
}

/// Keeps consumers' sockets empty, in one thread, and counts what came.
class Readers {
 public:
  explicit Readers(std::vector<Socket> sockets)
      : sockets_(std::move(sockets)), thread_([this] { run(); }) {}
  ~Readers() {
    stop_.store(true);
    thread_.join();
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(); }

 private:
  void run() {
    std::vector<pollfd> polls;
    for (const auto& socket : sockets_) polls.push_back({socket.fd(), POLLIN, 0});
    std::vector<char> some(256U << 10U);
    while (!stop_.load()) {
      if (::poll(polls.data(), polls.size(), 20) <= 0) continue;
      for (auto& one : polls) {
        if ((one.revents & POLLIN) == 0) continue;
        const auto got = ::recv(one.fd, some.data(), some.size(), MSG_DONTWAIT);
        if (got > 0) bytes_.fetch_add(static_cast<std::uint64_t>(got));
      }
    }
  }
  std::vector<Socket> sockets_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> bytes_{0};
  std::thread thread_;
};

/// A producer that is a little ahead of its consumers and no more, so that all that is sent is
/// delivered.
template <typename Send>
double fan_out_cost(const Child& server,
                    const Readers& readers,
                    std::size_t data_bytes,
                    std::size_t frames_at_once,
                    std::size_t consumers,
                    double seconds,
                    Send send) {
  const double cpu = server.cpu_seconds();
  const double start = now_seconds();
  const std::uint64_t before = readers.bytes();
  const std::uint64_t ahead =
      std::max<std::uint64_t>(256U << 10U, 2 * data_bytes * frames_at_once) * consumers;
  std::uint64_t sent = 0;
  const auto behind = [&] {
    return sent * data_bytes * consumers -
           std::min(sent * data_bytes * consumers, readers.bytes() - before);
  };
  while (now_seconds() < start + seconds) {
    send();
    sent += frames_at_once;
    while (behind() > ahead && now_seconds() < start + seconds + 2) std::this_thread::yield();
  }
  const double until = now_seconds() + 2;
  while (behind() > 0 && now_seconds() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double delivered =
      static_cast<double>(std::min(readers.bytes() - before, sent * data_bytes * consumers)) /
      static_cast<double>(data_bytes);
  return (server.cpu_seconds() - cpu) / std::max(1.0, delivered) * 1e6;
}

}  // namespace

void ingest(const Settings& settings, Report& report) {
  for (const std::size_t bytes :
       {std::size_t{256}, std::size_t{1} << 10U, std::size_t{64} << 10U, std::size_t{1} << 20U}) {
    std::vector<double> ours, raw, beast, ours_cpu, raw_cpu, beast_cpu;
    const auto raw_server = start_raw_sink();
    const auto beast_server = start_beast_sink();
    const auto bridge = start_bridge(settings.simbridge);
    for (int i = 0; i < settings.repetitions; ++i) {
      const Load r = blast_raw(*raw_server, bytes, settings.seconds);
      Socket to_beast(beast_server->port());
      upgrade(to_beast, "/");
      const Load b = blast(to_beast, *beast_server, bytes, settings.seconds);
      const Socket to_bridge = open_session(bridge->port());
      advertise(to_bridge, false);
      const Load o = blast(to_bridge, *bridge, bytes, settings.seconds);
      ours.push_back(o.mb_per_s);
      ours_cpu.push_back(o.cpu_us);
      raw.push_back(r.mb_per_s);
      raw_cpu.push_back(r.cpu_us);
      beast.push_back(b.mb_per_s);
      beast_cpu.push_back(b.cpu_us);
    }
    const double goal = bytes >= (1U << 20U) ? 0.8 : bytes <= 1024 ? 0.6 : 0;
    report.add({.name = fmt::format("WebSocket ingest, {}", size_name(bytes)),
                .value = median(ours),
                .unit = "MB/s",
                .peer = "raw TCP into a memfd",
                .peer_value = median(raw),
                .goal = goal > 0 ? fmt::format(">= {}", goal) : "",
                .goal_low = goal,
                .note = ""});
    report.add({.name = fmt::format("WebSocket ingest, {}, processor", size_name(bytes)),
                .value = median(ours_cpu),
                .unit = "us/message",
                .peer = "Beast async_read",
                .peer_value = median(beast_cpu),
                .goal = bytes == 1024 ? "<= 0.3" : "",
                .goal_high = bytes == 1024 ? 0.3 : 0,
                .note = ""});
  }
  report.add({.name = "WebSocket ingest beside uWebSockets",
              .note = "uWebSockets is not packaged: not run"});
}

double websocket_fan_out_cost(const Settings& settings,
                              std::size_t data_bytes,
                              std::size_t consumers,
                              double seconds) {
  const auto bridge = start_bridge(settings.simbridge);
  const Socket producer = open_session(bridge->port());
  advertise(producer, false);
  std::vector<Socket> sockets;
  for (std::size_t c = 0; c < consumers; ++c) {
    sockets.push_back(open_session(bridge->port()));
    subscribe(sockets.back(), false);
  }
  const Readers readers(std::move(sockets));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  FrameBuffer buffer(data_bytes, data_bytes <= 1024 ? 32 * data_bytes : data_bytes);
  return fan_out_cost(*bridge, readers, data_bytes, buffer.frames(), consumers, seconds, [&] {
    producer.write_all(buffer.next());
    drain(producer);
  });
}

void fan_out(const Settings& settings, Report& report) {
  for (const std::size_t bytes : {std::size_t{1} << 10U, std::size_t{1} << 20U}) {
    for (const std::size_t consumers : {std::size_t{1}, std::size_t{8}, std::size_t{64}}) {
      std::vector<double> ours, theirs;
      for (int i = 0; i < settings.repetitions; ++i) {
        ours.push_back(websocket_fan_out_cost(settings, bytes, consumers, settings.seconds));
        if (const auto nats = start_nats()) {
          const Socket producer(nats->port());
          producer.write_all(std::string("CONNECT {\"verbose\":false}\r\n"));
          std::vector<Socket> sockets;
          for (std::size_t c = 0; c < consumers; ++c) {
            sockets.emplace_back(nats->port());
            sockets.back().write_all(
                std::string("CONNECT {\"verbose\":false}\r\nSUB bench 1\r\nPING\r\n"));
          }
          const Readers readers(std::move(sockets));
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          std::string batch;
          const std::size_t at_once = bytes <= 1024 ? 32 : 1;
          const std::string data = masked_data(bytes);
          for (std::size_t m = 0; m < at_once; ++m)
            batch += fmt::format("PUB bench {}\r\n", bytes) + data + "\r\n";
          theirs.push_back(
              fan_out_cost(*nats, readers, bytes, at_once, consumers, settings.seconds, [&] {
                producer.write_all(batch);
                drain(producer);
              }));
        }
      }
      const bool goal = consumers > 1;
      Row row{
          .name = fmt::format("fan-out, {}, {} consumers, processor", size_name(bytes), consumers),
          .value = median(ours),
          .unit = "us/delivery",
          .note = "nats-server is not installed: not run"};
      if (!theirs.empty()) {
        row.peer = "NATS";
        row.peer_value = median(theirs);
        row.goal = goal ? "<= 0.5" : "";
        row.goal_high = goal ? 0.5 : 0;
      }
      report.add(row);
    }
  }
  report.add(
      {.name = "fan-out beside uWebSockets", .note = "uWebSockets is not packaged: not run"});
}

namespace {

struct Delays {
  std::vector<double> p50, p99;
};

/// Open loop: a message every period, its time inside; the reader looks for the marker.
template <typename Make>
void measure_delay(const Socket& in,
                   const Socket& out,
                   std::size_t bytes,
                   double rate,
                   double seconds,
                   Make make,
                   Delays& delays) {
  std::vector<double> took;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    const std::string marker = "simbridge-bench:";
    std::string text;
    std::vector<char> some(1U << 20U);
    std::size_t skip = 0;
    while (!done.load()) {
      const auto got = out.read_some(some, 50);
      if (got == 0) return;
      if (got < 0) continue;
      const double now = now_seconds();
      text.append(some.data(), static_cast<std::size_t>(got));
      for (;;) {
        if (skip > 0) {
          const std::size_t step = std::min(skip, text.size());
          text.erase(0, step);
          skip -= step;
          if (skip > 0) break;
          // The last byte of that message is here: now counts.
          if (!took.empty() && took.back() < 0) took.back() += now;
        }
        const auto found = text.find(marker);
        if (found == std::string::npos || text.size() < found + marker.size() + 8) {
          if (text.size() > 64 && found == std::string::npos) text.erase(0, text.size() - 64);
          break;
        }
        double sent = 0;
        std::memcpy(&sent, text.data() + found + marker.size(), 8);
        took.push_back(-sent);
        skip = found + bytes;
      }
    }
  });
  std::string data(bytes, 'x');
  const double start = now_seconds();
  const auto count = static_cast<int>(rate * seconds);
  for (int i = 0; i < count; ++i) {
    const double due = start + i / rate;
    while (now_seconds() < due) {
      if (due - now_seconds() > 300e-6) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    const double sent = now_seconds();
    std::memcpy(data.data(), "simbridge-bench:", 16);
    std::memcpy(data.data() + 16, &sent, 8);
    in.write_all(make(data, static_cast<std::uint64_t>(i)));
    drain(in);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  done.store(true);
  reader.join();
  std::erase_if(took, [](double one) { return one <= 0; });
  for (auto& one : took) one *= 1e6;
  delays.p50.push_back(percentile(took, 0.5));
  delays.p99.push_back(percentile(took, 0.99));
}

}  // namespace

void latency(const Settings& settings, Report& report) {
  struct Case {
    std::size_t bytes;
    double rate;
  };
  for (const Case& one : {Case{1U << 10U, 2000}, Case{1U << 20U, 60}}) {
    Delays ours, plain, theirs;
    const double seconds = std::max(1.0, 2 * settings.seconds);
    for (int i = 0; i < settings.repetitions; ++i) {
      {
        const auto wire = start_wire();
        const Socket out(wire->port());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const Socket in(wire->port());
        measure_delay(
            in,
            out,
            one.bytes,
            one.rate,
            seconds,
            [](const std::string& data, std::uint64_t) -> const std::string& { return data; },
            plain);
      }
      {
        const auto bridge = start_bridge(settings.simbridge);
        const Socket in = open_session(bridge->port());
        advertise(in, false);
        const Socket out = open_session(bridge->port());
        subscribe(out, false);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::string message, masked;
        measure_delay(
            in,
            out,
            one.bytes,
            one.rate,
            seconds,
            [&](const std::string& data, std::uint64_t i2) -> const std::string& {
              masked = data;
              for (auto& byte : masked) byte = static_cast<char>(byte ^ kKey);
              message.clear();
              append_frame(message, kFirstSequence + i2, masked);
              return message;
            },
            ours);
      }
      if (const auto nats = start_nats()) {
        const Socket in(nats->port());
        in.write_all(std::string("CONNECT {\"verbose\":false}\r\n"));
        const Socket out(nats->port());
        out.write_all(std::string("CONNECT {\"verbose\":false}\r\nSUB bench 1\r\n"));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::string message;
        measure_delay(
            in,
            out,
            one.bytes,
            one.rate,
            seconds,
            [&](const std::string& data, std::uint64_t) -> const std::string& {
              message = fmt::format("PUB bench {}\r\n", data.size()) + data + "\r\n";
              return message;
            },
            theirs);
      }
    }
    const bool large = one.bytes > 4096;
    const auto row = [&](const char* which,
                         double value,
                         const std::string& peer,
                         double peer_value,
                         std::string goal,
                         double high) {
      report.add({.name = fmt::format("latency {}, {}", size_name(one.bytes), which),
                  .value = value,
                  .unit = "us",
                  .peer = peer,
                  .peer_value = peer_value,
                  .goal = std::move(goal),
                  .goal_high = high,
                  .note = ""});
    };
    if (large) {
      row("p50", median(ours.p50), "wire", median(plain.p50), "<= 2.0", 2.0);
      row("p99", median(ours.p99), "wire", median(plain.p99), "<= 2.5", 2.5);
    } else {
      report.add({.name = "latency 1 KiB, p50 above the wire's",
                  .value = median(ours.p50) - median(plain.p50),
                  .unit = "us",
                  .goal = "<= 20 us",
                  .goal_high = 20,
                  .note = fmt::format("wire {:.0f} us", median(plain.p50))});
      row("p99", median(ours.p99), "wire", median(plain.p99), "<= 2.0", 2.0);
    }
    if (!theirs.p99.empty())
      row("p99",
          median(ours.p99),
          "NATS",
          median(theirs.p99),
          large ? "<= 1.0" : "",
          large ? 1.0 : 0);
  }
}

void idle(const Settings& settings, Report& report) {
  constexpr int kSessions = 1000;
  const auto bridge = start_bridge(settings.simbridge);
  {
    const Socket warm = open_session(bridge->port());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  const double before = bridge->rss_bytes();
  std::vector<Socket> sockets;
  for (int i = 0; i < kSessions; ++i) sockets.push_back(open_session(bridge->port()));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  report.add({.name = "idle WebSocket session, resident memory",
              .value = (bridge->rss_bytes() - before) / kSessions / 1024,
              .unit = "KiB",
              .goal = "<= 8 KiB",
              .goal_high = 8,
              .note = "1000 sessions after Hello"});
}

}  // namespace simbridge::bench
