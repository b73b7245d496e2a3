// The C ABI (kernel_abi.h) over the generator.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "compiler/llvm/engine.h"
#include "compiler/llvm/planted_flag.h"
#include "compiler/loops/form_loops.h"
#include "compiler/loops/verify_loops.h"
#include "compiler/passes/copy_out.h"
#include "compiler/schedule/bind_loop.h"
#include "compiler/schedule/in_place.h"
#include "compiler/schedule/kernel_shape.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LLVMContext.h"
#include "support/planted_defect.h"

extern "C" {
// Of the compiler's own library; only their addresses are wanted.
void __extendhfsf2();
void __truncsfhf2();
}

namespace tjit::llvm_backend {
namespace {

// A kernel on its way to code.
struct Draft {
  ir::Function function;
  LoopPlan plan;
  std::vector<LoopCode> codes;
  std::vector<SharedLoop> shared;
  std::vector<TjitInPlace> in_place;
  bool was_planned = false;  // ahead
};

// A compiled kernel: what a handle points to.
struct Kernel {
  ShapedKernel shaped;
  std::set<std::shared_ptr<const LoadedCode>> code;  // of the loops
  std::vector<TjitLoop> loops;
  std::size_t code_bytes = 0;
  std::int32_t generated = 0;  // loops
  CodeDump code_dump;
  std::string dump;  // both of these
};

// What loops call of ours, and what the code generator calls where the machine
// has no instruction for it: fma without FMA, halves without F16C, rounding
// without SSE4.1.
void AddOwnFunctions(SymbolTable* symbols) {
  const auto add = [symbols](const char* name, auto* function) {
    (*symbols)[name] = reinterpret_cast<void*>(function);
  };
  using F32 = float (*)(float);
  using F64 = double (*)(double);
  add(kBindLoopName, &BindLoop);
  add("memcpy", &std::memcpy);
  add("memset", &std::memset);
  add("fmaf", static_cast<float (*)(float, float, float)>(&::fmaf));
  add("fma", static_cast<double (*)(double, double, double)>(&::fma));
  add("__extendhfsf2", &__extendhfsf2);
  add("__truncsfhf2", &__truncsfhf2);
  add("floorf", static_cast<F32>(&::floorf));
  add("floor", static_cast<F64>(&::floor));
  add("ceilf", static_cast<F32>(&::ceilf));
  add("ceil", static_cast<F64>(&::ceil));
  add("truncf", static_cast<F32>(&::truncf));
  add("trunc", static_cast<F64>(&::trunc));
  add("nearbyintf", static_cast<F32>(&::nearbyintf));
  add("nearbyint", static_cast<F64>(&::nearbyint));
}

bool VerifiesLoops([[maybe_unused]] std::uint32_t flags) {
#ifdef NDEBUG
  return (flags & kTjitLlvmVerifyLoops) != 0;
#else
  return true;
#endif
}

// The function as its loops see it.
std::string Plan(const char* text, std::uint32_t flags, Draft* draft) {
  ir::Function function;
  std::string error;
  if (!ir::Parse(text, &function, &error)) return error;
  const std::vector<std::string> violations = ir::Verify(function);
  if (!violations.empty()) return absl::StrJoin(violations, "; ");
  draft->function = CopyOut(function);
  const bool is_plain = (flags & kTjitLlvmPlain) != 0;
  error = FormLoops(draft->function, &draft->plan,
                    is_plain ? Fusion::kNone : Fusion::kGreedy);
  if (!error.empty()) return error;
  if (PlantsFailure(flags, kTjitLlvmPlantBadLoop)) {
    draft->plan.loops.back().stores.pop_back();
  }
  if (!VerifiesLoops(flags)) return "";
  return absl::StrJoin(VerifyLoops(draft->function, draft->plan), "; ");
}

std::string Resolve(const MathTable& math, Draft* draft) {
  for (const Loop& loop : draft->plan.loops) {
    const std::string error =
        MakeLoopCodes(draft->function, draft->plan, loop, math, &draft->codes);
    if (!error.empty()) return error;
  }
  for (const LoopCode& code : draft->codes) {
    const std::string error =
        ShareLoop(code, math, &draft->shared.emplace_back());
    if (!error.empty()) return error;
  }
  return "";
}

// All that does not depend on code.
std::string MakeLoops(const char* text, const TjitLlvmOptions& options,
                      const MathTable& math, Draft* draft) {
  std::string error = Plan(text, options.flags, draft);
  if (error.empty()) error = Resolve(math, draft);
  if (!error.empty()) return error;
  draft->in_place = FindInPlace(draft->function, draft->codes);
  return "";
}

// Drafts that MakeLoops() has made ahead, by what it depends on.
using PlanTable = std::map<std::string, Draft>;
constexpr std::size_t kMostPlans = 512;

std::string PlanKey(const char* text, const TjitLlvmOptions& options) {
  std::string key = absl::StrCat(options.flags & ~kTjitLlvmPlanOnly, " ",
                                 options.vector_bits);
  for (int i = 0; i < options.math_count; ++i) {
    const TjitMath& math = options.math[i];
    absl::StrAppend(&key, " ", math.op, " ", math.kind, " ", math.mode);
  }
  return absl::StrCat(key, "\n", text);
}

std::string PlanAhead(const char* text, const TjitLlvmOptions& options,
                      const MathTable& math, PlanTable* plans) {
  Draft draft;
  const std::string error = MakeLoops(text, options, math, &draft);
  if (!error.empty()) return error;
  if (plans->size() >= kMostPlans) plans->clear();
  draft.was_planned = true;
  plans->insert_or_assign(PlanKey(text, options), std::move(draft));
  return "";
}

// Code of loops that some kernel has, by signature.
struct Existing {
  std::weak_ptr<const LoadedCode> code;
  TjitKernelFn run;
};
using LoopTable = std::map<std::string, Existing>;

// The name of a loop's function and its object, as the caller's cache has them.
struct NamedObject {
  std::string name, object;
};

constexpr std::uint32_t kPlanted =
    kTjitLlvmPlantInvalid | kTjitLlvmPlantFatal | kTjitLlvmPlantNoCode |
    kTjitLlvmPlantNoMemory | kTjitLlvmPlantNoHeap | kTjitLlvmPlantThrow |
    kTjitLlvmPlantBadLoop | ~0u << kTjitLlvmDefectShift;
constexpr std::uint32_t kDumps = kTjitLlvmDumpIr | kTjitLlvmDumpAssembly;

// Loops that are not in the table, one after the other: found in the caller's
// cache or generated, then placed.
class Maker {
 public:
  Maker(const TjitLlvmOptions& options, const MathTable& math,
        const Draft& draft, Kernel* kernel)
      : options_(options),
        math_(math),
        request_{options.flags, options.vector_bits},
        draft_(draft),
        kernel_(kernel) {}

