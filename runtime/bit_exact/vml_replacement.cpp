#include "runtime/bit_exact/vml_replacement.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/bit_exact/same_bits.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/libtorch_symbol.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

using Exact = std::int64_t (*)(std::int64_t n, const float* x, VmlF32 vml,
                               std::int64_t mode, float* out);

VmlF32 VmlsTanh() {
  static const auto vml = reinterpret_cast<VmlF32>(LibtorchSymbol("vmsTanh"));
  return vml;
}

VmlF32 VmlsExp() {
  static const auto vml = reinterpret_cast<VmlF32>(LibtorchSymbol("vmsExp"));
  return vml;
}

VmlF32 VmlsLn() {
  static const auto vml = reinterpret_cast<VmlF32>(LibtorchSymbol("vmsLn"));
  return vml;
}

template <Exact kExact, VmlF32 (*kVml)()>
void AsVml(int n, const float* x, float* out, std::int64_t mode) {
  if (!HasUsualArithmetic()) return kVml()(n, x, out, mode);
  kExact(n, x, kVml(), mode, out);
}

struct Function {
  ir::Op op;
  VmlF32 exact;
  VmlF32 (*vml)();
  float least, most;  // absolute values of which there is something to round
  bool of_negative;   // is a number
};

constexpr Function kFunctions[] = {
    {ir::Op::kTanh, AsVml<TanhExact, VmlsTanh>, VmlsTanh, 0x1p-13F, 9.1F, true},
    {ir::Op::kExp, AsVml<ExpExact, VmlsExp>, VmlsExp, 0x1p-13F, 88.8F, true},
    {ir::Op::kLog, AsVml<LogExact, VmlsLn>, VmlsLn, 0x1p-126F, 0x1p127F, false},
};

const Function* FunctionOf(ir::Op op) {
  for (const Function& f : kFunctions) {
    if (f.op == op) return &f;
  }
  return nullptr;
}

// Of all exponents alike, both signs where that makes numbers.
at::Tensor TestInputs(const Function& f, std::int64_t rows, std::int64_t n) {
  at::Tensor x = at::empty({rows, n}, at::kFloat);
  float* const numbers = x.mutable_data_ptr<float>();
  std::mt19937 random(13);
  std::uniform_int_distribution<std::uint32_t> size(
      std::bit_cast<std::uint32_t>(f.least),
      std::bit_cast<std::uint32_t>(f.most));
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const auto number = std::bit_cast<float>(size(random));
    numbers[i] = f.of_negative && i % 2 != 0 ? -number : number;
  }
  return x;
}

// The least of some rounds, of tiles as kernels have them.
double Nanoseconds(VmlF32 function, const std::vector<float>& x,
                   std::vector<float>* out) {
  constexpr std::size_t kTile = 512;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i + kTile <= x.size(); i += kTile) {
    function(kTile, x.data() + i, out->data() + i, kVmlMode);
  }
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now() - start)
      .count();
}

// By a fifth at least, of numbers of ordinary size.
bool IsFaster(const Function& f) {
  std::vector<float> x(4096), out(4096);
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  for (float& number : x) {
    number = normal(random);
    if (!f.of_negative) number = std::abs(number);
  }
  double ours = 1e18, vmls = 1e18;
  for (int i = 0; i < policy::kVmlTrialTurns; ++i) {
    ours = std::min(ours, Nanoseconds(f.exact, x, &out));
    vmls = std::min(vmls, Nanoseconds(f.vml(), x, &out));
  }
  return ours < policy::kVmlTrialGain * vmls;
}

}  // namespace

VmlF32 VmlExactFor(ir::Op op) {
  const Function* const f = FunctionOf(op);
  return f != nullptr && HasVmlExact() && f->vml() != nullptr ? f->exact
                                                              : nullptr;
}

bool VmlExactPays(ir::Op op, at::Tensor (*eager)(const at::Tensor& x),
                  Check check, std::string* difference) {
  constexpr std::int64_t kAtOnce = 8192;  // eager takes one thread for them
  const Function& f = *FunctionOf(op);
  const at::Tensor all = TestInputs(f, check == Check::kSpot ? 1 : 16, kAtOnce);
  std::vector<float> ours(kAtOnce);
  for (const at::Tensor& x : all.unbind()) {
    const auto* const numbers = x.const_data_ptr<float>();
    f.exact(kAtOnce, numbers, ours.data(), kVmlMode);
    const at::Tensor expected = eager(x);
    const auto* const should = expected.const_data_ptr<float>();
    const std::size_t i = FirstDifference(ours.data(), should, ours.size());
    if (i == ours.size()) continue;
    *difference = absl::StrFormat("of %.17g eager makes %.17g, %s %.17g",
                                  numbers[i], should[i], kVmlExact, ours[i]);
    return false;
  }
  return check == Check::kSpot || IsFaster(f);
}

}  // namespace tjit::runtime
