// A symbolic size: a polynomial with integer coefficients over the symbols
// n0, n1, ... of a function. Sizes, strides and offsets are all of this kind.
//
//   [n0, n1, 4] is contiguous with strides (n1*4, 4, 1)
//
// A symbol is bound to a number at every run. What is no polynomial of the
// others (half of n0, rounded up) is a symbol of its own, bound by the caller.
// Equality is equality of the polynomials: n0 and n1 differ although they may
// be bound to equal numbers, so a rule that asks for equal sizes holds for all
// bindings. There is no broadcasting to decide: operands say it by stride 0.
// Invariants: terms are sorted, no coefficient is 0, at most kMaxTerms terms
// of at most kMaxFactors symbols (beyond: Size::Invalid(), which is equal to
// nothing but itself and evaluates to nothing).
// Tested by: tests/compiler/ir_size_test.cpp
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace tjit::ir {

class Size {
 public:
  static constexpr std::size_t kMaxTerms = 32;
  static constexpr std::size_t kMaxFactors = 8;
  static constexpr int kMaxSymbols = 4096;

  struct Term {
    std::vector<std::uint16_t> symbols;  // sorted, may repeat
    std::int64_t coefficient = 0;

    bool operator==(const Term& o) const = default;
  };

  Size() = default;  // 0
  // Numbers are sizes; not explicit, so that shapes can be written as lists.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Size(std::int64_t constant) : constant_(constant) {}
  // REQUIRES: 0 <= symbol < kMaxSymbols.
  static Size Symbol(int symbol);
  static Size Invalid();

  bool is_valid() const { return is_valid_; }
  bool is_constant() const { return is_valid_ && terms_.empty(); }
  // The number, or the term without symbols.
  std::int64_t constant() const { return constant_; }
  // No term and no constant is: so for all symbols, which are >= 0, it is not.
  bool is_never_negative() const;
  // The terms with symbols.
  const std::vector<Term>& terms() const { return terms_; }
  // The highest symbol, -1 without any.
  int max_symbol() const;

  Size operator+(const Size& o) const;
  Size operator*(const Size& o) const;
  bool operator==(const Size& o) const = default;

  // Nothing if a symbol is missing or the result does not fit 64 bits.
  std::optional<std::int64_t> Evaluate(
      absl::Span<const std::int64_t> symbols) const;

  // "n0*n1*4+n0-1"
  std::string ToText() const;

 private:
  void Add(Term term);

  std::int64_t constant_ = 0;
  std::vector<Term> terms_;
  bool is_valid_ = true;
};

using Sizes = std::vector<Size>;

// Row-major strides. A dim of constant size 0 counts as 1, as in libtorch.
Sizes ContiguousStrides(const Sizes& sizes);
Size Product(const Sizes& sizes);
// "n0,4"
std::string ToText(const Sizes& sizes);

}  // namespace tjit::ir
