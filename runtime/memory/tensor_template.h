// How tensors lie: a geometry that steps share, and a quick way to make a
// fresh tensor of it.
//
// A replayed program makes the same tensors again and again, one for each op.
// The first of a form is made as libtorch makes it; of the others its bytes
// are copied. Note [Tensors by copy] in tensor_template.cpp.
//
// Threads: any. A form lives as long as somebody holds it.
// Tested by: tests/runtime/memory/tensor_template_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "recorder/tensor_meta.h"
#include "runtime/memory/object_pool.h"

namespace tjit::runtime {

// The members of a TensorImpl that tjit reaches past: where they lie is
// checked at run time (Note [Tensors by copy]).
inline constexpr std::size_t kStorageAt = 16;
inline constexpr std::size_t kVersionAt = 40;
inline constexpr std::size_t kShapeAt = 56;  // sizes, strides, ... to the end

struct TensorTemplate {
  // A fresh PooledTensor without storage and version counter.
  struct Bytes {
    alignas(16) unsigned char impl[sizeof(c10::TensorImpl)];
    bool has_version;  // inference tensors have none
  };

  explicit TensorTemplate(const TensorGeometry& g) : geometry(g) {}
  ~TensorTemplate() { delete bytes.load(std::memory_order_relaxed); }
  TensorTemplate(const TensorTemplate&) = delete;
  TensorTemplate& operator=(const TensorTemplate&) = delete;

  const TensorGeometry geometry;
  // Null until a tensor was made, and for tensors that cannot be copied.
  mutable std::atomic<const Bytes*> bytes{nullptr};
};

inline std::uint64_t ShapeWord(const void* impl, std::size_t byte) {
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const char*>(impl) + byte, sizeof(word));
  return word;
}

// The parts of the shape, in the pieces in which they are compared and
// written: a load that spans two stores waits for both to reach the cache.
// Sizes and strides behind the last one are whatever was there.
inline constexpr std::size_t kSizesAt = kShapeAt + 8;
inline constexpr std::size_t kStridesAt =
    kSizesAt + 8 * C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE;
inline constexpr std::size_t kTailAt =  // offset, dtype, keys, ...
    kStridesAt + 8 * C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE;
static_assert(sizeof(c10::TensorImpl) - kTailAt == 32);
// Bits of the tail that no constructor sets: whatever was in the memory. (The
// bit-fields of 2.13 leave one.)
struct alignas(16) TailPadding {
  unsigned char bits[32] = {};
};
extern const TailPadding g_tail_padding;

// REQUIRES: 1 < ndim <= what lies in place; the first ones are equal.
[[gnu::always_inline]] inline bool HasRestOfSizes(const void* a, const void* b,
                                                  std::uint64_t ndim) {
  for (std::size_t i = 8; i < 8 * ndim; i += 8) {
    if (ShapeWord(a, kSizesAt + i) != ShapeWord(b, kSizesAt + i) ||
        ShapeWord(a, kStridesAt + i) != ShapeWord(b, kStridesAt + i)) {
      return false;
    }
  }
  return true;
}

// True if `impl` has the class of pooled tensors, or a plain one, and the
// shape of a fresh tensor of these bytes: then it has its geometry. False says
// nothing.
[[gnu::always_inline]] inline bool HasShapeOf(
    const c10::TensorImpl* impl, const TensorTemplate::Bytes& bytes) {
  using Chunk [[gnu::vector_size(16), gnu::may_alias, gnu::aligned(8)]] =
      long long;
  using OwnChunk [[gnu::vector_size(16), gnu::may_alias]] = long long;
  const auto* a = reinterpret_cast<const unsigned char*>(impl);
  const unsigned char* b = bytes.impl;
  const std::uint64_t ndim = ShapeWord(b, kShapeAt);
  const std::uint64_t vtable = ShapeWord(a, 0);
  if ((vtable != ShapeWord(b, 0) &&
       vtable != reinterpret_cast<std::uintptr_t>(g_plain_vtable)) ||
      ShapeWord(a, kShapeAt) != ndim) {
    return false;
  }
  if (ndim != 0) {
    if (ShapeWord(a, kSizesAt) != ShapeWord(b, kSizesAt) ||
        ShapeWord(a, kStridesAt) != ShapeWord(b, kStridesAt) ||
        (ndim > 1 && !HasRestOfSizes(a, b, ndim))) {
      return false;
    }
  }
  const auto differ = [&](std::size_t i) {
    return (*reinterpret_cast<const Chunk*>(a + kTailAt + i) ^
            *reinterpret_cast<const OwnChunk*>(b + kTailAt + i)) &
           ~*reinterpret_cast<const OwnChunk*>(g_tail_padding.bits + i);
  };
  const Chunk differs = differ(0) | differ(16);
  return (differs[0] | differs[1]) == 0;
}

// The same of a form, which may have none yet.
[[gnu::always_inline]] inline bool HasBytesOf(const c10::TensorImpl* impl,
                                              const TensorTemplate& form) {
  const TensorTemplate::Bytes* bytes =
      form.bytes.load(std::memory_order_acquire);
  return bytes != nullptr && HasShapeOf(impl, *bytes);
}

// Writes all but storage, version counter and their like: from the sizes on.
inline void CopyShape(const TensorTemplate::Bytes& bytes, void* impl) {
  using Chunk [[gnu::vector_size(16), gnu::may_alias, gnu::aligned(8)]] =
      long long;
  auto* const to = static_cast<unsigned char*>(impl);
  const unsigned char* const from = bytes.impl;
  const std::uint64_t ndim = ShapeWord(from, kShapeAt);
  std::memcpy(to + kShapeAt, &ndim, 8);
  std::memcpy(to + kSizesAt, from + kSizesAt, 8);
  std::memcpy(to + kStridesAt, from + kStridesAt, 8);
  for (std::size_t i = 8; i < 8 * ndim; i += 8) {
    std::memcpy(to + kSizesAt + i, from + kSizesAt + i, 8);
    std::memcpy(to + kStridesAt + i, from + kStridesAt + i, 8);
  }
  for (std::size_t i = kTailAt; i < sizeof(c10::TensorImpl); i += 16) {
    *reinterpret_cast<Chunk*>(to + i) =
        *reinterpret_cast<const Chunk*>(from + i);
  }
}

// The one form of a geometry.
std::shared_ptr<const TensorTemplate> TemplateOf(
    const TensorGeometry& geometry);

// A tensor of this form over all of `storage`: CPU, dense, from offset 0, its
// version counter at `version`, as at::empty() makes it in the thread's
// present modes. REQUIRES: the form was recorded in the same modes.
at::Tensor MakeTensor(const TensorTemplate& form, c10::Storage storage,
                      std::uint32_t version);

}  // namespace tjit::runtime
