// A TensorIterator that is built once and run over the addresses of each run.
//
// Building an iterator is most of the time of a small pointwise op (8x8 add:
// 200 of 240 ns); its result depends on geometry only. What depends on the
// run is the first byte of each operand, and one-element operands that
// libtorch converted into a temporary (`x * 2.0` reads a float64 tensor).
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>

#include "runtime/library_calls/internal.h"

namespace tjit::runtime {

// What a kernel looks at.
enum Purity : std::uint8_t {
  kReadsTensors,    // also at tensors, its own or those of the iterator
  kComputesInMeta,  // meta copies or computes: it runs each time
  kPure,            // at nothing but its iterator and scalars
  kPureWrapped,     // the same; its only scalar is an operand of the iterator
};

class IteratorPatches {
 public:
  // Finds the source of each operand of a built `it`. False if one is neither
  // in a slot nor a converted element; then the iterator must be built for
  // every run. `scalar` is the index of the run's scalar that libtorch wrapped
  // into an operand; kNone: there is none; kConstant: foreign operands keep
  // their memory (constants and scratch).
  static constexpr int kNone = -1;
  static constexpr int kConstant = -2;
  bool Plan(const at::TensorIteratorBase& it, const Request& request,
            int scalar);

  void Apply(at::TensorIteratorBase* it, char* const* slots,
             const ScalarValue* scalars) const {
    for (const Direct& d : direct_) {
      it->_unsafe_set_arg_data(d.operand, slots[d.slot] + d.byte_offset);
    }
    if (!converted_.empty()) Convert(*it, slots, scalars);
  }

 private:
  struct Direct {
    std::int32_t operand;
    std::int32_t slot;
    std::int64_t byte_offset;
  };
  struct Converted {
    std::int32_t operand;
    std::int32_t slot;  // kNoSlot: scalar `byte_offset` of the run
    std::int64_t byte_offset;
    c10::ScalarType from;
    c10::ScalarType to;
  };
  void Convert(const at::TensorIteratorBase& it, char* const* slots,
               const ScalarValue* scalars) const;

  c10::SmallVector<Direct, 4> direct_;
  c10::SmallVector<Converted, 1> converted_;
};

// What decides whether a kernel changes an iterator, besides the kernel: types
// of the operands, what is done with them, which of them have one element, and
// arguments like a rounding mode. (In libtorch 2.13 products and quotients of
// bf16 and f16 by one element take that operand out.)
std::string KindOf(const at::TensorIteratorBase& it, const Request& request);

// What a kernel must leave as it was for an iterator to serve again.
class IteratorShape {
 public:
  explicit IteratorShape(const at::TensorIteratorBase& it);
  bool IsUnchanged(const at::TensorIteratorBase& it) const;

 private:
  c10::SmallVector<std::int64_t, 24> words_;
  static void Collect(const at::TensorIteratorBase& it,
                      c10::SmallVector<std::int64_t, 24>* words);
};

}  // namespace tjit::runtime
