#include "compiler/lower/size_vars.h"

namespace tjit::lower {

Dim SizeVars::New(std::int64_t size, const SizeSource* source) {
  Dim dim;
  dim.size = size;
  if (size == 1) return dim;
  if (next_ == vars_.size()) {
    Var var;
    var.parent = static_cast<int>(next_);
    var.has_source = source != nullptr;
    if (source != nullptr) var.source = *source;
    vars_.push_back(var);
  }
  dim.var = static_cast<int>(next_++);
  return dim;
}

Dim SizeVars::Argument(std::int64_t size, const SizeSource& source) {
  return New(size, &source);
}

Dim SizeVars::Result(std::int64_t size) { return New(size, nullptr); }

int SizeVars::HeadOf(int var) const {
  while (vars_[static_cast<std::size_t>(var)].parent != var) {
    var = vars_[static_cast<std::size_t>(var)].parent;
  }
  return var;
}

void SizeVars::Relate(const Dim& a, const Dim& b) {
  if (is_solved_ || a.var < 0 || b.var < 0) return;
  const int x = HeadOf(a.var), y = HeadOf(b.var);
  if (x == y) return;
  // The first variable leads: paths stay short, as most relate to it.
  Var& head = vars_[static_cast<std::size_t>(x < y ? x : y)];
  Var& other = vars_[static_cast<std::size_t>(x < y ? y : x)];
  other.parent = x < y ? x : y;
  head.is_fixed |= other.is_fixed;
  if (!head.has_source && other.has_source) {
    head.has_source = true;
    head.source = other.source;
  }
}

void SizeVars::Fix(const Dim& dim) {
  if (is_solved_ || dim.var < 0) return;
  vars_[static_cast<std::size_t>(HeadOf(dim.var))].is_fixed = true;
}

void SizeVars::Fix(const Dims& dims) {
  for (const Dim& dim : dims) Fix(dim);
}

void SizeVars::Solve() {
  is_solved_ = true;
  for (std::size_t v = 0; v < vars_.size(); ++v) {
    Var& var = vars_[v];
    if (var.parent != static_cast<int>(v) || var.is_fixed || !var.has_source ||
        symbols_.size() == ir::Size::kMaxSymbols) {
      continue;
    }
    var.symbol = static_cast<int>(symbols_.size());
    symbols_.push_back(var.source);
  }
}

void SizeVars::FixAll() {
  is_solved_ = true;
  symbols_.clear();
  for (Var& var : vars_) var.symbol = -1;
}

ir::Size SizeVars::Of(const Dim& dim) const {
  if (!is_solved_ || dim.var < 0) return dim.size;
  const int symbol = vars_[static_cast<std::size_t>(HeadOf(dim.var))].symbol;
  return symbol < 0 ? ir::Size(dim.size) : ir::Size::Symbol(symbol);
}

ir::Sizes SizeVars::Of(const Dims& dims) const {
  ir::Sizes sizes;
  for (const Dim& dim : dims) sizes.push_back(Of(dim));
  return sizes;
}

}  // namespace tjit::lower
