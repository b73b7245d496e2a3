#include "runtime/thread/functions/host_reads.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "runtime/call/plain_tensor.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/thread/functions/draws.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/parts.h"
#include "runtime/thread/match.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {

bool IsHostRead(const CallFrame& frame) {
  return frame.entry.op_class == OpClass::kSync &&
         OpName(frame.entry.id) == "aten::_local_scalar_dense";
}

std::optional<FunctionRead> FindRead(const CallFrame& frame, const Run& run,
                                     const FunctionSession& session) {
  const c10::TensorImpl* const impl = frame.tensors[0].impl;
  if (!IsPlain(impl) || impl->numel() != 1 || impl->is_neg() ||
      impl->is_conj()) {
    return std::nullopt;
  }
  FunctionRead read;
  read.geometry = GeometryOf(impl);
  if (!c10::isIntegralType(static_cast<c10::ScalarType>(read.geometry.dtype),
                           true)) {
    return std::nullopt;
  }
  read.slot = BoundSlot(run, BlockOf(StorageOf(impl)));
  if (read.slot >= 0) return read;
  const auto called = CalledOver(session, StorageOf(impl));
  if (!called) return std::nullopt;
  read.called = static_cast<std::int32_t>(*called);
  return read;
}

namespace {

// `data`: of the storage.
std::uint64_t BitsAt(const void* data, const TensorGeometry& g) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data) + g.offset * g.itemsize,
              g.itemsize);
  return bits;
}

// What is read now. REQUIRES: it is ready.
std::uint64_t BitsOf(const CallFrame& frame, const FunctionRead& read) {
  return BitsAt(StorageOf(frame.tensors[0].impl)->data(), read.geometry);
}

// The same in a replay.
std::uint64_t BitsOf(const FunctionReplay& replay, const Run& run,
                     const FunctionRead& read) {
  if (read.called < 0) {
    const SlotBinding& slot = run.slots[static_cast<std::size_t>(read.slot)];
    return BitsAt(slot.block->data + slot.shift, read.geometry);
  }
  const std::size_t first =
      replay.plan->fresh.size() + replay.plan->record->drawn.size();
  const at::Tensor& tensor =
      replay.made[first + static_cast<std::size_t>(read.called)];
  return BitsAt(StorageOf(tensor.unsafeGetTensorImpl())->data(), read.geometry);
}

}  // namespace

namespace {

bool IsSamePlace(const FunctionRead& a, const FunctionRead& b) {
  return a.step == b.step && a.slot == b.slot && a.is_check == b.is_check &&
         a.part == b.part && a.called == b.called && a.geometry == b.geometry;
}

// The same, and calls the same part there.
bool IsSameRead(const FunctionRecord& a, const FunctionRecord& b,
                std::size_t read) {
  const FunctionRead& x = a.reads[read];
  if (!IsSamePlace(x, b.reads[read])) return false;
  const auto part = static_cast<std::size_t>(x.part);
  return x.part < 0 || IsSamePart(a, a.parts[part], b, b.parts[part]);
}

}  // namespace

bool GoesOnWith(const FunctionRecord& a, const FunctionRecord& b,
                std::size_t read, std::uint64_t bits) {
  if (b.reads.size() <= read || b.reads[read].bits != bits ||
      !IsSameRead(a, b, read)) {
    return false;
  }
  for (std::size_t i = 0; i < read; ++i) {
    if (!IsSameRead(a, b, i) || a.reads[i].bits != b.reads[i].bits) {
      return false;
    }
  }
  const std::size_t steps = a.reads[read].step;
  return b.nodes.size() >= steps &&
         std::equal(a.nodes.begin(),
                    a.nodes.begin() + static_cast<std::ptrdiff_t>(steps),
                    b.nodes.begin());
}

std::size_t SlotsBefore(const FunctionRecord& record, std::size_t step) {
  return step < record.nodes.size() ? record.nodes[step]->slot_begin
                                    : record.slots.size();
}

bool LivesAtRead(const FunctionSession& session, std::size_t s,
                 const Block* block) {
  const FunctionSlot::Kind kind = session.follows->slots[s].kind;
  if (kind == FunctionSlot::Kind::kBorn ||
      kind == FunctionSlot::Kind::kConstant) {
    const auto& born = session.born;
    return s < born.size() && born[s] && born[s]->use_count() != 0;
  }
  return std::any_of(session.inside.begin(), session.inside.end(),
                     [block](const FunctionSession::Inside& inside) {
                       return inside.block == block &&
                              inside.storage.use_count() != 0;
                     });
}

