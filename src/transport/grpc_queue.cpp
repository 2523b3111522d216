#include "transport/grpc_queue.h"

#include "simbridge/base/check.h"

#include <fmt/core.h>
#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace simbridge::transport::rpc {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): of the poller's own thread
thread_local const Queue* current = nullptr;

gpr_timespec after(nanoseconds time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(time.count(), GPR_TIMESPAN));
}

}  // namespace

Queue::Queue(unsigned index,
             std::unique_ptr<grpc::ServerCompletionQueue> queue,
             const Shared& shared)
    : index_(index),
      queue_(std::move(queue)),
      shared_(shared),
      alarm_(std::make_unique<grpc::Alarm>()) {}

Queue::~Queue() {
  SB_CHECK(bell_.load(std::memory_order_seq_cst) == Bell::kClosed,
           "a completion queue is closed before it is destroyed");
}

bool Queue::here() const {
  return current == this;
}

// ---- mail

void Queue::post(std::shared_ptr<Recipient> recipient) {
  Recipient* const entry = recipient.get();
  // acq_rel: with the release of read_mail(), which has read the two fields below.
  if (entry->posted_.exchange(true, std::memory_order_acq_rel)) return;
  entry->kept_ = std::move(recipient);
  Recipient* head = mail_.load(std::memory_order_relaxed);
  do {
    entry->next_ = head;
  } while (!mail_.compare_exchange_weak(head, entry, std::memory_order_seq_cst));
  if (waits_.exchange(false, std::memory_order_seq_cst)) ring();
  if (bell_.load(std::memory_order_seq_cst) == Bell::kClosed) drop_mail();
}

void Queue::ring() {
  Bell silent = Bell::kSilent;
  if (!bell_.compare_exchange_strong(silent, Bell::kRung, std::memory_order_seq_cst)) return;
  alarm_->Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), static_cast<Event*>(this));
}

void Queue::happened(bool /*ok*/) {
  Bell rung = Bell::kRung;
  bell_.compare_exchange_strong(rung, Bell::kSilent, std::memory_order_seq_cst);
}

void Queue::read_mail() {
  Recipient* list = mail_.exchange(nullptr, std::memory_order_seq_cst);
  Recipient* in_order = nullptr;
  while (list != nullptr) {
    Recipient* const next = std::exchange(list->next_, in_order);
    in_order = list;
    list = next;
  }
  while (in_order != nullptr) {
    const std::shared_ptr<Recipient> recipient = std::move(in_order->kept_);
    in_order = std::exchange(in_order->next_, nullptr);
    // release: pairs with post(); from here on it may be posted again.
    recipient->posted_.store(false, std::memory_order_release);
    recipient->on_mail();
  }
}

/// Nobody reads any more.
void Queue::drop_mail() {
  Recipient* list = mail_.exchange(nullptr, std::memory_order_seq_cst);
  while (list != nullptr) {
    const std::shared_ptr<Recipient> recipient = std::move(list->kept_);
    list = list->next_;
  }
}

// ---- timers

void Queue::set_timer(Recipient& recipient, Monotonic time) {
  if (recipient.timer_) {
    if ((*recipient.timer_)->first == time) return;
    auto node = timers_.extract(*recipient.timer_);
    node.key() = time;
    recipient.timer_ = timers_.insert(std::move(node));
    return;
  }
  recipient.timer_ = timers_.emplace(time, &recipient);
}

void Queue::drop_timer(Recipient& recipient) {
  if (!recipient.timer_) return;
  timers_.erase(*recipient.timer_);
  recipient.timer_.reset();
}

void Queue::run_timers() {
  if (timers_.empty()) return;
  const Monotonic now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Recipient& recipient = *timers_.begin()->second;
    drop_timer(recipient);
    recipient.on_time();
  }
}

void Queue::defer(std::shared_ptr<Recipient> recipient) {
  deferred_.push_back(std::move(recipient));
}

