#pragma once
// What: sessions that send every message back, text as text; for judging the road below the
// protocol. Owner: a test or the echo server.   Threads: as session::Session.
#include "transport/ws_door.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace simbridge::test {

class EchoSession final : public session::Session {
 public:
  EchoSession(session::Peer& peer, std::uint64_t max_message_bytes)
      : peer_(peer), max_message_bytes_(max_message_bytes) {}

  [[nodiscard]] SessionId id() const override { return SessionId{1}; }

  session::Flow on_message(std::span<const std::byte> message, session::MessageType type) override {
    begin_message(message.size(), type);
    on_chunk(message);
    return end_message();
  }
  void begin_message(std::optional<std::uint64_t> total_bytes, session::MessageType type) override {
    message_ = {.type = type, .bytes = {}};
    filled_ = 0;
    if (total_bytes) message_.bytes.resize(*total_bytes);
  }
  session::Taken on_chunk(std::span<const std::byte> chunk) override {
    if (message_.bytes.size() < filled_ + chunk.size())
      message_.bytes.resize(filled_ + chunk.size());
    std::copy(
        chunk.begin(), chunk.end(), message_.bytes.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += chunk.size();
    return {.bytes = chunk.size()};
  }
  std::span<std::byte> direct_buffer() override {
    return std::span(message_.bytes).subspan(filled_);
  }
  void direct_filled(std::size_t bytes) override { filled_ += bytes; }
  session::Flow end_message() override {
    waiting_.push_back(std::move(message_));
    peer_.output_ready();
    return session::Flow::kContinue;
  }
  [[nodiscard]] std::uint64_t max_message_bytes() const override { return max_message_bytes_; }

  bool next_batch(session::Batch& batch) override {
    if (waiting_.empty()) return false;
    // The queue keeps the bytes until batch_done().
    for (const Message& message : waiting_) {
      if (batch.count == session::Batch::kMaxMessages) break;
      if (batch.count != 0 && batch.bytes + message.bytes.size() > session::Batch::kMaxBytes) break;
      batch.messages[batch.count++] = {.prefix = {}, .data = message.bytes, .type = message.type};
      batch.bytes += message.bytes.size();
    }
    lent_ = batch.count;
    return true;
  }
  void batch_progress(std::size_t /*bytes*/) override {}
  void batch_done() override {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(lent_));
    lent_ = 0;
  }

  std::shared_ptr<void> take_references() override {
    return std::make_shared<std::deque<Message>>(std::move(waiting_));  // the bytes stay in place
  }

  void on_wake() override {}
  void on_timer() override {}
  void on_half_close() override {}
  void on_closed(const session::CloseReason& /*reason*/, bool /*clean*/) override {}

 private:
  struct Message {
    session::MessageType type = session::MessageType::kBinary;
    std::vector<std::byte> bytes;
  };

  session::Peer& peer_;
  std::uint64_t max_message_bytes_;
  Message message_;
  std::size_t filled_ = 0;
  std::deque<Message> waiting_;
  std::size_t lent_ = 0;
};

class EchoDoor final : public transport::ws::Door {
 public:
  explicit EchoDoor(std::uint64_t max_message_bytes = 64U << 20U)
      : max_message_bytes_(max_message_bytes) {}

  [[nodiscard]] transport::ws::UpgradeRules rules() const override {
    return {.path = {}, .subprotocols = {}};
  }
  std::expected<Place, session::Refusal> admit() override {
    return Place([this](const session::PeerInfo& /*info*/,
                        session::Peer& peer,
                        std::move_only_function<void() const> /*waker*/,
                        const StrandRole& /*role*/) {
      return std::make_shared<EchoSession>(peer, max_message_bytes_);
    });
  }

 private:
  std::uint64_t max_message_bytes_;
};

}  // namespace simbridge::test
