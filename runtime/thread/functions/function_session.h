// What is seen while a function that tjit::jit() wraps runs, on its thread.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/op_record.h"
#include "recorder/tensor_meta.h"
#include "runtime/call/trace_run.h"
#include "runtime/memory/birth_watch.h"
#include "runtime/memory/block.h"
#include "runtime/thread/functions/function_plan.h"
#include "runtime/thread/functions/refusal.h"

namespace tjit::runtime {

struct FunctionSession {
  // A tensor that at::empty() or its like made.
  struct Inside {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const Block* block;
    TensorGeometry geometry;
    std::uint32_t context;
  };
  // The first use of a storage that no step made.
  struct External {
    std::int32_t slot;
    CapturedStorage storage;
    // What lies in it, where that is a number that may be gone with the call.
    std::string bytes;
  };
  // A result of a part.
  struct Called {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const Block* block = nullptr;
    TensorGeometry geometry;
  };
  // A tensor that was drawn.
  struct Drawn {
    std::uint32_t inside;     // its number
    TensorGeometry geometry;  // as at::empty() made it
  };

  // Null: the call is recorded. Else the call follows this record.
  std::shared_ptr<const FunctionRecord> follows;
  const FunctionPlan* before = nullptr;  // what is known already
  FunctionKey key;
  std::vector<at::Tensor> arguments;
  std::vector<std::uint32_t> versions;  // of the arguments, before the call
  std::vector<std::uint32_t> captured_versions;
  std::size_t hooks = 0;  // on the arguments, before the call
  std::shared_ptr<TraceStore> store;
  BirthWatch births;
  std::vector<Inside> inside;
  // The last of them, through whose pointer the host fills it just now.
  const c10::StorageImpl* filled = nullptr;
  std::vector<External> externals;
  std::vector<FunctionIndex> indices;
  std::vector<Drawn> drawn;
  std::vector<FunctionDraw> draws;
  std::vector<FunctionRead> reads;
  std::vector<FunctionPart> parts;
  std::vector<ScalarValue> part_scalars;
  std::vector<Called> called;  // results of all parts
  // Where a recording's parts take kCaptured arguments from.
  std::vector<CapturedStorage> part_captured;
  std::size_t externals_before = 0;  // the op that is recorded just now
  bool is_part_open = false;         // its kernel runs
  // Of a following one that reads, or keeps a graph: the storages that steps
  // have made, or that hold constants, by slot. And the bytes of constants
  // whose steps have run.
  std::vector<std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>>> born;
  std::vector<std::pair<std::size_t, std::string>> constants;
  std::vector<std::uint32_t> across;  // slots that lived when it read
  // Another record that has the steps of `follows` up to its read number `read`
  // and reads `bits` there, and which is followed then; null: none is known.
  std::function<std::shared_ptr<const FunctionRecord>(
      const FunctionRecord& follows, std::size_t read, std::uint64_t bits)>
      find_other;
  // Of a following one that draws: the generator as it was before the call.
  at::Generator generator;
  // Tensors that ask for gradients and may be written; only compared.
  std::vector<const c10::TensorImpl*> updated;
  // Those of optimizers that were passed, and those whose gradients backward
  // passes have accumulated, in order.
  std::vector<at::Tensor> leaves;
  // Of a following one: the gradients of the record's leaves before the call.
  std::vector<std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>>>
      gradients;
  // Its results may keep a graph for gradients.
  bool keeps_graph = false;
  // It is the backward pass of one that does.
  bool is_backward = false;
  // Arguments that the caller has made: no tensor from outside is one of them.
  std::size_t own_begin = 0, own_end = 0;
  // Storages that hold numbers which that one found by itself; null: none do.
  const std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>* numbers =
      nullptr;
  // Of each result: somebody else holds it when the function has returned.
  std::vector<bool> is_kept;
  Refusal why = Refusal::kNone;
  OpId op = kNoOp;  // that the refusal is about

  bool has_failed() const { return why != Refusal::kNone; }
  // Steps that ran at host reads.
  std::size_t steps_run() const {
    return reads.empty() ? 0 : reads.back().step;
  }
  // Null: none was kept.
  const std::string* ConstantOf(std::size_t slot) const {
    for (const auto& [s, bytes] : constants) {
      if (s == slot) return &bytes;
    }
    return nullptr;
  }
  // A pointer to `storage` was taken. That of a number that was just made may
  // be let go of before anything else happens, as in torch.tensor(0.5).
  void TakePointer(const c10::StorageImpl* storage);
  void LetGoOf(const c10::StorageImpl* storage);
  // Something else happens.
  void CheckPointer() {
    if (filled != nullptr) Fail(Refusal::kHostRead);
  }
  // The function reads this number.
  void AddRef(const double* number);
  // The first reason stays.
  void Fail(Refusal refusal, OpId about = kNoOp) {
    if (has_failed()) return;
    why = refusal;
    op = about;
  }
};

// 0 where it has none.
inline std::uint32_t VersionOf(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_inference()) return 0;
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

// Hooks that run where the gradients of these tensors are known.
std::size_t HookCount(const std::vector<at::Tensor>& tensors);
// Which of the arguments is over this storage.
std::optional<std::uint32_t> ArgumentOver(
    const std::vector<at::Tensor>& arguments, const c10::StorageImpl* storage);
// True if slot `s`, which a call has bound so, holds a number that libtorch has
// made a tensor of for this call, or for the one of which it is the backward
// pass. `may_live`: a graph may have that tensor still.
bool HoldsNumber(const FunctionSession& session, std::size_t s,
                 const SlotBinding& bound, bool may_live);
// The storage of a tensor of the program.
CapturedStorage CapturedOf(const c10::TensorImpl* impl);

// An argument of the recording is `impl`, over slot `slot`, which no step made
// if `is_new`.
void RecordExternal(FunctionSession* session, std::int32_t slot,
                    const c10::TensorImpl* impl, bool is_new);

}  // namespace tjit::runtime
