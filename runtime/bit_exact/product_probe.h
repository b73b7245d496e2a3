// Finds the own product that has the library's bits in one exact call and takes
// less time, if there is one.
//
// How: the library and the candidates compute the same operands. Numbers have
// full mantissas; others are zeros of both signs, infinities, NaN, and so small
// that products are denormal, or that sums vanish: MKL adds a sum to 0, so -0
// becomes 0. A candidate that differs once is out, and so is one that takes
// four times as long as the library. Then the fastest two and the library run
// in turn, and the medians are compared. A verdict of an earlier process is
// taken when a few operands have confirmed it. Thread: any; the trial's. Tested
// by: tests/runtime/bit_exact/product_probe_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {

// What is compared. Elements are float, or double where the question says so.
class ProductTrial {
 public:
  struct Range {
    char* data = nullptr;
    std::uint64_t bytes = 0;
  };

  virtual ~ProductTrial() = default;
  // Memory of the result, then of the operands, which may be the result or lie
  // in one another. Valid until the next call.
  virtual std::vector<Range> Place() = 0;
  // Fills the factors with 0 and -1, by turns of the rows of the first and the
  // columns of the second, so that half of the sums have no term but -0: in
  // turn 0 those of the row and column that are both even or both odd, in turn
  // 1 the others. Nothing else is written.
  virtual void FillFactors(int turn) = 0;
  virtual void RunLibrary() = 0;
  virtual void Run(std::size_t candidate) = 0;
};

struct ProductQuestion {
  std::string text;  // of one line, without '='
  bool is_double = false;
  std::int64_t results = 0;  // elements of the result
  std::int64_t terms = 0;    // of each sum
};

// The candidate; nothing if the library is to run. `names` are the candidates,
// by names that hold in every process. `was_tried` gets whether more was done
// than to confirm what was known.
std::optional<std::size_t> FindProduct(const ProductQuestion& question,
                                       const std::vector<std::string>& names,
                                       Verdicts* verdicts, ProductTrial* trial,
                                       bool* was_tried);

}  // namespace tjit::runtime
