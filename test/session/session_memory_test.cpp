// What a peer costs before its Hello (protocol.md §2, point 1). A program of its own: it counts
// every allocation.
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> live_bytes{0};

}  // namespace

void* operator new(std::size_t bytes) {
  void* place = std::malloc(bytes);
  if (place == nullptr) std::abort();
  live_bytes.fetch_add(static_cast<std::int64_t>(malloc_usable_size(place)),
                       std::memory_order_relaxed);
  return place;
}
void operator delete(void* place) noexcept {
  if (place == nullptr) return;
  live_bytes.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(place)),
                       std::memory_order_relaxed);
  std::free(place);
}
void operator delete(void* place, std::size_t) noexcept {
  operator delete(place);
}

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("before Hello is accepted a peer costs less than 16 KiB, whatever it sends",
          "[session][memory]") {
  TestBridge bridge;
  v1::ClientMessage message = hello_message();
  message.mutable_hello()->set_token(std::string(8192, 't'));
  message.mutable_hello()->set_agent(std::string(256, 'a'));
  const std::string hello = message.SerializeAsString();
  constexpr int kPeers = 50;
  std::vector<std::unique_ptr<FakePeer>> peers;
  peers.reserve(kPeers);
  const std::int64_t before = live_bytes.load();
  SECTION("nothing") {
    for (int i = 0; i < kPeers; ++i) peers.push_back(std::make_unique<FakePeer>(bridge, false));
  }
  SECTION("a large Hello but for its last byte, byte by byte") {
    for (int i = 0; i < kPeers; ++i) {
      peers.push_back(std::make_unique<FakePeer>(bridge, false));
      peers.back()->begin(i % 2 == 0 ? std::optional<std::uint64_t>(hello.size()) : std::nullopt);
      for (std::size_t at = 0; at + 1 < hello.size(); ++at)
        peers.back()->chunk(std::string_view(hello).substr(at, 1));
    }
  }
  SECTION("a large Hello in large pieces") {
    for (int i = 0; i < kPeers; ++i) {
      peers.push_back(std::make_unique<FakePeer>(bridge, false));
      peers.back()->begin(std::nullopt);
      peers.back()->chunk(std::string_view(hello).substr(0, 4100));
      peers.back()->chunk(std::string_view(hello).substr(4100, 4200));
    }
  }
  constexpr std::int64_t kTestsOwn = sizeof(FakePeer);
  const std::int64_t each = (live_bytes.load() - before) / kPeers - kTestsOwn;
  WARN("a peer before Hello costs " << each << " bytes");
  CHECK(each < 16 * 1024);
}
