// A plan, from a call that followed what another one had recorded.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/memory/tensor_recycler.h"
#include "runtime/thread/copied_slot.h"
#include "runtime/thread/functions/draws.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/host_reads.h"
#include "runtime/thread/functions/jit_match.h"
#include "runtime/thread/functions/parts.h"
#include "runtime/thread/match.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

using Kind = FunctionSlot::Kind;

c10::StorageImpl* StorageOfTensor(const at::Tensor& t) {
  return t.defined() ? StorageOf(t.unsafeGetTensorImpl()) : nullptr;
}

bool SameValue(double number, const ScalarValue& scalar) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return scalar.type == static_cast<std::uint64_t>(c10::ScalarType::Double) &&
         scalar.bits[0] == bits;
}

bool SameValue(double number, const std::string& constant) {
  return constant == BytesOfConstant(number, constant.size());
}

class PlanBuilder {
 public:
  PlanBuilder(FunctionSession* session, const Run& run,
              const std::vector<at::Tensor>& results)
      : session_(*session),
        record_(*session->follows),
        run_(run),
        results_(results),
        plan_(std::make_unique<FunctionPlan>()) {}

  std::unique_ptr<FunctionPlan> Build() {
    plan_->key = session_.key;
    plan_->record = session_.follows;
    plan_->captured = record_.captured;
    plan_->constants = record_.constants;
    plan_->scalars = record_.scalars;
    plan_->part_scalars = record_.part_scalars;
    if (run_.slots.size() != record_.slots.size()) {
      session_.Fail(Refusal::kNotSame);
    }
    if (session_.draws.size() != record_.draws.size()) {
      session_.Fail(Refusal::kNotSame);
    }
    FindResults();
    plan_->of_results = plan_->fresh.size();
    LookAtDrawn();
    LookAtCalled();
    for (std::size_t s = 0; s < record_.slots.size(); ++s) LookAtSlot(s);
    AddAcrossReads();
    LookAtParts();
    FindNumbers();
    CountBumps();
    if (!session_.is_backward &&
        !AskForGradientsAsBefore(*plan_, session_.arguments)) {
      session_.Fail(Refusal::kGraphGained);
    }
    if (HookCount(session_.arguments) != session_.hooks) {
      session_.Fail(Refusal::kGraphNode);
    }
    FindFreeArguments();
    FindLiving();
    CompareWithBefore();
    for (std::size_t i = 0, n = 0; n < record_.nodes.size(); ++n) {
      for (const ScalarRecord& scalar : record_.nodes[n]->step.scalars) {
        plan_->has_other_scalars |= !scalar.value.SameBits(plan_->scalars[i++]);
      }
    }
    if (session_.has_failed()) return nullptr;
    return std::move(plan_);
  }

 private:
  // Bytes by which argument `a` begins elsewhere than the recorded one.
  std::int64_t ShiftOfArgument(std::size_t a) const {
    const TensorGeometry& now = session_.key.arguments[a].geometry;
    const TensorGeometry& then = record_.key.arguments[a].geometry;
    return (now.offset - then.offset) * now.itemsize;
  }

