#include "runtime/thread/functions/parts.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "recorder/explanation.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/library_calls/recorded_tensors.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/thread/functions/draws.h"
#include "runtime/thread/functions/jit_match.h"
#include "runtime/thread/match.h"
#include "runtime/thread/thread_registry.h"

namespace tjit::runtime {
namespace {

using From = PartArgument::From;

bool IsMask(const TensorRef& ref) {
  if (ref.impl == nullptr) return false;
  const auto type = c10::typeMetaToScalarType(ref.impl->dtype());
  return type == c10::ScalarType::Bool || type == c10::ScalarType::Byte;
}

// False where a replay cannot make the same call, or the values decide the
// sizes of what it returns. One that writes into an argument is none: it cannot
// be called again where a replay ends.
bool MayBePart(const CallFrame& frame, std::uint32_t context) {
  const OpClass op_class = frame.entry.op_class;
  if (op_class != OpClass::kPlain && op_class != OpClass::kOpaque) return false;
  if (!frame.recordable || context == 0 ||
      !frame.entry.name.starts_with("aten::") ||
      std::any_of(frame.tensors.begin(), frame.tensors.end(),
                  [](const TensorRef& ref) { return ref.written; })) {
    return false;
  }
  return !frame.entry.name.starts_with("aten::index") ||
         std::none_of(frame.tensors.begin(), frame.tensors.end(), &IsMask);
}

bool IsUsual(const c10::TensorImpl* impl) {
  return MayBeRecorded(impl) && !impl->is_conj() && !impl->is_neg() &&
         !impl->is_wrapped_number();
}

// As caches begin: `torch.cat([torch.tensor([]), x])`.
bool IsWithoutMemory(const c10::TensorImpl* impl) {
  return impl->numel() == 0 && StorageOf(impl)->nbytes() == 0;
}

// Bytes by which argument `a` of a call begins elsewhere than the recorded one.
std::int64_t ShiftOfArgument(const FunctionKey& now, const FunctionKey& then,
                             std::size_t a) {
  const TensorGeometry& geometry = now.arguments[a].geometry;
  return (geometry.offset - then.arguments[a].geometry.offset) *
         geometry.itemsize;
}

c10::Storage StorageOfTensor(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->storage();
}

// What part arguments of a replay lie in.
c10::Storage StorageFor(const PartArgument& argument,
                        const FunctionReplay& replay,
                        const FunctionInputs& inputs) {
  const FunctionPlan& plan = *replay.plan;
  const std::size_t drawn = plan.fresh.size();
  const std::size_t called = drawn + plan.record->drawn.size();
  switch (argument.from) {
    case From::kUndefined:
      break;
    case From::kEmpty:
      return at::detail::empty_cpu({0}, at::kByte).storage();
    case From::kSlot:
      for (std::size_t f = 0; f < plan.fresh.size(); ++f) {
        if (plan.fresh[f].slot == argument.index) {
          return StorageOfTensor(replay.made[f]);
        }
      }
      break;
    case From::kArgument:
      return StorageOfTensor(*inputs.tensors[argument.index]);
    case From::kCaptured:
      return c10::Storage(plan.captured[argument.index].storage.lock());
    case From::kDrawn:
      return StorageOfTensor(replay.made[drawn + argument.index]);
    case From::kCalled:
      return StorageOfTensor(replay.made[called + argument.index]);
  }
  return {};
}

// The first argument of the call that is the same tensor as argument `i`.
std::uint32_t FirstOfSame(const CallFrame& frame, std::uint32_t i) {
  std::uint32_t first = 0;
  while (frame.tensors[first].impl != frame.tensors[i].impl) ++first;
  return first;
}

// False if a tensor from outside has less memory than it had.
bool MakeArguments(const FunctionPart& part, const FunctionReplay& replay,
                   const FunctionInputs& inputs,
                   std::vector<at::Tensor>* tensors) {
  for (const PartArgument& argument : part.arguments) {
    if (argument.from == From::kUndefined) {
      tensors->emplace_back();
      continue;
    }
    if (argument.same_as < tensors->size()) {
      tensors->push_back((*tensors)[argument.same_as]);
      continue;
    }
    const TensorGeometry& g = argument.geometry;
    std::int64_t shift = 0;  // in elements
    if (argument.from == From::kArgument && !Planted(Defect::kLostShift)) {
      shift = ShiftOf(inputs.tensors[argument.index]->unsafeGetTensorImpl(),
                      replay.plan->key.arguments[argument.index].geometry) /
              g.itemsize;
    }
    c10::Storage storage = StorageFor(argument, replay, inputs);
    const bool has_elements = argument.from != From::kEmpty;
    if (!storage || g.offset + shift < 0 ||
        (has_elements && (g.last_element() + 1 + shift) * g.itemsize >
                             static_cast<std::int64_t>(storage.nbytes()))) {
      return false;
    }
    tensors->push_back(TensorOver(std::move(storage), g, g.offset + shift));
  }
  return true;
}

// The tensors that a call has left on the stack, but for those that it was
// passed.
std::vector<at::Tensor> ResultsOf(const OpEntry& entry,
                                  const torch::jit::Stack& stack) {
  std::vector<at::Tensor> results;
  for (std::size_t r = 0; r < stack.size(); ++r) {
    if (r < entry.returns.size() && entry.returns[r].alias_arg >= 0) continue;
    if (stack[r].isTensorList()) {
      for (const at::Tensor& t : stack[r].toTensorList()) results.push_back(t);
    } else {
      results.push_back(stack[r].isTensor() ? stack[r].toTensor()
                                            : at::Tensor());
    }
  }
  return results;
}

// True for a new tensor that nobody else has. `block`: its memory, null for one
// without elements.
bool IsNew(const c10::TensorImpl* impl, const Run& run, const Block** block) {
  if (!IsPlain(impl) || impl->is_conj() || impl->is_neg() ||
      impl->storage_offset() != 0) {
    return false;
  }
  if (impl->numel() == 0) return impl->unsafe_storage().use_count() == 1;
  *block = FreshBlock(impl, run);
  return *block != nullptr;
}

// True if these are what the part returned when it was recorded.
bool AreResultsOf(const FunctionPart& part,
                  const std::vector<const c10::TensorImpl*>& results,
                  const Run& run) {
  if (results.size() != part.results.size()) return false;
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Block* block = nullptr;
    if ((results[r] != nullptr) != part.results[r].has_value()) return false;
    if (results[r] == nullptr) continue;
    if (!IsNew(results[r], run, &block) ||
        !SameGeometry(results[r], *part.results[r])) {
      return false;
    }
  }
  return true;
}

FunctionSession::Called CalledOf(const c10::TensorImpl* impl) {
  FunctionSession::Called called{c10::weak_intrusive_ptr<c10::StorageImpl>(
                                     c10::intrusive_ptr<c10::StorageImpl>()),
                                 nullptr,
                                 {}};
  if (impl == nullptr) return called;
  called.storage = impl->storage().getWeakStorageImpl();
  called.block = BlockOf(StorageOf(impl));
  called.geometry = GeometryOf(impl);
  return called;
}

}  // namespace

