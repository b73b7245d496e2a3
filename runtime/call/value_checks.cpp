#include "runtime/call/value_checks.h"

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/call/index_verdicts.h"
#include "runtime/call/op_classes.h"
#include "runtime/memory/block.h"
#include "runtime/platform/thread_context.h"

namespace tjit::runtime {
namespace {

// The `nth` tensor given for schema argument `arg`; null if there is none.
const c10::TensorImpl* TensorOf(const CallFrame& frame, std::uint32_t arg,
                                int nth = 0) {
  for (const TensorRef& ref : frame.tensors) {
    if (ref.arg == arg && nth-- == 0) return ref.impl;
  }
  return nullptr;
}

bool IsReady(const c10::TensorImpl* t) {
  if (!t->has_storage()) return false;
  const c10::StorageImpl* storage = t->unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr || storage->device_type() != c10::kCPU) return false;
  const Block* block = BlockOf(storage);
  return block == nullptr || (block->pending.load(std::memory_order_acquire) &
                              Block::kPendingWrite) == 0;
}

// Where the distinct elements of a tensor lie: dims along which the same ones
// come again (stride 0) and dims of size 1 are not there, and what lies in one
// piece is one dim. Outermost dim first; no dims: one element.
struct Distinct {
  c10::SmallVector<std::int64_t, 6> sizes, strides;
  std::int64_t count = 1;

  Distinct(c10::IntArrayRef all_sizes, c10::IntArrayRef all_strides) {
    for (std::size_t d = 0; d < all_sizes.size(); ++d) {
      const std::int64_t size = all_sizes[d], stride = all_strides[d];
      if (size == 1 || stride == 0) continue;
      count *= size;
      if (!sizes.empty() && strides.back() == size * stride) {
        sizes.back() *= size;
        strides.back() = stride;
        continue;
      }
      sizes.push_back(size);
      strides.push_back(stride);
    }
  }
};

// Whether all of `count` elements, `stride` apart, are from `low` to below
// `high`. With y = x - low as an unsigned number, the top bit of y or that of
// high - 1 - low - y is set where one is not. No early end, and no comparison,
// which vectors of 64-bit integers do not have everywhere.
template <class T>
bool AllBetween(const T* data, std::int64_t count, std::int64_t stride,
                std::int64_t low, std::int64_t high) {
  if (high <= low) return false;
  const auto first = static_cast<std::uint64_t>(low);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - 1 - first;
  std::uint64_t bad = 0;
  const auto look = [&](T x) {
    const std::uint64_t y =
        static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) - first;
    bad |= y | (range - y);
  };
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) look(data[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) look(data[i * stride]);
  }
  return bad >> 63 == 0;
}

template <class T>
bool AllHave(const T* data, std::int64_t count, std::int64_t stride,
             const IndexRange& allowed) {
  bool all = true;
  for (std::int64_t i = 0; i < count; ++i) {
    all &= allowed.Has(data[i * stride]);
  }
  return all;
}

template <class T>
bool AllPassFrom(const T* data, const Distinct& where, std::size_t dim,
                 const IndexRange& allowed) {
  const bool is_inner = dim + 1 >= where.sizes.size();
  const std::int64_t size = where.sizes.empty() ? 1 : where.sizes[dim];
  const std::int64_t stride = where.sizes.empty() ? 1 : where.strides[dim];
  if (is_inner) {
    return AllBetween(data, size, stride, allowed.low, allowed.high) ||
           (allowed.has_another && AllHave(data, size, stride, allowed));
  }
  for (std::int64_t i = 0; i < size; ++i) {
    if (!AllPassFrom(data + i * stride, where, dim + 1, allowed)) return false;
  }
  return true;
}

// Whether all integers from `first` on are allowed.
bool AllPass(const char* first, c10::ScalarType dtype, const Distinct& where,
             const IndexRange& allowed) {
  const auto pass = [&](auto* data) {
    return AllPassFrom(data, where, 0, allowed);
  };
  if (dtype == c10::kLong) {
    return pass(reinterpret_cast<const std::int64_t*>(first));
  }
  return dtype == c10::kInt &&
         pass(reinterpret_cast<const std::int32_t*>(first));
}

