#include "compiler/functions/integer_functions.h"

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
std::vector<T> OfRows(Op op, DType dtype, std::int64_t n,
                      const std::vector<T>& x) {
  const TjitMath* entry = IntegerFunction(op, dtype, ir::Axis::kInner);
  const auto rows = static_cast<std::int64_t>(x.size()) / n;
  std::vector<T> out(static_cast<std::size_t>(rows));
  reinterpret_cast<TjitRowFn>(entry->address)(rows, n, x.data(), nullptr,
                                              out.data());
  return out;
}

template <class T>
std::vector<T> OfColumns(Op op, DType dtype, std::int64_t n,
                         const std::vector<T>& x, ir::Axis axis) {
  const TjitMath* entry = IntegerFunction(op, dtype, axis);
  const auto rows = static_cast<std::int64_t>(x.size()) / n;
  std::vector<T> out(static_cast<std::size_t>(n));
  RunColumns(reinterpret_cast<TjitColumnFn>(entry->address), rows, n, x.data(),
             0, out.data());
  return out;
}

constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

TEST(IntegerFunctionsTest, Numbers) {
  using Is = std::vector<std::int64_t>;
  const Is x = {1, -2, 3, kMost, 1, -7};
  EXPECT_EQ(OfRows(Op::kSum, DType::kI64, 3, x), (Is{2, kMost - 6}));
  EXPECT_EQ(OfRows(Op::kAmax, DType::kI64, 3, x), (Is{3, kMost}));
  EXPECT_EQ(OfRows(Op::kAmin, DType::kI64, 3, x), (Is{-2, -7}));
  const auto columns = ir::Axis::kOuter, whole = ir::Axis::kAll;
  EXPECT_EQ(OfColumns(Op::kSum, DType::kI64, 3, x, columns),
            (Is{kLeast, -1, -4}));
  EXPECT_EQ(OfColumns(Op::kAmax, DType::kI64, 3, x, columns),
            (Is{kMost, 1, 3}));
  EXPECT_EQ(OfColumns(Op::kAmin, DType::kI64, 3, x, columns), (Is{1, -2, -7}));
  EXPECT_EQ(OfColumns(Op::kAmin, DType::kI64, 1, x, whole), (Is{-7}));
  EXPECT_EQ(OfColumns(Op::kAmax, DType::kI64, 1, x, whole), (Is{kMost}));
}

TEST(IntegerFunctionsTest, Booleans) {
  using Bits = std::vector<std::uint8_t>;
  const Bits x = {0, 1, 0, 0, 1, 1, 0, 1, 0};
  EXPECT_EQ(OfRows(Op::kAny, DType::kBool, 3, x), (Bits{1, 1, 1}));
  EXPECT_EQ(OfRows(Op::kAllOf, DType::kBool, 3, x), (Bits{0, 0, 0}));
  const auto columns = ir::Axis::kOuter, whole = ir::Axis::kAll;
  EXPECT_EQ(OfColumns(Op::kAny, DType::kBool, 3, x, columns), (Bits{0, 1, 1}));
  EXPECT_EQ(OfColumns(Op::kAllOf, DType::kBool, 3, x, columns),
            (Bits{0, 1, 0}));
  EXPECT_EQ(OfColumns(Op::kAny, DType::kBool, 1, x, whole), (Bits{1}));
  EXPECT_EQ(OfColumns(Op::kAllOf, DType::kBool, 1, x, whole), (Bits{0}));
}

TEST(IntegerFunctionsTest, OthersHaveNone) {
  const auto rows = ir::Axis::kInner, slabs = ir::Axis::kStrided;
  EXPECT_EQ(IntegerFunction(Op::kSum, DType::kF32, rows), nullptr);
  EXPECT_EQ(IntegerFunction(Op::kSum, DType::kBool, rows), nullptr);
  EXPECT_EQ(IntegerFunction(Op::kAny, DType::kI64, rows), nullptr);
  EXPECT_EQ(IntegerFunction(Op::kProd, DType::kI64, rows), nullptr);
  EXPECT_EQ(IntegerFunction(Op::kSum, DType::kI64, slabs), nullptr);
}

}  // namespace
}  // namespace tjit
