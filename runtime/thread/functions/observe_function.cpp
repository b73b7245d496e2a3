// The half of FunctionCalls that looks on while a function runs.
#include <algorithm>
#include <utility>

#include "runtime/call/op_classes.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/settings.h"
#include "runtime/report/strict.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/functions/draws.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/host_reads.h"
#include "runtime/thread/functions/jit_match.h"
#include "runtime/thread/functions/parts.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/match.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

constexpr std::uint64_t kMaxConstantBytes = BirthWatch::kMostBytes;

Refusal WhyNot(const CallFrame& frame, bool is_draw) {
  switch (frame.entry.op_class) {
    case OpClass::kSync:
      return Refusal::kHostRead;
    case OpClass::kRandom:
      return is_draw ? Refusal::kNone : Refusal::kRandom;
    case OpClass::kReader:
      return Refusal::kHostRead;
    case OpClass::kMetadata:
    case OpClass::kResize:
      return Refusal::kMetadata;
    case OpClass::kForeign:
      return Refusal::kForeign;
    case OpClass::kOpaque:  // a part
    case OpClass::kPlain:
    case OpClass::kEmpty:
      break;
  }
  return Refusal::kNone;
}

// What step number `step`, the one of `frame`, indexes by.
std::vector<FunctionIndex> IndicesOf(const CallFrame& frame,
                                     const StepRecord& record,
                                     std::size_t step) {
  IndexUses uses;
  FindIndexUses(frame, &uses);
  std::vector<FunctionIndex> indices;
  for (const IndexUse& use : uses) {
    std::uint32_t arg = 0;
    while (frame.tensors[arg].impl != use.index) ++arg;
    indices.push_back({record.args[arg].slot, static_cast<std::uint32_t>(step),
                       record.args[arg].geometry, use.allowed});
  }
  return indices;
}

// The tensor of the program that `impl` is, or is a view of, with what it says.
void RecordTensorOf(const c10::TensorImpl* impl, CapturedStorage* captured) {
  const at::Tensor met(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::
          reclaim_copy(const_cast<c10::TensorImpl*>(impl)));
  if (!met.is_inference()) {
    captured->version = met.unsafeGetTensorImpl()->version_counter();
  }
  const at::Tensor tensor = met.is_view() ? at::Tensor(met._base()) : met;
  captured->requires_grad = tensor.requires_grad();
  captured->geometry = GeometryOf(tensor.unsafeGetTensorImpl());
  captured->tensor.emplace(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(
      tensor.unsafeGetTensorImpl()));
}

// Of a tensor that may be gone.
std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> GradientOf(
    const c10::weak_intrusive_ptr<c10::TensorImpl>& weak) {
  if (weak.use_count() == 0) return std::nullopt;
  const at::Tensor& gradient = weak._unsafe_get_target()->grad();
  if (!gradient.defined()) return std::nullopt;
  return c10::weak_intrusive_ptr<c10::TensorImpl>(
      c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(
          gradient.unsafeGetTensorImpl()));
}

bool IsStorageOf(const at::Tensor& tensor, const c10::StorageImpl* storage) {
  return tensor.defined() && StorageOf(tensor.unsafeGetTensorImpl()) == storage;
}

// True if the call whose backward pass this is has made a number of it.
bool IsNumberOf(const FunctionSession& session, const Block* block) {
  return session.numbers != nullptr &&
         std::any_of(session.numbers->begin(), session.numbers->end(),
                     [block](const auto& number) {
                       return number.use_count() != 0 &&
                              BlockOf(number._unsafe_get_target()) == block;
                     });
}

// The number that libtorch has made a tensor of, in this call; empty: it is
// none.
std::string BytesOfNumber(const FunctionSession& session,
                          const c10::TensorImpl* impl) {
  const c10::StorageImpl* const storage = StorageOf(impl);
  if (storage->nbytes() > kMaxConstantBytes ||
      (!impl->is_wrapped_number() && !session.births.Saw(BlockOf(storage)) &&
       !IsNumberOf(session, BlockOf(storage)))) {
    return {};
  }
  return {static_cast<const char*>(storage->data()), storage->nbytes()};
}

}  // namespace

