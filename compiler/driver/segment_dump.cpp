#include "compiler/driver/segment_dump.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "compiler/loops/form_loops.h"
#include "compiler/passes/copy_out.h"
#include "recorder/trace_text.h"
#include "support/assert.h"
#include "support/env.h"
#include "support/printed_name.h"

namespace tjit {
namespace {

constexpr std::size_t kMaxNamedOps = 5;

// Assembly has lines that begin with a tab, LLVM's IR has none.
std::size_t BeginOfAssembly(std::string_view code) {
  if (code.starts_with('\t')) return 0;
  const std::size_t at = code.find("\n\t");
  return at == std::string_view::npos ? code.size() : at + 1;
}

}  // namespace

SegmentDump::SegmentDump(DumpFile* file, const SegmentInput& input)
    : file_(file), input_(input), number_(file->NextNumber()) {
  if (file_->Wants(kDumpTrace)) AddTrace();
}

SegmentDump::~SegmentDump() { file_->Write(text_); }

std::string SegmentDump::where() const {
  return absl::StrCat("segment ", number_, " group ", groups_);
}

void SegmentDump::Heading(const std::string& title) {
  absl::StrAppend(&text_, "; ==== ", title, "\n");
}

void SegmentDump::AddTrace() {
  std::vector<const StepRecord*> steps;
  std::vector<SlotRecord> slots;
  std::vector<std::string> names;
  for (const SegmentSlot& slot : input_.slots) {
    slots.push_back({slot.bytes, -1});
    names.push_back(slot.name);
  }
  for (const SegmentStep& step : input_.steps) {
    for (const ResultRecord& result : step.record.results) {
      if (result.kind != ResultRecord::Kind::kFresh) continue;
      slots[static_cast<std::size_t>(result.slot)].born_step =
          static_cast<std::int32_t>(steps.size());
    }
    steps.push_back(&step.record);
  }
  Heading(absl::StrCat("segment ", number_, " trace"));
  if (std::any_of(names.begin(), names.end(),
                  [](const std::string& name) { return !name.empty(); })) {
    text_ += "; names are those of the tensors with which it was recorded\n";
  }
  text_ += ToText(steps, slots, names);
}

// "s3", or "layer1.weight (s3)" where its tensor was named.
std::string SegmentDump::SlotText(std::int32_t slot) const {
  const std::string& name = input_.slots[static_cast<std::size_t>(slot)].name;
  if (name.empty()) return absl::StrCat("s", slot);
  return absl::StrCat(PrintedName(name), " (s", slot, ")");
}

std::string SegmentDump::GroupText(
    const std::vector<std::uint32_t>& steps) const {
  std::string text;
  for (const std::uint32_t s : steps) {
    absl::StrAppend(&text, text.empty() ? "; group of %" : ", %", s, " ",
                    std::string(input_.steps[s].op));
  }
  return text + "\n";
}

int SegmentDump::BeginGroup(const std::vector<std::uint32_t>& steps,
                            const Lowered& lowered) {
  ++groups_;
  names_.clear();
  AddNames(steps, lowered);
  if (file_->Wants(kDumpIr)) {
    Heading(absl::StrCat(where(), " lowered"));
    absl::StrAppend(&text_, names_, ir::Print(lowered.function));
    names_.clear();
  }
  return groups_;
}

int SegmentDump::AddStepGroup(const std::vector<std::uint32_t>& steps,
                              std::string_view graph) {
  ++groups_;
  if (file_->Wants(kDumpTorchscript)) {
    Heading(absl::StrCat(where(), " torchscript"));
    text_ += GroupText(steps);
    text_ += graph;
  }
  return groups_;
}

void SegmentDump::AddNames(const std::vector<std::uint32_t>& steps,
                           const Lowered& lowered) {
  names_ += GroupText(steps);
  for (std::size_t i = 0; i < lowered.external_slots.size(); ++i) {
    absl::StrAppend(&names_, "; name %", i, " = ",
                    SlotText(lowered.external_slots[i]), "\n");
  }
  for (std::size_t i = 0; i < lowered.return_slots.size(); ++i) {
    absl::StrAppend(&names_, "; name return ", i, " = ",
                    SlotText(lowered.return_slots[i]), "\n");
  }
  for (std::size_t i = 0; i < lowered.symbols.size(); ++i) {
    const SizeSource& s = lowered.symbols[i];
    absl::StrAppend(&names_, "; name n", i, " = size ", s.dim, " of argument ",
                    s.arg, " of %", steps[s.step], "\n");
  }
  for (std::size_t i = 0; i < lowered.scalars.size(); ++i) {
    const ScalarSource& s = lowered.scalars[i];
    absl::StrAppend(&names_, "; name $", i, " = scalar ", s.index, " of %",
                    steps[s.step], "\n");
  }
}

void SegmentDump::AddPass(const std::string& pass, const ir::Function& before,
                          const ir::Function& after) {
  if (!file_->Wants(kDumpPasses)) return;
  Heading(absl::StrCat(where(), " pass ", pass));
  const std::string text = ir::Print(after);
  if (text == ir::Print(before)) {
    text_ += "(unchanged)\n";
    return;
  }
  absl::StrAppend(&text_, names_, text);
  names_.clear();
}

void SegmentDump::AddFinal(const ir::Function& function) {
  if (file_->Wants(kDumpIr)) {
    Heading(absl::StrCat(where(), " final"));
    text_ += ir::Print(function);
  }
  if (!file_->Wants(kDumpLoops)) return;
  Heading(absl::StrCat(where(), " loops"));
  const ir::Function ready = CopyOut(function);
  LoopPlan plan;
  const std::string why_not = FormLoops(ready, &plan);
  if (why_not.empty()) {
    text_ += Print(ready, plan);
  } else {
    absl::StrAppend(&text_, "none: ", why_not, "\n");
  }
}

void SegmentDump::AddCode(std::string_view code) {
  constexpr std::string_view kNone =
      "(none: loops of kernels above, or an engine without it)\n";
  const std::size_t cut = BeginOfAssembly(code);
  const auto add = [&](unsigned part, const char* name, std::string_view text) {
    if (!file_->Wants(part)) return;
    Heading(absl::StrCat(where(), " ", name));
    text_ += text.empty() ? kNone : text;
  };
  add(kDumpLlvm, "llvm", code.substr(0, cut));
  add(kDumpAsm, "asm", code.substr(cut));
}

void SegmentDump::AddReuse(const std::string& where_from) {
  Heading(absl::StrCat(where(), " kernel"));
  absl::StrAppend(&text_, "(that of ", where_from, ", the same function)\n");
}

void SegmentDump::AddFailure(const std::vector<std::uint32_t>& steps,
                             const std::string& why) {
  AddSteps("not compiled", steps, why);
}

void SegmentDump::AddCut(const std::vector<std::uint32_t>& steps,
                         const std::string& why) {
  AddSteps("cut in two", steps, why);
}

void SegmentDump::AddSteps(const char* what,
                           const std::vector<std::uint32_t>& steps,
                           const std::string& why) {
  Heading(absl::StrCat("segment ", number_, " ", what));
  absl::StrAppend(&text_, GroupText(steps), why, "\n");
}

void DumpPlan(DumpFile* file, int number, const std::vector<std::string>& items,
              const MemoryPlan& plan) {
  TJIT_ASSERT(file->Wants(kDumpPlan));
  const auto place = [](std::uint64_t offset, std::int32_t host) {
    return absl::StrCat(" at ", offset,
                        host < 0 ? "" : absl::StrCat(" in s", host), "\n");
  };
  std::string text = absl::StrCat("; ==== segment ", number, " plan\n");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool runs =
        std::binary_search(plan.needed.begin(), plan.needed.end(), i);
    absl::StrAppend(&text, "  ", items[i],
                    runs ? "\n" : ": does not run, as nobody needs it\n");
  }
  absl::StrAppend(&text, "  arena of ", plan.arena_bytes, " bytes\n");
  for (const Placement& p : plan.placements) {
    absl::StrAppend(&text, "  s", p.slot, place(p.offset, p.host));
  }
  for (const ScratchPlace& p : plan.scratch) {
    absl::StrAppend(&text, "  scratch of ", items[plan.needed[p.step]], ", ",
                    p.bytes, " bytes,", place(p.offset, p.host));
  }
  file->Write(text);
}

std::string KernelName(const ir::Function& function) {
  std::vector<std::string> names;
  for (const ir::Instruction& in : function.body) {
    const char* const name = InfoOf(in.op).name;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  if (names.empty()) return "copy";
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamedOps); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "_", names[i]);
  }
  if (names.size() <= kMaxNamedOps) return text;
  return absl::StrCat(text, "_and_", names.size() - kMaxNamedOps);
}

}  // namespace tjit