std::optional<std::uint32_t> CalledOver(const FunctionSession& session,
                                        const c10::StorageImpl* storage) {
  for (std::uint32_t c = 0; c < session.called.size(); ++c) {
    if (session.called[c].storage._unsafe_get_target() == storage) return c;
  }
  return std::nullopt;
}

bool FillsNothing(const FunctionSession& session, const CallFrame& frame) {
  const bool fills = frame.entry.name == "aten::zero_" ||
                     frame.entry.name == "aten::fill_.Scalar";
  if (!fills || frame.tensors.size() != 1) return false;
  const c10::TensorImpl* const impl = frame.tensors[0].impl;
  return impl != nullptr && IsUsual(impl) && IsWithoutMemory(impl) &&
         !ArgumentOver(session.arguments, StorageOf(impl));
}

bool PartCalls::RecordArgument(const TensorRef& ref, PartArgument* argument) {
  FunctionSession& session = *calls_.function_;
  argument->arg = ref.arg;
  if (ref.impl == nullptr) return true;
  if (!IsUsual(ref.impl)) return false;
  argument->geometry = GeometryOf(ref.impl);
  const c10::StorageImpl* const storage = StorageOf(ref.impl);
  const Block* const block = BlockOf(storage);
  if (const auto a = ArgumentOver(session.arguments, storage)) {
    argument->from = From::kArgument;
    argument->index = *a;
  } else if (IsWithoutMemory(ref.impl)) {
    argument->from = From::kEmpty;
  } else if (const auto c = CalledOver(session, storage)) {
    argument->from = From::kCalled;
    argument->index = *c;
  } else if (const auto d = DrawnOver(session, storage)) {
    argument->from = From::kDrawn;
    argument->index = *d;
  } else if (const std::int32_t s = BoundSlot(calls_.run_, block); s >= 0) {
    argument->from = From::kSlot;
    argument->index = static_cast<std::uint32_t>(s);
  } else {
    // Made for this call, of a number or to be filled.
    if (session.births.Saw(block)) return false;
    for (const FunctionSession::Inside& inside : session.inside) {
      if (inside.storage._unsafe_get_target() == storage) return false;
    }
    argument->from = From::kCaptured;
    argument->index = static_cast<std::uint32_t>(session.part_captured.size());
    session.part_captured.push_back(CapturedOf(ref.impl));
  }
  return true;
}

