// A random number generator whose stream is the same on every platform.
#pragma once

#include <cstdint>
#include <vector>

namespace tjit::differential {

class Rng {
 public:
  // Neighbouring seeds start far apart in the one sequence that there is.
  explicit Rng(std::uint64_t seed) : state_(Mix(seed + kStep)) {}

  std::uint64_t Next() { return Mix(state_ += kStep); }  // splitmix64
  // In [lo, hi].
  std::int64_t Int(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(
                    Next() % static_cast<std::uint64_t>(hi - lo + 1));
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  bool Chance(double p) { return Unit() < p; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[Next() % values.size()];
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
  static std::uint64_t Mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace tjit::differential
