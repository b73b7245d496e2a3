#include "compiler/kernel_cache.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "compiler/passes/passes.h"
#include "compiler/plain_code.h"
#include "compiler/segment_dump.h"

namespace tjit {
namespace {

PassOptions OptionsFor(SegmentDump* dump) {
  PassOptions options;
  if (dump == nullptr) return options;
  options.observer = [dump](const PassInfo& pass, const ir::Function& before,
                            const ir::Function& after) {
    dump->AddPass(pass.name, before, after);
  };
  return options;
}

KernelCache::Entry Compile(const ir::Function& function, Engine* engine,
                           SegmentDump* dump) {
  KernelCache::Entry entry;
  const std::vector<std::string> wrong = ir::Verify(function);
  ir::Function simpler = function;
  if (!wrong.empty()) {
    entry.why_not = "lowering made a function that is none: " + wrong[0];
  } else if (!PlainCode()) {
    entry.why_not = RunPasses(Passes(), &simpler, OptionsFor(dump));
  }
  if (entry.why_not.empty()) {
    simpler.name = KernelName(simpler);
    if (dump != nullptr) dump->AddFinal(simpler);
    entry.kernel = engine->Compile(simpler, &entry.why_not);
  }
  if (dump != nullptr) {
    entry.dumped = dump->where();
    if (entry.kernel != nullptr) dump->AddCode(entry.kernel->CodeText());
  }
  return entry;
}

}  // namespace

const KernelCache::Entry& KernelCache::For(const ir::Function& function,
                                           Engine* engine, bool* was_there,
                                           SegmentDump* dump) {
  std::string text = absl::StrCat(engine->name(), PlainCode() ? " plain" : "",
                                  "\n", ir::Print(function));
  const auto found = entries_.find(text);
  *was_there = found != entries_.end();
  if (*was_there) {
    if (dump != nullptr && found->second.kernel != nullptr) {
      dump->AddReuse(found->second.dumped);
    }
    return found->second;
  }
  if (entries_.size() >= kMaxEntries) entries_.clear();
  return entries_.emplace(std::move(text), Compile(function, engine, dump))
      .first->second;
}

void KernelCache::Clear() {
  entries_.clear();
  groups_.Clear();
}

}  // namespace tjit