bool PartCalls::RecordResults(const ResultList& results, FunctionPart* part) {
  FunctionSession& session = *calls_.function_;
  part->first_result = static_cast<std::uint32_t>(session.called.size());
  for (const c10::TensorImpl* impl : results.items()) {
    const Block* block = nullptr;
    if (impl != nullptr && !IsNew(impl, calls_.run_, &block)) return false;
    session.called.push_back(CalledOf(impl));
    part->results.push_back(
        impl == nullptr
            ? std::nullopt
            : std::optional<TensorGeometry>(session.called.back().geometry));
  }
  return true;
}

void PartCalls::Record(const CallFrame& frame, const ResultList& results,
                       const torch::jit::Stack& boxed) {
  FunctionSession& session = *calls_.function_;
  // What the call would have used as a step.
  session.externals.erase(
      session.externals.begin() +
          static_cast<std::ptrdiff_t>(session.externals_before),
      session.externals.end());
  calls_.capture_.Discard(/*is_part=*/true);
  FunctionPart part;
  bool is_part = MayBePart(frame, calls_.context_);
  for (std::uint32_t i = 0; is_part && i < frame.tensors.size(); ++i) {
    PartArgument& argument = part.arguments.emplace_back();
    argument.same_as = FirstOfSame(frame, i);
    is_part = RecordArgument(frame.tensors[i], &argument);
  }
  if (!is_part || !RecordResults(results, &part)) {
    return session.Fail(Refusal::kAtCall, frame.entry.id);
  }
  part.context = calls_.context_;
  part.statics.assign(frame.statics.begin(), frame.statics.end());
  part.scalar_begin = static_cast<std::uint32_t>(session.part_scalars.size());
  part.scalar_count = frame.scalars.size();
  session.part_scalars.insert(session.part_scalars.end(), frame.scalars.begin(),
                              frame.scalars.end());
  auto call = std::make_shared<CapturedCall>();
  call->entry = &frame.entry;
  call->key_set = frame.key_set;
  call->arguments = boxed;
  DropTensors(&call->arguments);
  part.call = std::move(call);
  FunctionRead place;
  place.step = static_cast<std::uint32_t>(calls_.capture_.steps().size());
  place.part = static_cast<std::int32_t>(session.parts.size());
  session.reads.push_back(place);
  session.parts.push_back(std::move(part));
}

bool PartCalls::IsArgument(const c10::TensorImpl* impl,
                           const PartArgument& recorded) {
  const FunctionSession& session = *calls_.function_;
  if (impl == nullptr) return recorded.from == From::kUndefined;
  if (recorded.from == From::kUndefined || !IsUsual(impl) ||
      !SameGeometry(impl, recorded.geometry)) {
    return false;
  }
  const c10::StorageImpl* const storage = StorageOf(impl);
  const std::uint32_t i = recorded.index;
  const std::int64_t shift = ShiftOf(impl, recorded.geometry);
  if (recorded.from == From::kArgument) {
    return StorageOf(session.arguments[i].unsafeGetTensorImpl()) == storage &&
           shift == ShiftOfArgument(session.key, session.follows->key, i);
  }
  if (shift != 0) return false;
  switch (recorded.from) {
    case From::kSlot:
      return BoundSlot(calls_.run_, BlockOf(storage)) ==
             static_cast<std::int32_t>(i);
    case From::kCaptured:
      return session.follows->captured[i].storage._unsafe_get_target() ==
             storage;
    case From::kDrawn:
      return DrawnOver(session, storage) == i;
    case From::kCalled:
      return CalledOver(session, storage) == i;
    case From::kEmpty:
      return IsWithoutMemory(impl);
    case From::kUndefined:
    case From::kArgument:
      break;
  }
  return false;
}

