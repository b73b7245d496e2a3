#include "compiler/functions/class_losses.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/functions/row_functions.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ir::DType;
using ir::Op;

template <class T>
const TjitMath* Entry(Op op) {
  return ClassFunction(op, sizeof(T) == 8 ? DType::kF64 : DType::kF32);
}

template <class T>
class ClassFunctionsTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ClassFunctionsTest, Types);

TYPED_TEST(ClassFunctionsTest, IndicesOfRows) {
  using T = TypeParam;
  const auto f = reinterpret_cast<TjitRowFn>(Entry<T>(Op::kIsIndex)->address);
  const std::vector<T> x = {0, 0, 0, 2, 2, 2, -1, T(0.5), std::nan("")};
  std::vector<T> y(x.size(), 9);
  f(3, 3, x.data(), nullptr, y.data());
  EXPECT_EQ(y, (std::vector<T>{1, 0, 0, 0, 0, 1, 0, 0, 0}));
}

TYPED_TEST(ClassFunctionsTest, ElementsOfRows) {
  using T = TypeParam;
  const auto f = reinterpret_cast<TjitRowFn>(Entry<T>(Op::kPick)->address);
  const std::vector<T> indices = {0, 2, -1, 3, T(0.5), std::nan("")};
  std::vector<T> x, at, y(indices.size(), 9);
  for (const T index : indices) {
    for (int i = 0; i < 3; ++i) {
      x.push_back(static_cast<T>(10 + x.size()));
      at.push_back(index);
    }
  }
  f(static_cast<std::int64_t>(y.size()), 3, x.data(), at.data(), y.data());
  EXPECT_EQ(y, (std::vector<T>{10, 15, 0, 0, 0, 0}));
  for (std::size_t i = 2; i < y.size(); ++i) EXPECT_TRUE(std::signbit(y[i]));
}

template <class T>
T SumOf(const std::vector<T>& x) {
  T sum = 9;
  RunColumns(
      reinterpret_cast<TjitColumnFn>(Entry<T>(Op::kSumInLevels)->address),
      static_cast<std::int64_t>(x.size()), 1, x.data(), 0, &sum);
  return sum;
}

// Sixteen of a level are added up before they meet the rest; element 0 goes to
// the last level at once, and what is no element moves none.
TYPED_TEST(ClassFunctionsTest, SumsInLevels) {
  using T = TypeParam;
  const T large = T(2) / std::numeric_limits<T>::epsilon();
  std::vector<T> x(40, 1);
  x[0] = large;
  EXPECT_EQ(SumOf(x), large + 40);  // 16 and 16 and 7: to the next even one
  x[0] = T(-0.0);
  x[1] = large;
  EXPECT_EQ(SumOf(x), large + 24);  // the first level swallows fifteen
  EXPECT_EQ(SumOf(std::vector<T>{}), 0);
  EXPECT_FALSE(std::signbit(SumOf(std::vector<T>{T(-0.0)})));
}

TYPED_TEST(ClassFunctionsTest, SumsAreTheSameInParts) {
  using T = TypeParam;
  const auto f =
      reinterpret_cast<TjitColumnFn>(Entry<T>(Op::kSumInLevels)->address);
  std::vector<T> x(1000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 7 == 0 ? T(-0.0) : std::sin(static_cast<T>(i));
  }
  std::vector<TjitColumnState> memory(kTjitWholeStateBytes /
                                      sizeof(TjitColumnState));
  TjitColumnState* state = memory.data();
  state->rows = static_cast<std::int64_t>(x.size());
  f(0, 1, nullptr, state, nullptr);
  f(1, 1, x.data(), state, nullptr);
  f(36, 1, x.data() + 1, state, nullptr);
  f(963, 1, x.data() + 37, state, nullptr);
  T sum = 0;
  f(0, 1, nullptr, state, &sum);
  EXPECT_EQ(sum, SumOf(x));
}

TEST(ClassFunctionTest, OthersHaveNone) {
  EXPECT_EQ(ClassFunction(Op::kSum, DType::kF32), nullptr);
  EXPECT_EQ(ClassFunction(Op::kPick, DType::kBF16), nullptr);
}

}  // namespace
}  // namespace tjit
