#include "runtime/bit_exact/fast_math_functions.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/platform/libtorch_symbol.h"

namespace tjit::runtime {
namespace {

using ir::DType;
using ir::Op;

// In TjitMath::mode, which names the function in keys of compiled code: code
// for eager's bits and for fast math are never taken for one another.
constexpr std::int64_t kFast = 1;

const FastFunction* FastFunctionOf(Op op, DType dtype) {
  if (dtype != DType::kF32) return nullptr;
  const auto* const end = std::end(kFastFunctions);
  const auto* const found =
      std::find_if(std::begin(kFastFunctions), end,
                   [&](const FastFunction& f) { return f.op == op; });
  return found == end ? nullptr : found;
}

std::string SymbolOf(const FastFunction& f, int lanes) {
  return absl::StrCat("Sleef_", f.sleef, "f", lanes, f.accuracy);
}

std::string TextOf(const FastFunction& f, int lanes) {
  return absl::StrCat(f.from == FastFrom::kSleef
                          ? absl::StrCat("SLEEF's ", SymbolOf(f, lanes))
                          : std::string("own polynomial"),
                      ", at most ", f.bound_ulp, " ULP from the exact result");
}

}  // namespace

int FastLanes() {
  const bool is_wide = __builtin_cpu_supports("avx512f") != 0 &&
                       __builtin_cpu_supports("avx512bw") != 0 &&
                       __builtin_cpu_supports("avx512vl") != 0 &&
                       __builtin_cpu_supports("avx512dq") != 0;
  if (is_wide) return 16;
  const bool has_fma =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has_fma ? 8 : 0;
}

std::optional<TjitMath> FindFastFunction(const FastFunction& f, int lanes) {
  if (lanes == 0 || f.from == FastFrom::kInstruction) return std::nullopt;
  void* const address = f.from == FastFrom::kSleef
                            ? LibtorchSymbol(SymbolOf(f, lanes).c_str())
                            : FastFormula(f.op, lanes);
  if (address == nullptr) return std::nullopt;
  return TjitMath{InfoOf(f.op).name,
                  lanes == 16 ? kTjitMathF32x16 : kTjitMathF32x8, address,
                  kFast};
}

// The root's steps (sqrt_step.h) are as fast as the instruction.
bool FastMath::IsFunction(Op op, DType dtype) const {
  const FastFunction* const f = FastFunctionOf(op, dtype);
  if (f == nullptr || f->from != FastFrom::kInstruction) {
    return exact_->IsFunction(op, dtype);
  }
  const TjitMath* const exact = exact_->For(op, dtype);
  return exact != nullptr && IsSqrtInCode(exact->kind);
}

const TjitMath* FastMath::For(Op op, DType dtype) {
  const FastFunction* const f = FastFunctionOf(op, dtype);
  if (f == nullptr) return exact_->For(op, dtype);
  const MutexLock lock(mutex_);
  const auto [at, is_new] = found_.try_emplace(op);
  if (is_new) {
    at->second = FindFastFunction(*f, FastLanes());
    if (at->second && verdicts_ != nullptr) {
      verdicts_->Record(
          absl::StrCat("fast ", InfoOf(op).name, " ", InfoOf(dtype).name),
          TextOf(*f, FastLanes()));
    }
  }
  return at->second ? &*at->second : exact_->For(op, dtype);
}

}  // namespace tjit::runtime
