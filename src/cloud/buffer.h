#pragma once
// What: memory that keeps its size from frame to frame and is not written before it is used.
// Owner: a decimator's scratch.   Threads: one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace simbridge::cloud {

template <typename T>
class Buffer {
 public:
  /// At least so many; what stood there before is lost where it had to grow.
  void need(std::size_t count) {
    if (count > capacity_) take(count);
  }
  /// At least so many, the first `kept` stay.
  void grow(std::size_t count, std::size_t kept) {
    if (count <= capacity_) return;
    auto old = std::move(data_);
    take(std::max(count, capacity_ * 2));
    std::copy_n(old.get(), kept, data_.get());
  }
  void release() {
    data_.reset();
    capacity_ = 0;
  }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{capacity_} * sizeof(T); }
  T* data() { return data_.get(); }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] std::span<const T> first(std::size_t count) const { return {data_.get(), count}; }

 private:
  void take(std::size_t count) {
    data_ = std::make_unique_for_overwrite<T[]>(count);
    capacity_ = count;
  }
  std::unique_ptr<T[]> data_;
  std::size_t capacity_ = 0;
};

}  // namespace simbridge::cloud
