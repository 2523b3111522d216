#include "session/flat_peer.h"

#include "simbridge/base/check.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace simbridge::test {

using session::Flow;
using session::MessageType;

FlatPeer::FlatPeer(TestBridge& bridge, bool hello) : bridge_(bridge) {
  auto admission = bridge.hub->admit();
  SB_CHECK(admission.has_value(), "the test bridge has room for a session");
  session_ = bridge.hub->open(
      std::move(*admission),
      session::PeerInfo{
          .transport = "test", .address = "here", .encoding = session::Encoding::kFlat},
      *this,
      [woken = woken_] { woken->store(true); },
      StrandRole{});
  if (!hello) return;
  text(R"({"hello": {"name": "flat"}})");
  pump();
  SB_CHECK(!control.empty() && control.front().has_welcome(), "Hello is answered by Welcome");
  control.clear();
}

FlatPeer::~FlatPeer() {
  if (session_) disconnect();
}

void FlatPeer::disconnect() {
  session_->on_closed({session::CloseKind::kLost, "the test hung up"}, false);
  session_.reset();
}

Flow FlatPeer::send(std::string_view bytes, MessageType type) {
  for (int tries = 0; tries < 1000; ++tries) {
    const Flow flow = session_->on_message(std::as_bytes(std::span(bytes)), type);
    pump();
    if (flow != Flow::kPause) return flow;
    bridge_.clock.advance(milliseconds(1));
  }
  SB_CHECK(false, "a pause ends");
  return Flow::kStop;
}

Flow FlatPeer::pieces(std::string_view bytes,
                      const std::vector<std::size_t>& cuts,
                      MessageType type,
                      bool total_known,
                      bool direct) {
  session_->begin_message(total_known ? std::optional<std::uint64_t>(bytes.size()) : std::nullopt,
                          type);
  std::vector<std::size_t> ends = cuts;
  ends.push_back(bytes.size());
  std::size_t at = 0;
  int pauses = 0;
  for (const std::size_t end : ends) {
    while (at < end) {
      if (const auto room = session_->direct_buffer(); direct && !room.empty()) {
        const std::size_t step = std::min(room.size(), end - at);
        std::memcpy(room.data(), bytes.data() + at, step);
        session_->direct_filled(step);
        at += step;
        continue;
      }
      // A copy of its own: what a sanitizer sees beyond the piece is nobody's.
      const std::vector<char> piece(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                    bytes.begin() + static_cast<std::ptrdiff_t>(end));
      const session::Taken taken = session_->on_chunk(std::as_bytes(std::span(piece)));
      at += taken.bytes;
      if (taken.flow == Flow::kStop) return Flow::kStop;
      if (taken.flow == Flow::kPause) {
        SB_CHECK(++pauses < 1000, "a pause ends");
        bridge_.clock.advance(milliseconds(1));
        pump();
      }
    }
  }
  const Flow flow = session_->end_message();
  pump();
  return flow;
}

bool FlatPeer::take_batch() {
  session::Batch batch;
  if (!session_->next_batch(batch)) {
    output_ready_ = false;
    return false;
  }
  for (const auto& message : batch.view()) {
    std::string whole;
    for (const auto piece : {message.prefix, message.data, message.suffix})
      whole.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (message.type == MessageType::kBinary) {
      frames.push_back(std::move(whole));
      continue;
    }
    SB_CHECK(google::protobuf::util::JsonStringToMessage(whole, &control.emplace_back()).ok(),
             "what the session says is JSON");
  }
  session_->batch_done();
  return true;
}

void FlatPeer::pump() {
  for (int guard = 0; guard < 100'000 && session_; ++guard) {
    bool moved = false;
    if (woken_->exchange(false)) {
      session_->on_wake();
      moved = true;
    }
    if (wake_at_ && *wake_at_ <= bridge_.clock.now()) {
      wake_at_.reset();
      session_->on_timer();
      moved = true;
    }
    if (output_ready_) moved = take_batch() || moved;
    if (!moved) moved = bridge_.pipeline->run_one();
    if (!moved) return;
  }
  SB_CHECK(!session_, "the strand comes to rest");
}

std::string FlatPeer::answers() {
  bridge_.clock.advance(milliseconds(200));  // acknowledgements that wait are due
  pump();
  std::string lines;
  for (const auto& message : std::exchange(control, {}))
    if (message.has_reject() || message.has_ack()) lines += message.ShortDebugString() + "\n";
  return lines;
}

FlatRoad::FlatRoad()
    : bridge_(session::HubOptions{.accept_rate = 1e9, .max_channels = 100'000}), reader_(bridge_) {}

FlatRoad::Outcome FlatRoad::play(const std::function<void(FlatPeer&)>& send) {
  FlatPeer sensor(bridge_);
  const std::string name = fmt::format("c{}", ++channel_);
  sensor.text(
      fmt::format(R"({{"advertise": {{"channel": 1, "name": "{}", "epoch": "7"}}}})", name));
  reader_.subscribe(1, name);  // and no others: what is idle costs the reader something too
  sensor.control.clear();
  reader_.received.clear();
  send(sensor);
  Outcome outcome{.answers = sensor.answers(), .frame = {}};
  if (sensor.closed) outcome.answers += "closed: " + sensor.closed->text;
  while (auto frame = reader_.next_frame()) {
    frame->clear_channel();
    frame->clear_received_ns();
    frame->clear_forwarded_ns();
    frame->clear_result();
    outcome.frame += frame->ShortDebugString();
  }
  sensor.disconnect();
  bridge_.check_books();
  reader_.unsubscribe(1);
  reader_.pump();
  SB_CHECK(bridge_.store->stats().ingest_held.count == 0, "no memory stays with who sent");
  return outcome;
}

}  // namespace simbridge::test
