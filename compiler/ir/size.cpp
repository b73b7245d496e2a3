#include "compiler/ir/size.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "support/assert.h"

namespace tjit::ir {
namespace {

// Longer products first.
bool ComesBefore(const Size::Term& a, const Size::Term& b) {
  if (a.symbols.size() != b.symbols.size()) {
    return a.symbols.size() > b.symbols.size();
  }
  return std::lexicographical_compare(a.symbols.begin(), a.symbols.end(),
                                      b.symbols.begin(), b.symbols.end());
}

// REQUIRES: no more than kMaxFactors together.
Size::Symbols Merged(const Size::Symbols& a, const Size::Symbols& b) {
  TJIT_ASSERT(a.size() + b.size() <= Size::kMaxFactors);
  std::uint16_t both[Size::kMaxFactors];
  const std::uint16_t* const end =
      std::merge(a.begin(), a.end(), b.begin(), b.end(), both);
  Size::Symbols merged;
  for (const std::uint16_t* s = both; s != end; ++s) merged.push_back(*s);
  return merged;
}

}  // namespace

void Size::Terms::Insert(const Term* at, const Term& term) {
  const auto index = at - begin();
  if (size_ == 0) {
    one_ = term;
  } else {
    if (size_ == 1) many_ = {one_};
    many_.insert(many_.begin() + index, term);
  }
  ++size_;
}

void Size::Terms::Erase(const Term* at) {
  if (size_ > 1) many_.erase(many_.begin() + (at - begin()));
  --size_;
  if (size_ != 1) return;
  one_ = many_[0];
  many_.clear();
}

Size Size::Symbol(int symbol) {
  TJIT_ASSERT(symbol >= 0 && symbol < kMaxSymbols, "symbol ", symbol);
  Size size;
  Term term;
  term.symbols.push_back(static_cast<std::uint16_t>(symbol));
  term.coefficient = 1;
  size.terms_.Insert(size.terms_.end(), term);
  return size;
}

Size Size::Invalid() {
  Size size;
  size.is_valid_ = false;
  return size;
}

bool Size::is_never_negative() const {
  if (!is_valid_ || constant_ < 0) return false;
  for (const Term& term : terms_) {
    if (term.coefficient < 0) return false;
  }
  return true;
}

int Size::max_symbol() const {
  int max = -1;
  for (const Term& term : terms_) {
    max = std::max<int>(max, term.symbols.back());
  }
  return max;
}

void Size::Add(const Term& term) {
  if (!is_valid_ || term.coefficient == 0) return;
  if (term.symbols.empty()) {
    if (__builtin_add_overflow(constant_, term.coefficient, &constant_)) {
      *this = Invalid();
    }
    return;
  }
  Term* const at =
      std::lower_bound(terms_.begin(), terms_.end(), term, ComesBefore);
  if (at == terms_.end() || !(at->symbols == term.symbols)) {
    if (terms_.size() == kMaxTerms) {
      *this = Invalid();
    } else {
      terms_.Insert(at, term);
    }
    return;
  }
  if (__builtin_add_overflow(at->coefficient, term.coefficient,
                             &at->coefficient)) {
    *this = Invalid();
  } else if (at->coefficient == 0) {
    terms_.Erase(at);
  }
}

Size Size::operator+(const Size& o) const {
  if (!is_valid_ || !o.is_valid_) return Invalid();
  Size sum = *this;
  for (const Term& term : o.terms_) sum.Add(term);
  sum.Add({{}, o.constant_});
  return sum;
}

Size Size::Times(std::int64_t factor) const {
  if (factor == 0) return is_valid_ ? Size() : Invalid();
  Size product = *this;
  if (factor == 1) return product;
  for (Term& term : product.terms_) {
    if (__builtin_mul_overflow(term.coefficient, factor, &term.coefficient)) {
      return Invalid();
    }
  }
  return __builtin_mul_overflow(constant_, factor, &product.constant_)
             ? Invalid()
             : product;
}

Size Size::operator*(const Size& o) const {
  if (!is_valid_ || !o.is_valid_) return Invalid();
  if (o.is_constant()) return Times(o.constant_);  // the usual case
  if (is_constant()) return o.Times(constant_);
  Size product;
  Terms left = terms_, right = o.terms_;
  left.Insert(left.end(), {{}, constant_});
  right.Insert(right.end(), {{}, o.constant_});
  for (const Term& a : left) {
    for (const Term& b : right) {
      Term term;
      if (a.symbols.size() + b.symbols.size() > kMaxFactors ||
          __builtin_mul_overflow(a.coefficient, b.coefficient,
                                 &term.coefficient)) {
        return Invalid();
      }
      term.symbols = Merged(a.symbols, b.symbols);
      product.Add(term);
    }
  }
  return product;
}

std::optional<std::int64_t> Size::Evaluate(
    absl::Span<const std::int64_t> symbols) const {
  if (!is_valid_) return std::nullopt;
  std::int64_t sum = constant_;
  for (const Term& term : terms_) {
    std::int64_t product = term.coefficient;
    for (const std::uint16_t symbol : term.symbols) {
      if (symbol >= symbols.size() ||
          __builtin_mul_overflow(product, symbols[symbol], &product)) {
        return std::nullopt;
      }
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

std::string Size::ToText() const {
  if (!is_valid_) return "invalid";
  std::string text;
  for (const Term& term : terms_) {
    const bool is_negative = term.coefficient < 0;
    if (is_negative || !text.empty()) text += is_negative ? "-" : "+";
    const char* times = "";
    for (const std::uint16_t symbol : term.symbols) {
      absl::StrAppend(&text, times, "n", symbol);
      times = "*";
    }
    const auto bits = static_cast<std::uint64_t>(term.coefficient);
    const std::uint64_t magnitude = is_negative ? 0 - bits : bits;
    if (magnitude != 1) absl::StrAppend(&text, "*", magnitude);
  }
  if (constant_ == 0 && !text.empty()) return text;
  absl::StrAppend(&text, constant_ > 0 && !text.empty() ? "+" : "", constant_);
  return text;
}

Sizes ContiguousStrides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  Size stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    if (sizes[d] != Size(0)) stride = stride * sizes[d];
  }
  return strides;
}

Size Product(const Sizes& sizes) {
  Size product = 1;
  for (const Size& size : sizes) product = product * size;
  return product;
}

std::string ToText(const Sizes& sizes) {
  std::string text;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    absl::StrAppend(&text, d == 0 ? "" : ",", sizes[d].ToText());
  }
  return text;
}

}  // namespace tjit::ir