  void LookAtSlot(std::size_t s) {
    if (session_.has_failed()) return;
    const FunctionSlot& slot = record_.slots[s];
    const SlotBinding& bound = run_.slots[s];
    const bool has_run = s < SlotsBefore(record_, session_.steps_run());
    switch (slot.kind) {
      case Kind::kBorn:
      case Kind::kInside:
        if (has_run) {
          if (LivesAtRead(session_, s, bound.block)) FindOwner(s);
          return;
        }
        if (slot.kind == Kind::kInside && bound.block != nullptr &&
            !IsInside(bound.block)) {
          return session_.Fail(Refusal::kCapturedChanged);
        }
        if (bound.block != nullptr && !bound.held) FindOwner(s);
        return;
      case Kind::kDrawn: {
        if (has_run && bound.block == nullptr) return;
        const std::uint32_t inside = session_.drawn[slot.index].inside;
        if (bound.copied || bound.block != session_.inside[inside].block) {
          session_.Fail(Refusal::kNotSame);
        }
        return;
      }
      case Kind::kCalled:
        if (has_run && bound.block == nullptr) return;
        if (bound.copied || bound.block != session_.called[slot.index].block) {
          session_.Fail(Refusal::kNotSame);
        }
        return;
      case Kind::kArgument:
        return Expect(bound, slot, ShiftOfArgument(slot.index),
                      StorageOfTensor(session_.arguments[slot.index]),
                      Refusal::kNotSame);
      case Kind::kCaptured: {
        const CapturedStorage& captured = plan_->captured[slot.index];
        if (captured.storage.use_count() == 0) {
          return session_.Fail(Refusal::kCapturedChanged);
        }
        return Expect(bound, slot, /*shift=*/0,
                      captured.storage._unsafe_get_target(),
                      Refusal::kCapturedChanged);
      }
      case Kind::kConstant:
        if (has_run) {
          if (session_.ConstantOf(s) == nullptr) {
            session_.Fail(Refusal::kNotSame);
          } else if (plan_->gradients == nullptr &&
                     LivesAtRead(session_, s, bound.block)) {
            session_.Fail(Refusal::kEscapes);
          }
          return;
        }
        // A number, and not a tensor that was there before or is behind.
        if (!bound.copied &&
            !HoldsNumber(session_, s, bound, plan_->gradients != nullptr)) {
          session_.Fail(Refusal::kHostData);
        }
        return;
    }
  }

  // What is in slot `s` lives when the function has returned: as a result, in a
  // graph, or nobody knows where.
  void FindOwner(std::size_t s) {
    if (IsResult(s)) return;
    if (plan_->gradients == nullptr) return session_.Fail(Refusal::kEscapes);
    AddLiving(static_cast<std::uint32_t>(s));
  }

  // What lives at a host read has memory then.
  void AddAcrossReads() {
    living_ = static_cast<std::uint32_t>(plan_->fresh.size());
    if (session_.has_failed()) return;
    for (const std::uint32_t s : session_.across) {
      if (!IsResult(s)) AddLiving(s);
    }
  }

  // What is in slot `s` is no result, and has memory of its own.
  void AddLiving(std::uint32_t s) {
    FreshTensor fresh;
    TensorGeometry geometry;
    fresh.slot = s;
    if (record_.slots[s].kind == Kind::kInside) {
      const InsideTensor& inside = record_.inside[record_.slots[s].index];
      fresh.context = inside.context;
      geometry = inside.geometry;
    } else if (!FindStep(static_cast<std::int32_t>(s), &fresh, &geometry)) {
      return session_.Fail(Refusal::kHostRead);
    }
    fresh.form = TemplateOf(geometry);
    fresh.bytes = record_.slots[s].bytes;
    fresh.size_class = TensorRecycler::ClassOf(fresh.bytes);
    plan_->fresh.push_back(std::move(fresh));
  }

  // What lives when the function has returned, where a graph may need it.
  void FindLiving() {
    if (plan_->gradients == nullptr || session_.has_failed()) return;
    std::vector<std::uint32_t>& living = plan_->gradients->living;
    const auto fresh = static_cast<std::uint32_t>(plan_->fresh.size());
    for (std::uint32_t f = 0; f < living_; ++f) living.push_back(f);
    for (std::uint32_t d = 0; d < session_.drawn.size(); ++d) {
      const auto& storage = session_.inside[session_.drawn[d].inside].storage;
      if (storage.use_count() != 0) living.push_back(fresh + d);
    }
    const auto called =
        fresh + static_cast<std::uint32_t>(session_.drawn.size());
    for (std::uint32_t c = 0; c < session_.called.size(); ++c) {
      if (session_.called[c].storage.use_count() != 0) {
        living.push_back(called + c);
      }
    }
  }

