// One recorded op call, as plain data: what the op was, how its arguments lie
// over which storages, what came out.
//
// Storages, not tensors, are numbered: a *slot* is one storage of a run, or one
// place in it, in the order of first use. The same prefix of a run therefore
// gives the same slots, whatever follows. An argument is (slot, geometry).
// In-place writes do not change the slot.
//
//   y = mm(x, w); y += b     ->  step 0 mm  args s0 s1  result s2
//                                step 1 add_ args s2(written) s3
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "recorder/schema_key.h"
#include "recorder/shared_geometry.h"
#include "recorder/tensor_meta.h"

namespace tjit {

inline constexpr std::int32_t kNoSlot = -1;  // undefined tensor

enum class StepKind : std::uint8_t {
  kDeferred,  // may be deferred and replayed
  kAtCall,    // runs at the call; holds its place in the trace, nothing else
};

struct ArgRecord {
  std::int32_t slot = kNoSlot;
  bool written = false;
  SharedGeometry geometry;
};

// A scalar argument of a step. `runtime` once two runs differed there;
// `value_class` is compared either way (see value_class.h).
struct ScalarRecord {
  ScalarValue value;
  std::uint32_t value_class = 0;
  bool may_vary = false;  // the op computes the same formula for all values
  bool runtime = false;   // a difference was seen

  // `runtime` of a published step: any thread may ask while another marks.
  bool IsRuntime() const {
    return std::atomic_ref<bool>(const_cast<bool&>(runtime))
        .load(std::memory_order_relaxed);
  }
  void MarkRuntime() {
    std::atomic_ref<bool>(runtime).store(true, std::memory_order_relaxed);
  }
};

struct ResultRecord {
  // kEmpty: a tensor without elements over a new storage without bytes. There
  // is nothing to fill, so it has no slot, and is ready as soon as it is made.
  enum class Kind : std::uint8_t { kFresh, kAlias, kUndefined, kEmpty };
  Kind kind = Kind::kFresh;
  std::int32_t slot = kNoSlot;   // kFresh: the new slot
  std::int32_t alias_arg = -1;   // kAlias: index into args
  SharedGeometry geometry;       // kFresh, kEmpty
  // Version counter of a fresh result: kernels that finish it in place by ops
  // of their own (mean, var) leave one above 0.
  std::uint32_t version = 0;
};

template <typename T, typename Same>
bool SameList(const std::vector<T>& a, const std::vector<T>& b, Same same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

inline bool SameArg(const ArgRecord& a, const ArgRecord& b) {
  return a.slot == b.slot && a.written == b.written && a.geometry == b.geometry;
}
inline bool SameResult(const ResultRecord& a, const ResultRecord& b) {
  return a.kind == b.kind && a.slot == b.slot && a.alias_arg == b.alias_arg &&
         a.geometry == b.geometry;
}

struct StepRecord {
  OpId op = kNoOp;
  StepKind kind = StepKind::kDeferred;
  // Packed thread state: grad mode, inference mode and what else the runtime
  // puts into a trace key.
  std::uint32_t context = 0;
  std::vector<ArgRecord> args;         // tensor arguments, lists flattened
  std::vector<std::uint64_t> statics;  // all other arguments but scalars
  std::vector<ScalarRecord> scalars;
  std::vector<ResultRecord> results;
};

// Of a published step: other threads may mark its scalars meanwhile.
inline StepRecord CopyOf(const StepRecord& step) {
  StepRecord copy;
  copy.op = step.op;
  copy.kind = step.kind;
  copy.context = step.context;
  copy.args = step.args;
  copy.statics = step.statics;
  copy.results = step.results;
  copy.scalars.reserve(step.scalars.size());
  for (const ScalarRecord& scalar : step.scalars) {
    copy.scalars.push_back({scalar.value, scalar.value_class, scalar.may_vary,
                            scalar.IsRuntime()});
  }
  return copy;
}

// One storage of a trace, or one place in it: see Note [Places] in
// split_places.h.
struct SlotRecord {
  std::uint64_t bytes = 0;      // size of the storage
  std::int32_t born_step = -1;  // -1: external
  // Of a place: the first slot of its storage, which may be this one. Else -1.
  std::int32_t place_of = -1;

  bool is_place() const { return place_of >= 0; }
};

}  // namespace tjit