std::optional<std::uint32_t> ArgumentOver(
    const std::vector<at::Tensor>& arguments, const c10::StorageImpl* storage) {
  for (std::uint32_t i = 0; i < arguments.size(); ++i) {
    if (IsStorageOf(arguments[i], storage)) return i;
  }
  return std::nullopt;
}

bool HoldsNumber(const FunctionSession& session, std::size_t s,
                 const SlotBinding& bound, bool may_live) {
  if (session.births.Saw(bound.block) && (bound.held || may_live)) return true;
  if (IsNumberOf(session, bound.block)) return true;
  for (const TraceNode* node : session.follows->nodes) {
    for (const ArgRecord& arg : node->step.args) {
      if (arg.slot == static_cast<std::int32_t>(s)) {
        return arg.geometry->wrapped_number;
      }
    }
  }
  return false;
}

CapturedStorage CapturedOf(const c10::TensorImpl* impl) {
  CapturedStorage captured{
      impl->storage().getWeakStorageImpl(), std::nullopt, {}, false};
  RecordTensorOf(impl, &captured);
  return captured;
}

void RecordExternal(FunctionSession* session, std::int32_t slot,
                    const c10::TensorImpl* impl, bool is_new) {
  bool is_external = is_new;
  for (const FunctionSession::External& known : session->externals) {
    is_external |= known.slot == slot;
  }
  if (!is_external) return;
  CapturedStorage captured = CapturedOf(impl);
  for (const FunctionSession::External& known : session->externals) {
    if (known.slot == slot && known.storage.tensor->_unsafe_get_target() ==
                                  captured.tensor->_unsafe_get_target()) {
      return;
    }
  }
  session->externals.push_back(
      {slot, std::move(captured), BytesOfNumber(*session, impl)});
}

void FunctionSession::TakePointer(const c10::StorageImpl* storage) {
  const bool is_new_number =
      !inside.empty() &&
      inside.back().storage._unsafe_get_target() == storage &&
      births.Saw(BlockOf(storage));
  if (!is_new_number || (filled != nullptr && filled != storage)) {
    return Fail(Refusal::kHostRead);
  }
  filled = storage;
}

// It is no tensor that steps fill, but a number.
void FunctionSession::LetGoOf(const c10::StorageImpl* storage) {
  if (filled != storage || has_failed()) return;
  filled = nullptr;
  inside.pop_back();
}

void FunctionSession::AddRef(const double* number) {
  const auto known = std::find(key.refs.begin(), key.refs.end(), number);
  if (known == key.refs.end()) {
    key.refs.push_back(number);
    key.numbers.push_back({*number});
    return;
  }
  const std::size_t passed = key.numbers.size() - key.refs.size();
  const auto i = static_cast<std::size_t>(known - key.refs.begin());
  // A replay reads it once.
  if (!SameBits(key.numbers[passed + i].value, *number)) Fail(Refusal::kNumber);
}

void FunctionCalls::AddLeaf(const at::Tensor& leaf) {
  if (function_ == nullptr) return;
  for (const at::Tensor& known : function_->leaves) {
    if (known.is_same(leaf)) return;
  }
  function_->leaves.push_back(leaf);
}

// The stream around it is cut where it begins and ends: Note [Named regions] in
// region_edge.cpp.
void FunctionCalls::LeaveForFunction() {
  auto* const state = static_cast<ThreadState*>(this);
  if (store_.get() != registry_->store()) state->AdoptStore();
  EndAtEdge();
  ThrowKeptFailure(&counters_);
  const StateLock lock(this);
  capture_.Stop();
  UnbindFrom(&run_, 0);
  EndSample();
  cursor_ = nullptr;
  eager_node_ = nullptr;
  unseen_node_ = nullptr;
}

// What the end of a call that follows is compared with.
void FunctionCalls::NoteBefore(FunctionSession* session) {
  session->gradients.clear();
  session->captured_versions.clear();
  for (const auto& weak : session->follows->leaves) {
    session->gradients.push_back(GradientOf(weak));
  }
  for (const CapturedStorage& c : session->follows->captured) {
    session->captured_versions.push_back(
        c.version.enabled() ? c.version.current_version() : 0);
  }
  if (!session->follows->draws.empty() && !session->generator.defined()) {
    session->generator = CopyOfGenerator();
  }
}