namespace {

// Whatever the program does behind the read, it uses no other values.
void NoteLiving(const Run& run, FunctionSession* session) {
  std::vector<std::uint32_t>& across = session->across;
  for (std::uint32_t s = 0; s < run.slots.size(); ++s) {
    const FunctionSlot::Kind kind = session->follows->slots[s].kind;
    const bool is_made = kind == FunctionSlot::Kind::kBorn ||
                         kind == FunctionSlot::Kind::kInside;
    if (is_made && LivesAtRead(*session, s, run.slots[s].block) &&
        std::find(across.begin(), across.end(), s) == across.end()) {
      across.push_back(s);
    }
  }
}

}  // namespace

// The program's op reads it behind this.
void FunctionCalls::TakeRead(const CallFrame& frame) {
  FunctionSession& session = *function_;
  std::optional<FunctionRead> read = FindRead(frame, run_, session);
  if (!read) return session.Fail(Refusal::kHostRead, frame.entry.id);
  if (session.follows == nullptr) {
    read->step = static_cast<std::uint32_t>(capture_.steps().size());
    read->bits = BitsOf(frame, *read);  // each op has run at its call
    session.reads.push_back(*read);
    return;
  }
  read->step = cursor_ == nullptr ? 0 : cursor_->depth + 1;
  const std::vector<FunctionRead>& expected = session.follows->reads;
  const std::size_t i = session.reads.size();
  if (i >= expected.size() || !IsSamePlace(*read, expected[i])) {
    return session.Fail(Refusal::kNotSame, frame.entry.id);
  }
  RunToRead(read->step, FlushReason::kItem);
  if (session.has_failed()) return;
  read->bits = BitsOf(frame, *read);
  session.reads.push_back(*read);
  if (read->bits == expected[i].bits) return;
  std::shared_ptr<const FunctionRecord> other;
  if (session.find_other) {
    other = session.find_other(*session.follows, i, read->bits);
  }
  if (other == nullptr) return session.Fail(Refusal::kOtherValue);
  FollowOther(std::move(other));
}

// What was noted before the call holds on: nothing was written since into that
// was there then. Leaves that the record so far has not are reached behind.
void FunctionCalls::FollowOther(std::shared_ptr<const FunctionRecord> other) {
  FunctionSession& session = *function_;
  const std::shared_ptr<const FunctionRecord> before =
      std::exchange(session.follows, std::move(other));
  const auto gradients = std::move(session.gradients);
  NoteBefore(&session);
  const auto& leaves = session.follows->leaves;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    for (std::size_t j = 0; j < before->leaves.size(); ++j) {
      if (leaves[i]._unsafe_get_target() ==
          before->leaves[j]._unsafe_get_target()) {
        session.gradients[i] = gradients[j];
      }
    }
  }
  if (!DrewSoFar(session, *session.follows)) session.Fail(Refusal::kNotSame);
}

// Step number `step` is about to be followed, which indexes by what it
// computes.
void FunctionCalls::TakeChecks(std::size_t step) {
  FunctionSession& session = *function_;
  const std::vector<FunctionRead>& expected = session.follows->reads;
  while (session.reads.size() < expected.size()) {
    const FunctionRead& next = expected[session.reads.size()];
    if (!next.is_check || next.step != step) return;
    RunToRead(step, FlushReason::kValueCheck);
    if (session.has_failed()) return;
    session.reads.push_back(next);
  }
}

// Runs the steps before number `step`, and keeps what is known of their values.
void FunctionCalls::RunToRead(std::size_t step, FlushReason reason) {
  FunctionSession& session = *function_;
  {
    const StateLock lock(this);  // another thread may run them
    if (run_.pending.size() + session.steps_run() != step) {
      return session.Fail(Refusal::kInterrupted);
    }
    KeepConstants();
    NoteLiving(run_, &session);
  }
  Flush(reason);
}

// Those that a flush may free.
void FunctionCalls::KeepConstants() {
  FunctionSession& session = *function_;
  const FunctionRecord& record = *session.follows;
  for (std::size_t s = 0; s < run_.slots.size(); ++s) {
    const FunctionSlot& slot = record.slots[s];
    const SlotBinding& bound = run_.slots[s];
    if (slot.kind != FunctionSlot::Kind::kConstant ||
        session.ConstantOf(s) != nullptr) {
      continue;
    }
    if (!bound.copied && !HoldsNumber(session, s, bound, /*may_live=*/true)) {
      return session.Fail(Refusal::kHostData);
    }
    session.constants.emplace_back(
        s, std::string(bound.block->data + bound.shift + slot.begin,
                       record.constants[slot.index].size()));
  }
}

