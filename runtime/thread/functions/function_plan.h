// What is known of a function that tjit::jit() wraps: a first call is recorded
// (FunctionRecord), a second one that did the same makes a plan of it
// (FunctionPlan), by which later calls are replayed without running it.
//
// Note [Functions]. The steps of a function are a path of the store of traces,
// like any other. What a trace does not say is where its external slots come
// from and what becomes of what it makes: that is what a plan adds.
//
//   slot      kBorn      a step made it
//             kInside    at::empty() and its like made it inside
//             kDrawn     the same, and filled from numbers alone (draws.h)
//             kCalled    an op that runs at the call made it (parts.h)
//             kArgument  the storage of an argument
//             kCaptured  a storage that the function found by itself
//             kConstant  a number that libtorch made a tensor of
//   argument  compared by form; a number by value, or free where it was found
//             in the scalars of steps in two calls with different values
//   result    an argument, a captured tensor, or a slot over which a tensor is
//             made at each replay; so is a gradient that a backward pass inside
//             gives to a leaf
//
// The second call runs under the trace, with every op deferred: whoever reads
// a value before the end runs what is pending and shows himself by that.
//
// Note [Host reads]. A function may read whole numbers on the host and decide
// by them, as a loop does that goes on until it has converged. Each outcome is
// a path of its own, whose steps up to the read are those of the others. A
// replay runs these steps, looks at the number, and goes on by the plan that
// read the same. If there is none the function runs: so a function must not
// have written into what was there before when it reads, and what was drawn for
// the replay is drawn again (DrawScope). Indices that it computes are looked at
// in the same way: an op would throw on them.
//
// Invariants: (1) A plan holds no strong reference to a tensor or storage.
// (2) A plan does not change once it is published, but for its counters.
// Threads: any thread replays a plan; a record belongs to who made it.
// Tested by: tests/runtime/thread/jit_*_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/trace.h"
#include "recorder/value_class.h"
#include "runtime/call/value_checks.h"
#include "runtime/memory/tensor_template.h"
#include "runtime/thread/functions/function_part.h"
#include "runtime/thread/functions/gradient_graph.h"

namespace tjit::runtime {

struct FunctionSlot {
  enum class Kind : std::uint8_t {
    kBorn,
    kInside,
    kDrawn,
    kCalled,
    kArgument,
    kCaptured,
    kConstant,
  };
  Kind kind = Kind::kBorn;
  bool written = false;
  // Of the inside or drawn tensor, result of a part, argument, captured
  // storage, constant.
  std::uint32_t index = 0;
  std::uint64_t bytes = 0;  // of the storage, when it was recorded
  // The part of it that steps use, and where the first one does, in bytes.
  std::int64_t begin = 0, end = 0, first = -1;
};

// What was the same in all calls is not known to be free: a function may
// capture what it is called with. So an argument is pinned until it was seen
// over two storages, and does not move until it was seen at two places.
struct FunctionArgument {
  bool defined = false;
  bool requires_grad = false;
  bool moves = false;            // may begin anywhere in its storage
  bool is_pinned = true;         // has to be over `storage`
  std::int32_t shares = -1;      // the argument before it that has its storage
  std::int32_t same_as = -1;     // the first that is the same tensor
  std::int64_t least_bytes = 0;  // of its storage, for results that are views
  TensorGeometry geometry;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{
      c10::weak_intrusive_ptr<c10::StorageImpl>(
          c10::intrusive_ptr<c10::StorageImpl>())};
};

// A double that was passed, or that tjit::ref() has read.
struct FunctionNumber {
  double value = 0;
  bool is_free = false;  // its uses are known: another value is another scalar
};

// Where a number goes: scalar `at` of the run or of the parts, or constant
// `at`.
struct NumberUse {
  enum class Where : std::uint8_t { kStep, kConstant, kPart };
  std::uint32_t number = 0;
  std::uint32_t at = 0;
  Where where = Where::kStep;
  // Of a step: values of another class are another step (value_class.h).
  ScalarPolicy policy{};
  std::uint32_t value_class = 0;
};

// A storage that the function found by itself.
struct CapturedStorage {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  // The tensor of the program over it, where it was met; else null.
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> tensor;
  TensorGeometry geometry;  // of `tensor`
  bool requires_grad = false;
  // What views of it share. Not enabled: of an inference tensor, or unknown.
  c10::VariableVersion version{c10::VariableVersion::DISABLED};
  std::uint32_t bumps = 0;  // by one call
};

struct FunctionResult {
  enum class Kind : std::uint8_t {
    kUndefined,
    kArgument,
    kCaptured,
    kSlot,
    kDrawn,
    kCalled,
  };
  // True if each replay has a storage of its own for it.
  bool is_made() const { return kind >= Kind::kSlot; }