  // What a part takes from steps has memory then.
  void LookAtParts() {
    for (const FunctionPart& part : record_.parts) {
      for (const PartArgument& argument : part.arguments) {
        if (argument.from == PartArgument::From::kSlot &&
            !IsResult(argument.index)) {
          session_.Fail(Refusal::kAtCall, part.call->entry->id);
        }
      }
    }
  }

  // True if a result so far is drawn tensor `i`, or what a part returned,
  // itself.
  bool IsReturned(FunctionResult::Kind kind, std::uint32_t i) const {
    return std::any_of(plan_->results.begin(), plan_->results.end(),
                       [&](const FunctionResult& r) {
                         return r.kind == kind && r.index == i && !r.is_view;
                       });
  }

  // The version of what was drawn or called, which is gone or a result.
  std::uint32_t VersionAtEnd(
      const c10::weak_intrusive_ptr<c10::StorageImpl>& storage,
      FunctionResult::Kind kind, std::uint32_t i) {
    if (storage.use_count() == 0) return 0;
    const auto& results = plan_->results;
    const auto at = std::find_if(results.begin(), results.end(),
                                 [&](const FunctionResult& r) {
                                   return r.kind == kind && r.index == i;
                                 });
    if (at == results.end()) {
      if (plan_->gradients == nullptr) session_.Fail(Refusal::kEscapes);
      return 0;
    }
    return VersionOf(results_[static_cast<std::size_t>(at - results.begin())]);
  }

  void LookAtDrawn() {
    if (session_.has_failed()) return;
    for (std::uint32_t d = 0; d < session_.drawn.size(); ++d) {
      plan_->drawn_versions.push_back(
          VersionAtEnd(session_.inside[session_.drawn[d].inside].storage,
                       FunctionResult::Kind::kDrawn, d));
    }
  }

  void LookAtCalled() {
    if (session_.has_failed()) return;
    for (std::uint32_t c = 0; c < session_.called.size(); ++c) {
      plan_->called_versions.push_back(VersionAtEnd(
          session_.called[c].storage, FunctionResult::Kind::kCalled, c));
    }
  }

  // All that the steps use of the storage lies `shift` from where it was
  // recorded.
  void Expect(const SlotBinding& bound, const FunctionSlot& slot,
              std::int64_t shift, const c10::StorageImpl* storage,
              Refusal otherwise) {
    if (storage == nullptr) return session_.Fail(otherwise);
    if (!bound.copied) {
      if (BlockOf(storage) != bound.block) return session_.Fail(otherwise);
      if (bound.shift != shift) session_.Fail(Refusal::kNotSame);
      return;
    }
    const auto* const begin = static_cast<const char*>(storage->data());
    if (bound.source != begin + slot.first + shift) session_.Fail(otherwise);
  }

  bool IsInside(const Block* block) const {
    for (const FunctionSession::Inside& inside : session_.inside) {
      if (inside.block == block) return true;
    }
    return false;
  }

  bool IsResult(std::size_t s) const {
    for (const FreshTensor& fresh : plan_->fresh) {
      if (fresh.slot == s) return true;
    }
    return false;
  }

