#include "compiler/ir/size.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tjit::ir {
namespace {

// Longer products first.
bool ComesBefore(const Size::Term& a, const Size::Term& b) {
  if (a.symbols.size() != b.symbols.size()) {
    return a.symbols.size() > b.symbols.size();
  }
  return a.symbols < b.symbols;
}

}  // namespace

Size Size::Symbol(int symbol) {
  Size size;
  size.terms_.push_back({{static_cast<std::uint16_t>(symbol)}, 1});
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

void Size::Add(Term term) {
  if (!is_valid_ || term.coefficient == 0) return;
  if (term.symbols.empty()) {
    if (__builtin_add_overflow(constant_, term.coefficient, &constant_)) {
      *this = Invalid();
    }
    return;
  }
  const auto at =
      std::lower_bound(terms_.begin(), terms_.end(), term, ComesBefore);
  if (at == terms_.end() || at->symbols != term.symbols) {
    if (terms_.size() == kMaxTerms) {
      *this = Invalid();
    } else {
      terms_.insert(at, std::move(term));
    }
    return;
  }
  if (__builtin_add_overflow(at->coefficient, term.coefficient,
                             &at->coefficient)) {
    *this = Invalid();
  } else if (at->coefficient == 0) {
    terms_.erase(at);
  }
}

Size Size::operator+(const Size& o) const {
  if (!is_valid_ || !o.is_valid_) return Invalid();
  Size sum = *this;
  for (const Term& term : o.terms_) sum.Add(term);
  sum.Add({{}, o.constant_});
  return sum;
}

Size Size::operator*(const Size& o) const {
  if (!is_valid_ || !o.is_valid_) return Invalid();
  Size product;
  if (is_constant() && o.is_constant()) {  // the usual case
    return __builtin_mul_overflow(constant_, o.constant_, &product.constant_)
               ? Invalid()
               : product;
  }
  std::vector<Term> left = terms_, right = o.terms_;
  left.push_back({{}, constant_});
  right.push_back({{}, o.constant_});
  for (const Term& a : left) {
    for (const Term& b : right) {
      Term term;
      if (a.symbols.size() + b.symbols.size() > kMaxFactors ||
          __builtin_mul_overflow(a.coefficient, b.coefficient,
                                 &term.coefficient)) {
        return Invalid();
      }
      std::merge(a.symbols.begin(), a.symbols.end(), b.symbols.begin(),
                 b.symbols.end(), std::back_inserter(term.symbols));
      product.Add(std::move(term));
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