void Queue::run_deferred() {
  for (const auto& recipient : std::exchange(deferred_, {})) recipient->on_idle();
}

std::optional<nanoseconds> Queue::wait() const {
  if (!deferred_.empty()) return nanoseconds(0);
  if (timers_.empty()) return std::nullopt;
  return std::max(nanoseconds(0),
                  nanoseconds(timers_.begin()->first - std::chrono::steady_clock::now()));
}

// ---- the poller

// A handler that throws is a defect, and ends the process here.
void Queue::run() {
  current = this;
  pthread_setname_np(pthread_self(), fmt::format("sb-grpc-{}", index_).c_str());
  while (true) {
    waits_.store(true, std::memory_order_seq_cst);
    const bool mail = mail_.load(std::memory_order_seq_cst) != nullptr;
    void* tag = nullptr;
    bool ok = false;
    const auto most = mail ? nanoseconds(0) : wait();
    const auto seen =
        queue_->AsyncNext(&tag, &ok, most ? after(*most) : gpr_inf_future(GPR_CLOCK_MONOTONIC));
    waits_.store(false, std::memory_order_seq_cst);
    static_cast<void>(expected_.load(std::memory_order_acquire));
    SB_CHECK(seen != grpc::CompletionQueue::SHUTDOWN,
             "a queue is closed after its poller has left");
    {
      const Turn turn(shared_.permits);
      if (seen == grpc::CompletionQueue::GOT_EVENT) static_cast<Event*>(tag)->happened(ok);
      read_mail();
      run_timers();
      if (seen == grpc::CompletionQueue::TIMEOUT && !mail) run_deferred();
    }
    if (leave()) return;
  }
}

/// True: the queue is not wanted any more, and nothing lives here.
bool Queue::leave() {
  // Mail that is here already is read first; later mail is for who lives here, and keeps it.
  if (mail_.load(std::memory_order_seq_cst) != nullptr || !deferred_.empty()) return false;
  const MutexLock lock(mutex_);
  if (wanted_ || users_ != 0) return false;
  // The bell that was rung is heard by this poller, so that the queue is left without an event.
  if (bell_.load(std::memory_order_seq_cst) == Bell::kRung) return false;
  running_ = false;
  shared_.threads.add(-1);
  current = nullptr;
  return true;
}

void Queue::start() {
  if (running_) return;
  if (thread_.joinable())
    thread_.join();  // it has left, and runs no more than its last instructions
  running_ = true;
  shared_.threads.add(1);
  thread_ = std::thread([this] { run(); });
}

void Queue::set_wanted(bool wanted) {
  {
    const MutexLock lock(mutex_);
    if (closing_) return;
    wanted_ = wanted;
    if (wanted) start();
    if (!running_) return;
  }
  if (!wanted) ring();  // it looks whether it may leave
}

void Queue::add_user() {
  const MutexLock lock(mutex_);
  ++users_;
  start();
}

void Queue::remove_user() {
  const MutexLock lock(mutex_);
  SB_CHECK(users_ > 0, "who leaves a queue has come to it");
  if (--users_ == 0) unused_.notify_all();
}

bool Queue::wait_unused(Monotonic deadline) const {
  std::unique_lock lock(mutex_.native());
  return unused_.wait_until(lock, deadline, [this]() SB_NO_ANALYSIS { return users_ == 0; });
}

std::size_t Queue::users() const {
  const MutexLock lock(mutex_);
  return users_;
}

void Queue::close() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    wanted_ = false;
    thread = std::move(thread_);
  }
  ring();
  if (thread.joinable()) thread.join();
  // No poller: what is still rung is heard here. Who rings later finds the bell closed.
  while (true) {
    Bell silent = Bell::kSilent;
    if (bell_.compare_exchange_strong(silent, Bell::kClosed, std::memory_order_seq_cst)) break;
    void* tag = nullptr;
    bool ok = false;
    if (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->happened(ok);
  }
  drop_mail();
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->happened(ok);
}

}  // namespace simbridge::transport::rpc