// Note [What a check may take]
// Looking at an index takes time that eager does not spend, so it is worth it
// only where the op takes ten times as long, or where it takes less than the
// call that it saves: an op that runs at the call takes the dispatcher, and
// what is pending runs before it. A distinct element takes at most 0.3 ns, an
// element that is gathered or added 1 ns or more, one of a row that is copied
// 0.25 ns. Elsewhere it is looked at only where the verdict is mostly asked for
// again (index_verdicts.h).
constexpr double kNsOfLook = 0.3, kNsOfElement = 1, kNsOfRowElement = 0.25;
constexpr double kNsOfCall = 2000;

bool IsWorthALook(const Distinct& where, double op_ns) {
  return static_cast<double>(where.count) * kNsOfLook <=
         std::max(kNsOfCall, op_ns / 10);
}

ValueVerdict VerdictOf(bool passes) {
  return passes ? ValueVerdict::kPass : ValueVerdict::kFail;
}

ValueVerdict LookAtIndices(const IndexUse& use) {
  const c10::TensorImpl* const t = use.index;
  if (!IsReady(t)) return ValueVerdict::kNotReady;
  if (t->numel() == 0) return ValueVerdict::kPass;
  const Distinct where(t->sizes(), t->strides());
  const c10::StorageImpl* const storage =
      t->unsafe_storage().unsafeGetStorageImpl();
  const c10::ScalarType dtype = c10::typeMetaToScalarType(t->dtype());
  const auto look = [&] {
    const auto offset =
        t->storage_offset() * static_cast<std::int64_t>(t->itemsize());
    return AllPass(static_cast<const char*>(storage->data()) + offset, dtype,
                   where, use.allowed);
  };
  // A function saves more than this op.
  const bool is_worth_it =
      t_context.in_function || IsWorthALook(where, use.op_ns);
  return VerdictOf(
      is_worth_it ? look()
                  : AllKnownInRange({storage, t->storage_offset(), where.sizes,
                                     where.strides, dtype, use.allowed},
                                    look));
}

// Of a tensor that an index goes along one dim of, or several: the elements
// that one index stands for.
double RowOf(const c10::TensorImpl* self, std::int64_t indexed) {
  return indexed == 0 ? 0
                      : static_cast<double>(self->numel()) /
                            static_cast<double>(indexed);
}

bool FindDimIndex(const CallFrame& frame, IndexUses* uses) {
  const c10::TensorImpl* self = TensorOf(frame, 0);
  const c10::TensorImpl* index = TensorOf(frame, 2);
  if (self == nullptr || index == nullptr || frame.statics.empty()) {
    return false;
  }
  const auto ndim = static_cast<std::int64_t>(self->dim());
  auto dim = static_cast<std::int64_t>(frame.statics[0]);
  if (dim < 0) dim += std::max<std::int64_t>(ndim, 1);
  if (dim < 0 || dim >= std::max<std::int64_t>(ndim, 1)) return false;
  const std::int64_t size = ndim == 0 ? 1 : self->size(dim);
  // An index of one dim stands for rows, one of as many as the tensor for
  // elements.
  const auto count = static_cast<double>(index->numel());
  const double op_ns = index->dim() == ndim
                           ? count * kNsOfElement
                           : count * RowOf(self, size) * kNsOfRowElement;
  uses->push_back({index, {0, size}, op_ns});
  return true;
}