bool PartCalls::IsPart(const CallFrame& frame, const FunctionPart& part) {
  const std::vector<ScalarValue>& scalars =
      calls_.function_->follows->part_scalars;
  if (!frame.recordable || calls_.context_ != part.context ||
      frame.tensors.size() != part.arguments.size() ||
      frame.scalars.size() != part.scalar_count ||
      !std::equal(part.statics.begin(), part.statics.end(),
                  frame.statics.begin(), frame.statics.end())) {
    return false;
  }
  for (std::uint32_t i = 0; i < frame.scalars.size(); ++i) {
    if (frame.scalars[i].type != scalars[part.scalar_begin + i].type) {
      return false;
    }
  }
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    if (FirstOfSame(frame, i) != part.arguments[i].same_as ||
        !IsArgument(frame.tensors[i].impl, part.arguments[i])) {
      return false;
    }
  }
  return true;
}

bool PartCalls::Begin(const CallFrame& frame) {
  FunctionSession& session = *calls_.function_;
  if (session.follows == nullptr || session.has_failed()) return false;
  const std::vector<FunctionRead>& expected = session.follows->reads;
  const std::size_t i = session.reads.size();
  if (i >= expected.size() || expected[i].part < 0) return false;
  const FunctionPart& part =
      session.follows->parts[static_cast<std::size_t>(expected[i].part)];
  const std::size_t next =
      calls_.cursor_ == nullptr ? 0 : calls_.cursor_->depth + 1;
  if (part.call->entry != &frame.entry || expected[i].step != next) {
    return false;
  }
  if (!IsPart(frame, part)) {
    session.Fail(Refusal::kNotSame, frame.entry.id);
    return false;
  }
  calls_.RunToRead(next, FlushReason::kOpAtCall);
  if (session.has_failed()) return false;
  session.reads.push_back(expected[i]);
  session.parts.push_back(part);
  session.part_scalars.insert(session.part_scalars.end(), frame.scalars.begin(),
                              frame.scalars.end());
  session.is_part_open = true;
  return true;
}

void PartCalls::End(const CallFrame& frame, const ResultList& results) {
  FunctionSession& session = *calls_.function_;
  session.is_part_open = false;
  if (session.has_failed()) return;
  const std::vector<const c10::TensorImpl*> all(results.items().begin(),
                                                results.items().end());
  const FunctionPart& part = session.parts.back();
  bool is_same = AreResultsOf(part, all, calls_.run_);
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {  // not resized
    is_same &= frame.tensors[i].impl == nullptr ||
               SameGeometry(frame.tensors[i].impl, part.arguments[i].geometry);
  }
  if (!is_same) return session.Fail(Refusal::kNotSame, frame.entry.id);
  for (const c10::TensorImpl* impl : all) {
    session.called.push_back(CalledOf(impl));
  }
}

namespace {

// The kernel, as eager calls it. THROWS: what it throws.
torch::jit::Stack CallKernel(const FunctionPart& part,
                             const std::vector<at::Tensor>& tensors,
                             const std::vector<ScalarValue>& scalars) {
  torch::jit::Stack stack = FillArguments(*part.call, tensors, scalars.data());
  ContextScope scope;
  scope.Switch(part.context);
  const at::AutoDispatchBelowADInplaceOrView below;  // as behind its own kernel
  const KernelScope inside;
  const OpEntry& entry = *part.call->entry;
  entry.kernel.callBoxed(entry.handle, part.call->key_set, &stack);
  return stack;
}

}  // namespace

