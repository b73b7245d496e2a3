#include "runtime/bit_exact/half_formulas.h"

#include <numeric>
#include <vector>

#include "compiler/functions/fast_math.h"
#include "compiler/functions/gelu_exact.h"
#include "runtime/bit_exact/half_floats.h"
#include "runtime/bit_exact/vector_calls.h"

namespace tjit::runtime {
namespace {

using ir::Op;

constexpr std::size_t kNumbers = 1 << 16;

template <Op op, int kLanes>
void Fast(int n, const float* x, float* out, std::int64_t /*mode*/) {
  static void* const formula = FastFormula(op, kLanes);
  CallVectors(kLanes == 16 ? kTjitMathF32x16 : kTjitMathF32x8, formula, x, out,
              n);
  RoundToBF16(n, out);
}

template <auto kFunction>
void Gelu(int n, const float* x, float* out, std::int64_t /*mode*/) {
  kFunction(n, x, nullptr, out, 0, n, 0, 0, 0);
}

bool HasAvx512() { return __builtin_cpu_supports("avx512f") != 0; }

struct Candidate {
  Op op;
  HalfFormula run;
  bool (*is_there)();  // this processor has what it needs
};
constexpr Candidate kCandidates[] = {
    {Op::kGelu, Gelu<GeluMinimaxBF16>, HasGeluMinimaxBF16},
    {Op::kGelu, Gelu<GeluBF16>, HasGeluFormulas},
    {Op::kExp, Fast<Op::kExp, 16>, HasAvx512},
    {Op::kExp, Fast<Op::kExp, 8>, HasGeluFormulas},
    {Op::kExpm1, Fast<Op::kExpm1, 16>, HasAvx512},
    {Op::kExpm1, Fast<Op::kExpm1, 8>, HasGeluFormulas},
    {Op::kTanh, Fast<Op::kTanh, 16>, HasAvx512},
    {Op::kTanh, Fast<Op::kTanh, 8>, HasGeluFormulas},
};

bool IsNaN(std::uint16_t bits) { return (bits & 0x7fff) > 0x7f80; }

bool Gives(HalfFormula run, const std::uint16_t* results) {
  std::vector<std::uint16_t> bits(kNumbers);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  std::vector<float> x(kNumbers);
  FromHalves(HalfType::kBF16, bits.data(), x.data(), kNumbers);
  run(kNumbers, x.data(), x.data(), 0);
  ToHalves(HalfType::kBF16, x.data(), bits.data(), kNumbers);
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const bool are_nans = IsNaN(bits[i]) && IsNaN(results[i]);
    if (bits[i] != results[i] && !are_nans) return false;
  }
  return true;
}

}  // namespace

HalfFormula FindBF16Formula(Op op, const std::uint16_t* results) {
  for (const Candidate& candidate : kCandidates) {
    if (candidate.op == op && candidate.is_there() &&
        Gives(candidate.run, results)) {
      return candidate.run;
    }
  }
  return nullptr;
}

}  // namespace tjit::runtime
