#include "session/fake_peer.h"

#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <fmt/core.h>

#include <cstring>
#include <stdexcept>

namespace simbridge::test {

using session::Flow;

frame::StoreOptions TestBridge::small_store() {
  frame::StoreOptions options;
  options.address_space = Bytes{4ULL << 30};
  options.budget = Bytes{64ULL << 20};
  options.warm_reserve = Bytes{0};
  return options;
}

TestBridge::TestBridge(session::HubOptions options,
                       frame::StoreOptions store_options,
                       unsigned threads) {
  set_log_level(LogLevel::kError);  // what peers do wrong on purpose is no news
  auto made = frame::FrameStore::create(store_options, clock);
  SB_CHECK(made.has_value(), "the kernel gives a test its arena");
  store = std::move(*made);
  options.accept_rate = std::max(options.accept_rate, 1.0);
  pipeline = std::make_unique<pipeline::Pipeline>(
      *store, clock, pipeline::PipelineOptions{.threads = threads}, pipeline_metrics);
  hub =
      std::make_unique<session::Hub>(*store, *pipeline, clock, std::move(options), session_metrics);
}

session::ChannelSnapshot TestBridge::channel(const std::string& name) const {
  for (const auto& one : hub->channels()) {
    if (one.name == name) return one;
  }
  return {};
}

std::optional<session::SubscriptionSnapshot> TestBridge::subscription(
    std::uint64_t session, std::uint32_t id, const std::string& channel) const {
  for (const auto& one : hub->subscriptions()) {
    if (one.session == session && one.id == id && one.channel == channel) return one;
  }
  return std::nullopt;
}

void TestBridge::check_books(bool at_rest) const {
  for (const auto& one : hub->channels()) {
    if (one.received == one.published + one.duplicate + one.rejected) continue;
    throw std::runtime_error(
        fmt::format("{}: received {} are not published {} + duplicate {} + rejected {}",
                    one.name,
                    one.received,
                    one.published,
                    one.duplicate,
                    one.rejected));
  }
  for (const auto& one : hub->subscriptions()) {
    const bool balanced = one.promised == one.delivered + one.skipped + one.lost + one.waiting;
    if (balanced && (one.waiting == 0 || !at_rest)) continue;
    throw std::runtime_error(fmt::format(
        "session {}, subscription {}, {}: promised {} are not delivered {} + skipped {} + lost {} "
        "+ waiting {}, or some wait at rest",
        one.session,
        one.id,
        one.channel,
        one.promised,
        one.delivered,
        one.skipped,
        one.lost,
        one.waiting));
  }
  if (!at_rest) return;
  const auto& totals = session_metrics;
  std::uint64_t lost = 0;
  for (unsigned i = 0; i < wire::kGapReasons; ++i) lost += totals.gap_frames[i].value();
  const std::uint64_t accounted = totals.delivered_frames.value() + totals.skipped_frames.value() +
                                  lost + totals.broken_off_frames.value();
  if (totals.promised_frames.value() == accounted) return;
  throw std::runtime_error(
      fmt::format("all sessions so far: promised {} are not delivered {} + skipped {} + lost {} + "
                  "broken off {}",
                  totals.promised_frames.value(),
                  totals.delivered_frames.value(),
                  totals.skipped_frames.value(),
                  lost,
                  totals.broken_off_frames.value()));
}

FakePeer::FakePeer(TestBridge& bridge,
                   bool hello,
                   const std::string& peer_key,
                   std::uint64_t max_message_bytes)
    : bridge_(bridge) {
  auto admission = bridge.hub->admit();
  SB_CHECK(admission.has_value(), "the test bridge has room for a session");
  session_ = bridge.hub->open(
      std::move(*admission),
      session::PeerInfo{.transport = "test", .address = "here"},
      *this,
      [woken = woken_] { woken->store(true); },
      StrandRole{});
  if (hello) {
    send(hello_message(peer_key, max_message_bytes));
    pump();
    SB_CHECK(!received.empty() && received.front().has_welcome(), "Hello is answered by Welcome");
    std::erase_if(received, [](const auto& message) {
      return message.has_welcome() || message.has_channels();
    });
  }
}

FakePeer::~FakePeer() {
  if (session_) disconnect();
}

void FakePeer::disconnect(bool clean) {
  if (!session_) return;
  batch_.reset();
  session_->on_closed({session::CloseKind::kLost, "the test hung up"}, clean);
  session_.reset();
}

void FakePeer::half_close() {
  session_->on_half_close();
  pump();
}

Flow FakePeer::send_bytes(const std::string& bytes) {
  if (!held_.empty()) {
    held_.push_back(bytes);
    return Flow::kPause;
  }
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  const Flow flow = session_->on_message({data, bytes.size()}, session::MessageType::kBinary);
  if (flow == Flow::kPause) held_.push_back(bytes);
  return flow;
}

Flow FakePeer::send_pieces(const std::string& bytes,
                           const std::vector<std::size_t>& cuts,
                           bool total_known,
                           bool direct) {
  wait_for_held();
  session_->begin_message(total_known ? std::optional<std::uint64_t>(bytes.size()) : std::nullopt,
                          session::MessageType::kBinary);
  std::size_t at = 0;
  std::vector<std::size_t> ends = cuts;
  ends.push_back(bytes.size());
  for (std::size_t end : ends) {
    end = std::min(end, bytes.size());
    while (at < end) {
      if (const auto room = session_->direct_buffer(); direct && !room.empty()) {
        const std::size_t step = std::min(room.size(), end - at);
        std::memcpy(room.data(), bytes.data() + at, step);
        session_->direct_filled(step);
        direct_bytes += step;
        at += step;
        continue;
      }
      const auto* data = reinterpret_cast<const std::byte*>(bytes.data() + at);
      const session::Taken taken = session_->on_chunk({data, end - at});
      at += taken.bytes;
      if (taken.flow == Flow::kStop) return Flow::kStop;
      if (taken.flow == Flow::kPause) {
        resumed_ = false;
        for (int i = 0; i < 1000 && !resumed_; ++i) tick(milliseconds(1));
        SB_CHECK(resumed_, "a pause ends");
        continue;
      }
      SB_CHECK(taken.bytes > 0 || at == end, "who goes on has taken something");
    }
  }
  return session_->end_message();
}

bool FakePeer::take_batch() {
  batch_.emplace();
  if (!session_->next_batch(*batch_)) {
    batch_.reset();
    output_ready_ = false;
    return false;
  }
  std::size_t bytes = 0;
  for (const auto& message : batch_->view()) {
    std::string whole(reinterpret_cast<const char*>(message.prefix.data()), message.prefix.size());
    whole.append(reinterpret_cast<const char*>(message.data.data()), message.data.size());
    bytes += whole.size();
    v1::ServerMessage parsed;
    SB_CHECK(parsed.ParseFromString(whole), "what the session says parses");
    if (observe) observe(parsed);
    received.push_back(std::move(parsed));
  }
  SB_CHECK(bytes == batch_->bytes, "a batch knows its bytes");
  SB_CHECK(batch_->count == 1 || batch_->bytes <= session::Batch::kMaxBytes + 4096,
           "only a message alone is large");
  return true;
}

void FakePeer::finish_batch() {
  SB_CHECK(batch_.has_value(), "a batch was taken");
  batch_.reset();
  session_->batch_done();
}

void FakePeer::pump() {
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
    if (resumed_ && !held_.empty()) {
      resumed_ = false;
      const std::deque<std::string> again = std::exchange(held_, {});
      for (const auto& bytes : again) send_bytes(bytes);
      moved = true;
    }
    if (reading && output_ready_ && !batch_) {
      if (take_batch()) finish_batch();
      moved = true;
    }
    if (!moved && bridge_.decimates) moved = bridge_.pipeline->run_one();
    if (!moved) return;
  }
  SB_CHECK(!session_, "the strand comes to rest");
}