void FunctionCalls::OpenFunction(FunctionSession* session) {
  LeaveForFunction();
  session->store = store_;
  // Another store since the call looked at its own: the nodes are gone.
  if (session->follows != nullptr && !HasStore(session->follows->store)) {
    session->Fail(Refusal::kInterrupted);
  }
  for (const at::Tensor& t : session->arguments) {
    if (t.defined()) Arm(t.unsafeGetTensorImpl());
    session->versions.push_back(VersionOf(t));
  }
  session->hooks = HookCount(session->arguments);
  BeginRun();
  run_began_ns_ = 0;
  run_is_fast_ = false;  // each op comes to DecideInFunction()
  if (session->follows == nullptr) {
    capture_.Start(store_->top(), 0, /*at_boundary=*/true, &run_);
    capture_.WatchExternals(session);
  } else {
    NoteBefore(session);
  }
  function_ = session;
  t_context.in_function = true;
  WatchBirths(&session->births);
}

void FunctionCalls::CloseFunction() {
  const bool recorded = function_->follows == nullptr;
  const bool failed = function_->has_failed();
  function_ = nullptr;
  t_context.in_function = false;
  WatchBirths(nullptr);
  if (capture_.active()) {
    capture_.Stop();
    if (run_.pending.empty()) UnbindFrom(&run_, 0);
  }
  capture_.WatchExternals(nullptr);
  // A run that came to its end stays pending, as any other.
  if (recorded || failed) {
    const StateLock lock(this);
    FlushLocked(FlushReason::kSegmentEnd);
    UnbindFrom(&run_, 0);
    cursor_ = nullptr;
    eager_node_ = nullptr;
  } else {
    function_end_ = cursor_;
  }
  loops_->BeginBody(counters_.ops_seen.value());
}

Decision FunctionCalls::DecideInFunction(CallFrame& frame) {
  FunctionSession& session = *function_;
  const bool fills_nothing = FillsNothing(session, frame);
  const bool is_draw = !fills_nothing && MayDraw(frame);
  session.CheckPointer();
  if (store_ != session.store) session.Fail(Refusal::kInterrupted);
  if (!session.has_failed() && IsHostRead(frame)) {
    TakeRead(frame);
    CountEager(frame);
    MakeReady(frame);
    return Decision::kEager;
  }
  if (const Refusal why = WhyNot(frame, is_draw); why != Refusal::kNone) {
    session.Fail(why, frame.entry.id);
  }
  if (is_draw && !session.has_failed()) {
    CountEager(frame);
    frame.wants_capture = frame.is_draw = true;
    MakeReady(frame);
    return Decision::kEager;
  }
  if (fills_nothing || PartCalls(this).Begin(frame)) {
    CountEager(frame);
    MakeReady(frame);
    return Decision::kEager;
  }
  Decision decision = Decision::kEager;
  if (session.follows != nullptr && FollowFunction(frame, &decision)) {
    return decision;
  }
  CountEager(frame);
  if (session.has_failed()) {
    capture_.Stop();
  } else {
    session.externals_before = session.externals.size();
    capture_.Before(frame, context_);
    frame.wants_capture = true;
  }
  MakeReady(frame);
  return Decision::kEager;
}

