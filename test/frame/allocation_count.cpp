// Counts what this process allocates, for the tests of "allocates nothing".
#include "frame_fixture.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// The sanitizers have allocators of their own, which must not be mixed with ours: nothing is
// counted there, and the tests prove it in the other builds.
std::uint64_t simbridge::test::allocations() {
  return 0;
}
#else
// NOLINTBEGIN(cppcoreguidelines-no-malloc, cppcoreguidelines-avoid-non-const-global-variables):
// this is the memory manager.
namespace {
std::atomic<std::uint64_t> count{0};
void* counted(std::size_t size) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

std::uint64_t simbridge::test::allocations() {
  return count.load(std::memory_order_relaxed);
}

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
// NOLINTEND(cppcoreguidelines-no-malloc, cppcoreguidelines-avoid-non-const-global-variables)
#endif
