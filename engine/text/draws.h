// Random numbers that a seed determines: NumPy's `default_rng(seed).random()`, bit for bit (PCG64, O'Neill 2014).
#pragma once

#include <cstdint>

namespace edgec::text {

class Draws {
 public:
  explicit Draws(uint64_t seed);

  // From 0 up to 1, without it.
  double next();

 private:
  __extension__ using Word = unsigned __int128;

  void step() { state_ = state_ * kMultiplier + increment_; }

  static constexpr Word kMultiplier = static_cast<Word>(2549297995355413924) << 64 | 4865540595714422341;

  Word state_ = 0, increment_ = 0;
};

}  // namespace edgec::text
