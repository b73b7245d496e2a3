#include "runtime/bit_exact/half_tables.h"

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/bit_exact/half_floats.h"
#include "runtime/bit_exact/half_formulas.h"
#include "runtime/platform/fp_environment.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

using ir::Op;

struct Eager {
  Op op;
  void (*into)(at::Tensor& out, const at::Tensor& x);
};

#define TJIT_HALF_TABLE(op, name, ...)                        \
  {                                                           \
    Op::op, [](at::Tensor& out, const at::Tensor& x) {        \
      at::cpu::name##_out(out, x __VA_OPT__(, ) __VA_ARGS__); \
    }                                                         \
  }
constexpr Eager kEager[] = {
    TJIT_HALF_TABLE(kAcos, acos),   TJIT_HALF_TABLE(kAsin, asin),
    TJIT_HALF_TABLE(kAtan, atan),   TJIT_HALF_TABLE(kCos, cos),
    TJIT_HALF_TABLE(kErf, erf),     TJIT_HALF_TABLE(kErfc, erfc),
    TJIT_HALF_TABLE(kExp, exp),     TJIT_HALF_TABLE(kExpm1, expm1),
    TJIT_HALF_TABLE(kLog, log),     TJIT_HALF_TABLE(kLog10, log10),
    TJIT_HALF_TABLE(kLog1p, log1p), TJIT_HALF_TABLE(kLog2, log2),
    TJIT_HALF_TABLE(kSin, sin),     TJIT_HALF_TABLE(kTan, tan),
    TJIT_HALF_TABLE(kTanh, tanh),   TJIT_HALF_TABLE(kGelu, gelu, "none"),
};
constexpr std::size_t kTables = std::size(kEager);
constexpr std::size_t kNumbers = 1 << 16;

// By HalfType, then by table.
std::uint16_t g_results[2][kTables][kNumbers];
// Of bf16, written before the first function of the table is given away.
HalfFormula g_formulas[kTables];
enum class State : std::uint8_t { kEmpty, kFull, kRefused };
Mutex g_mutex;
State g_states[2][kTables] ABSL_GUARDED_BY(g_mutex);

constexpr int kMost = 1024;  // numbers at a time

at::ScalarType TorchType(HalfType type) {
  return type == HalfType::kBF16 ? at::kBFloat16 : at::kHalf;
}

void RunEager(HalfType type, const Eager& eager, std::uint16_t* x, int n) {
  // Two at least, as gelu has another kernel for one.
  std::uint16_t two[2] = {x[0], 0};
  std::uint16_t* const in = n == 1 ? two : x;
  const at::Tensor a = at::from_blob(in, {std::max(n, 2)}, TorchType(type));
  at::Tensor b = a;
  eager.into(b, a);
  if (n == 1) x[0] = two[0];
}

template <HalfType kType, std::size_t kTable>
void LookUp(int n, const float* x, float* out, std::int64_t /*mode*/) {
  const bool is_usual = HasUsualRounding();
  if constexpr (kType == HalfType::kBF16) {
    const HalfFormula formula = g_formulas[kTable];
    if (is_usual && formula != nullptr) return formula(n, x, out, 0);
  }
  const auto* const results = g_results[static_cast<int>(kType)][kTable];
  std::uint16_t bits[kMost];
  for (int i = 0; i < n; i += kMost) {
    const int count = std::min(kMost, n - i);
    ToHalves(kType, x + i, bits, count);
    if (is_usual) {
      for (int j = 0; j < count; ++j) bits[j] = results[bits[j]];
    } else {
      RunEager(kType, kEager[kTable], bits, count);
    }
    FromHalves(kType, bits, out + i, count);
  }
}

template <HalfType kType, std::size_t... kTable>
constexpr std::array<HalfTableFn, kTables> Functions(
    std::index_sequence<kTable...>) {
  return {LookUp<kType, kTable>...};
}
using Indices = std::make_index_sequence<kTables>;
constexpr std::array<HalfTableFn, kTables> kFunctions[2] = {
    Functions<HalfType::kBF16>(Indices()),
    Functions<HalfType::kF16>(Indices())};

bool IsNaN(HalfType type, std::uint16_t bits) {
  return (bits & 0x7fff) > (type == HalfType::kBF16 ? 0x7f80 : 0x7c00);
}

// Fills the table; false if parts that are a whole vector and a remainder,
// which goes over all numbers, have other bits.
bool Fill(HalfType type, const Eager& eager, std::uint16_t* results) {
  constexpr std::int64_t kPart = 77;
  const at::NoGradGuard no_grad;
  const at::Tensor all = at::empty({kNumbers}, TorchType(type));
  auto* const bits = static_cast<std::uint16_t*>(all.mutable_data_ptr());
  std::iota(bits, bits + kNumbers, std::uint16_t{0});
  at::Tensor result = at::empty_like(all);
  eager.into(result, all);
  std::memcpy(results, result.const_data_ptr(), result.nbytes());
  for (std::int64_t i = 0; i < all.numel(); i += kPart) {
    const at::Tensor x = all.slice(0, i, std::min(i + kPart, all.numel()));
    at::Tensor part = at::empty_like(x);
    eager.into(part, x);
    const auto* is = static_cast<const std::uint16_t*>(part.const_data_ptr());
    for (std::int64_t j = 0; j < part.numel(); ++j) {
      const std::uint16_t should = results[i + j];
      if (is[j] != should && !(IsNaN(type, is[j]) && IsNaN(type, should)))
        return false;
    }
  }
  return true;
}

}  // namespace

std::optional<TjitMath> FindHalfTable(Op op, ir::DType dtype) {
  const auto* const eager =
      std::find_if(std::begin(kEager), std::end(kEager),
                   [&](const Eager& e) { return e.op == op; });
  if (eager == std::end(kEager)) return std::nullopt;
  const auto table = static_cast<std::size_t>(eager - kEager);
  const bool is_bf16 = dtype == ir::DType::kBF16;
  const HalfType type = is_bf16 ? HalfType::kBF16 : HalfType::kF16;
  const auto row = static_cast<std::size_t>(type);
  const MutexLock lock(g_mutex);
  State& state = g_states[row][table];
  if (state == State::kEmpty && !HasUsualRounding()) return std::nullopt;
  if (state == State::kEmpty) {
    state = Fill(type, *eager, g_results[row][table]) ? State::kFull
                                                      : State::kRefused;
    if (is_bf16 && state == State::kFull) {
      g_formulas[table] = FindBF16Formula(op, g_results[row][table]);
    }
  }
  if (state == State::kRefused) return std::nullopt;
  return TjitMath{InfoOf(op).name, is_bf16 ? kTjitMathBF16 : kTjitMathF16,
                  reinterpret_cast<void*>(kFunctions[row][table]), 0};
}

}  // namespace tjit::runtime
