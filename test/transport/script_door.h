#pragma once
// What: sessions whose answers a test scripts, and which note what their transport told them.
// Owner: a test.   Threads: the script runs on the sessions' strands; the notes are read from any.
#include "transport/ws_door.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simbridge::test {

/// Waits for the event, with a deadline, never for a time.
class Notes {
 public:
  void add(std::string note) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(std::move(note));
    changed_.notify_all();
  }
  /// True once a note begins so.
  [[nodiscard]] bool wait(std::string_view beginning,
                          std::chrono::milliseconds most = std::chrono::seconds(10)) {
    return wait_count(beginning, 1, most);
  }
  [[nodiscard]] bool wait_count(std::string_view beginning,
                                std::size_t count,
                                std::chrono::milliseconds most = std::chrono::seconds(10)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return count_of(beginning) >= count; });
  }
  [[nodiscard]] std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  [[nodiscard]] std::size_t count_of(std::string_view beginning) const {
    std::size_t count = 0;
    for (const auto& note : notes_) count += note.starts_with(beginning) ? 1U : 0U;
    return count;
  }
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> notes_;
};

class ScriptSession;

/// All empty: a session that takes everything and says nothing.
struct Script {
  std::function<session::Flow(ScriptSession&, const std::string& message)> on_message = {};
  std::function<bool(ScriptSession&, session::Batch&)> next_batch = {};
  std::function<void(ScriptSession&)> on_open = {};
  std::function<void(ScriptSession&)> on_wake = {};
  std::function<void(ScriptSession&)> on_timer = {};
  std::function<void(ScriptSession&)> on_half_close = {};
  std::size_t direct_bytes = 0;  // lent at a time for messages in pieces
  std::uint64_t max_message_bytes = 1U << 20U;
};

class ScriptSession final : public session::Session {
 public:
  ScriptSession(const Script& script,
                Notes& notes,
                session::Peer& connection,
                std::move_only_function<void() const> wake)
      : peer(connection), waker(std::move(wake)), script_(script), notes_(notes) {
    if (script_.on_open) script_.on_open(*this);
  }

  session::Peer& peer;
  std::move_only_function<void() const> waker;
  std::vector<std::string> lent;  // for next_batch scripts: lives until batch_done()
  int turns = 0;                  // for scripts that count

  [[nodiscard]] SessionId id() const override { return SessionId{7}; }
  session::Flow on_message(std::span<const std::byte> message,
                           session::MessageType /*type*/) override {
    return take(std::string(reinterpret_cast<const char*>(message.data()), message.size()));
  }
  void begin_message(std::optional<std::uint64_t> total_bytes,
                     session::MessageType /*type*/) override {
    notes_.add(total_bytes ? "begin " + std::to_string(*total_bytes) : "begin");
    pieces_.clear();
  }
  session::Taken on_chunk(std::span<const std::byte> chunk) override {
    pieces_.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    return {.bytes = chunk.size()};
  }
  std::span<std::byte> direct_buffer() override {
    direct_.resize(script_.direct_bytes);
    return direct_;
  }
  void direct_filled(std::size_t bytes) override {
    notes_.add("direct");
    pieces_.append(reinterpret_cast<const char*>(direct_.data()), bytes);
  }
  session::Flow end_message() override { return take(pieces_); }
  [[nodiscard]] std::uint64_t max_message_bytes() const override {
    return script_.max_message_bytes;
  }
  bool next_batch(session::Batch& batch) override {
    return script_.next_batch && script_.next_batch(*this, batch);
  }
  void batch_progress(std::size_t /*bytes*/) override {}
  void batch_done() override {
    notes_.add("batch done");
    lent.clear();
  }
  std::shared_ptr<void> take_references() override {
    notes_.add("references taken");
    auto kept = std::make_shared<std::vector<std::string>>(std::move(lent));
    return {kept.get(), [kept, &notes = notes_](void* /*memory*/) {
              notes.add("let go");
            }};
  }
  void on_wake() override {
    if (script_.on_wake) script_.on_wake(*this);
  }
  void on_timer() override {
    notes_.add("timer");
    if (script_.on_timer) script_.on_timer(*this);
  }
  void on_half_close() override {
    notes_.add("half close");
    if (script_.on_half_close) script_.on_half_close(*this);
  }
  void on_closed(const session::CloseReason& reason, bool clean) override {
    notes_.add("closed " + std::to_string(static_cast<int>(reason.kind)) +
               (clean ? " clean" : " broken") + " " + reason.text);
  }

  /// For next_batch scripts.
  static void put(session::Batch& batch, std::string_view bytes) {
    batch.messages[batch.count++] = {.prefix = {}, .data = std::as_bytes(std::span(bytes))};
    batch.bytes += bytes.size();
  }

 private:
  session::Flow take(const std::string& message) {
    const auto flow =
        script_.on_message ? script_.on_message(*this, message) : session::Flow::kContinue;
    if (flow != session::Flow::kPause) notes_.add("message " + message.substr(0, 100));
    return flow;
  }

  const Script& script_;
  Notes& notes_;
  std::string pieces_;
  std::vector<std::byte> direct_;
};

class ScriptDoor final : public transport::ws::Door {
 public:
  explicit ScriptDoor(Script script) : script_(std::move(script)) {}

  std::expected<Place, session::Refusal> admit() override {
    if (refusal) return std::unexpected(*refusal);
    return Place([this](const session::PeerInfo& /*info*/,
                        session::Peer& peer,
                        std::move_only_function<void() const> waker,
                        StrandRole role) {
      role.assert_held();
      return std::make_shared<ScriptSession>(script_, notes, peer, std::move(waker));
    });
  }

  Notes notes;
  std::optional<session::Refusal> refusal = {};

 private:
  Script script_;
};

}  // namespace simbridge::test
