#include "runtime/thread/step_recorder.h"

#include <algorithm>

#include "recorder/split_places.h"
#include "runtime/call/value_checks.h"
#include "runtime/library_calls/call_names.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/library_calls/recorded_tensors.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/thread/copied_slot.h"
#include "runtime/thread/functions/function_session.h"
#include "runtime/thread/match.h"
#include "runtime/thread/recorded_names.h"
#include "runtime/thread/region_report.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// Why an op runs at the call.
constexpr char kForeignMemory[] =
    "over memory that is the program's own or of another allocator";
constexpr char kExposed[] = "a pointer into its memory was taken";
constexpr char kExpanded[] = "writes an element at several places";
constexpr char kMeetsItself[] =
    "writes memory that it uses at other places, too";
constexpr char kNoMemory[] = "there is no memory to record it";
constexpr char kCannotWait[] = "its arguments or results cannot wait";
constexpr char kOtherKind[] =
    "a tensor of another kind: a subclass, layout or device, or over eight "
    "dims";

// True if the call leaves alone what the op may write: running statistics in
// evaluation, which threads of a server share.
bool OnlyReads(const CallFrame& frame) {
  return frame.entry.name == "aten::native_batch_norm" &&
         !frame.statics.empty() && frame.statics[0] == 0;
}

// True if the step has a long list of places of one storage that do not lie at
// a constant distance: rows that were drawn.
bool HasDrawnPlaces(const StepRecord& step) {
  if (step.args.size() <= policy::kMergedPlaces) return false;
  for (std::size_t i = 2; i < step.args.size(); ++i) {
    const ArgRecord &a = step.args[i - 2], &b = step.args[i - 1],
                    &c = step.args[i];
    if (a.slot == kNoSlot || a.slot != b.slot || b.slot != c.slot) continue;
    if (OffsetOf(c) - OffsetOf(b) != OffsetOf(b) - OffsetOf(a)) return true;
  }
  return false;
}

bool IsExpanded(const c10::TensorImpl* impl) {
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] == 0 && sizes[d] > 1) return true;
  }
  return false;
}

// Of a result over which FreshBlock() finds no block.
const char* WhyNotFresh(const c10::TensorImpl* impl) {
  if (!IsPlain(impl)) return kOtherKind;
  return BlockOf(StorageOf(impl)) == nullptr
             ? "its result lies in memory of another allocator"
             : "its result lies in memory that something else uses";
}

}  // namespace

Block* FreshBlock(const c10::TensorImpl* impl, const Run& run) {
  if (!IsPlain(impl) || impl->storage_offset() != 0 || impl->numel() == 0 ||
      impl->is_conj() || impl->is_neg()) {
    return nullptr;
  }
  Block* block = BlockOf(StorageOf(impl));
  if (block == nullptr || impl->unsafe_storage().use_count() != 1 ||
      block->exposed.load(std::memory_order_relaxed) ||
      block->owner.load(std::memory_order_acquire) != nullptr ||
      block->has_readers() || BoundSlot(run, block) >= 0) {
    return nullptr;
  }
  return block;
}

bool IsFreshEmpty(const c10::TensorImpl* impl) {
  if (!IsPlain(impl) || impl->storage_offset() != 0 || impl->numel() != 0 ||
      impl->is_conj() || impl->is_neg()) {
    return false;
  }
  const c10::StorageImpl* storage = StorageOf(impl);
  return storage->nbytes() == 0 && storage->data() == nullptr &&
         storage->allocator() == BlockAllocator() &&
         impl->unsafe_storage().use_count() == 1;
}

void StepRecorder::Start(TraceNode* from, std::uint32_t length,
                         bool at_boundary, Run* run) {
  active_ = true;
  open_ = false;
  from_ = from;
  length_ = length;
  at_boundary_ = at_boundary;
  run_ = run;
  steps_.clear();
  offsets_.clear();
  has_places_ = false;
  has_moving_places_ = false;
  BeginRecordedNames(run);
}

void StepRecorder::Stop() {
  EndRecordedNames();
  active_ = false;
  open_ = false;
  steps_.clear();
}