void FunctionCalls::NoteBorn(const CallFrame& frame, const TraceNode& node) {
  std::uint32_t i = 0;
  const auto note = [&](std::int32_t slot, const c10::TensorImpl* impl) {
    const auto s = static_cast<std::size_t>(slot);
    auto& born = function_->born;
    if (born.size() <= s) born.resize(s + 1);
    born[s].emplace(impl->storage().getWeakStorageImpl());
  };
  for (const ResultRecord& result : node.step.results) {
    if (result.kind == ResultRecord::Kind::kAlias) continue;
    const c10::TensorImpl* const impl = frame.results[i++];
    if (result.kind != ResultRecord::Kind::kFresh || impl == nullptr) continue;
    note(result.slot, impl);
  }
  for (std::size_t a = 0; a < node.step.args.size(); ++a) {
    const std::int32_t slot = node.step.args[a].slot;
    if (slot == kNoSlot || frame.tensors[a].impl == nullptr) continue;
    const auto s = static_cast<std::size_t>(slot);
    if (function_->follows->slots[s].kind == FunctionSlot::Kind::kConstant) {
      note(slot, frame.tensors[a].impl);
    }
  }
}

namespace {

using Kind = FunctionSlot::Kind;

// True if slot `s` is the same thing in both, for the steps so far and those
// behind. `number_of`: a constant as bytes, where it is an argument.
template <class NumberOf>
bool SameSlot(const FunctionPlan& a, const FunctionPlan& b, std::size_t s,
              const NumberOf& number_of) {
  const FunctionSlot& x = a.record->slots[s];
  const FunctionSlot& y = b.record->slots[s];
  if (x.kind != y.kind) return false;
  switch (x.kind) {
    case Kind::kBorn:
    case Kind::kInside:
      return true;
    case Kind::kDrawn:
    case Kind::kCalled:
      return x.index == y.index;
    case Kind::kConstant:
      return number_of(a, x.index) == number_of(b, y.index);
    case Kind::kArgument:
    case Kind::kCaptured:
      break;
  }
  // What is only read may be bound as a copy.
  if (x.written != y.written || x.begin != y.begin || x.end != y.end ||
      x.bytes != y.bytes || x.first != y.first) {
    return false;
  }
  return x.kind == Kind::kArgument
             ? x.index == y.index
             : a.captured[x.index].storage._unsafe_get_target() ==
                   b.captured[y.index].storage._unsafe_get_target();
}

// True if the parts that `from` has called before read number `read` are called
// by `to` with the same numbers.
bool HaveSameNumbers(const FunctionPlan& from, const FunctionPlan& to,
                     std::size_t read, c10::ArrayRef<double> numbers) {
  const auto scalars_of = [&](const FunctionPlan& plan, std::size_t r) {
    const auto part = static_cast<std::size_t>(plan.record->reads[r].part);
    return PartScalars(plan, plan.record->parts[part], numbers);
  };
  for (std::size_t r = 0; r < read; ++r) {
    if (from.record->reads[r].part < 0) continue;
    const std::vector<ScalarValue> a = scalars_of(from, r),
                                   b = scalars_of(to, r);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!a[i].SameBits(b[i])) return false;
    }
  }
  return true;
}

}  // namespace

FunctionCalls::Bound FunctionCalls::RunToLastRead(
    FunctionReplay* replay, const FunctionInputs& inputs) {
  std::size_t first = 0;
  for (std::size_t r = 0; r < replay->plan->record->reads.size(); ++r) {
    const FunctionRead& read = replay->plan->record->reads[r];
    if (first != read.step) {
      const Bound bound = BeginPart(replay, first);
      if (bound != Bound::kYes) return bound;
      AppendSteps(*replay->plan, first, read.step);
      replay->steps_run = read.step;
      const std::exception_ptr error = RunPending(FlushReason::kItem);
      replay->has_begun = !run_.pending.empty();
      if (error != nullptr) std::rethrow_exception(error);
      first = read.step;
    }
    if (read.part >= 0) {
      const auto part = static_cast<std::size_t>(read.part);
      if (!PartCalls(this).Call(replay, part, inputs)) return Bound::kNo;
      continue;
    }
    if (read.is_check) {
      const SlotBinding& slot = run_.slots[static_cast<std::size_t>(read.slot)];
      if (!IndicesPass(read.geometry, slot.block->data + slot.shift,
                       read.allowed)) {
        return Bound::kNo;
      }
      continue;
    }
    const std::uint64_t bits = BitsOf(*replay, run_, read);
    counters_.ops_seen.Add();
    counters_.ops_eager.Add();
    if (bits == read.bits || Planted(Defect::kStaleRead)) continue;
    const FunctionPlan* const other =
        replay->find_other(*replay->plan, r, bits);
    replay->read = r;
    replay->bits = bits;
    if (other == nullptr) return Bound::kOtherValue;
    const Bound bound = GoOnBy(*other, first, inputs, replay);
    if (bound != Bound::kYes) return bound;
  }
  return first == replay->plan->record->nodes.size() ? Bound::kYes
                                                     : BeginPart(replay, first);
}

