// How tensors lie: a geometry that steps share, and a quick way to make a
// fresh tensor of it.
//
// A replayed program makes the same tensors again and again, one for each op.
// The first of a form is made as libtorch makes it; of the others its bytes
// are copied. Note [Tensors by copy] in tensor_form.cpp.
//
// Threads: any. A form lives as long as somebody holds it.
// Tested by: tests/runtime/tensor_form_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "recorder/tensor_meta.h"
#include "runtime/pooled_objects.h"

namespace tjit::runtime {

// The members of a TensorImpl that tjit reaches past: where they lie is
// checked at run time (Note [Tensors by copy]).
inline constexpr std::size_t kStorageAt = 16;
inline constexpr std::size_t kVersionAt = 40;
inline constexpr std::size_t kShapeAt = 56;  // sizes, strides, ... to the end

struct TensorForm {
  // A fresh PooledTensor without storage and version counter.
  struct Bytes {
    alignas(16) unsigned char impl[sizeof(c10::TensorImpl)];
    bool has_version;  // inference tensors have none
  };

  explicit TensorForm(const TensorGeometry& g) : geometry(g) {}
  ~TensorForm() { delete bytes.load(std::memory_order_relaxed); }
  TensorForm(const TensorForm&) = delete;
  TensorForm& operator=(const TensorForm&) = delete;

  const TensorGeometry geometry;
  // Null until a tensor was made, and for tensors that cannot be copied.
  mutable std::atomic<const Bytes*> bytes{nullptr};
};

// True if `impl` has a plain class and, byte by byte, the shape of a fresh
// tensor of this form: then it has its geometry. False says nothing.
[[gnu::always_inline]] inline bool HasBytesOf(const c10::TensorImpl* impl,
                                              const TensorForm& form) {
  using Chunk [[gnu::vector_size(16), gnu::may_alias, gnu::aligned(8)]] =
      long long;
  using OwnChunk [[gnu::vector_size(16), gnu::may_alias]] = long long;
  const TensorForm::Bytes* bytes = form.bytes.load(std::memory_order_acquire);
  if (bytes == nullptr) return false;
  const auto* a = reinterpret_cast<const unsigned char*>(impl);
  const unsigned char* b = bytes->impl;
  const auto word = [](const unsigned char* p) {
    std::uint64_t w;
    std::memcpy(&w, p, sizeof(w));
    return w;
  };
  if (!HasPlainVtable(impl) || word(a + kShapeAt) != word(b + kShapeAt)) {
    return false;
  }
  constexpr std::size_t kEnd = sizeof(c10::TensorImpl);
  Chunk differ = {0, 0};
  std::size_t i = kShapeAt + 8;
  for (; i + sizeof(Chunk) <= kEnd; i += sizeof(Chunk)) {
    differ |= *reinterpret_cast<const Chunk*>(a + i) ^
              *reinterpret_cast<const OwnChunk*>(b + i);
  }
  if (i < kEnd && word(a + i) != word(b + i)) return false;
  return (differ[0] | differ[1]) == 0;
}

// Writes all but storage, version counter and their like: from the sizes on.
// In the pieces in which HasBytesOf() will read it: a load that spans two
// stores waits for both to reach the cache.
inline void CopyShape(const TensorForm::Bytes& bytes, void* impl) {
  using Chunk [[gnu::vector_size(16), gnu::may_alias, gnu::aligned(8)]] =
      long long;
  constexpr std::size_t kEnd = sizeof(c10::TensorImpl);
  auto* to = static_cast<unsigned char*>(impl);
  std::memcpy(to + kShapeAt, bytes.impl + kShapeAt, 8);
  std::size_t i = kShapeAt + 8;
  for (; i + sizeof(Chunk) <= kEnd; i += sizeof(Chunk)) {
    *reinterpret_cast<Chunk*>(to + i) =
        *reinterpret_cast<const Chunk*>(bytes.impl + i);
  }
  std::memcpy(to + i, bytes.impl + i, kEnd - i);
}

// The one form of a geometry.
std::shared_ptr<const TensorForm> FormOf(const TensorGeometry& geometry);

// A tensor of this form over all of `storage`: CPU, dense, from offset 0, its
// version counter at `version`, as at::empty() makes it in the thread's
// present modes. REQUIRES: the form was recorded in the same modes.
at::Tensor MakeTensor(const TensorForm& form, c10::Storage storage,
                      std::uint32_t version);

}  // namespace tjit::runtime