bool FindIndexList(const CallFrame& frame, IndexUses* uses) {
  const c10::TensorImpl* self = TensorOf(frame, 0);
  if (self == nullptr) return false;
  std::int64_t dims = 0, indexed = 1, count = 1;
  for (const TensorRef& ref : frame.tensors) {
    if (ref.arg != 1) continue;
    if (dims >= self->dim()) return false;
    const std::int64_t size = self->size(dims++);
    if (ref.impl == nullptr) continue;
    indexed *= size;
    count = std::max(count, ref.impl->numel());
  }
  const double op_ns = static_cast<double>(count) *
                       (kNsOfElement + RowOf(self, indexed) * kNsOfRowElement);
  std::int64_t dim = 0;
  for (const TensorRef& ref : frame.tensors) {
    if (ref.arg != 1) continue;
    const std::int64_t size = self->size(dim++);
    if (ref.impl == nullptr) continue;
    uses->push_back({ref.impl, {-size, size}, op_ns});
  }
  return true;
}

bool FindFlatIndex(const CallFrame& frame, IndexUses* uses) {
  const c10::TensorImpl* self = TensorOf(frame, 0);
  const c10::TensorImpl* index = TensorOf(frame, 1);
  if (self == nullptr || index == nullptr) return false;
  uses->push_back({index,
                   {-self->numel(), self->numel()},
                   static_cast<double>(index->numel()) * kNsOfElement});
  return true;
}

// Classes, or the one to ignore.
bool FindTarget(const CallFrame& frame, std::uint32_t self_arg,
                IndexUses* uses) {
  const c10::TensorImpl* self = TensorOf(frame, self_arg);
  const c10::TensorImpl* target = TensorOf(frame, self_arg + 1);
  if (self == nullptr || target == nullptr || self->dim() == 0) return false;
  IndexRange allowed = {0, self->size(self->dim() == 1 ? 0 : 1)};
  if (frame.statics.size() >= 2) {  // how to reduce, the class to ignore
    allowed.has_another = true;
    allowed.another = static_cast<std::int64_t>(frame.statics[1]);
  }
  // The gradient is as large as all classes of all rows; the loss itself stands
  // behind as much of what is pending, which would run before it.
  uses->push_back(
      {target, allowed, static_cast<double>(self->numel()) * kNsOfRowElement});
  return true;
}

bool AllFloating(const CallFrame& frame) {
  return std::all_of(frame.tensors.begin(), frame.tensors.end(),
                     [](const TensorRef& ref) {
                       return ref.impl == nullptr ||
                              !c10::isIntegralType(
                                  c10::typeMetaToScalarType(ref.impl->dtype()),
                                  /*includeBool=*/true);
                     });
}

// index_put_ on a tensor whose elements share memory warns.
bool WarnsOfExpanded(const CallFrame& frame) {
  const TensorRef& self = frame.tensors[0];
  if (!self.written || self.impl == nullptr) return false;
  for (std::int64_t d = 0; d < self.impl->dim(); ++d) {
    if (self.impl->stride(d) == 0 && self.impl->size(d) > 1) return true;
  }
  return false;
}

// Of the input and the target.
bool HasSameSizes(const c10::TensorImpl* input, const c10::TensorImpl* target) {
  return input != nullptr && target != nullptr &&
         input->sizes() == target->sizes();
}

// Is `other` broadcast to the sizes of `self`?
bool Fits(const c10::TensorImpl* self, const c10::TensorImpl* other) {
  if (self == nullptr || other == nullptr || other->dim() > self->dim()) {
    return false;
  }
  for (std::int64_t d = 1; d <= other->dim(); ++d) {
    const std::int64_t size = other->size(other->dim() - d);
    if (size != 1 && size != self->size(self->dim() - d)) return false;
  }
  return true;
}

double NumberOf(const ScalarValue& scalar) {
  double number = 0;
  std::memcpy(&number, scalar.bits, sizeof number);
  return scalar.type == static_cast<std::uint64_t>(c10::ScalarType::Double)
             ? number
             : static_cast<double>(static_cast<std::int64_t>(scalar.bits[0]));
}

