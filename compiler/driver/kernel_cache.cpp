#include "compiler/driver/kernel_cache.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/driver/plain_code.h"
#include "compiler/driver/segment_dump.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "compiler/passes/passes.h"

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

SimplerFunction Simplify(const ir::Function& function, SegmentDump* dump) {
  SimplerFunction simpler{function, ""};
  const std::vector<std::string> wrong = ir::Verify(function);
  if (!wrong.empty()) {
    simpler.why_not = "lowering made a function that is none: " + wrong[0];
  } else if (!PlainCode()) {
    simpler.why_not = RunPasses(Passes(), &simpler.function, OptionsFor(dump));
  }
  return simpler;
}

KernelCache::Entry Compile(SimplerFunction simpler, Engine* engine,
                           SegmentDump* dump) {
  KernelCache::Entry entry;
  entry.why_not = std::move(simpler.why_not);
  if (entry.why_not.empty()) {
    simpler.function.name = KernelName(simpler.function);
    if (dump != nullptr) dump->AddFinal(simpler.function);
    entry.kernel = engine->Compile(simpler.function, &entry.why_not);
  }
  if (dump != nullptr) {
    entry.dumped = dump->where();
    if (entry.kernel != nullptr) dump->AddCode(entry.kernel->CodeText());
  }
  return entry;
}

// All that decides the kernel.
std::string KeyOf(const ir::Function& function, Engine* engine) {
  return absl::StrCat(engine->name(), PlainCode() ? " plain" : "", "\n",
                      ir::Print(function));
}

// Of a function whose passes have run, and of what the engine makes of it
// ahead.
std::size_t BytesOf(const std::string& text, const SimplerFunction& simpler) {
  return text.size() + 3 * ir::KeptBytesOf(simpler.function);
}

}  // namespace

void KernelCache::Precompile(const ir::Function& function, Engine* engine) {
  std::string text = KeyOf(function, engine);
  if (entries_.contains(text) || precompiled_.contains(text)) return;
  if (precompiled_.size() >= kMaxEntries) ForgetPrecompiled();
  SimplerFunction simpler = Simplify(function, nullptr);
  if (simpler.why_not.empty()) {
    simpler.function.name = KernelName(simpler.function);
    engine->Precompile(simpler.function);
  }
  bytes_ += BytesOf(text, simpler);
  precompiled_.emplace(std::move(text), std::move(simpler));
}

std::shared_ptr<const KeptFunction> KernelCache::Entry::Share(
    ir::Function function) {
  std::shared_ptr<const KeptFunction> shared = function_.lock();
  if (shared == nullptr) {
    // In memory of its own, which goes although the entry knows of it.
    shared.reset(new KeptFunction(std::move(function)));
    function_ = shared;
  }
  return shared;
}

KernelCache::Entry& KernelCache::For(const ir::Function& function,
                                     Engine* engine, bool* was_there,
                                     SegmentDump* dump) {
  std::string text = KeyOf(function, engine);
  const auto found = entries_.find(text);
  *was_there = found != entries_.end();
  if (*was_there) {
    if (dump != nullptr && found->second.kernel != nullptr) {
      dump->AddReuse(found->second.dumped);
    }
    return found->second;
  }
  if (entries_.size() >= kMaxEntries) {
    for (const auto& [key, entry] : entries_) bytes_ -= key.size();
    entries_.clear();
  }
  SimplerFunction simpler;
  const auto ahead = precompiled_.find(text);
  // A dump shows what each pass did.
  if (dump == nullptr && ahead != precompiled_.end()) {
    bytes_ -= BytesOf(text, ahead->second);
    simpler = std::move(ahead->second);
    precompiled_.erase(ahead);
  } else {
    simpler = Simplify(function, dump);
  }
  bytes_ += text.size();
  return entries_
      .emplace(std::move(text), Compile(std::move(simpler), engine, dump))
      .first->second;
}

void KernelCache::ForgetPrecompiled() {
  for (const auto& [text, simpler] : precompiled_) {
    bytes_ -= BytesOf(text, simpler);
  }
  precompiled_.clear();
}

void KernelCache::Clear() {
  entries_.clear();
  precompiled_.clear();
  bytes_ = 0;
  groups_.Clear();
  shapes_.Clear();
  Count();
}

}  // namespace tjit
