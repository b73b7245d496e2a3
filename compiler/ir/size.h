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
// Tested by: tests/compiler/ir/ir_size_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "support/assert.h"

namespace tjit::ir {

class Size {
 public:
  static constexpr std::size_t kMaxTerms = 32;
  static constexpr std::size_t kMaxFactors = 8;
  static constexpr int kMaxSymbols = 4096;

  // A product; plain bytes, as passes copy thousands of sizes.
  class Symbols {
   public:
    const std::uint16_t* begin() const { return at_; }
    const std::uint16_t* end() const { return at_ + size_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::uint16_t back() const { return at_[size_ - 1]; }
    // REQUIRES: fewer than kMaxFactors are there.
    void push_back(std::uint16_t symbol) {
      TJIT_ASSERT(size_ < kMaxFactors);
      at_[size_++] = symbol;
    }

    bool operator==(const Symbols& o) const = default;

   private:
    std::uint16_t at_[kMaxFactors] = {};  // 0 beyond size_
    std::uint16_t size_ = 0;
  };

  struct Term {
    Symbols symbols;  // sorted, may repeat
    std::int64_t coefficient = 0;

    bool operator==(const Term& o) const = default;
  };
  // One term, as most sizes have, takes no memory of its own.
  class Terms {
   public:
    const Term* begin() const { return size_ > 1 ? many_.data() : &one_; }
    const Term* end() const { return begin() + size_; }
    Term* begin() { return size_ > 1 ? many_.data() : &one_; }
    Term* end() { return begin() + size_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    void Insert(const Term* at, const Term& term);
    void Erase(const Term* at);

    bool operator==(const Terms& o) const {
      return std::equal(begin(), end(), o.begin(), o.end());
    }

   private:
    std::size_t size_ = 0;
    Term one_;                // of one
    std::vector<Term> many_;  // of more than one
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
  const Terms& terms() const { return terms_; }
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
  void Add(const Term& term);
  Size Times(std::int64_t factor) const;

  std::int64_t constant_ = 0;
  Terms terms_;
  bool is_valid_ = true;
};

using Sizes = std::vector<Size>;

// Row-major strides. A dim of constant size 0 counts as 1, as in libtorch.
Sizes ContiguousStrides(const Sizes& sizes);
Size Product(const Sizes& sizes);
// "n0,4"
std::string ToText(const Sizes& sizes);

}  // namespace tjit::ir