void FakePeer::tick(milliseconds by) {
  bridge_.clock.advance(by);
  pump();
}

void FakePeer::advertise(std::uint32_t number,
                         const std::string& name,
                         std::uint64_t epoch,
                         v1::Policy policy,
                         bool latched) {
  v1::ClientMessage message;
  auto* advertise = message.mutable_advertise();
  advertise->set_channel(number);
  advertise->set_name(name);
  advertise->set_epoch(epoch);
  advertise->set_policy(policy);
  advertise->set_latched(latched);
  send(message);
}

void FakePeer::subscribe(std::uint32_t id,
                         const std::string& pattern,
                         const std::function<void(v1::Subscribe&)>& more) {
  v1::ClientMessage message;
  auto* subscribe = message.mutable_subscribe();
  subscribe->set_id(id);
  subscribe->set_channel(pattern);
  more(*subscribe);
  send(message);
  pump();
}

void FakePeer::unsubscribe(std::uint32_t id) {
  v1::ClientMessage message;
  message.mutable_unsubscribe()->set_id(id);
  send(message);
}

void FakePeer::unadvertise(std::uint32_t number) {
  v1::ClientMessage message;
  message.mutable_unadvertise()->set_channel(number);
  send(message);
}

void FakePeer::credit(std::uint32_t subscription, std::uint32_t channel, std::uint32_t frames) {
  v1::ClientMessage message;
  message.mutable_credit()->set_subscription(subscription);
  message.mutable_credit()->set_channel(channel);
  message.mutable_credit()->set_frames(frames);
  send(message);
  pump();
}

