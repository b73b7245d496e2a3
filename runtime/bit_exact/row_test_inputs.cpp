#include "runtime/bit_exact/row_test_inputs.h"

#include <cmath>
#include <limits>
#include <random>

namespace tjit::runtime {
namespace {

// Not at::randn: the program's random numbers are its own. Half of the zeros
// are -0, and beside them is nothing of the other sign: a zero is the extreme
// of many rows. A cube has all bits of the type, and magnitudes differ: each
// addition rounds.
template <class T>
T Value(Values kind, std::mt19937* random) {
  using Limits = std::numeric_limits<T>;
  constexpr T kSpecial[] = {Limits::infinity(), -Limits::infinity(),
                            Limits::quiet_NaN(), Limits::max(),
                            Limits::denorm_min()};
  const std::uint32_t bits = (*random)();
  const T root = static_cast<T>(static_cast<std::int32_t>(bits)) / T(1 << 30);
  const T x = root * root * root;
  switch (kind) {
    case Values::kOrdinary:
      return x;
    case Values::kWide:
      return x * 40;
    case Values::kZerosAbove:
      return bits % 4 == 0 ? -std::abs(x) : std::copysign(T(0), x);
    case Values::kZerosBelow:
      return bits % 4 == 0 ? std::abs(x) : std::copysign(T(0), x);
    case Values::kSpecial:
      return bits % 128 == 0 ? kSpecial[bits / 128 % 5] : x;
  }
  return x;
}

}  // namespace

std::vector<Shape> ShapesOfRows() {
  std::vector<Shape> shapes;
  for (std::int64_t n = 1; n <= 70; ++n) shapes.push_back({1 + n % 3, n});
  shapes.push_back({37, 17});
  for (const std::int64_t n : {127, 128, 257, 512, 768, 1000, 1024, 1025}) {
    shapes.push_back({3, n});
  }
  for (const std::int64_t n : {4096, 10000}) shapes.push_back({2, n});
  return shapes;
}

std::vector<Shape> ShapesOfColumns() {
  std::vector<Shape> shapes;
  for (std::int64_t n = 2; n <= 70; ++n) shapes.push_back({n * 7 % 150 + 2, n});
  for (const std::int64_t n : {2, 6, 11, 31}) shapes.push_back({1000, n});
  for (const std::int64_t n : {100, 128, 1000}) shapes.push_back({29, n});
  return shapes;
}

template <class T>
const std::vector<T>& Pool(Values kind) {
  static const auto& pools = *new std::vector<std::vector<T>>([] {
    std::mt19937 random(7);
    std::vector<std::vector<T>> all(kValuesCount);
    for (int k = 0; k < kValuesCount; ++k) {
      std::vector<T>& pool = all[static_cast<std::size_t>(k)];
      pool.reserve(kPoolSize);
      for (std::int64_t i = 0; i < kPoolSize; ++i) {
        pool.push_back(Value<T>(static_cast<Values>(k), &random));
      }
    }
    return all;
  }());
  return pools[static_cast<std::size_t>(kind)];
}

template const std::vector<float>& Pool<float>(Values kind);
template const std::vector<double>& Pool<double>(Values kind);

}  // namespace tjit::runtime