  // Fills *existing for loop `i`. "" or what is wrong.
  std::string Make(std::size_t i, Existing* existing) {
    const SharedLoop& loop = draft_.shared[i];
    const std::string key =
        absl::StrCat("LLVM ", LLVM_VERSION_STRING, "\n",
                     TargetText(options_.vector_bits), "\n", loop.signature);
    NamedObject made;
    std::string error = "not kept";
    if (Find(key, &made)) error = Place(made, existing);
    if (error.empty()) return "";
    made = {LoopName(draft_.function, i), ""};
    error = Generate(loop, &made);
    if (error.empty()) error = Place(made, existing);
    if (!error.empty()) return error;
    ++kernel_->generated;
    Store(key, made);
    return "";
  }

 private:
  bool Find(const std::string& key, NamedObject* made) {
    const bool is_wanted = (options_.flags & (kPlanted | kDumps)) == 0;
    const TjitObjectCache* cache = options_.cache;
    const char* bytes = nullptr;
    std::size_t count = 0;
    if (cache == nullptr || !is_wanted ||
        cache->find(cache->state, key.data(), key.size(), &bytes, &count) ==
            0) {
      return false;
    }
    const std::string_view all(bytes, count);
    const std::size_t end = all.find('\0');
    if (end == std::string_view::npos) return false;
    *made = {std::string(all.substr(0, end)), std::string(all.substr(end + 1))};
    return true;
  }

  void Store(const std::string& key, const NamedObject& made) {
    const TjitObjectCache* cache = options_.cache;
    if (cache == nullptr || (options_.flags & kPlanted) != 0) return;
    std::string bytes = made.name;
    bytes.push_back('\0');
    bytes += made.object;
    cache->store(cache->state, key.data(), key.size(), bytes.data(),
                 bytes.size());
  }

  std::string Generate(const SharedLoop& loop, NamedObject* made) {
    llvm::LLVMContext context;
    llvm::Module module(draft_.function.name, context);
    EmitLoop(loop, math_, TargetFor(options_.vector_bits), made->name, &module);
    if (PlantsFailure(options_.flags, kTjitLlvmPlantInvalid)) {
      module.begin()->getEntryBlock().getTerminator()->eraseFromParent();
    }
    return Compile(&module, request_, &made->object, &kernel_->code_dump);
  }

  std::string Place(const NamedObject& made, Existing* existing) {
    auto code = std::make_shared<LoadedCode>();
    AddOwnFunctions(&code->symbols);
    for (int i = 0; i < options_.math_count; ++i) {
      code->symbols.try_emplace(math_.SymbolOf(i), math_.at(i).address);
    }
    const std::string error =
        Load(made.object, request_, {made.name}, code.get());
    if (!error.empty()) return error;
    *existing = {code, code->Find(made.name)};
    kernel_->code_bytes += code->memory->bytes();
    kernel_->code.insert(std::move(code));
    return "";
  }