// False if the op is to run eagerly, which is no part of the function then. The
// step is the one that was recorded and no other that it might be: the plan
// knows what this path uses.
bool FunctionCalls::FollowFunction(CallFrame& frame, Decision* decision) {
  FunctionSession& session = *function_;
  const std::vector<TraceNode*>& nodes = session.follows->nodes;
  const std::size_t next = cursor_ == nullptr ? 0 : cursor_->depth + 1;
  if (!session.has_failed() && next < nodes.size()) {
    TraceNode* const node = nodes[next];
    TakeChecks(next);
    BailReason why = BailReason::kOpDiffers;
    constexpr int kAttempts = 3;
    int attempt = 0;
    for (; attempt < kAttempts; ++attempt) {
      {
        StateLock lock(this);
        const std::size_t slots = run_.slots.size();
        if (!g_settings.may_defer() ||
            !MatchNode(frame, context_, *node, &why) ||
            (frame.entry.may_throw_on_values && !ValuesPassWhenReady(frame)) ||
            !BindSlots(frame, *node, &run_, &why)) {
          break;
        }
        if (ClaimSlots(SlotArgs(*node))) {
          root_ = nodes.front();
          cursor_ = node;
          if (!Defer(frame, node, CompactStep::Of(*node),
                     /*owns_arguments=*/false)) {
            break;
          }
          if (!session.follows->reads.empty() || session.keeps_graph) {
            NoteBorn(frame, *node);
          }
          *decision = Decision::kDeferred;
          return true;
        }
        UnbindFrom(&run_, slots);
      }
      FlushForeignOwners(frame);
    }
    // Other threads use the same tensors: that says nothing of the function.
    if (attempt == kAttempts) session.Fail(Refusal::kInterrupted);
  }
  session.Fail(Refusal::kNotSame, frame.entry.id);
  if (cursor_ != nullptr) {
    const StateLock lock(this);
    DrainLocked();
    UnbindFrom(&run_, 0);
    cursor_ = nullptr;
  }
  return false;
}

void FunctionCalls::RecordInside(const ResultList& results) {
  function_->CheckPointer();
  for (const c10::TensorImpl* impl : results.items()) {
    if (impl == nullptr || !IsPlain(impl)) continue;
    const c10::StorageImpl* const storage = StorageOf(impl);
    function_->inside.push_back({impl->storage().getWeakStorageImpl(),
                                 BlockOf(storage), GeometryOf(impl),
                                 CurrentContext()});
  }
}

void FunctionCalls::LookAtLastCall(const CallFrame& frame,
                                   const ResultList& results,
                                   const torch::jit::Stack* boxed) {
  if (function_->is_part_open) return PartCalls(this).End(frame, results);
  if (function_->has_failed() || !frame.wants_capture) return;
  if (frame.is_draw) {
    const Block* const block = BlockOf(StorageOf(frame.tensors[0].impl));
    return RecordDraw(frame, *boxed, BoundSlot(run_, block) >= 0, function_);
  }
  if (!capture_.active() || capture_.steps().empty()) return;
  const StepRecord& step = capture_.steps().back().step;
  if (step.kind == StepKind::kAtCall) {
    PartCalls(this).Record(frame, results, *boxed);
  } else {
    std::vector<FunctionIndex>& all = function_->indices;
    const auto indices = IndicesOf(frame, step, capture_.steps().size() - 1);
    all.insert(all.end(), indices.begin(), indices.end());
  }
}

namespace {

// The slots of a path, with what its steps use of them.
std::vector<FunctionSlot> SlotsOf(const std::vector<const StepRecord*>& steps,
                                  const std::vector<SlotRecord>& records) {
  std::vector<FunctionSlot> slots(records.size());
  for (std::size_t s = 0; s < slots.size(); ++s) {
    slots[s].bytes = records[s].bytes;
    slots[s].begin = static_cast<std::int64_t>(records[s].bytes);
    slots[s].kind = records[s].born_step >= 0 ? FunctionSlot::Kind::kBorn
                                              : FunctionSlot::Kind::kInside;
  }
  for (const StepRecord* step : steps) {
    for (const ArgRecord& arg : step->args) {
      if (arg.slot == kNoSlot) continue;
      FunctionSlot& slot = slots[static_cast<std::size_t>(arg.slot)];
      const TensorGeometry& g = arg.geometry;
      const std::int64_t end = (g.last_element() + 1) * g.itemsize;
      slot.written |= arg.written;
      if (slot.first < 0) slot.first = g.offset * g.itemsize;
      slot.begin = std::min<std::int64_t>(slot.begin, g.offset * g.itemsize);
      slot.end = std::max(slot.end, end);
    }
  }
  return slots;
}

const c10::StorageImpl* AddressOf(
    const c10::weak_intrusive_ptr<c10::StorageImpl>& storage) {
  return storage._unsafe_get_target();
}

// Says of each external slot of a recording where it comes from.
class SlotSources {
 public:
  SlotSources(const FunctionSession& session, const Run& run,
              FunctionRecord* record)
      : session_(session), run_(run), record_(*record) {}

