#include "runtime/half_tables.h"

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

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

std::uint16_t g_results[kTables][kNumbers];
enum class State : std::uint8_t { kEmpty, kFull, kRefused };
std::mutex g_mutex;
State g_states[kTables];  // under g_mutex

float FloatOf(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
std::uint16_t BitsOf(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

// Rounding to nearest, denormals as they are; flags of exceptions do not count.
bool IsUsualArithmetic() { return (_mm_getcsr() & 0xe040) == 0; }

void RunEager(const Eager& eager, int n, const float* x, float* out) {
  constexpr int kMost = 1024;
  std::uint16_t in[kMost], results[kMost];
  for (int i = 0; i < n; i += kMost) {
    // Two at least, as gelu has another kernel for one.
    const int count = std::min(kMost, n - i), padded = std::max(count, 2);
    in[1] = 0;
    std::transform(x + i, x + i + count, in, BitsOf);
    const at::Tensor a = at::from_blob(in, {padded}, at::kBFloat16);
    at::Tensor b = at::from_blob(results, {padded}, at::kBFloat16);
    eager.into(b, a);
    std::transform(results, results + count, out + i, FloatOf);
  }
}

template <std::size_t kTable>
void LookUp(int n, const float* x, float* out, std::int64_t /*mode*/) {
  if (!IsUsualArithmetic()) return RunEager(kEager[kTable], n, x, out);
  const std::uint16_t* const results = g_results[kTable];
  for (int i = 0; i < n; ++i) out[i] = FloatOf(results[BitsOf(x[i])]);
}

template <std::size_t... kTable>
constexpr std::array<HalfTableFn, kTables> Functions(
    std::index_sequence<kTable...>) {
  return {LookUp<kTable>...};
}
constexpr auto kFunctions = Functions(std::make_index_sequence<kTables>());

bool IsNaN(std::uint16_t bits) { return (bits & 0x7fff) > 0x7f80; }

// Fills the table; false if parts that are a whole vector and a tail, which
// goes over all numbers, have other bits.
bool Fill(const Eager& eager, std::uint16_t* results) {
  constexpr std::int64_t kPart = 77;
  const at::NoGradGuard no_grad;
  const at::Tensor all = at::empty({kNumbers}, at::kBFloat16);
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
      if (is[j] != should && !(IsNaN(is[j]) && IsNaN(should))) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<TjitMath> FindHalfTable(Op op) {
  const auto* const eager =
      std::find_if(std::begin(kEager), std::end(kEager),
                   [&](const Eager& e) { return e.op == op; });
  if (eager == std::end(kEager)) return std::nullopt;
  const auto table = static_cast<std::size_t>(eager - kEager);
  const std::lock_guard<std::mutex> lock(g_mutex);
  State& state = g_states[table];
  if (state == State::kEmpty && !IsUsualArithmetic()) return std::nullopt;
  if (state == State::kEmpty) {
    state = Fill(*eager, g_results[table]) ? State::kFull : State::kRefused;
  }
  if (state == State::kRefused) return std::nullopt;
  return TjitMath{InfoOf(op).name, kTjitMathBF16,
                  reinterpret_cast<void*>(kFunctions[table]), 0};
}

}  // namespace tjit::runtime