  Kind kind = Kind::kUndefined;
  bool is_view = false;       // of the tensor that `index` names
  bool is_tracked = false;    // and autograd knows it as one
  bool has_graph = false;     // it asks for gradients
  std::int32_t same_as = -1;  // the result before that is the same tensor
  // Argument, captured storage, place in `fresh`, drawn tensor, or result of a
  // part.
  std::uint32_t index = 0;
  TensorGeometry geometry;
};

// A tensor that is made at each replay.
struct FreshTensor {
  std::uint32_t slot = 0;
  std::uint32_t context = 0;  // of the step that makes it
  std::uint32_t version = 0;
  std::uint8_t size_class = 0;
  std::uint64_t bytes = 0;
  std::shared_ptr<const TensorTemplate> form;
};

inline bool IsSame(const FreshTensor& a, const FreshTensor& b) {
  return a.slot == b.slot && a.context == b.context && a.version == b.version &&
         a.bytes == b.bytes && a.form == b.form;
}

// A tensor that at::empty() or its like makes. Those that are drawn are made
// before the steps of each replay.
struct InsideTensor {
  TensorGeometry geometry;
  std::uint32_t context = 0;  // of the call that makes it
};

// A call that fills drawn tensor `tensor`.
struct FunctionDraw {
  std::uint32_t tensor = 0;
  std::shared_ptr<const CapturedCall> call;
  std::vector<std::uint64_t> statics;
  std::vector<ScalarValue> scalars;
};

// A tensor whose gradient a backward pass inside the function accumulates.
struct FunctionLeaf {
  enum class After : std::uint8_t {
    kNone,    // it has no gradient
    kSame,    // the gradient from before, maybe written in place
    kResult,  // a new one
  };
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  TensorGeometry geometry;
  bool had_gradient = false;  // before the call
  After after = After::kNone;
  const c10::TensorImpl* same = nullptr;  // kSame: only compared
  std::int32_t argument = -1;             // kSame: it is this one, else `same`
  std::uint32_t result = 0;               // kResult: of the plan's results
};

// Integers that a step indexes by: the function throws unless all are allowed.
// Nothing in it writes them before that step, so they are looked at before all.
struct FunctionIndex {
  std::int32_t slot = kNoSlot;
  std::uint32_t step = 0;
  TensorGeometry geometry;
  IndexRange allowed{};
};

// What a call is told by before anything runs.
struct FunctionKey {
  std::uint32_t context = 0;         // of the thread, when it is called
  std::uint64_t global = 0;          // of the process: GlobalContext::word
  std::vector<std::uint64_t> words;  // arguments that must be the same
  std::vector<FunctionArgument> arguments;
  // Those that are passed, then those behind `refs`: where tjit::ref() found
  // them, in the order of the calls.
  std::vector<FunctionNumber> numbers;
  std::vector<const double*> refs;

  // Number `n` of a call that passes `passed`.
  double NumberAt(std::size_t n, c10::ArrayRef<double> passed) const {
    return n < passed.size() ? passed[n] : *refs[n - passed.size()];
  }
};

// The first call.
struct FunctionRecord {
  FunctionKey key;
  std::weak_ptr<TraceStore> store;  // of the nodes
  std::vector<TraceNode*> nodes;    // the path, which the second call follows
  std::vector<FunctionSlot> slots;
  std::vector<CapturedStorage> captured;
  std::vector<std::string> constants;  // their bytes, 16 of each at most
  std::vector<ScalarValue> scalars;    // of all steps, in order
  std::vector<FunctionIndex> indices;
  std::vector<FunctionRead> reads;  // in the order of the calls
  std::vector<FunctionPart> parts;
  std::vector<RestoredSlot> restored;
  std::vector<ScalarValue> part_scalars;  // of all parts, in order
  std::vector<InsideTensor> inside;
  std::vector<InsideTensor> drawn;
  std::vector<FunctionDraw> draws;          // in the order of the calls
  std::vector<std::uint64_t> result_words;  // what is no tensor in the results
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> leaves;
  // Calls with other numbers or storages that did something else.
  mutable std::atomic<std::uint32_t> failures{0};
  // Null: no results with a graph were seen. Under the mutex of the JitCore.
  mutable std::shared_ptr<internal::GradientWays> gradients;
};

// The nodes and slots are the record's.
struct FunctionPlan {
  FunctionKey key;
  std::shared_ptr<const FunctionRecord> record;  // that it was made of
  std::vector<CapturedStorage> captured;
  std::vector<std::string> constants;
  std::vector<ScalarValue> scalars;
  bool has_other_scalars = false;  // than the nodes
  std::vector<ScalarValue> part_scalars;
  std::vector<NumberUse> uses;
  bool writes = false;               // something that was there before
  std::vector<std::uint32_t> bumps;  // of each argument, by one call
  std::vector<FreshTensor> fresh;    // results, then what lives at host reads
  std::size_t of_results = 0;        // how many of them are results
  std::vector<std::uint32_t> drawn_versions;  // of each at the end of a call
  std::vector<std::uint32_t> called_versions;  // the same of parts' results
  std::vector<FunctionResult> results;  // then the new gradients of `leaves`
  std::vector<FunctionLeaf> leaves;
  // Null: no result has a graph.
  std::shared_ptr<FunctionGradients> gradients;
  FunctionAtOnce at_once;
  // The returned object, without its tensors; null where nothing is returned.
  std::shared_ptr<const void> returned;
  mutable std::atomic<std::uint64_t> replays{0};
  // Calls that would have made it serve more, and did not.
  mutable std::atomic<std::uint32_t> failures{0};
  mutable std::atomic<std::uint32_t> misses{0};  // replays in a row that failed
  mutable std::atomic<bool> is_dropped{false};
};

// A number as a constant of so many bytes, f64 or f32; empty: there is none.
std::string BytesOfConstant(double number, std::size_t bytes);

// The number that constant `at` stands for, as bytes; empty: it is always the
// same.
std::string NumberOfConstant(const FunctionPlan& plan, std::uint32_t at,
                             c10::ArrayRef<double> numbers);

// REQUIRES: all else of the plan is known.
FunctionAtOnce AtOnceOf(const FunctionPlan& plan);

// True if the leaves of the plan have the gradients, and lack the hooks, that
// they had and lacked when it was made. `arguments`: of the call.
bool HoldsLeaves(const FunctionPlan& plan,
                 c10::ArrayRef<const at::Tensor*> arguments);
// The same of leaves that the graph of its results leads to.
bool HoldsUses(const FunctionGradients& gradients);

}  // namespace tjit::runtime
