// Tensors of deferred results that stay whole when the program drops them.
//
// Most results of a replayed program die while their op is pending, and the
// next op makes a tensor like it: a TensorImpl, a StorageImpl, a DataPtr, a
// version counter and a block are taken apart to be put together again. Here
// they stay together: the block goes on its free list as any other does, with
// the tensor around it, and the next result of its size class takes both.
//
//   drop:  PooledTensor's operator delete -> Park()   | taken apart
//   make:  Take()                                     | made anew
//
// Whoever else takes such a block, or moves it out of the thread's own list,
// takes the tensor apart first (TakeApart): what a tensor of libtorch is, and
// what the block cache counts, is the same.
//
// Invariants: (1) Only a tensor that is as it was made is parked: nothing but
// it knows its storage and version counter, it has no autograd, Python or
// extra metadata, and its storage is armed or can be, unexposed, over the whole
// of a quiet block of the cache. What may differ from the next one (sizes,
// dtype, key set) is written anew. (2) A parked block is on a thread's own
// list. (3) A thread has at most kMaxParked.
// Threads: the thread that drops or makes. Fork: as the block cache.
// Tested by: tests/runtime/parked_tensor_test.cpp
#pragma once

#include <cstdint>

#include "runtime/block.h"
#include "runtime/pooled_objects.h"
#include "runtime/tensor_form.h"

namespace tjit::runtime {

class ParkedTensor {
 public:
  // What a result of `bytes` is looked for by; kNone: not kept.
  static constexpr std::uint8_t kNone = 255;
  static std::uint8_t ClassOf(std::uint64_t bytes);

  // The program dropped the last reference. True: the tensor is nobody's any
  // more, and is kept or gone. False: nothing has changed.
  static bool Park(PooledTensor* tensor);

  // A tensor of `form` over a block of `bytes`, as MakeTensor() and
  // AllocateBlock() make them, quiet and armed with `hook`. Null if none is
  // parked. REQUIRES: ClassOf(bytes) is `size_class`, not kNone.
  static PooledTensor* Take(unsigned size_class, std::uint64_t bytes,
                            const TensorForm::Bytes& form,
                            std::uint32_t version, c10::MaterializeFn hook);

  // Takes the tensor off its block.
  static void TakeApart(Block* block);

 private:
  static bool IsAsMade(const PooledTensor& tensor, Block** block);
  static void Destroy(PooledTensor* tensor);
};

}  // namespace tjit::runtime