std::size_t StepRecorder::FirstSlot() const {
  return from_->parent == nullptr ? 0 : from_->slot_end();
}

std::vector<NewStep> StepRecorder::SplitSteps() const {
  std::vector<NewStep> steps = steps_;
  SplitPlaces(static_cast<std::uint32_t>(FirstSlot()), &steps);
  return steps;
}

std::vector<NewStep> StepRecorder::ReleaseSteps(bool splits) {
  ApplyRecordedNames(run_, steps_);
  std::vector<NewStep> steps = std::move(steps_);
  if (splits) SplitPlaces(static_cast<std::uint32_t>(FirstSlot()), &steps);
  Stop();
  return steps;
}

std::int32_t StepRecorder::AddSlot(Block* block, std::uint64_t bytes, bool born,
                                   NewStep* step) {
  run_->Record(block, static_cast<std::uint32_t>(run_->slots.size()));
  run_->slots.emplace_back().block = block;
  return RecordSlot(bytes, born, step);
}

// The record of the last slot of the run.
std::int32_t StepRecorder::RecordSlot(std::uint64_t bytes, bool born,
                                      NewStep* step) {
  SlotRecord record;
  record.bytes = bytes;
  const std::uint32_t before = from_->parent == nullptr ? 0 : from_->depth + 1;
  record.born_step =
      born ? static_cast<std::int32_t>(before + steps_.size() - 1) : -1;
  step->new_slots.push_back(record);
  return static_cast<std::int32_t>(run_->slots.size()) - 1;
}

void StepRecorder::MakeAtCall(const CallFrame& frame, NewStep* step) {
  UnbindFrom(run_, slots_before_);
  offsets_.resize(std::min(offsets_.size(), slots_before_));
  StepRecord& s = step->step;
  s.kind = StepKind::kAtCall;
  s.args.clear();
  s.statics.clear();
  s.scalars.clear();
  s.results.clear();
  step->new_slots.clear();
  step->payload.reset();
  RecordAtCall(frame, context_, why_);
}

// The slot that stands for what an argument uses.
std::int32_t StepRecorder::SlotOf(const c10::TensorImpl* impl, Block* block,
                                  Access access, const ArgRecord& arg,
                                  NewStep* step) {
  const std::uint64_t bytes = StorageOf(impl)->nbytes();
  if (access == Access::kCopy) {
    const std::int64_t offset =
        impl->storage_offset() * static_cast<std::int64_t>(impl->itemsize());
    const std::int32_t copied = CopiedSlot(*run_, RangeOf(impl), offset);
    if (copied >= 0) return copied;
    AddCopy(impl, offset, run_);
    return RecordSlot(bytes, /*born=*/false, step);
  }
  const std::int32_t bound = BoundSlot(*run_, block);
  if (bound < 0) return AddSlot(block, bytes, /*born=*/false, step);
  return Moves(bound, arg, step->step) ? PlaceSlot(bound, block, bytes, step)
                                       : bound;
}

// True if where argument `arg` of `step`, the next one, lies does not follow
// from slot `bound`, whose storage it is in: the slot has moved, or lies beside
// others, or the run left its path since this place has moved. See Note
// [Places].
bool StepRecorder::Moves(std::int32_t bound, const ArgRecord& arg,
                         const StepRecord& step) const {
  if (static_cast<std::size_t>(bound) >= FirstSlot()) return false;
  const SlotBinding& slot = run_->slots[static_cast<std::size_t>(bound)];
  return slot.shift != 0 || slot.shares ||
         (steps_.empty() && HasMoved(bound, arg, step));
}

// True if a step that the path goes on with differs from `step`, the first one
// of this recording, in where this argument lies.
bool StepRecorder::HasMoved(std::int32_t slot, const ArgRecord& arg,
                            const StepRecord& step) const {
  const std::size_t i = step.args.size();
  for (const TraceNode* n = from_->first_child.load(std::memory_order_acquire);
       n != nullptr; n = n->next_sibling.load(std::memory_order_acquire)) {
    if (n->step.op != step.op || n->step.args.size() <= i) continue;
    const ArgRecord& recorded = n->step.args[i];
    if (recorded.slot == slot && OffsetOf(recorded) != OffsetOf(arg)) {
      return true;
    }
  }
  return false;
}