// Of (tensor, dims or none, correction or none, keepdim): a variance of no more
// numbers than the correction warns.
bool HasFreedom(const CallFrame& frame) {
  const c10::TensorImpl* self = TensorOf(frame, 0);
  const auto& statics = frame.statics;
  if (self == nullptr || statics.empty() || frame.scalars.empty()) return false;
  const std::size_t dims =
      statics[0] != 0 && statics.size() > 1 ? statics[1] : 0;
  if (dims + 2 > statics.size()) return false;
  std::int64_t count = dims == 0 ? self->numel() : 1;
  const auto ndim = static_cast<std::int64_t>(self->dim());
  for (std::size_t i = 0; i < dims && ndim > 0; ++i) {
    const auto dim = static_cast<std::int64_t>(statics[2 + i]);
    if (dim < -ndim || dim >= ndim) return false;
    count *= self->size(dim);
  }
  const bool is_given = frame.scalars[0].type != kNoScalar;
  return static_cast<double>(count) >
         (is_given ? NumberOf(frame.scalars[0]) : 1);
}

// Of the integers that the op indexes by.
ValueVerdict LookAtUses(const CallFrame& frame) {
  IndexUses uses;
  if (!FindIndexUses(frame, &uses)) return ValueVerdict::kFail;
  for (const IndexUse& use : uses) {
    const ValueVerdict verdict = LookAtIndices(use);
    if (verdict != ValueVerdict::kPass) return verdict;
  }
  return ValueVerdict::kPass;
}

ValueVerdict Look(const CallFrame& frame) {
  switch (frame.entry.value_check) {
    case ValueCheck::kNone:
      return ValueVerdict::kPass;
    case ValueCheck::kUnknown:
      return ValueVerdict::kFail;
    case ValueCheck::kIntegral:
      return VerdictOf(AllFloating(frame));
    case ValueCheck::kElementwise:
      return VerdictOf(!frame.statics.empty() && frame.statics[0] == 0);
    case ValueCheck::kSameSizes:
      return VerdictOf(HasSameSizes(TensorOf(frame, 0), TensorOf(frame, 1)));
    case ValueCheck::kLossGradient:
      return VerdictOf(HasSameSizes(TensorOf(frame, 1), TensorOf(frame, 2)) &&
                       Fits(TensorOf(frame, 1), TensorOf(frame, 0)));
    case ValueCheck::kFits:
      return VerdictOf(Fits(TensorOf(frame, 0), TensorOf(frame, 1)));
    case ValueCheck::kFreedom:
      return VerdictOf(HasFreedom(frame));
    case ValueCheck::kIndices:
    case ValueCheck::kDimIndex:
    case ValueCheck::kFlatIndex:
    case ValueCheck::kTarget:
    case ValueCheck::kTargetOfGrad:
      return LookAtUses(frame);
  }
  return ValueVerdict::kFail;
}

}  // namespace

bool FindIndexUses(const CallFrame& frame, IndexUses* uses) {
  switch (frame.entry.value_check) {
    case ValueCheck::kIndices:
      return !WarnsOfExpanded(frame) && FindIndexList(frame, uses);
    case ValueCheck::kDimIndex:
      return FindDimIndex(frame, uses);
    case ValueCheck::kFlatIndex:
      return FindFlatIndex(frame, uses);
    case ValueCheck::kTarget:
      return FindTarget(frame, 0, uses);
    case ValueCheck::kTargetOfGrad:
      return FindTarget(frame, 1, uses);
    default:
      return true;
  }
}

bool IndicesPass(const TensorGeometry& index, const char* storage,
                 const IndexRange& allowed) {
  const std::size_t ndim = index.ndim;
  return AllPass(storage + index.offset * index.itemsize,
                 static_cast<c10::ScalarType>(index.dtype),
                 Distinct({index.sizes, ndim}, {index.strides, ndim}), allowed);
}

ValueVerdict LookAtValues(CallFrame& frame) {
  if (frame.values == ValueVerdict::kUnknown ||
      frame.values == ValueVerdict::kNotReady) {
    frame.values = Look(frame);
  }
  return frame.values;
}

}  // namespace tjit::runtime