  Refusal Find() {
    for (const FunctionSession::External& external : session_.externals) {
      const auto s = static_cast<std::size_t>(external.slot);
      if (s >= record_.slots.size()) return Refusal::kAtCall;
      const Refusal why = FindOne(external, run_.slots[s], &record_.slots[s]);
      if (why != Refusal::kNone) return why;
    }
    return Refusal::kNone;
  }

 private:
  Refusal FindOne(const FunctionSession::External& external,
                  const SlotBinding& bound, FunctionSlot* slot) {
    const CapturedStorage& used = external.storage;
    const c10::StorageImpl* const storage = AddressOf(used.storage);
    if (const auto i = ArgumentOver(session_.arguments, storage)) {
      slot->kind = FunctionSlot::Kind::kArgument;
      slot->index = *i;
      return Refusal::kNone;
    }
    if (const auto drawn = DrawnOver(session_, storage)) {
      slot->kind = FunctionSlot::Kind::kDrawn;
      slot->index = *drawn;
      return bound.copied ? Refusal::kHostData : Refusal::kNone;
    }
    if (const auto called = CalledOver(session_, storage)) {
      slot->kind = FunctionSlot::Kind::kCalled;
      slot->index = *called;
      return bound.copied ? Refusal::kHostData : Refusal::kNone;
    }
    for (std::uint32_t i = 0; i < session_.inside.size(); ++i) {
      if (AddressOf(session_.inside[i].storage) != storage) continue;
      slot->kind = FunctionSlot::Kind::kInside;
      slot->index = i;
      return bound.copied ? Refusal::kHostData : Refusal::kNone;
    }
    // A graph may keep a number that an op took: each call makes another one.
    const bool is_number = (session_.keeps_graph || session_.is_backward) &&
                           !external.bytes.empty();
    if (used.storage.use_count() != 0 && !is_number) {
      slot->kind = FunctionSlot::Kind::kCaptured;
      // Each tensor over it is asked at a replay; the first stands for all.
      slot->index = static_cast<std::uint32_t>(record_.captured.size());
      for (std::uint32_t i = slot->index; i-- > 0;) {
        if (AddressOf(record_.captured[i].storage) == storage) slot->index = i;
      }
      record_.captured.push_back(used);
      // A view that was made for the op: nothing is known of its tensor.
      auto& tensor = record_.captured.back().tensor;
      if (tensor && tensor->use_count() == 0) tensor.reset();
      return Refusal::kNone;
    }
    if (!bound.copied && external.bytes.empty()) return Refusal::kCapturedDied;
    const std::uint64_t size = static_cast<std::uint64_t>(slot->end) -
                               static_cast<std::uint64_t>(slot->begin);
    if (size > kMaxConstantBytes || slot->written) return Refusal::kHostData;
    slot->kind = FunctionSlot::Kind::kConstant;
    slot->index = static_cast<std::uint32_t>(record_.constants.size());
    const char* const data =
        bound.copied ? bound.block->data + bound.shift : external.bytes.data();
    record_.constants.emplace_back(data + slot->begin, size);
    return Refusal::kNone;
  }

