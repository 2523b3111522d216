#include "client/sha256.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace simbridge::client {
namespace {

constexpr std::size_t kBlock = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<std::uint32_t, 64> kRounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;
constexpr State kStart{
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

void mix_blocks(State& state, std::string_view data, std::size_t blocks) {
  for (; blocks > 0; --blocks, data.remove_prefix(kBlock)) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, data.data() + 4 * i, sizeof(word));
      w[i] = __builtin_bswap32(word);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3U);
      const auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10U);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
      const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const auto t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const auto t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  }
}

#if defined(__x86_64__)
// NOLINTBEGIN(portability-simd-intrinsics): these instructions have no portable form; the portable
// code stands above.
__m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

/// The same by the processor's own instructions, five times faster: a watcher hashes what it gets.
__attribute__((target("sha,sse4.1"))) void mix_blocks_native(State& state,
                                                             std::string_view data,
                                                             std::size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  // The instructions want the words as (a b e f) and (c d g h), high to low.
  __m128i dcba = load(state.data());
  __m128i hgfe = load(state.data() + 4);
  dcba = _mm_shuffle_epi32(dcba, 0xB1);
  hgfe = _mm_shuffle_epi32(hgfe, 0x1B);
  __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, dcba, 0xF0);
  for (; blocks > 0; --blocks, data.remove_prefix(kBlock)) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4]{};
    for (std::size_t i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(data.data() + 16 * i), swap);
    for (std::size_t four = 0; four < 16; ++four) {
      auto& now = w[four % 4];
      if (four >= 4) {  // the sixteen words before make the next four
        const auto& second = w[(four + 1) % 4];
        const auto& third = w[(four + 2) % 4];
        const auto& last = w[(four + 3) % 4];
        now = _mm_sha256msg1_epu32(now, second);
        now = _mm_add_epi32(now, _mm_alignr_epi8(last, third, 4));
        now = _mm_sha256msg2_epu32(now, last);
      }
      __m128i sum = _mm_add_epi32(now, load(kRounds.data() + 4 * four));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      sum = _mm_shuffle_epi32(sum, 0x0E);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  dcba = _mm_blend_epi16(feba, dchg, 0xF0);
  hgfe = _mm_alignr_epi8(dchg, feba, 8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), dcba);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data() + 4), hgfe);
}

// NOLINTEND(portability-simd-intrinsics)

bool has_native() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kShaBit = 1U << 29U;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & kShaBit) != 0 &&
         __builtin_cpu_supports("sse4.1") != 0;
}
#endif

using Mix = void (*)(State& state, std::string_view data, std::size_t blocks);

Mix best_mix() {
#if defined(__x86_64__)
  if (has_native()) return mix_blocks_native;
#endif
  return mix_blocks;
}

}  // namespace

std::string sha256_hex(std::string_view data, Sha256Code code) {
  static const Mix kBest = best_mix();
  const Mix mix = code == Sha256Code::kBest ? kBest : mix_blocks;
  State state = kStart;
  const auto whole = data.size() / kBlock;
  mix(state, data, whole);
  // What is left, a one bit, zeros, and the length in bits.
  std::array<char, 2 * kBlock> tail{};
  const auto rest = data.size() % kBlock;
  if (rest > 0) std::memcpy(tail.data(), data.data() + whole * kBlock, rest);
  tail[rest] = static_cast<char>(0x80);
  const std::size_t blocks = rest + 9 <= kBlock ? 1 : 2;
  const std::uint64_t bits = __builtin_bswap64(std::uint64_t{data.size()} * 8);
  std::memcpy(tail.data() + blocks * kBlock - sizeof(bits), &bits, sizeof(bits));
  mix(state, {tail.data(), tail.size()}, blocks);

  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const auto word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) hex.push_back(kDigits[(word >> shift) & 0xFU]);
  }
  return hex;
}

}  // namespace simbridge::client
