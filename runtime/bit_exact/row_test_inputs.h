// The inputs that row functions are compared with eager on: shapes, and numbers
// of five kinds, the same in every process.
// Thread: any.
// Tested by: tests/runtime/bit_exact/row_functions_against_eager_test.cpp
#pragma once

#include <cstdint>
#include <vector>

namespace tjit::runtime {

struct Shape {
  std::int64_t rows;
  std::int64_t n;
};

// Rows shorter than a vector, of a few with and without a rest, and of all
// levels of the sums; all below the size that eager splits among threads.
std::vector<Shape> ShapesOfRows();
// The same for columns: each number of them, with few and many rows.
std::vector<Shape> ShapesOfColumns();

enum class Values { kOrdinary, kWide, kZerosAbove, kZerosBelow, kSpecial };
inline constexpr int kValuesCount = 5;

// Operands are cut out of these, at different places. T: float or double.
inline constexpr std::int64_t kPoolSize = 1 << 15;
template <class T>
const std::vector<T>& Pool(Values kind);

}  // namespace tjit::runtime