// The slot of this recording for places in the storage of slot `first`.
std::int32_t StepRecorder::PlaceSlot(std::int32_t first, Block* block,
                                     std::uint64_t bytes, NewStep* step) {
  for (std::size_t s = FirstSlot(); s < run_->slots.size(); ++s) {
    const SlotBinding& slot = run_->slots[s];
    if (slot.block == block && slot.shares) return static_cast<std::int32_t>(s);
  }
  run_->slots[static_cast<std::size_t>(first)].shares = true;
  SlotBinding& slot = run_->slots.emplace_back();
  slot.block = block;
  slot.shares = true;
  has_moving_places_ = true;
  const std::int32_t s = RecordSlot(bytes, /*born=*/false, step);
  step->new_slots.back().place_of = first;
  return s;
}

void StepRecorder::RecordOffset(const ArgRecord& arg) {
  const auto s = static_cast<std::size_t>(arg.slot);
  if (s < FirstSlot()) return;
  offsets_.resize(std::max(offsets_.size(), s + 1), -1);
  if (offsets_[s] < 0) offsets_[s] = OffsetOf(arg);
  has_places_ |= offsets_[s] != OffsetOf(arg);
}

// True if slot `slot` stands for the block.
bool StepRecorder::IsIn(std::int32_t slot, const Block* block) const {
  return run_->slots[static_cast<std::size_t>(slot)].block == block;
}

bool StepRecorder::RecordArguments(CallFrame& frame, NewStep* step) {
  if (frame.entry.op_class != OpClass::kPlain || !frame.recordable) {
    return Cannot(kCannotWait);
  }
  if (frame.tensors.empty()) return Cannot("takes no tensor");
  if ((frame.entry.may_throw_on_values || frame.entry.may_warn) &&
      !Planted(Defect::kLateError) && !ValuesPass(frame)) {
    return Cannot("throws or warns on some values");
  }
  step->step.args.reserve(frame.tensors.size());
  for (const TensorRef& ref : frame.tensors) {
    ArgRecord arg;
    arg.written = ref.written && !OnlyReads(frame);
    if (ref.impl == nullptr) {
      step->step.args.push_back(arg);
      continue;
    }
    if (!IsPlain(ref.impl)) return Cannot(kOtherKind);
    if (ref.impl->numel() == 0) return Cannot("takes a tensor of no elements");
    // Kernels throw or warn where a write meets itself.
    if (arg.written && IsExpanded(ref.impl)) return Cannot(kExpanded);
    Block* block = nullptr;
    const Access access =
        AccessOf(frame.entry, *run_, ref.impl, arg.written, &block);
    if (access == Access::kNo) {
      return Cannot(block == nullptr ? kForeignMemory : kExposed);
    }
    const std::size_t slots = run_->slots.size();
    try {
      arg.geometry = geometries_.Share(GeometryOf(ref.impl));
      arg.slot = SlotOf(ref.impl, block, access, arg, step);
      if (watcher_ != nullptr) {
        RecordExternal(watcher_, arg.slot, ref.impl,
                       /*is_new=*/run_->slots.size() > slots);
      }
    } catch (const std::exception&) {
      return Cannot(kNoMemory);
    }
    RecordOffset(arg);
    step->step.args.push_back(arg);
  }
  // Only places share a storage.
  if (has_moving_places_ && MeetsItself(frame, step->step)) {
    return Cannot(kMeetsItself);
  }
  has_moving_places_ |= HasDrawnPlaces(step->step);
  step->step.statics.assign(frame.statics.begin(), frame.statics.end());
  step->step.scalars.reserve(frame.scalars.size());
  for (std::uint32_t i = 0; i < frame.scalars.size(); ++i) {
    const ScalarPolicy policy = frame.entry.PolicyOfScalar(i);
    ScalarRecord record;
    record.value = frame.scalars[i];
    record.may_vary = policy != ScalarPolicy::kBaked &&
                      record.value.type != kNoScalar;
    record.value_class = record.may_vary ? ValueClass(policy, record.value) : 0;
    step->step.scalars.push_back(record);
  }
  return true;
}