std::vector<ScalarValue> PartScalars(const FunctionPlan& plan,
                                     const FunctionPart& part,
                                     c10::ArrayRef<double> numbers) {
  const auto begin = plan.part_scalars.begin() +
                     static_cast<std::ptrdiff_t>(part.scalar_begin);
  std::vector<ScalarValue> scalars(begin, begin + part.scalar_count);
  for (const NumberUse& use : plan.uses) {
    if (use.where != NumberUse::Where::kPart || use.at < part.scalar_begin ||
        use.at >= part.scalar_begin + part.scalar_count ||
        Planted(Defect::kStaleScalar)) {
      continue;
    }
    const double number = plan.key.NumberAt(use.number, numbers);
    std::memcpy(scalars[use.at - part.scalar_begin].bits, &number,
                sizeof(number));
  }
  return scalars;
}

bool PartCalls::Call(FunctionReplay* replay, std::size_t number,
                     const FunctionInputs& inputs) {
  const FunctionPlan& plan = *replay->plan;
  const FunctionPart& part = plan.record->parts[number];
  // Nothing is pending: what is claimed for steps behind is let go.
  if (replay->has_begun || !calls_.run_.owned.empty() ||
      !calls_.run_.readers.empty()) {
    calls_.AfterFlushLocked();
  }
  replay->has_begun = false;
  std::vector<at::Tensor> tensors, results;
  if (!MakeArguments(part, *replay, inputs, &tensors)) return false;
  {
    t_context.held = nullptr;
    calls_.mutex_.UnlockAsOwner();
    const absl::Cleanup lock = [this] {
      calls_.mutex_.LockAsOwner();
      t_context.held = &calls_;
    };
    const OpEntry& entry = *part.call->entry;
    CallFrame frame(entry, part.call->key_set);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].defined()) {
        frame.AddTensor(tensors[i], part.arguments[i].arg);
      }
    }
    calls_.counters_.ops_seen.Add();
    calls_.CountEager(frame);
    calls_.MakeReady(frame);
    try {
      results = ResultsOf(
          entry,
          CallKernel(part, tensors, PartScalars(plan, part, inputs.numbers)));
    } catch (const std::exception&) {  // the function meets it, too
      return false;
    }
  }
  std::vector<const c10::TensorImpl*> all;
  for (const at::Tensor& t : results) {
    all.push_back(t.defined() ? t.unsafeGetTensorImpl() : nullptr);
  }
  if (!AreResultsOf(part, all, calls_.run_)) return false;
  for (at::Tensor& t : results) {
    if (t.defined()) Arm(t.unsafeGetTensorImpl());
    replay->made.push_back(std::move(t));
  }
  BindCalled(*replay, 0);
  return true;
}

void PartCalls::BindCalled(const FunctionReplay& replay, std::size_t from) {
  const FunctionPlan& plan = *replay.plan;
  const std::vector<FunctionSlot>& slots = plan.record->slots;
  const std::size_t first = plan.fresh.size() + plan.record->drawn.size();
  for (auto s = static_cast<std::uint32_t>(from); s < slots.size(); ++s) {
    if (slots[s].kind != FunctionSlot::Kind::kCalled ||
        first + slots[s].index >= replay.made.size() ||
        calls_.run_.slots[s].block != nullptr) {
      continue;
    }
    const at::Tensor& tensor = replay.made[first + slots[s].index];
    Block* const block = BlockOf(StorageOf(tensor.unsafeGetTensorImpl()));
    calls_.run_.slots[s].block = block;
    calls_.run_.Record(block, s);
  }
}

namespace {

Refusal FindPartArgument(const FunctionSession& session, FunctionRecord* record,
                         PartArgument* argument) {
  using Kind = FunctionSlot::Kind;
  if (argument->from == From::kSlot) {
    if (argument->index >= record->slots.size()) return Refusal::kAtCall;
    const FunctionSlot& slot = record->slots[argument->index];
    if (slot.kind == Kind::kCaptured) {
      argument->from = From::kCaptured;
      argument->index = slot.index;
    } else if (slot.kind != Kind::kBorn && slot.kind != Kind::kInside) {
      return Refusal::kHostData;
    }
  } else if (argument->from == From::kCaptured) {
    const CapturedStorage& used = session.part_captured[argument->index];
    if (used.storage.use_count() == 0) return Refusal::kCapturedDied;
    argument->index = static_cast<std::uint32_t>(record->captured.size());
    record->captured.push_back(used);
    // A view that was made for the op: nothing is known of its tensor.
    auto& tensor = record->captured.back().tensor;
    if (tensor && tensor->use_count() == 0) tensor.reset();
  }
  return Refusal::kNone;
}

}  // namespace