  const FunctionSession& session_;
  const Run& run_;
  FunctionRecord& record_;
};

// True if a tensor over the storage of a captured slot asks for gradients, and
// may not be updated all the same.
bool MayNotBeUpdated(const FunctionRecord& record, const FunctionSlot& slot,
                     const FunctionSession& session) {
  const c10::StorageImpl* const storage =
      AddressOf(record.captured[slot.index].storage);
  const auto& updated = session.updated;
  for (const CapturedStorage& captured : record.captured) {
    if (AddressOf(captured.storage) != storage || !captured.requires_grad) {
      continue;
    }
    const c10::TensorImpl* const tensor =
        captured.tensor ? captured.tensor->_unsafe_get_target() : nullptr;
    if (std::find(updated.begin(), updated.end(), tensor) == updated.end()) {
      return true;
    }
  }
  return false;
}

// True if nothing that is known before the call says what `index` holds then.
bool IsComputed(const FunctionIndex& index,
                const std::vector<const StepRecord*>& steps,
                const FunctionSlot& slot, const FunctionSession& session) {
  using Kind = FunctionSlot::Kind;
  if (slot.kind == Kind::kBorn || slot.kind == Kind::kInside ||
      slot.kind == Kind::kCalled ||
      (slot.kind == Kind::kDrawn && !IsFixed(session, slot.index))) {
    return true;
  }
  for (std::size_t i = 0; i < index.step; ++i) {
    for (const ArgRecord& arg : steps[i]->args) {
      if (arg.slot == index.slot && arg.written) return true;
    }
  }
  return false;
}

// The slots that were there before the call and that steps before number `end`
// write, each with the first one.
std::vector<RestoredSlot> WrittenBefore(
    std::size_t end, const std::vector<const StepRecord*>& steps,
    const FunctionRecord& record) {
  std::vector<RestoredSlot> written;
  for (std::uint32_t i = 0; i < end; ++i) {
    for (const ArgRecord& arg : steps[i]->args) {
      if (!arg.written || arg.slot == kNoSlot) continue;
      const auto s = static_cast<std::size_t>(arg.slot);
      const bool is_known = std::any_of(
          written.begin(), written.end(),
          [&](const RestoredSlot& one) { return one.slot == arg.slot; });
      if (record.slots[s].kind > FunctionSlot::Kind::kCalled && !is_known) {
        written.push_back({arg.slot, i});
      }
    }
  }
  return written;
}

std::uint64_t BytesOf(const std::vector<RestoredSlot>& written,
                      const FunctionRecord& record) {
  std::uint64_t bytes = 0;
  for (const RestoredSlot& one : written) {
    const FunctionSlot& slot = record.slots[static_cast<std::size_t>(one.slot)];
    bytes += static_cast<std::uint64_t>(slot.end - slot.begin);
  }
  return bytes;
}

// A replay that finds another number than was read is given up, as one is whose
// part throws: by then nothing may have changed that the function has not made,
// or it is put back.
void LookAtReads(const std::vector<const StepRecord*>& steps,
                 FunctionSession* session, FunctionRecord* record) {
  constexpr std::uint64_t kMostRestored = std::uint64_t{64} << 10;
  if (session->reads.empty()) return;
  const auto is_made_inside = [&](const FunctionRead& read) {
    return read.called >= 0 ||
           record->slots[static_cast<std::size_t>(read.slot)].kind <=
               FunctionSlot::Kind::kCalled;
  };
  // Of writes that are not put back.
  std::size_t first_write = steps.size();
  std::vector<RestoredSlot> written =
      WrittenBefore(session->reads.back().step, steps, *record);
  if (!session->parts.empty() && BytesOf(written, *record) <= kMostRestored) {
    record->restored = std::move(written);
  } else if (!written.empty()) {
    first_write = written.front().step;
  }
  bool draws = false;
  for (std::uint32_t d = 0; d < session->drawn.size(); ++d) {
    draws |= !IsFixed(*session, d);
  }
  for (const FunctionRead& read : session->reads) {
    // What was drawn for a replay that ends at a read is drawn again.
    const bool is_late = (draws && read.part >= 0) || first_write < read.step;
    if (read.part >= 0) {
      const FunctionPart& part =
          session->parts[static_cast<std::size_t>(read.part)];
      if (is_late) {
        session->Fail(Refusal::kCallAfterWrite, part.call->entry->id);
      }
      continue;
    }
    const OpId op = read.is_check ? steps[read.step]->op : kNoOp;
    if (!is_made_inside(read)) {
      session->Fail(read.is_check ? Refusal::kValueCheck : Refusal::kHostRead,
                    op);
    } else if (is_late) {
      session->Fail(
          read.is_check ? Refusal::kValueCheck : Refusal::kReadAfterWrite, op);
    }
  }
}

// Takes over what each replay has to look at. Fails the session if calls that
// do the same cannot be replayed.
void LookAtRecord(const std::vector<const StepRecord*>& steps,
                  FunctionSession* session, FunctionRecord* made) {
  const FunctionRecord& record = *made;
  for (const FunctionIndex& index : session->indices) {
    const auto s = static_cast<std::size_t>(index.slot);
    if (IsComputed(index, steps, record.slots[s], *session)) {
      std::vector<FunctionRead>& reads = session->reads;
      const auto place =
          std::upper_bound(reads.begin(), reads.end(), index.step,
                           [](std::uint32_t step, const FunctionRead& r) {
                             return step < r.step;
                           });
      reads.insert(place, {index.step, index.slot, index.geometry,
                           /*is_check=*/true, 0, index.allowed});
    } else if (record.slots[s].kind != FunctionSlot::Kind::kDrawn) {
      made->indices.push_back(index);
    }
  }
  for (const FunctionSlot& slot : record.slots) {
    const bool updates =
        slot.written && ((slot.kind == FunctionSlot::Kind::kCaptured &&
                          MayNotBeUpdated(record, slot, *session)) ||
                         (slot.kind == FunctionSlot::Kind::kArgument &&
                          session->key.arguments[slot.index].requires_grad));
    if (updates) session->Fail(Refusal::kUpdatesParameter);
  }
  if (session->leaves.empty()) return;
  for (const at::Tensor& argument : session->arguments) {
    // The pass may go on into a graph that another call has not.
    const bool has_graph = argument.defined() && !argument.is_leaf();
    const bool is_leaf = std::any_of(
        session->leaves.begin(), session->leaves.end(),
        [&](const at::Tensor& leaf) { return leaf.is_same(argument); });
    if (has_graph || is_leaf) session->Fail(Refusal::kLeafArgument);
  }
}

}  // namespace