  const TjitLlvmOptions& options_;
  const MathTable& math_;
  const CompileRequest request_;
  const Draft& draft_;
  Kernel* const kernel_;
};

// By key; loops that exist are held by the kernel from here on.
std::vector<std::string> FindLoops(const TjitLlvmOptions& options,
                                   const MathTable& math, const Draft& draft,
                                   LoopTable* table, Kernel* kernel) {
  std::vector<std::string> keys;
  for (const SharedLoop& loop : draft.shared) {
    keys.push_back(absl::StrCat(options.flags, "/", options.vector_bits, "/",
                                loop.signature));
    for (const int function : loop.functions) {
      absl::StrAppend(
          &keys.back(), "@",
          reinterpret_cast<std::uintptr_t>(math.at(function).address));
    }
    const auto found = table->find(keys.back());
    if (found == table->end()) continue;
    auto code = found->second.code.lock();
    if (code == nullptr) {
      table->erase(found);
    } else {
      kernel->code.insert(std::move(code));
    }
  }
  return keys;
}

// One thread at a time.
std::string CompileText(const char* text, const TjitLlvmOptions& options,
                        Draft* draft, Kernel* kernel) {
  static auto* table = new LoopTable;
  static auto* plans = new PlanTable;
  if (options.abi != kTjitLlvmAbi) {
    return absl::StrCat("the caller's ABI is ", options.abi, ", this one's ",
                        kTjitLlvmAbi);
  }
  const MathTable math(options.math, options.math_count,
                       8 * TargetFor(options.vector_bits).bytes);
  if ((options.flags & kTjitLlvmPlanOnly) != 0) {
    return PlanAhead(text, options, math, plans);
  }
  std::string error;
  if (auto ahead = plans->extract(PlanKey(text, options)); !ahead.empty()) {
    *draft = std::move(ahead.mapped());
  } else {
    error = MakeLoops(text, options, math, draft);
  }
  if (!error.empty()) return error;
  std::erase_if(*table, [](const auto& e) { return e.second.code.expired(); });
  const std::vector<std::string> keys =
      FindLoops(options, math, *draft, table, kernel);
  Maker maker(options, math, *draft, kernel);
  std::int32_t first = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto found = table->find(keys[i]);
    if (found == table->end()) {
      Existing made;
      error = maker.Make(i, &made);
      if (!error.empty()) return error;
      found = table->emplace(keys[i], std::move(made)).first;
    }
    kernel->loops.push_back(
        {found->second.run, first, draft->codes[i].in_order});
    first += draft->shared[i].number_count();
  }
  const bool has_small_blocks = (options.flags & kTjitLlvmSmallBlocks) != 0;
  kernel->shaped =
      ShapedKernel(draft->function, draft->plan, std::move(draft->codes),
                   std::move(draft->shared), std::move(draft->in_place),
                   has_small_blocks ? 3 : 0);
  return error;
}

std::int32_t Report(const std::string& what, char* error,
                    std::size_t error_bytes) {
  if (what.empty()) return 0;
  if (error_bytes > 0) {
    const std::size_t n = std::min(what.size(), error_bytes - 1);
    std::memcpy(error, what.data(), n);
    error[n] = '\0';
  }
  return 1;
}

std::int32_t CompileKernel(const char* ir_text, const TjitLlvmOptions* options,
                           TjitKernel* out, char* error,
                           std::size_t error_bytes) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  *out = {};
  Plant(static_cast<Defect>(options->flags >> kTjitLlvmDefectShift));
  auto kernel = std::make_unique<Kernel>();
  // Not in CatchFatal(), from which a long jump may lead.
  Draft draft;
  std::string what;
  try {
    what = CatchFatal(
        [&] { return CompileText(ir_text, *options, &draft, &*kernel); });
  } catch (const std::exception& e) {
    what = e.what();
  }
  if (!what.empty()) return Report(what, error, error_bytes);
  if ((options->flags & kTjitLlvmPlanOnly) != 0) return 0;
  out->loop_count = static_cast<std::int32_t>(kernel->loops.size());
  const ShapedKernel& shaped = kernel->shaped;
  out->scratch_count = static_cast<std::int32_t>(shaped.scratch_count());
  out->number_count = shaped.number_count();
  out->generated_count = kernel->generated;
  out->was_planned = draft.was_planned ? 1 : 0;
  out->loops = kernel->loops.data();
  out->in_place_count = static_cast<std::int32_t>(shaped.in_place().size());
  out->in_place = shaped.in_place().data();
  out->code_bytes = kernel->code_bytes;
  out->handle_bytes = shaped.kept_bytes();
  kernel->dump = kernel->code_dump.ir + kernel->code_dump.assembly;
  out->dump = kernel->dump.c_str();
  out->handle = kernel.release();
  return 0;
}

std::int32_t ShapeKernel(void* handle, const std::int64_t* symbols,
                         const TjitShape* shape, char* error,
                         std::size_t error_bytes) {
  const Kernel& kernel = *static_cast<const Kernel*>(handle);
  return Report(kernel.shaped.Evaluate(symbols, *shape), error, error_bytes);
}

void FreeKernel(void* handle) { delete static_cast<Kernel*>(handle); }

constexpr TjitLlvmApi kApi = {kTjitLlvmAbi, LLVM_VERSION_STRING, CompileKernel,
                              ShapeKernel, FreeKernel};

}  // namespace
}  // namespace tjit::llvm_backend

extern "C" __attribute__((visibility("default"))) const TjitLlvmApi*
tjit_llvm_api() {
  return &tjit::llvm_backend::kApi;
}