  void FindResults() {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      FunctionResult result;
      for (std::size_t j = 0; j < i && result.same_as < 0; ++j) {
        if (results_[i].defined() && results_[i].is_same(results_[j])) {
          result.same_as = static_cast<std::int32_t>(j);
        }
      }
      if (result.same_as < 0 && results_[i].defined()) {
        const Refusal why = FindResult(results_[i], &result);
        if (why != Refusal::kNone) return session_.Fail(why);
      }
      if (result.has_graph && plan_->gradients == nullptr) {
        plan_->gradients = std::make_shared<FunctionGradients>();
      }
      plan_->results.push_back(result);
    }
    // The graph may own them as well: it is looked at when that is gone.
    if (plan_->gradients != nullptr) return LookAtGraph();
    for (std::size_t i = 0; i < session_.is_kept.size(); ++i) {
      if (session_.is_kept[i] && plan_->results[i].is_made()) {
        return session_.Fail(Refusal::kEscapes);
      }
    }
    if (!session_.has_failed()) LookAtBases();
    if (!session_.has_failed()) LookForOwners();
  }

  // Results with a graph are tensors of their own, and so are those beside
  // them.
  void LookAtGraph() {
    if (session_.has_failed()) return;
    if (!session_.leaves.empty()) session_.Fail(Refusal::kGradients);
    for (FunctionResult& result : plan_->results) {
      if (result.same_as >= 0) continue;
      for (const FunctionResult& other : plan_->results) {
        if (&other != &result && other.same_as < 0 && result.is_made() &&
            other.kind == result.kind && other.index == result.index) {
          return session_.Fail(Refusal::kGradients);
        }
      }
      if (result.is_made()) result.is_tracked = false;
    }
  }

  // Nobody but the results has a tensor over what is made anew.
  void LookForOwners() {
    for (std::size_t first = 0; first < results_.size(); ++first) {
      if (!plan_->results[first].is_made()) continue;
      const c10::StorageImpl* const storage = StorageOfTensor(results_[first]);
      std::vector<const c10::TensorImpl*> known;
      const auto record = [&](const at::TensorBase& t) {
        const c10::TensorImpl* const impl = t.unsafeGetTensorImpl();
        if (std::find(known.begin(), known.end(), impl) == known.end()) {
          known.push_back(impl);
        }
      };
      for (const at::Tensor& t : results_) {
        if (StorageOfTensor(t) != storage) continue;
        record(t);
        if (t.is_view()) record(t._base());
      }
      if (results_[first].storage().use_count() > known.size()) {
        return session_.Fail(Refusal::kEscapes);
      }
    }
  }

  Refusal FindResult(const at::Tensor& tensor, FunctionResult* result) {
    const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    for (std::uint32_t a = 0; a < session_.arguments.size(); ++a) {
      if (tensor.is_same(session_.arguments[a])) {
        result->kind = FunctionResult::Kind::kArgument;
        result->index = a;
        return Refusal::kNone;
      }
    }
    if (tensor.requires_grad()) {
      if (!session_.keeps_graph || tensor.is_leaf()) {
        return Refusal::kGradients;
      }
      result->has_graph = true;
    }
    if (!IsPlain(impl) || impl->numel() == 0 || impl->is_conj() ||
        impl->is_neg()) {
      return Refusal::kNotPlain;
    }
    result->geometry = GeometryOf(impl);
    result->is_tracked = tensor.is_view();
    const c10::StorageImpl* const storage = StorageOf(impl);
    for (std::uint32_t a = 0; a < session_.arguments.size(); ++a) {
      if (StorageOfTensor(session_.arguments[a]) != storage) continue;
      if (!IsViewOf(plan_->key.arguments[a].geometry, result->geometry) ||
          !HasBaseOf(tensor, session_.arguments[a])) {
        return Refusal::kResult;
      }
      if (result->has_graph) return Refusal::kGradients;
      // As shifts are counted from where the recorded argument began.
      result->geometry.offset -= ShiftOfArgument(a) / result->geometry.itemsize;
      result->kind = FunctionResult::Kind::kArgument;
      result->index = a;
      result->is_view = true;
      NeedBytes(result->geometry, &plan_->key.arguments[a]);
      return Refusal::kNone;
    }
    for (std::uint32_t c = 0; c < plan_->captured.size(); ++c) {
      const CapturedStorage& captured = plan_->captured[c];
      if (captured.storage._unsafe_get_target() != storage) continue;
      if (!captured.tensor) return Refusal::kResult;
      if (result->has_graph) return Refusal::kGradients;
      const c10::TensorImpl* const known =
          captured.tensor->_unsafe_get_target();
      const bool is_it = known == impl;
      if (!is_it && (!IsViewOf(captured.geometry, result->geometry) ||
                     (result->is_tracked &&
                      tensor._base().unsafeGetTensorImpl() != known))) {
        continue;  // another one over the storage may be what it is of
      }
      result->kind = FunctionResult::Kind::kCaptured;
      result->index = c;
      result->is_view = !is_it;
      return Refusal::kNone;
    }
    if (const auto drawn = DrawnOver(session_, storage)) {
      const std::uint32_t inside = session_.drawn[*drawn].inside;
      const TensorGeometry& whole = session_.inside[inside].geometry;
      if (!IsPartOf(whole, result->geometry)) return Refusal::kResult;
      result->kind = FunctionResult::Kind::kDrawn;
      result->index = *drawn;
      result->is_view = tensor.is_view() || !(whole == result->geometry) ||
                        IsReturned(FunctionResult::Kind::kDrawn, *drawn);
      return Refusal::kNone;
    }
    if (const auto called = CalledOver(session_, storage)) {
      const TensorGeometry& whole = session_.called[*called].geometry;
      if (!IsPartOf(whole, result->geometry)) return Refusal::kResult;
      result->kind = FunctionResult::Kind::kCalled;
      result->index = *called;
      result->is_view = tensor.is_view() || !(whole == result->geometry) ||
                        IsReturned(FunctionResult::Kind::kCalled, *called);
      return Refusal::kNone;
    }
    return FindFresh(tensor, storage, result);
  }

  // True if as_strided() of `of` has the base that `view` has, if that has one.
  static bool HasBaseOf(const at::Tensor& view, const at::Tensor& of) {
    return !view.is_view() || (of.is_view() ? view._base().is_same(of._base())
                                            : view._base().is_same(of));
  }

  // The same for views of what is made anew: a result, or a tensor that nobody
  // else has.
  void LookAtBases() {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const FunctionResult& view = plan_->results[i];
      if (!view.is_made() || view.same_as >= 0 || !view.is_tracked) continue;
      const at::TensorBase& base = results_[i]._base();
      bool is_right = true, is_result = false;
      for (std::size_t j = 0; j < results_.size(); ++j) {
        const FunctionResult& other = plan_->results[j];
        if (other.same_as >= 0) continue;
        const bool is_whole = other.kind == view.kind &&
                              other.index == view.index && !other.is_view;
        if (is_whole) is_right &= results_[j].is_same(base);
        is_result |= results_[j].is_same(base) && !is_whole;
      }
      if (!is_right || is_result) return session_.Fail(Refusal::kResult);
    }
  }

  static void NeedBytes(const TensorGeometry& g, FunctionArgument* argument) {
    argument->least_bytes =
        std::max(argument->least_bytes, (g.last_element() + 1) * g.itemsize);
  }

  Refusal FindFresh(const at::Tensor& tensor, const c10::StorageImpl* storage,
                    FunctionResult* result) {
    const Block* const block = BlockOf(storage);
    const std::int32_t s = BoundSlot(run_, block);
    if (s < 0) return Refusal::kResult;
    const Kind kind = record_.slots[static_cast<std::size_t>(s)].kind;
    if (kind != Kind::kBorn && kind != Kind::kInside) return Refusal::kResult;
    result->kind = FunctionResult::Kind::kSlot;
    for (std::uint32_t f = 0; f < plan_->fresh.size(); ++f) {
      if (plan_->fresh[f].slot != static_cast<std::uint32_t>(s)) continue;
      if (!IsPartOf(plan_->fresh[f].form->geometry, result->geometry)) {
        return Refusal::kResult;
      }
      result->index = f;
      result->is_view = true;
      return Refusal::kNone;
    }
    FreshTensor fresh;
    TensorGeometry geometry;
    fresh.slot = static_cast<std::uint32_t>(s);
    if (!FindMaker(block, static_cast<std::int32_t>(s), &fresh, &geometry) ||
        !IsPartOf(geometry, result->geometry)) {
      return Refusal::kResult;
    }
    fresh.form = TemplateOf(geometry);
    fresh.bytes = storage->nbytes();
    fresh.size_class = TensorRecycler::ClassOf(fresh.bytes);
    fresh.version = VersionOf(tensor);
    result->index = static_cast<std::uint32_t>(plan_->fresh.size());
    result->is_view = tensor.is_view() || !(geometry == result->geometry);
    plan_->fresh.push_back(std::move(fresh));
    return Refusal::kNone;
  }

  // The step that makes slot `s`.
  bool FindStep(std::int32_t s, FreshTensor* fresh,
                TensorGeometry* geometry) const {
    for (const TraceNode* node : record_.nodes) {
      for (const ResultRecord& r : node->step.results) {
        if (r.slot != s || r.kind != ResultRecord::Kind::kFresh) continue;
        fresh->context = node->step.context;
        *geometry = r.geometry;
        return true;
      }
    }
    return false;
  }

  // The same, or the call of at::empty().
  bool FindMaker(const Block* block, std::int32_t s, FreshTensor* fresh,
                 TensorGeometry* geometry) const {
    if (FindStep(s, fresh, geometry)) return true;
    for (const FunctionSession::Inside& inside : session_.inside) {
      if (inside.block != block || inside.storage.use_count() == 0) continue;
      if (inside.geometry.offset != 0) return false;
      fresh->context = inside.context;
      *geometry = inside.geometry;
      return true;
    }
    return false;
  }

  // Where the scalars of this call differ from the recorded ones, one number
  // that was passed must say so, and no other may.
  void FindNumbers() {
    std::vector<FunctionNumber>& numbers = plan_->key.numbers;
    if (session_.before != nullptr) {
      plan_->uses = session_.before->uses;
      for (std::size_t n = 0; n < numbers.size(); ++n) {
        numbers[n].is_free = session_.before->key.numbers[n].is_free;
      }
    }
    std::uint32_t at = 0;
    for (TraceNode* node : record_.nodes) {
      for (std::uint32_t i = 0; i < node->step.scalars.size(); ++i, ++at) {
        const ScalarValue& now = run_.scalars[at];
        ScalarValue& then = plan_->scalars[at];
        if (FindNumber(then, now, at, NumberUse::Where::kStep)) {
          node->step.scalars[i].MarkRuntime();
          NumberUse& use = plan_->uses.back();
          use.policy = EntryOf(*node).PolicyOfScalar(i);
          use.value_class = ValueClass(use.policy, now);
        }
        then = now;
      }
    }
    for (at = 0; at < plan_->part_scalars.size(); ++at) {
      const ScalarValue& now = session_.part_scalars[at];
      ScalarValue& then = plan_->part_scalars[at];
      if (FindNumber(then, now, at, NumberUse::Where::kPart)) {
        plan_->uses.back().policy = ScalarPolicy::kFree;  // eager's kernel runs
      }
      then = now;
    }
    for (std::size_t s = 0; s < record_.slots.size(); ++s) {
      const FunctionSlot& slot = record_.slots[s];
      if (slot.kind != Kind::kConstant || session_.has_failed()) continue;
      std::string& then = plan_->constants[slot.index];
      const SlotBinding& bound = run_.slots[s];
      const std::string* const kept = session_.ConstantOf(s);
      const std::string now =
          kept != nullptr
              ? *kept
              : std::string(bound.block->data + bound.shift + slot.begin,
                            then.size());
      FindNumber(then, now, slot.index, NumberUse::Where::kConstant);
      then = now;
    }
    if (!session_.is_backward) return;
    // No code of the program runs in it: what it does with a number is seen.
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      numbers[n].is_free |=
          !SameBits(numbers[n].value, record_.key.numbers[n].value);
    }
  }

  static const OpEntry& EntryOf(const TraceNode& node) {
    return *static_cast<const CapturedCall*>(node.payload.get())->entry;
  }

  static bool SameValues(const ScalarValue& a, const ScalarValue& b) {
    return a.SameBits(b);
  }
  static bool SameValues(const std::string& a, const std::string& b) {
    return a == b;
  }

  // True if this is a use of a number that was not known.
  template <class Value>
  bool FindNumber(const Value& then, const Value& now, std::uint32_t at,
                  NumberUse::Where where) {
    const std::vector<FunctionNumber>& before = record_.key.numbers;
    std::vector<FunctionNumber>& numbers = plan_->key.numbers;
    for (const NumberUse& use : plan_->uses) {
      if (use.at != at || use.where != where) continue;
      if (!SameValue(numbers[use.number].value, now)) {
        session_.Fail(Refusal::kNotSame);
      }
      return false;
    }
    if (SameValues(then, now)) return false;
    std::int64_t found = -1;
    for (std::uint32_t n = 0; n < numbers.size(); ++n) {
      if (!SameValue(before[n].value, then) ||
          !SameValue(numbers[n].value, now)) {
        continue;
      }
      if (found >= 0) {  // two arguments had the same values in both calls
        session_.Fail(Refusal::kNumber);
        return false;
      }
      found = n;
    }
    if (found < 0) {
      session_.Fail(Refusal::kNumber);
      return false;
    }
    const auto number = static_cast<std::uint32_t>(found);
    numbers[number].is_free = true;
    plan_->uses.push_back({number, at, where});
    return true;
  }

  void CountBumps() {
    for (std::size_t a = 0; a < session_.arguments.size(); ++a) {
      plan_->bumps.push_back(VersionOf(session_.arguments[a]) -
                             session_.versions[a]);
      plan_->writes |= plan_->bumps.back() != 0;
    }
    for (std::size_t c = 0; c < plan_->captured.size(); ++c) {
      CapturedStorage& captured = plan_->captured[c];
      if (!captured.version.enabled()) continue;
      captured.bumps =
          captured.version.current_version() - session_.captured_versions[c];
      plan_->writes |= captured.bumps != 0;
    }
  }

  void FindFreeArguments() {
    for (std::size_t a = 0; a < plan_->key.arguments.size(); ++a) {
      FunctionArgument& now = plan_->key.arguments[a];
      const FunctionArgument& then = record_.key.arguments[a];
      now.moves = now.geometry.offset != then.geometry.offset;
      now.is_pinned =
          now.storage._unsafe_get_target() == then.storage._unsafe_get_target();
      now.is_pinned &= a < session_.own_begin || a >= session_.own_end;
      if (session_.before != nullptr) {
        now.moves |= session_.before->key.arguments[a].moves;
        now.is_pinned &= session_.before->key.arguments[a].is_pinned;
      }
      // Shifts are counted from where the recorded one began.
      now.geometry.offset = then.geometry.offset;
    }
  }

  // A call that another one made a plan of does what that says.
  void CompareWithBefore() {
    if (session_.before == nullptr || session_.has_failed()) return;
    const FunctionPlan& before = *session_.before;
    const auto same_result = [](const FunctionResult& a,
                                const FunctionResult& b) {
      return a.kind == b.kind && a.is_view == b.is_view &&
             a.is_tracked == b.is_tracked && a.has_graph == b.has_graph &&
             a.same_as == b.same_as && a.index == b.index &&
             a.geometry == b.geometry;
    };
    const auto same_fresh = [](const FreshTensor& a, const FreshTensor& b) {
      return IsSame(a, b);
    };
    const bool is_same =
        std::equal(before.results.begin(), before.results.end(),
                   plan_->results.begin(), plan_->results.end(), same_result) &&
        before.of_results == plan_->of_results &&
        std::equal(plan_->fresh.begin(),
                   plan_->fresh.begin() +
                       static_cast<std::ptrdiff_t>(plan_->of_results),
                   before.fresh.begin(), same_fresh) &&
        before.drawn_versions == plan_->drawn_versions &&
        before.called_versions == plan_->called_versions &&
        before.bumps == plan_->bumps && SameLiving(before);
    if (!is_same) session_.Fail(Refusal::kNotSame);
  }

  bool SameLiving(const FunctionPlan& before) const {
    if ((before.gradients == nullptr) != (plan_->gradients == nullptr)) {
      return false;
    }
    return before.gradients == nullptr ||
           (before.gradients->living == plan_->gradients->living &&
            std::equal(before.fresh.begin(), before.fresh.end(),
                       plan_->fresh.begin(), plan_->fresh.end(), IsSame));
  }

  FunctionSession& session_;
  const FunctionRecord& record_;
  const Run& run_;
  const std::vector<at::Tensor>& results_;
  std::unique_ptr<FunctionPlan> plan_;
  std::uint32_t living_ = 0;  // how many of `fresh` live at the end
};

