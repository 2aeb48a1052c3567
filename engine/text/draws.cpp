#include "draws.h"

#include <array>
#include <cstddef>

namespace edgec::text {
namespace {

constexpr size_t kPool = 4;
constexpr uint32_t kShift = 16;
constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
using Pool = std::array<uint32_t, kPool>;

// Hashes one word after the other, each with another constant.
class WordHash {
 public:
  WordHash(uint32_t constant, uint32_t multiplier) : constant_(constant), multiplier_(multiplier) {}

  uint32_t operator()(uint32_t value) {
    value ^= constant_;
    constant_ *= multiplier_;
    value *= constant_;
    return value ^ value >> kShift;
  }

 private:
  uint32_t constant_, multiplier_;
};

uint32_t mixed(uint32_t into, uint32_t from) {
  const uint32_t value = 0xca01f9dd * into - 0x4973f715 * from;
  return value ^ value >> kShift;
}

// NumPy's SeedSequence of one number.
Pool pool_of(uint64_t seed) {
  WordHash hash(0x43b0d7e5, 0x931e8875);
  Pool pool{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0};
  for (uint32_t& word : pool) word = hash(word);
  for (size_t from = 0; from < kPool; ++from) {
    for (size_t into = 0; into < kPool; ++into) {
      if (from != into) pool[into] = mixed(pool[into], hash(pool[from]));
    }
  }
  return pool;
}

}  // namespace

Draws::Draws(uint64_t seed) {
  const Pool pool = pool_of(seed);
  WordHash hash(0x8b51f9dd, 0x58f38ded);
  std::array<uint64_t, kPool> words{};
  for (size_t half = 0; half < 2 * kPool; ++half) {
    words[half / 2] |= static_cast<uint64_t>(hash(pool[half % kPool])) << (32 * (half % 2));
  }
  increment_ = (static_cast<Word>(words[2]) << 64 | words[3]) << 1 | 1;
  step();
  state_ += static_cast<Word>(words[0]) << 64 | words[1];
  step();
}

double Draws::next() {
  step();
  const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const auto turns = static_cast<unsigned>(state_ >> 122);
  const uint64_t bits = folded >> turns | folded << (-turns & 63);
  return static_cast<double>(bits >> 11) * kUnit;
}

}  // namespace edgec::text
