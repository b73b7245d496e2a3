// Which sizes of a group are one number, and which of them are symbols.
//
// Every dim > 1 of every argument and result has a variable. Lowering relates
// those that an op takes for equal and fixes those that an offset or a stride
// depends on; Solve() then makes a symbol of every class that is not fixed and
// in which an argument says the size. So a group is lowered twice: once with
// numbers, to learn the relations, and once with symbols. Both times variables
// are made in the same order.
// Tested by: tests/compiler/lower/lower_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/size.h"
#include "compiler/lower/group.h"

namespace tjit::lower {

// One dim of a tensor.
struct Dim {
  std::int64_t size = 1;
  int var = -1;  // -1: 1, always
};
using Dims = std::vector<Dim>;

class SizeVars {
 public:
  // Starts over with the first variable; what is known of them stays.
  void Restart() { next_ = 0; }

  // A dim of an argument, or of a result.
  Dim Argument(std::int64_t size, const SizeSource& source);
  Dim Result(std::int64_t size);

  // Equal sizes stay equal. REQUIRES: they are equal.
  void Relate(const Dim& a, const Dim& b);
  // It stays the number that it is.
  void Fix(const Dim& dim);
  void Fix(const Dims& dims);

  // Decides what is a symbol.
  void Solve();
  // Nothing is.
  void FixAll();
  const std::vector<SizeSource>& symbols() const { return symbols_; }

  // The number before Solve(), then the symbol, if it is one.
  ir::Size Of(const Dim& dim) const;
  ir::Sizes Of(const Dims& dims) const;

 private:
  struct Var {
    int parent = -1;  // itself: the head of its class
    bool is_fixed = false;
    bool has_source = false;
    SizeSource source;
    int symbol = -1;  // of a head, after Solve()
  };
  Dim New(std::int64_t size, const SizeSource* source);
  int HeadOf(int var) const;

  std::vector<Var> vars_;
  std::size_t next_ = 0;
  bool is_solved_ = false;
  std::vector<SizeSource> symbols_;
};

}  // namespace tjit::lower
