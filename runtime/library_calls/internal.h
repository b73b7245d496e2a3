// What the factories of prepared steps share: the call as they see it, memory
// to prepare over, and the table of factories.
//
// A factory takes a Request and returns a step, or null if it has none for
// this call; PrepareStep() then takes the boxed way. One file per op family
// (library_calls_*.cpp) exports a table of factories.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/call/call_frame.h"
#include "runtime/library_calls/library_call.h"

namespace tjit::runtime {

// A first byte, relative to the storage of a slot.
struct SlotAddress {
  std::int32_t slot = kNoSlot;
  std::int64_t byte_offset = 0;

  char* In(char* const* slots) const { return slots[slot] + byte_offset; }
};

// One step to prepare. Tensors are executor tensors; undefined where the
// program passed none. An aliasing result is the very tensor of its argument.
struct Request {
  Request(const StepRecord& s, const CapturedCall& c,
          const std::vector<std::uint64_t>& bytes, ExecutorTensors* t,
          Trials* trials = nullptr);

  const StepRecord& step;
  const CapturedCall& call;
  const std::vector<std::uint64_t>& slot_bytes;
  ExecutorTensors* tensors;
  Trials* const trials;             // null: there are none
  std::vector<at::Tensor> args;     // flattened, as step.args
  std::vector<at::Tensor> results;  // flattened, as step.results

  const c10::FunctionSchema& schema() const {
    return call.entry->handle.schema();
  }
  SlotAddress arg_address(std::size_t i) const {
    return AddressOf(step.args[i].slot, step.args[i].geometry);
  }
  SlotAddress result_address(std::size_t i) const;
  // The storage of slot of any tensor of this request; kNoSlot if foreign.
  std::int32_t SlotOf(const c10::StorageImpl* storage) const;
  // Distinct slots of the step.
  std::vector<std::int32_t> slots() const;

 private:
  static SlotAddress AddressOf(std::int32_t slot, const TensorGeometry& g) {
    return {slot, g.offset * g.itemsize};
  }
};

// From the first byte that a tensor has to behind the last one; its storage may
// be far larger.
struct ByteRange {
  SlotAddress first;
  std::uint64_t bytes = 0;
};
// Of the results that the step makes or changes, then of the arguments.
std::vector<ByteRange> RangesOf(const Request& request);

// True if a factory that mirrors plain dense kernels may look at the step at
// all: no empty argument, a result, no conjugate or negative view.
bool IsPlain(const StepRecord& step);

// A scalar argument that was not given (Scalar? = None) keeps its place in the
// order of the scalars, with this type (kNoScalar of call_frame.h).
inline bool IsNoScalar(const ScalarValue& v) {
  return v.type == ~std::uint64_t{0};
}

// Memory of the right sizes behind the slots of a request while a step is
// prepared; gives the former bindings back. Most of the time nothing but
// addresses is looked at, so memory that is not is not there either: a step may
// read a row of a storage of megabytes.
class DummyMemory {
 public:
  // kAddresses: nobody writes it, and all have the same piece, as to map one
  // takes longer than to build an iterator. Operands that libtorch converts are
  // read, as zeros.
  enum class Use : std::uint8_t { kAddresses, kRuns };
  DummyMemory(const Request& request, Use use);
  ~DummyMemory();
  DummyMemory(const DummyMemory&) = delete;
  DummyMemory& operator=(const DummyMemory&) = delete;

  // Small enough to run the kernel on it for a trial.
  bool is_small() const { return bytes_ <= kSmallBytes; }
  // Before such a run: all bytes of the step's tensors are 1, so that no
  // integer is zero. REQUIRES: kRuns.
  void FillWithOnes(const Request& request) const;
  // Indexed by slot; null for slots that the step does not use.
  char* const* slots() const { return slots_.data(); }

 private:
  static constexpr std::uint64_t kSmallBytes = 4 << 20;
  static constexpr std::uint64_t kMappedBytes = 16 << 10;  // and more

  bool is_mapped() const { return bytes_ >= kMappedBytes; }
  char* NewMemory() const;

  ExecutorTensors* tensors_;
  std::vector<std::pair<std::int32_t, void*>> former_;
  std::vector<char*> slots_;
  std::uint64_t bytes_ = 0;
  char* memory_ = nullptr;
  bool is_owner_ = true;  // of it
};

// The first byte of the piece of kAddresses, for tests; null: there is none.
const char* AddressesOfAll();

using Factory = std::unique_ptr<PreparedStep> (*)(const Request&);

struct FactoryRow {
  const char* name;  // "aten::add.Tensor"
  Factory factory;
};

c10::ArrayRef<FactoryRow> BinaryRows();
c10::ArrayRef<FactoryRow> ComplexRows();
c10::ArrayRef<FactoryRow> CopyRows();
c10::ArrayRef<FactoryRow> FftRows();
c10::ArrayRef<FactoryRow> IndexRows();
c10::ArrayRef<FactoryRow> MatmulRows();
c10::ArrayRef<FactoryRow> NnRows();
c10::ArrayRef<FactoryRow> ReduceRows();
c10::ArrayRef<FactoryRow> UnaryRows();

// Copies one element, converted as libtorch's copy kernel does. False if the
// pair of types is not supported (complex, quantized).
bool ConvertElement(c10::ScalarType from, const void* source,
                    c10::ScalarType to, void* target);

}  // namespace tjit::runtime
