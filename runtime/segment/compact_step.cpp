#include "runtime/segment/compact_step.h"

#include <algorithm>
#include <new>

#include "recorder/overwrite.h"
#include "runtime/call/inner_calls.h"
#include "runtime/memory/tensor_recycler.h"

namespace tjit::runtime {

static_assert(sizeof(CompactStep) % alignof(CompactArg) == 0);
static_assert(std::is_trivially_destructible_v<CompactArg> &&
              std::is_trivially_destructible_v<CompactResult> &&
              std::is_trivially_destructible_v<ScalarValue>);

namespace {

std::uint64_t FilledBytes(const StepRecord& step) {
  if (step.args.empty()) return 0;
  const TensorGeometry& g = step.args[0].geometry;
  const auto bytes = static_cast<std::uint64_t>(g.numel()) * g.itemsize;
  return OverwritesAll(step, step.args[0], bytes) ? bytes : 0;
}

}  // namespace

CompactStep::~CompactStep() {
  delete inner_calls_.load(std::memory_order_relaxed);
  std::destroy_n(forms(), form_count_);
}

void CompactStep::KeepInnerCalls(
    std::unique_ptr<const InnerCalls> calls) const {
  const InnerCalls* none = nullptr;
  if (inner_calls_.compare_exchange_strong(none, calls.get())) calls.release();
}

const TensorTemplate* CompactStep::Keep(const TensorGeometry& geometry) {
  Form* const form = new (forms() + form_count_) Form(TemplateOf(geometry));
  ++form_count_;
  return form->get();
}

void CompactStep::Fill(const TraceNode& node) {
  const StepRecord& step = node.step;
  filled_bytes_ = FilledBytes(step);
  auto* arg = const_cast<CompactArg*>(args());
  for (const ArgRecord& a : step.args) {
    const TensorTemplate* form = a.slot == kNoSlot ? nullptr : Keep(a.geometry);
    new (arg++) CompactArg{form, a.slot, a.written};
  }
  auto* result = const_cast<CompactResult*>(results());
  for (const ResultRecord& r : step.results) {
    CompactResult made{nullptr, 0, r.version, r.kind, TensorRecycler::kNone};
    if (r.kind == ResultRecord::Kind::kFresh) {
      const auto slot = static_cast<std::uint32_t>(r.slot) - node.slot_begin;
      made.form = Keep(r.geometry);
      made.bytes = node.new_slots[slot].bytes;
      made.size_class = TensorRecycler::ClassOf(made.bytes);
    } else if (r.kind == ResultRecord::Kind::kEmpty) {
      made.form = Keep(r.geometry);
    }
    new (result++) CompactResult(made);
  }
  auto* scalar = const_cast<ScalarValue*>(scalars());
  for (const ScalarRecord& s : step.scalars)
    new (scalar++) ScalarValue(s.value);
  std::copy(step.statics.begin(), step.statics.end(),
            const_cast<std::uint64_t*>(statics()));
}

bool CompactStep::IsFast(std::uint32_t slot_begin) const {
  const bool reads =
      std::all_of(args(), args() + arg_count_, [&](const CompactArg& arg) {
        return arg.form != nullptr && arg.slot >= 0 && !arg.written &&
               static_cast<std::uint32_t>(arg.slot) < slot_begin;
      });
  return reads && arg_count_ != 0 && result_count_ == 1 &&
         results()->kind == ResultRecord::Kind::kFresh &&
         results()->size_class != TensorRecycler::kNone;
}

const CompactStep* CompactStep::MakeNew(TraceNode* node, bool follows_usually) {
  const StepRecord& step = node->step;
  const std::size_t results_at =
      sizeof(CompactStep) + step.args.size() * sizeof(CompactArg);
  const std::size_t scalars_at =
      results_at + step.results.size() * sizeof(CompactResult);
  const std::size_t statics_at =
      scalars_at + step.scalars.size() * sizeof(ScalarValue);
  const std::size_t forms_at =
      statics_at + step.statics.size() * sizeof(std::uint64_t);
  const std::size_t bytes =
      forms_at + (step.args.size() + step.results.size()) * sizeof(Form);
  std::unique_ptr<CompactStep> made(new (::operator new(bytes)) CompactStep());
  made->op_ = step.op;
  made->context_ = step.context;
  made->arg_count_ = static_cast<std::uint32_t>(step.args.size());
  made->result_count_ = static_cast<std::uint32_t>(step.results.size());
  made->scalar_count_ = static_cast<std::uint32_t>(step.scalars.size());
  made->static_count_ = static_cast<std::uint32_t>(step.statics.size());
  made->results_at_ = static_cast<std::uint32_t>(results_at);
  made->scalars_at_ = static_cast<std::uint32_t>(scalars_at);
  made->statics_at_ = static_cast<std::uint32_t>(statics_at);
  made->forms_at_ = static_cast<std::uint32_t>(forms_at);
  made->follows_usually_ = follows_usually;
  made->Fill(*node);
  made->is_fast_ = made->IsFast(node->slot_begin);
  NodeExtra* none = nullptr;
  if (!node->extra.compare_exchange_strong(none, made.get(),
                                           std::memory_order_acq_rel)) {
    return static_cast<const CompactStep*>(none);
  }
  return made.release();
}

}  // namespace tjit::runtime