Refusal FindPartArguments(const FunctionSession& session,
                          FunctionRecord* record,
                          std::vector<FunctionPart>* parts) {
  for (FunctionPart& part : *parts) {
    for (PartArgument& argument : part.arguments) {
      const Refusal why = FindPartArgument(session, record, &argument);
      if (why != Refusal::kNone) return why;
    }
  }
  return Refusal::kNone;
}

bool HoldOutside(const FunctionPlan& plan, const FunctionInputs& inputs,
                 FunctionReplay* replay) {
  if (plan.record->parts.empty()) return true;
  for (const CapturedStorage& captured : plan.captured) {
    replay->held.push_back(captured.storage.lock());
    if (replay->held.back() == nullptr) return false;
  }
  for (const at::Tensor* tensor : inputs.tensors) {
    if (tensor->defined()) {
      replay->held.push_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
          StorageOf(tensor->unsafeGetTensorImpl())));
    }
  }
  return true;
}

void SaveWritten(const Run& run, FunctionReplay* replay) {
  const FunctionRecord& record = *replay->plan->record;
  for (const RestoredSlot& restored : record.restored) {
    if (restored.step < replay->steps_run) continue;
    const auto s = static_cast<std::size_t>(restored.slot);
    const SlotBinding& bound = run.slots[s];
    const FunctionSlot& slot = record.slots[s];
    char* const data = bound.block->data + bound.shift + slot.begin;
    replay->saved.push_back(
        {restored.step, bound.block, data,
         std::string(data, static_cast<std::size_t>(slot.end - slot.begin))});
  }
}

void RestoreWritten(FunctionReplay* replay) {
  for (const FunctionReplay::Saved& saved : replay->saved) {
    if (saved.step >= replay->steps_run) continue;
    saved.block->ForgetContent();
    std::memcpy(saved.data, saved.bytes.data(), saved.bytes.size());
  }
  replay->saved.clear();
  replay->steps_run = 0;
}

bool IsSamePart(const FunctionRecord& a, const FunctionPart& x,
                const FunctionRecord& b, const FunctionPart& y) {
  const auto same_argument = [&](const PartArgument& p, const PartArgument& q) {
    if (p.from != q.from || p.same_as != q.same_as ||
        !(p.geometry == q.geometry)) {
      return false;
    }
    return p.from == From::kCaptured
               ? a.captured[p.index].storage._unsafe_get_target() ==
                     b.captured[q.index].storage._unsafe_get_target()
               : p.index == q.index;
  };
  const auto same_type = [](const ScalarValue& p, const ScalarValue& q) {
    return p.type == q.type;
  };
  const auto p = a.part_scalars.begin() + x.scalar_begin;
  return x.call->entry == y.call->entry && x.context == y.context &&
         x.statics == y.statics && x.first_result == y.first_result &&
         x.results == y.results && x.scalar_count == y.scalar_count &&
         std::equal(p, p + x.scalar_count,
                    b.part_scalars.begin() + y.scalar_begin, same_type) &&
         std::equal(x.arguments.begin(), x.arguments.end(), y.arguments.begin(),
                    y.arguments.end(), same_argument);
}

namespace {

const char* WhyAtCall(const OpEntry& entry) {
  if (entry.op_class == OpClass::kOpaque) return "opaque";
  if (entry.may_throw_on_values) return "may throw on values";
  return "its arguments or results cannot wait";
}

}  // namespace

std::string PartsText(const FunctionRecord& record) {
  if (record.parts.empty()) return "";
  std::set<std::size_t> places;  // of parts between steps
  ExplainedRegion explained;
  for (const FunctionRead& read : record.reads) {
    if (read.part < 0) continue;
    if (read.step != 0 && read.step != record.nodes.size()) {
      places.insert(read.step);
    }
    const OpEntry& entry =
        *record.parts[static_cast<std::size_t>(read.part)].call->entry;
    explained.at_call[entry.name] = WhyAtCall(entry);
  }
  explained.sequences = static_cast<std::int64_t>(places.size()) + 1;
  explained.ops_at_call = static_cast<std::int64_t>(record.parts.size());
  return SequencesText(explained);
}

}  // namespace tjit::runtime
