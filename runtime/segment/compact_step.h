// What following and deferring read of a step, in one piece of memory: a
// recorded step is spread over five vectors, and a training step of thousands
// of ops reads all of them once.
//
//   | CompactStep | args | results | scalars | statics | forms |
//
// Made when a step is deferred for the first time, from what never changes of
// a published step. Owned by the node.
// Threads: read by any; several may make it, the first one stays.
// Tested by: tests/runtime/segment/compact_step_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "recorder/trace.h"
#include "runtime/memory/tensor_template.h"

namespace tjit::runtime {

class InnerCalls;

struct CompactArg {
  const TensorTemplate* form;  // null: undefined
  std::int32_t slot;
  bool written;
};

struct CompactResult {
  const TensorTemplate* form;  // of a fresh result
  std::uint64_t bytes;     // of its storage
  std::uint32_t version;
  ResultRecord::Kind kind;
  std::uint8_t size_class;  // TensorRecycler::ClassOf(bytes)
};

class CompactStep final : public NodeExtra {
 public:
  ~CompactStep() override;

  // The one of `node`, null if it has none yet.
  static const CompactStep* Of(const TraceNode& node) {
    return static_cast<const CompactStep*>(
        node.extra.load(std::memory_order_acquire));
  }
  // The same, made if need be. `follows_usually`: the op has no check of
  // values.
  static const CompactStep* Make(TraceNode* node, bool follows_usually) {
    const CompactStep* made = Of(*node);
    return made != nullptr ? made : MakeNew(node, follows_usually);
  }

  OpId op() const { return op_; }
  std::uint32_t context() const { return context_; }
  std::uint32_t arg_count() const { return arg_count_; }
  std::uint32_t result_count() const { return result_count_; }
  std::uint32_t scalar_count() const { return scalar_count_; }
  std::uint32_t static_count() const { return static_count_; }
  bool follows_usually() const { return follows_usually_; }
  // True if its arguments are tensors that it only reads, at least one, and
  // that steps before it have used, and it makes one result, of a size that is
  // kept recycled.
  bool is_fast() const { return is_fast_; }
  // Size of the storage whose bytes the step fills, all of them and reading
  // none (recorder/overwrite.h); 0: it is no such step.
  std::uint64_t filled_bytes() const { return filled_bytes_; }

  const CompactArg* args() const {
    return reinterpret_cast<const CompactArg*>(this + 1);
  }
  const CompactResult* results() const {
    return reinterpret_cast<const CompactResult*>(Bytes() + results_at_);
  }
  const ScalarValue* scalars() const {
    return reinterpret_cast<const ScalarValue*>(Bytes() + scalars_at_);
  }
  const std::uint64_t* statics() const {
    return reinterpret_cast<const std::uint64_t*>(Bytes() + statics_at_);
  }

  // What the eager kernel calls, for observers of ops (observers.h); null: not
  // known yet. The first one stays.
  const InnerCalls* inner_calls() const {
    return inner_calls_.load(std::memory_order_acquire);
  }
  void KeepInnerCalls(std::unique_ptr<const InnerCalls> calls) const;

  static void operator delete(void* p) { ::operator delete(p); }

 private:
  CompactStep() = default;
  const char* Bytes() const { return reinterpret_cast<const char*>(this); }
  static const CompactStep* MakeNew(TraceNode* node, bool follows_usually);
  void Fill(const TraceNode& node);
  bool IsFast(std::uint32_t slot_begin) const;
  // Of arguments and results, which point to them.
  using Form = std::shared_ptr<const TensorTemplate>;
  Form* forms() {
    return reinterpret_cast<Form*>(const_cast<char*>(Bytes()) + forms_at_);
  }
  const TensorTemplate* Keep(const TensorGeometry& geometry);

  OpId op_;
  std::uint32_t context_;
  std::uint32_t arg_count_, result_count_, scalar_count_, static_count_;
  bool follows_usually_;
  bool is_fast_;
  std::uint32_t results_at_, scalars_at_, statics_at_, forms_at_;  // from here
  std::uint32_t form_count_ = 0;
  std::uint64_t filled_bytes_;
  mutable std::atomic<const InnerCalls*> inner_calls_{nullptr};  // owned
};

// The tensor arguments of a step, from its compact step if it has one.
class SlotArgs {
 public:
  struct Arg {
    std::int32_t slot;
    bool written;
    const TensorGeometry* geometry;  // null: undefined
  };

  explicit SlotArgs(const TraceNode& node)
      : record_(node.step), step_(CompactStep::Of(node)) {}
  explicit SlotArgs(const StepRecord& record)
      : record_(record), step_(nullptr) {}
  std::uint32_t size() const {
    return step_ != nullptr ? step_->arg_count()
                            : static_cast<std::uint32_t>(record_.args.size());
  }
  Arg operator[](std::uint32_t i) const {
    if (step_ == nullptr) {
      const ArgRecord& arg = record_.args[i];
      return {arg.slot, arg.written,
              arg.slot == kNoSlot ? nullptr : &*arg.geometry};
    }
    const CompactArg& arg = step_->args()[i];
    return {arg.slot, arg.written,
            arg.form == nullptr ? nullptr : &arg.form->geometry};
  }

 private:
  const StepRecord& record_;
  const CompactStep* const step_;
};

}  // namespace tjit::runtime