void StepRecorder::Before(CallFrame& frame, std::uint32_t context) {
  slots_before_ = run_->slots.size();
  NewStep step;
  step.step.op = frame.entry.id;
  step.step.context = context;
  context_ = context;
  why_ = "called in a state of the thread that is not replayed";
  if (context == 0 || IsExcludedByRegion(frame, context) ||
      !RecordArguments(frame, &step)) {
    MakeAtCall(frame, &step);
  }
  steps_.push_back(std::move(step));
  open_ = true;
}

void StepRecorder::After(const CallFrame& frame,
                         const FrameArray<c10::TensorImpl*, 8>& results,
                         torch::jit::Stack boxed) {
  if (!open_) return;
  open_ = false;
  NewStep& step = steps_.back();
  if (step.step.kind == StepKind::kAtCall) return;
  if (!RecordResults(frame, results, &step)) {
    MakeAtCall(frame, &step);
    return;
  }
  auto call = std::make_shared<CapturedCall>();
  call->entry = &frame.entry;
  call->key_set = frame.key_set;
  DropTensors(&boxed);
  boxed.shrink_to_fit();
  call->arguments = std::move(boxed);
  RecordArgumentNames(frame, call.get());
  step.payload = std::move(call);
}

bool StepRecorder::RecordResults(const CallFrame& frame,
                                 const FrameArray<c10::TensorImpl*, 8>& results,
                                 NewStep* step) {
  if (!frame.recordable) return Cannot(kCannotWait);  // no tensor
  step->step.results.reserve(frame.entry.returns.size());
  for (const ReturnInfo& info : frame.entry.returns) {
    if (info.alias_arg < 0) continue;
    ResultRecord alias;
    alias.kind = ResultRecord::Kind::kAlias;
    for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
      if (frame.tensors[i].arg == static_cast<std::uint32_t>(info.alias_arg)) {
        alias.alias_arg = static_cast<std::int32_t>(i);
        break;
      }
    }
    step->step.results.push_back(alias);
  }
  // A written argument must not have been resized by the kernel.
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    const ArgRecord& arg = step->step.args[i];
    if (arg.slot != kNoSlot && arg.written &&
        (!(GeometryOf(frame.tensors[i].impl) == arg.geometry) ||
         !IsIn(arg.slot, BlockOf(StorageOf(frame.tensors[i].impl))))) {
      return Cannot("changes the sizes or the memory of what it writes");
    }
  }
  for (c10::TensorImpl* impl : results) {
    ResultRecord r;
    if (impl == nullptr) {
      r.kind = ResultRecord::Kind::kUndefined;
      step->step.results.push_back(r);
      continue;
    }
    const bool is_empty = IsFreshEmpty(impl);
    Block* block = is_empty ? nullptr : FreshBlock(impl, *run_);
    if (block == nullptr && !is_empty) return Cannot(WhyNotFresh(impl));
    r.kind = is_empty ? ResultRecord::Kind::kEmpty : ResultRecord::Kind::kFresh;
    try {
      r.geometry = geometries_.Share(GeometryOf(impl));
    } catch (const std::bad_alloc&) {
      return Cannot(kNoMemory);
    }
    if (!impl->is_inference()) {
      r.version = impl->version_counter().current_version();
    }
    if (is_empty) {
      step->step.results.push_back(r);
      continue;
    }
    r.slot = AddSlot(block, StorageOf(impl)->nbytes(), /*born=*/true, step);
    step->step.results.push_back(r);
  }
  bool writes = !results.empty();
  for (const ArgRecord& arg : step->step.args) writes |= arg.written;
  return writes || Cannot("returns nothing and writes nothing");
}

void StepRecorder::Discard(bool is_part) {
  if (!open_ && !is_part) return;
  open_ = false;
  UnbindFrom(run_, slots_before_);
  offsets_.resize(std::min(offsets_.size(), slots_before_));
  steps_.pop_back();
}

}  // namespace tjit::runtime