// What became of the gradients of the leaves; new ones are appended to
// `results`. False if the leaves are others than those that were recorded.
bool FindGradients(const FunctionSession& session,
                   std::vector<at::Tensor>* results,
                   std::vector<FunctionLeaf>* leaves) {
  const auto& recorded = session.follows->leaves;
  if (recorded.size() != session.leaves.size()) return false;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const at::Tensor& tensor = session.leaves[i];
    if (recorded[i]._unsafe_get_target() != tensor.unsafeGetTensorImpl()) {
      return false;
    }
    const c10::TensorImpl* const variable = tensor.unsafeGetTensorImpl();
    FunctionLeaf leaf{recorded[i], variable->storage().getWeakStorageImpl(),
                      GeometryOf(variable)};
    const auto& before = session.gradients[i];
    const at::Tensor& after = tensor.grad();
    leaf.had_gradient = before.has_value();
    if (after.defined()) {
      const c10::TensorImpl* const impl = after.unsafeGetTensorImpl();
      if (before && before->use_count() != 0 &&
          before->_unsafe_get_target() == impl) {
        leaf.after = FunctionLeaf::After::kSame;
        leaf.same = impl;
        for (std::size_t a = 0; a < session.arguments.size(); ++a) {
          if (session.arguments[a].is_same(after)) {
            leaf.argument = static_cast<std::int32_t>(a);
          }
        }
      } else {
        leaf.after = FunctionLeaf::After::kResult;
        leaf.result = static_cast<std::uint32_t>(results->size());
        results->push_back(after);
      }
    }
    leaves->push_back(std::move(leaf));
  }
  return true;
}

}  // namespace