std::unique_ptr<FunctionRecord> FunctionCalls::EndRecording() {
  FunctionSession& session = *function_;
  session.CheckPointer();
  if (!session.has_failed() && capture_.size() == 0) {
    session.Fail(Refusal::kEmpty);
  }
  if (!session.has_failed() && capture_.size() > policy::kMaxTraceSteps) {
    session.Fail(Refusal::kTooLong);
  }
  if (!session.has_failed() && store_ != session.store) {
    session.Fail(Refusal::kInterrupted);
  }
  if (session.has_failed()) return nullptr;
  auto record = std::make_unique<FunctionRecord>();
  std::vector<NewStep> steps = capture_.ReleaseSteps();
  std::vector<const StepRecord*> records;
  std::vector<SlotRecord> slots;
  for (const NewStep& step : steps) {
    records.push_back(&step.step);
    slots.insert(slots.end(), step.new_slots.begin(), step.new_slots.end());
    for (const ScalarRecord& scalar : step.step.scalars) {
      record->scalars.push_back(scalar.value);
    }
  }
  record->slots = SlotsOf(records, slots);
  Refusal why = SlotSources(session, run_, record.get()).Find();
  if (why == Refusal::kNone) {
    why = FindPartArguments(session, record.get(), &session.parts);
  }
  if (why != Refusal::kNone) {
    session.Fail(why);
    return nullptr;
  }
  LookAtRecord(records, &session, record.get());
  LookAtReads(records, &session, record.get());
  if (session.has_failed()) return nullptr;
  record->reads = std::move(session.reads);
  record->parts = std::move(session.parts);
  record->part_scalars = std::move(session.part_scalars);
  record->draws = std::move(session.draws);
  for (const FunctionSession::Inside& inside : session.inside) {
    record->inside.push_back({inside.geometry, inside.context});
  }
  for (const FunctionSession::Drawn& drawn : session.drawn) {
    record->drawn.push_back(
        {drawn.geometry, session.inside[drawn.inside].context});
  }
  for (const at::Tensor& leaf : session.leaves) {
    record->leaves.emplace_back(
        c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(
            leaf.unsafeGetTensorImpl()));
  }
  BailReason full = BailReason::kCount;
  TraceNode* end = nullptr;
  Trace* const trace =
      store_->Insert(store_->top(), std::move(steps),
                     /*starts_at_boundary=*/true, &full, nullptr, &end);
  registry_->MaybeEvict(store_, full == BailReason::kStoreFull);
  if (trace == nullptr) {
    session.Fail(Refusal::kNoRoom);
    return nullptr;
  }
  for (TraceNode* n = end; n->parent != nullptr; n = n->parent) {
    record->nodes.push_back(n);
  }
  std::reverse(record->nodes.begin(), record->nodes.end());
  record->key = session.key;
  record->store = store_;
  return record;
}

}  // namespace tjit::runtime