void FakePeer::ping(std::uint64_t cookie) {
  v1::ClientMessage message;
  message.mutable_ping()->set_cookie(cookie);
  send(message);
}

void FakePeer::goodbye(const std::string& reason) {
  v1::ClientMessage message;
  message.mutable_goodbye()->set_reason(reason);
  send(message);
}

/// What was paused goes first, as in a stream.
void FakePeer::wait_for_held() {
  for (int i = 0; i < 100'000 && !held_.empty(); ++i) tick(milliseconds(1));
  SB_CHECK(held_.empty(), "a pause ends");
}

void FakePeer::begin(std::optional<std::uint64_t> total_bytes) {
  wait_for_held();
  session_->begin_message(total_bytes, session::MessageType::kBinary);
}

session::Taken FakePeer::chunk(std::string_view bytes) {
  return session_->on_chunk({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

Flow FakePeer::frame(std::uint32_t number,
                     std::uint64_t sequence,
                     std::size_t bytes,
                     std::uint64_t epoch) {
  ++frames_sent;
  return send(opaque_frame(number, sequence, pattern_bytes(sequence, bytes), epoch));
}

std::optional<v1::Frame> FakePeer::next_frame() {
  auto found = next([](const auto& message) { return message.has_frame(); });
  return found ? std::optional(found->frame()) : std::nullopt;
}
std::optional<v1::Gap> FakePeer::next_gap() {
  auto found = next([](const auto& message) { return message.has_gap(); });
  return found ? std::optional(found->gap()) : std::nullopt;
}
std::optional<v1::Ack> FakePeer::next_ack() {
  auto found = next([](const auto& message) { return message.has_ack(); });
  return found ? std::optional(found->ack()) : std::nullopt;
}
std::optional<v1::Reject> FakePeer::next_reject() {
  auto found = next([](const auto& message) { return message.has_reject(); });
  return found ? std::optional(found->reject()) : std::nullopt;
}
std::optional<v1::Advertised> FakePeer::next_advertised() {
  auto found = next([](const auto& message) { return message.has_advertised(); });
  return found ? std::optional(found->advertised()) : std::nullopt;
}
std::optional<v1::SubscriptionState> FakePeer::next_state() {
  auto found = next([](const auto& message) { return message.has_subscription_state(); });
  return found ? std::optional(found->subscription_state()) : std::nullopt;
}
std::optional<v1::Status> FakePeer::next_status() {
  auto found = next([](const auto& message) { return message.has_status(); });
  return found ? std::optional(found->status()) : std::nullopt;
}
std::vector<v1::Frame> FakePeer::frames() {
  pump();
  std::vector<v1::Frame> all;
  std::erase_if(received, [&](auto& message) {
    if (message.has_frame()) all.push_back(std::move(*message.mutable_frame()));
    return message.has_frame();
  });
  return all;
}
std::vector<v1::Gap> FakePeer::gaps() {
  std::vector<v1::Gap> all;
  while (auto gap = next_gap()) all.push_back(std::move(*gap));
  return all;
}
std::vector<v1::Ack> FakePeer::acks() {
  std::vector<v1::Ack> all;
  while (auto ack = next_ack()) all.push_back(std::move(*ack));
  return all;
}
std::vector<v1::Reject> FakePeer::rejects() {
  std::vector<v1::Reject> all;
  while (auto reject = next_reject()) all.push_back(std::move(*reject));
  return all;
}
std::optional<v1::Channels> FakePeer::next_channels() {
  auto found = next([](const auto& message) { return message.has_channels(); });
  return found ? std::optional(found->channels()) : std::nullopt;
}

v1::ClientMessage hello_message(const std::string& peer_key, std::uint64_t max_message_bytes) {
  v1::ClientMessage message;
  message.mutable_hello()->set_name("test peer");
  message.mutable_hello()->set_agent("test/1");
  message.mutable_hello()->set_peer_key(peer_key);
  message.mutable_hello()->set_max_message_bytes(max_message_bytes);
  return message;
}

v1::ClientMessage opaque_frame(std::uint32_t channel,
                               std::uint64_t sequence,
                               const std::string& data,
                               std::uint64_t epoch) {
  v1::ClientMessage message;
  auto* frame = message.mutable_frame();
  frame->set_channel(channel);
  frame->set_sequence(sequence);
  frame->set_epoch(epoch);
  frame->set_stamp_ns(static_cast<std::int64_t>(sequence * 1000));
  frame->mutable_opaque()->set_data(data);
  return message;
}

v1::ClientMessage cloud_frame(std::uint32_t channel, std::uint64_t sequence, std::uint32_t points) {
  v1::ClientMessage message;
  auto* frame = message.mutable_frame();
  frame->set_channel(channel);
  frame->set_sequence(sequence);
  frame->set_frame_id("lidar");
  auto* cloud = frame->mutable_cloud();
  cloud->set_height(1);
  cloud->set_width(points);
  cloud->set_point_step(16);
  cloud->set_row_step(16 * points);
  std::uint32_t offset = 0;
  for (const char* name : {"x", "y", "z", "intensity"}) {
    auto* field = cloud->add_fields();
    field->set_name(name);
    field->set_offset(offset);
    field->set_type(v1::TYPE_FLOAT32);
    field->set_count(1);
    offset += 4;
  }
  cloud->set_data(pattern_bytes(sequence, 16ULL * points));
  return message;
}

std::string pattern_bytes(std::uint64_t seed, std::size_t bytes) {
  std::string data(bytes, '\0');
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (auto& byte : data) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<char>(state >> 56U);
  }
  return data;
}

std::vector<v1::ClientMessage> parts_of(const v1::Frame& frame,
                                        std::uint64_t transfer,
                                        std::size_t piece) {
  const std::string whole = frame.SerializeAsString();
  const std::size_t data =
      frame.has_cloud() ? frame.cloud().data().size() : frame.opaque().data().size();
  std::vector<std::string> cuts{whole.substr(0, whole.size() - data)};
  for (std::size_t at = whole.size() - data; at < whole.size(); at += piece)
    cuts.push_back(whole.substr(at, piece));
  std::vector<v1::ClientMessage> parts(cuts.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    auto* part = parts[i].mutable_part();
    part->set_transfer(transfer);
    part->set_index(static_cast<std::uint32_t>(i));
    part->set_count(static_cast<std::uint32_t>(cuts.size()));
    part->set_total_bytes(whole.size());
    part->set_channel(frame.channel());
    part->set_sequence(frame.sequence());
    part->set_data(cuts[i]);
  }
  return parts;
}

}  // namespace simbridge::test