// The steps from number `first` on are about to be appended. What they use is
// claimed anew: the flush before has let go of it.
FunctionCalls::Bound FunctionCalls::BeginPart(FunctionReplay* replay,
                                              std::size_t first) {
  if (replay->has_begun) return Bound::kYes;  // and all is claimed
  const FunctionPlan& plan = *replay->plan;
  const std::vector<FunctionSlot>& slots = plan.record->slots;
  const std::size_t born = SlotsBefore(*plan.record, first);
  BeginPending();
  replay->has_begun = true;
  run_.has_other_scalars = plan.has_other_scalars || !plan.uses.empty();
  for (std::size_t f = 0; f < plan.fresh.size(); ++f) {
    const FreshTensor& fresh = plan.fresh[f];
    if (fresh.slot < born) continue;
    at::Tensor& made = replay->made[f];
    if (!made.defined()) {
      OwnFresh(fresh.slot, MakeFresh(fresh, &made));
    } else {
      OwnFresh(fresh.slot, BlockOf(StorageOf(made.unsafeGetTensorImpl())));
    }
  }
  for (std::uint32_t s = 0; s < slots.size(); ++s) {
    const SlotBinding& bound = run_.slots[s];
    if (bound.block == nullptr || bound.copied || bound.owned) continue;
    if (!ClaimBound(s, slots[s].written)) return Bound::kOwnedByOthers;
  }
  return Bound::kYes;
}

// `to` takes over behind step number `step` - 1. Where it cannot, the replay
// begins anew by it.
FunctionCalls::Bound FunctionCalls::GoOnBy(const FunctionPlan& to,
                                           std::size_t step,
                                           const FunctionInputs& inputs,
                                           FunctionReplay* replay) {
  if (!HoldOutside(to, inputs, replay)) return Bound::kNo;
  const FunctionPlan& from = *std::exchange(replay->plan, &to);
  const std::size_t slots = SlotsBefore(*to.record, step);
  for (std::size_t s = 0; s < slots; ++s) {
    const auto number_of = [&](const FunctionPlan& plan, std::uint32_t at) {
      const std::string number = NumberOfConstant(plan, at, inputs.numbers);
      return number.empty() ? plan.constants[at] : number;
    };
    if (!SameSlot(from, to, s, number_of)) return Bound::kAnew;
  }
  // All of them are made before the first step.
  if (!DrawsTheSame(*from.record, *to.record)) return Bound::kAnew;
  const std::size_t count = step < to.record->nodes.size()
                                ? to.record->nodes[step]->scalar_begin
                                : to.scalars.size();
  const std::vector<ScalarValue> before(
      run_.scalars.begin(),
      run_.scalars.begin() + static_cast<std::ptrdiff_t>(count));
  KeepNumbers(to, inputs.numbers);
  const auto same = [](const ScalarValue& a, const ScalarValue& b) {
    return a.SameBits(b);
  };
  if (!std::equal(before.begin(), before.end(), run_.scalars.begin(), same) ||
      !HaveSameNumbers(from, to, replay->read, inputs.numbers)) {
    return Bound::kAnew;
  }
  // What parts have returned so far is the same, too.
  const auto others = static_cast<std::ptrdiff_t>(from.fresh.size());
  c10::SmallVector<at::Tensor, 4> made(to.fresh.size());
  made.append(replay->made.begin() + others, replay->made.end());
  for (std::size_t f = 0; f < to.fresh.size(); ++f) {
    if (to.fresh[f].slot >= slots) continue;
    const auto known = std::find_if(
        from.fresh.begin(), from.fresh.end(),
        [&](const FreshTensor& one) { return IsSame(one, to.fresh[f]); });
    if (known == from.fresh.end()) return Bound::kAnew;
    made[f] =
        replay->made[static_cast<std::size_t>(known - from.fresh.begin())];
  }
  UnbindFrom(&run_, slots);
  replay->made = std::move(made);
  std::erase_if(replay->saved, [&](const FunctionReplay::Saved& saved) {
    return saved.step >= step;  // no step of this plan
  });
  const Bound bound = BindFunction(to, inputs);
  if (bound != Bound::kYes) return bound;
  if (!IndicesHold(to, run_)) return Bound::kNo;
  BindDrawn(to, replay->made.data() + to.fresh.size(), slots);
  PartCalls(this).BindCalled(*replay, slots);
  SaveWritten(run_, replay);
  return Bound::kYes;
}

}  // namespace tjit::runtime
