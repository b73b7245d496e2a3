#include "runtime/value_checks.h"

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/block.h"
#include "runtime/op_classes.h"

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

// Indices that pass: those from `low` to below `high`, and maybe one more.
struct Allowed {
  std::int64_t low, high;
  bool has_another = false;
  std::int64_t another = 0;

  bool Has(std::int64_t index) const {
    return (index >= low && index < high) || (has_another && index == another);
  }
};

template <class T>
bool AllPassFrom(const T* data, c10::IntArrayRef sizes,
                 c10::IntArrayRef strides, const Allowed& allowed) {
  if (sizes.empty()) return allowed.Has(*data);
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    if (!AllPassFrom(data + i * strides[0], sizes.slice(1), strides.slice(1),
                     allowed)) {
      return false;
    }
  }
  return true;
}

template <class T>
bool AllPass(const c10::TensorImpl* t, const Allowed& allowed) {
  const auto* storage = static_cast<const char*>(
      t->unsafe_storage().unsafeGetStorageImpl()->data());
  const T* data = reinterpret_cast<const T*>(storage) + t->storage_offset();
  if (!t->is_contiguous_default(c10::MemoryFormat::Contiguous)) {
    return AllPassFrom(data, t->sizes(), t->strides(), allowed);
  }
  bool all = true;  // no early end: the loop is vectorised
  for (std::int64_t i = 0; i < t->numel(); ++i) all &= allowed.Has(data[i]);
  return all;
}

// True if `t` holds integers, all of them allowed, and they are there.
bool IndicesPass(const c10::TensorImpl* t, const Allowed& allowed) {
  if (t == nullptr || t->numel() > kMaxCheckedElements || !IsReady(t)) {
    return false;
  }
  if (t->numel() == 0) return true;
  const auto dtype = c10::typeMetaToScalarType(t->dtype());
  if (dtype == c10::kLong) return AllPass<std::int64_t>(t, allowed);
  if (dtype == c10::kInt) return AllPass<std::int32_t>(t, allowed);
  return false;
}

bool DimIndexPasses(const CallFrame& frame) {
  const c10::TensorImpl* self = TensorOf(frame, 0);
  if (self == nullptr || frame.statics.empty()) return false;
  const auto ndim = static_cast<std::int64_t>(self->dim());
  auto dim = static_cast<std::int64_t>(frame.statics[0]);
  if (dim < 0) dim += std::max<std::int64_t>(ndim, 1);
  if (dim < 0 || dim >= std::max<std::int64_t>(ndim, 1)) return false;
  const std::int64_t size = ndim == 0 ? 1 : self->size(dim);
  return IndicesPass(TensorOf(frame, 2), {0, size});
}

bool IndexListPasses(const CallFrame& frame) {
  const c10::TensorImpl* self = TensorOf(frame, 0);
  if (self == nullptr) return false;
  std::int64_t dim = 0;
  for (const TensorRef& ref : frame.tensors) {
    if (ref.arg != 1) continue;
    if (dim >= self->dim()) return false;
    const std::int64_t size = self->size(dim++);
    if (ref.impl != nullptr && !IndicesPass(ref.impl, {-size, size})) {
      return false;
    }
  }
  return true;
}

// Classes, or the one to ignore.
bool TargetPasses(const CallFrame& frame, std::uint32_t self_arg) {
  const c10::TensorImpl* self = TensorOf(frame, self_arg);
  if (self == nullptr || self->dim() == 0) return false;
  Allowed allowed = {0, self->size(self->dim() == 1 ? 0 : 1)};
  if (frame.statics.size() >= 2) {  // how to reduce, the class to ignore
    allowed.has_another = true;
    allowed.another = static_cast<std::int64_t>(frame.statics[1]);
  }
  return IndicesPass(TensorOf(frame, self_arg + 1), allowed);
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

}  // namespace

bool ValuesPass(const CallFrame& frame) {
  switch (frame.entry.value_check) {
    case ValueCheck::kNone:
      return true;
    case ValueCheck::kUnknown:
      return false;
    case ValueCheck::kIntegral:
      return AllFloating(frame);
    case ValueCheck::kElementwise:
      return !frame.statics.empty() && frame.statics[0] == 0;
    case ValueCheck::kSameSizes:
      return HasSameSizes(TensorOf(frame, 0), TensorOf(frame, 1));
    case ValueCheck::kLossGradient:
      return HasSameSizes(TensorOf(frame, 1), TensorOf(frame, 2)) &&
             Fits(TensorOf(frame, 1), TensorOf(frame, 0));
    case ValueCheck::kFits:
      return Fits(TensorOf(frame, 0), TensorOf(frame, 1));
    case ValueCheck::kFreedom:
      return HasFreedom(frame);
    case ValueCheck::kIndices:
      return !WarnsOfExpanded(frame) && IndexListPasses(frame);
    case ValueCheck::kDimIndex:
      return DimIndexPasses(frame);
    case ValueCheck::kFlatIndex: {
      const c10::TensorImpl* self = TensorOf(frame, 0);
      return self != nullptr &&
             IndicesPass(TensorOf(frame, 1), {-self->numel(), self->numel()});
    }
    case ValueCheck::kTarget:
      return TargetPasses(frame, 0);
    case ValueCheck::kTargetOfGrad:
      return TargetPasses(frame, 1);
  }
  return false;
}

}  // namespace tjit::runtime