std::unique_ptr<FunctionPlan> FunctionCalls::EndFollowing(
    const std::vector<at::Tensor>& results) {
  FunctionSession& session = *function_;
  session.CheckPointer();
  if (session.has_failed()) return nullptr;
  if (cursor_ != session.follows->nodes.back() || store_ != session.store) {
    session.Fail(Refusal::kNotSame);
    return nullptr;
  }
  if (session.reads.size() != session.follows->reads.size() ||
      session.key.refs != session.follows->key.refs) {
    session.Fail(Refusal::kNotSame);
    return nullptr;
  }
  if (!AccountsForGenerator(session)) {
    session.Fail(Refusal::kSeeded);
    return nullptr;
  }
  std::vector<at::Tensor> all = results;
  std::vector<FunctionLeaf> leaves;
  if (!FindGradients(session, &all, &leaves)) {
    session.Fail(Refusal::kNotSame);
    return nullptr;
  }
  std::unique_ptr<FunctionPlan> plan;
  {
    const StateLock lock(this);  // another thread may run what is pending
    if (run_.pending.size() + session.steps_run() != cursor_->depth + 1) {
      session.Fail(Refusal::kInterrupted);
      return nullptr;
    }
    plan = PlanBuilder(&session, run_, all).Build();
  }
  if (plan == nullptr) return nullptr;
  plan->leaves = std::move(leaves);
  plan->at_once = AtOnceOf(*plan);
  return plan;
}

}  // namespace tjit::runtime
