#pragma once
// What: servers as child processes, so that what one costs is its own; and plain blocking sockets
// to load them. Owner: a benchmark; the destructor ends the child.   Threads: one.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace simbridge::bench {

class Child {
 public:
  /// Runs serve(port to report through the pipe) in a fork; it never returns from there.
  static std::unique_ptr<Child> fork_server(const std::function<void(int listening_socket)>& serve);
  /// Runs a program; out is read for a line that contains key, from which the port is taken.
  static std::unique_ptr<Child> run(const std::vector<std::string>& command,
                                    const std::string& key);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void set_port(std::uint16_t port) { port_ = port; }
  /// Processor time of all its threads, in seconds, with the scheduler's own resolution.
  [[nodiscard]] double cpu_seconds() const;
  [[nodiscard]] double rss_bytes() const;

 private:
  Child(pid_t pid, std::uint16_t port, int pipe) : pid_(pid), port_(port), pipe_(pipe) {}
  pid_t pid_;
  std::uint16_t port_;
  int pipe_;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(std::uint16_t port);  // connects to 127.0.0.1
  explicit Socket(int fd, bool) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int fd() const { return fd_; }
  void write_all(std::span<const char> bytes) const;
  /// Some bytes, or 0 at the end; waits at most so long (-1 with nothing then).
  std::ptrdiff_t read_some(std::span<char> bytes, int wait_ms) const;

 private:
  int fd_ = -1;
};

double now_seconds();
/// Processor time of the calling thread: what others do on the machine does not count.
double thread_seconds();

// ---- WebSocket and the bridge's messages, by hand: the load must cost the generator little
std::string masked_frame(std::span<const char> payload);  // binary, final, key 5a5a5a5a
void upgrade(const Socket& socket, const std::string& host_path_protocol);
/// Connects, upgrades, says Hello.
Socket open_session(std::uint16_t port);
void advertise(const Socket& socket, bool backpressure);
void subscribe(const Socket& socket, bool reliable);
/// Appends one masked frame message: channel 1, the sequence, opaque data that is masked already.
void append_frame(std::string& out, std::uint64_t sequence, std::string_view masked_data);
std::string masked_data(std::size_t bytes);

}  // namespace simbridge::bench
