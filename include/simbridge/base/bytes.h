#pragma once
// What: an amount of memory, as a type.   Owner: nobody, a value.   Threads: any.
#include <compare>
#include <cstddef>
#include <cstdint>

namespace simbridge {

/// A count of bytes. Made from a number only on purpose, so that frames and bytes are never mixed
/// up.
struct Bytes {
  std::uint64_t count = 0;

  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t n) : count(n) {}

  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count + b.count}; }
  /// Saturates at zero: a budget that was cut below what is in use has nothing left.
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    return Bytes{a.count > b.count ? a.count - b.count : 0};
  }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t n) { return Bytes{a.count * n}; }
  friend constexpr Bytes operator/(Bytes a, std::uint64_t n) { return Bytes{a.count / n}; }
  constexpr Bytes& operator+=(Bytes b) { return *this = *this + b; }
  constexpr Bytes& operator-=(Bytes b) { return *this = *this - b; }
};

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return Bytes{n};
}
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes{n << 10};
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes{n << 20};
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes{n << 30};
}
}  // namespace literals

}  // namespace simbridge
