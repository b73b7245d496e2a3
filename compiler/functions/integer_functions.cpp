#include "compiler/functions/integer_functions.h"

#include <algorithm>
#include <limits>

namespace tjit {
namespace {

using ir::Op;

struct Sum {
  using Type = std::uint64_t;  // wraps
  static constexpr Type kFirst = 0;
  static Type Join(Type a, Type b) { return a + b; }
};
struct Amax {
  using Type = std::int64_t;
  static constexpr Type kFirst = std::numeric_limits<Type>::min();
  static Type Join(Type a, Type b) { return std::max(a, b); }
};
struct Amin {
  using Type = std::int64_t;
  static constexpr Type kFirst = std::numeric_limits<Type>::max();
  static Type Join(Type a, Type b) { return std::min(a, b); }
};
struct Any {
  using Type = std::uint8_t;
  static constexpr Type kFirst = 0;
  static Type Join(Type a, Type b) { return a | b; }
};
struct All {
  using Type = std::uint8_t;
  static constexpr Type kFirst = 1;
  static Type Join(Type a, Type b) { return a & b; }
};

template <class Fold>
typename Fold::Type Reduce(const typename Fold::Type* x, std::int64_t n,
                           typename Fold::Type first) {
  for (std::int64_t i = 0; i < n; ++i) first = Fold::Join(first, x[i]);
  return first;
}

// A TjitRowFn.
template <class Fold>
void Rows(std::int64_t rows, std::int64_t n, const void* a, const void* /*b*/,
          void* out) {
  const auto* x = static_cast<const typename Fold::Type*>(a);
  auto* y = static_cast<typename Fold::Type*>(out);
  for (std::int64_t i = 0; i < rows; ++i, x += n) {
    y[i] = Reduce<Fold>(x, n, Fold::kFirst);
  }
}

// A TjitColumnFn; of all elements too, which are one column.
template <class Fold>
void Columns(std::int64_t rows, std::int64_t n, const void* a,
             TjitColumnState* state, void* out) {
  using T = typename Fold::Type;
  static_assert(sizeof(T) <= kTjitColumnBytes);
  auto* sums = reinterpret_cast<T*>(state + 1);
  if (out != nullptr) {
    std::copy(sums, sums + n, static_cast<T*>(out));
    return;
  }
  if (a == nullptr) return std::fill(sums, sums + n, Fold::kFirst);
  const auto* x = static_cast<const T*>(a);
  if (n == 1) {
    sums[0] = Reduce<Fold>(x, rows, sums[0]);
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i, x += n) {
    for (std::int64_t j = 0; j < n; ++j) sums[j] = Fold::Join(sums[j], x[j]);
  }
}

struct Entries {
  TjitMath rows, columns, whole;
};

template <class Fold>
Entries EntriesOf(Op op) {
  constexpr bool kIsBool = sizeof(typename Fold::Type) == 1;
  const char* name = ir::InfoOf(op).name;
  auto* rows = reinterpret_cast<void*>(&Rows<Fold>);
  auto* columns = reinterpret_cast<void*>(&Columns<Fold>);
  return {{name, kIsBool ? kTjitRowBool : kTjitRowI64, rows, 0},
          {name, kIsBool ? kTjitColumnBool : kTjitColumnI64, columns, 0},
          {name, kIsBool ? kTjitWholeBool : kTjitWholeI64, columns, 0}};
}

const Entries* EntriesFor(Op op, ir::DType dtype) {
  static const Entries sum = EntriesOf<Sum>(Op::kSum);
  static const Entries amax = EntriesOf<Amax>(Op::kAmax);
  static const Entries amin = EntriesOf<Amin>(Op::kAmin);
  static const Entries any = EntriesOf<Any>(Op::kAny);
  static const Entries all = EntriesOf<All>(Op::kAllOf);
  const bool is_bool = dtype == ir::DType::kBool;
  if (!is_bool && dtype != ir::DType::kI64) return nullptr;
  switch (op) {
    case Op::kSum:
      return is_bool ? nullptr : &sum;
    case Op::kAmax:
      return is_bool ? nullptr : &amax;
    case Op::kAmin:
      return is_bool ? nullptr : &amin;
    case Op::kAny:
      return is_bool ? &any : nullptr;
    case Op::kAllOf:
      return is_bool ? &all : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

const TjitMath* IntegerFunction(Op op, ir::DType dtype, ir::Axis axis) {
  const Entries* entries = EntriesFor(op, dtype);
  if (entries == nullptr) return nullptr;
  switch (axis) {
    case ir::Axis::kInner:
      return &entries->rows;
    case ir::Axis::kOuter:
      return &entries->columns;
    case ir::Axis::kAll:
      return &entries->whole;
    case ir::Axis::kStrided:
      break;
  }
  return nullptr;
}

}  // namespace tjit
