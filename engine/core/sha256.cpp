#include "sha256.h"

#include <algorithm>
#include <cstring>

namespace edgec::engine {
namespace {

// The first 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t turned(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

uint32_t big_endian(const uint8_t* from) {
  return uint32_t{from[0]} << 24 | uint32_t{from[1]} << 16 | uint32_t{from[2]} << 8 | from[3];
}

}  // namespace

void Sha256::mix(const uint8_t* block) {
  uint32_t words[64];
  for (int i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t early = words[i - 15], late = words[i - 2];
    words[i] = words[i - 16] + words[i - 7] + (turned(early, 7) ^ turned(early, 18) ^ early >> 3) +
               (turned(late, 17) ^ turned(late, 19) ^ late >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t first =
        h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + words[i];
    const uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const uint32_t mixed[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state_.size(); ++i) state_[i] += mixed[i];
}

void Sha256::add(const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const size_t held = bytes_ % block_.size();
    if (held == 0 && bytes >= block_.size()) {
      mix(from);
      bytes_ += block_.size(), from += block_.size(), bytes -= block_.size();
      continue;
    }
    const size_t taken = std::min(bytes, block_.size() - held);
    std::memcpy(block_.data() + held, from, taken);
    bytes_ += taken, from += taken, bytes -= taken;
    if (bytes_ % block_.size() == 0) mix(block_.data());
  }
}

std::string Sha256::hex() {
  const uint64_t bits = bytes_ * 8;
  const uint8_t end = 0x80, nothing = 0;
  add(&end, 1);
  while (bytes_ % block_.size() != block_.size() - sizeof bits) add(&nothing, 1);
  uint8_t length[sizeof bits];
  for (size_t i = 0; i < sizeof bits; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  add(length, sizeof length);
  std::string text;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  }
  return text;
}

}  // namespace edgec::engine
