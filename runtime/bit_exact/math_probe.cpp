#include "runtime/bit_exact/math_probe.h"

#include <ATen/ATen.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/functions/sqrt_exact.h"
#include "runtime/bit_exact/half_tables.h"
#include "runtime/bit_exact/position_dependent.h"
#include "runtime/bit_exact/same_bits.h"
#include "runtime/bit_exact/vector_calls.h"
#include "runtime/bit_exact/vml_replacement.h"
#include "runtime/platform/libtorch_symbol.h"
#include "support/planted_defect.h"

namespace tjit::runtime {
namespace {

using ir::DType;
using ir::Op;

struct Function {
  Op op;
  at::Tensor (*eager)(const at::Tensor& x);
  const char* vml;    // behind vms and vmd; empty: none
  const char* sleef;  // behind Sleef_; empty: none
};

at::Tensor ExpInVectors(const at::Tensor& x) {
  return std::get<1>(at::log_sigmoid_forward(x));
}

const Function kFunctions[] = {
    {Op::kExp, at::exp, "Exp", "exp"},
    {Op::kExpm1, at::expm1, "Expm1", "expm1"},
    {Op::kLog, at::log, "Ln", "log"},
    {Op::kLog2, at::log2, "Log2", "log2"},
    {Op::kLog10, at::log10, "Log10", "log10"},
    {Op::kLog1p, at::log1p, "Log1p", "log1p"},
    {Op::kExpInVectors, ExpInVectors, "", "exp"},
    {Op::kSin, at::sin, "Sin", "sin"},
    {Op::kCos, at::cos, "Cos", "cos"},
    {Op::kTan, at::tan, "Tan", "tan"},
    {Op::kAsin, at::asin, "Asin", "asin"},
    {Op::kAcos, at::acos, "Acos", "acos"},
    {Op::kAtan, at::atan, "Atan", "atan"},
    {Op::kTanh, at::tanh, "Tanh", "tanh"},
    {Op::kErf, at::erf, "Erf", "erf"},
    {Op::kErfc, at::erfc, "Erfc", "erfc"},
    {Op::kSqrt, at::sqrt, "Sqrt", ""},
};

const Function* FunctionOf(Op op) {
  for (const Function& f : kFunctions) {
    if (f.op == op) return &f;
  }
  return nullptr;
}

template <class T>
T Read(std::uint64_t bits) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<std::uint32_t>(bits >> 32));
  } else {
    return std::bit_cast<T>(bits);
  }
}

// Inputs; the count is no multiple of a vector's width. A spot check has a
// fourth of those that are drawn.
template <class T>
std::vector<T> TestInputs(Check check) {
  const int share = check == Check::kSpot ? 4 : 1;
  std::vector<T> x = {T(0), -T(0), T(1), T(-1), T(0.5), T(-0.5), T(2), T(88.7),
                      T(-87.4), T(-103.9), T(709.7), T(-745.2)};
  using Limits = std::numeric_limits<T>;
  for (const T v : {Limits::infinity(), Limits::quiet_NaN(), Limits::min(),
                    Limits::max(), Limits::denorm_min(), Limits::epsilon()}) {
    x.push_back(v);
    x.push_back(-v);
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 4000 / share; ++i) x.push_back(Read<T>(random()));
  for (const double scale : {1e-30, 1e-6, 1e-2, 1.0, 8.0, 100.0, 1e4, 1e10}) {
    std::uniform_real_distribution<double> uniform(-scale, scale);
    for (int i = 0; i < 1500 / share; ++i) {
      x.push_back(static_cast<T>(uniform(random)));
    }
  }
  for (int i = -500; i < 500; ++i) x.push_back(T(1) + i * Limits::epsilon());
  x.resize(x.size() - (x.size() % 16) + 5, T(0.75));
  return x;
}

template <class T>
void CallVml(const TjitMath& f, const void* in, void* out, std::int64_t n) {
  using Fn = void (*)(int, const T*, T*, std::int64_t);
  constexpr std::int64_t kMost = 1 << 20;
  for (std::int64_t i = 0; i < n; i += kMost) {
    reinterpret_cast<Fn>(f.address)(
        static_cast<int>(std::min(kMost, n - i)),
        static_cast<const T*>(in) + i, static_cast<T*>(out) + i, f.mode);
  }
}

void CallAny(const TjitMath& f, const void* in, void* out, std::int64_t n) {
  switch (f.kind) {
    case kTjitMathVmlF32:
    case kTjitMathBF16:
    case kTjitSqrtStepF32:
    case kTjitSqrtTwoStepsF32x8:
    case kTjitSqrtTwoStepsF32x16:
    case kTjitMathF16:
      return CallVml<float>(f, in, out, n);
    case kTjitMathVmlF64:
    case kTjitSqrtStepF64:
      return CallVml<double>(f, in, out, n);
    default:
      return CallVectors(static_cast<TjitMathKind>(f.kind), f.address, in, out,
                         n);
  }
}

// As the code generator asks of its widest vectors.
bool HasWideVectors() {
  return __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0;
}

struct Candidate {
  TjitMath function;
  std::string symbol;
};

// Of sqrt_step.h.
void AddRoots(bool is_double, std::vector<Candidate>* all) {
  const char* const name = InfoOf(Op::kSqrt).name;
  const auto add = [&](std::int32_t kind, auto* function, const char* symbol) {
    all->push_back(
        {{name, kind, reinterpret_cast<void*>(function), 0}, symbol});
  };
  const bool wide = HasWideVectors();
  if (wide && is_double) add(kTjitSqrtStepF64, SqrtStepF64, "sqrt_step");
  if (wide && !is_double) add(kTjitSqrtStepF32, SqrtStepF32, "sqrt_step");
  if (is_double || __builtin_cpu_supports("avx2") == 0) return;
  add(wide ? kTjitSqrtTwoStepsF32x16 : kTjitSqrtTwoStepsF32x8, SqrtTwoStepsF32,
      "sqrt_two_steps");
}

std::vector<Candidate> Candidates(const Function& f, bool is_double) {
  std::vector<Candidate> all;
  const char* const name = InfoOf(f.op).name;
  const auto add = [&](const std::string& symbol, std::int32_t kind,
                       std::int64_t mode) {
    void* const address = LibtorchSymbol(symbol.c_str());
    if (address != nullptr)
      all.push_back({{name, kind, address, mode}, symbol});
  };
  if (f.op == Op::kSqrt) AddRoots(is_double, &all);
  if (!is_double && VmlExactFor(f.op) != nullptr) {
    all.push_back({{name, kTjitMathVmlF32,
                    reinterpret_cast<void*>(VmlExactFor(f.op)), kVmlMode},
                   kVmlExact});
  }
  if (*f.vml != '\0') {
    add(std::string(is_double ? "vmd" : "vms") + f.vml,
        is_double ? kTjitMathVmlF64 : kTjitMathVmlF32, kVmlMode);
  }
  if (*f.sleef == '\0') return all;
  const std::string sleef = std::string("Sleef_") + f.sleef;
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  if (!wide && __builtin_cpu_supports("avx2") == 0) return all;
  for (const char* accuracy : {"_u10", "_u15", "_u35"}) {
    if (is_double) {
      add(sleef + (wide ? "d8" : "d4") + accuracy,
          wide ? kTjitMathF64x8 : kTjitMathF64x4, 0);
    } else {
      add(sleef + (wide ? "f16" : "f8") + accuracy,
          wide ? kTjitMathF32x16 : kTjitMathF32x8, 0);
    }
  }
  return all;
}

// The test inputs, and what eager makes of them.
template <class T>
struct Expected {
  Expected(const Function& f, Check check) : x(TestInputs<T>(check)) {
    if (f.op == Op::kExpInVectors) {
      for (T& number : x) number = -std::abs(number);
    }
    const at::Tensor input =
        at::empty({static_cast<std::int64_t>(x.size())},
                  sizeof(T) == 8 ? at::kDouble : at::kFloat);
    std::memcpy(input.data_ptr(), x.data(), x.size() * sizeof(T));
    y = f.eager(input);
  }
  std::vector<T> x;
  at::Tensor y;
};

template <class T>
std::optional<TjitMath> Probe(const Function& f, Verdicts* verdicts) {
  const at::NoGradGuard no_grad;
  const std::vector<Candidate> candidates = Candidates(f, sizeof(T) == 8);
  std::vector<std::string> names;
  for (const Candidate& c : candidates) names.push_back(c.symbol);
  std::optional<Expected<T>> expected[2];  // by check
  const auto found = FirstWithBits(
      verdicts, absl::StrCat("math ", InfoOf(f.op).name, " f", 8 * sizeof(T)),
      names, [&](std::size_t i, Check check, std::string* difference) {
        std::optional<Expected<T>>& e = expected[static_cast<int>(check)];
        if (!e) e.emplace(f, check);
        std::vector<T> y(e->x.size());
        CallAny(candidates[i].function, e->x.data(), y.data(),
                static_cast<std::int64_t>(y.size()));
        // A libtorch that computes otherwise than all candidates.
        if (Planted(Defect::kNoEagerBits)) y.back() += T(1);
        const T* const eager = e->y.template const_data_ptr<T>();
        const std::size_t at = FirstDifference(y.data(), eager, y.size());
        if (at == y.size()) {
          return names[i] != kVmlExact ||
                 VmlExactPays(f.op, f.eager, check, difference);
        }
        *difference = absl::StrFormat("of %.17g eager makes %.17g, %s %.17g",
                                      e->x[at], eager[at], names[i], y[at]);
        return false;
      });
  if (!found) return std::nullopt;
  return candidates[*found].function;
}

}  // namespace

bool MathProbe::IsFunction(Op op, DType dtype) const {
  // MKL's square root is not always the exact one of the processor.
  if (op == Op::kSqrt) {
    return (dtype == DType::kF64 && LibtorchSymbol("vmdSqrt")) ||
           (dtype == DType::kF32 && LibtorchSymbol("vmsSqrt"));
  }
  return FunctionOf(op) != nullptr || IsPositionDependent(op, dtype);
}

const TjitMath* MathProbe::For(Op op, DType dtype) {
  const Function* f = FunctionOf(op);
  const bool is_position_dependent = IsPositionDependent(op, dtype);
  if (!is_position_dependent && f == nullptr) return nullptr;
  const MutexLock lock(mutex_);
  auto found = found_.find({op, dtype});
  if (found == found_.end()) {
    std::optional<TjitMath> function;
    if (is_position_dependent) {
      function = FindPositionDependent(op, dtype, verdicts_);
    } else if (dtype == DType::kBF16 || dtype == DType::kF16) {
      function = FindHalfTable(op, dtype);
      if (verdicts_ != nullptr) {
        verdicts_->Record(
            absl::StrCat("half ", InfoOf(op).name, " ", InfoOf(dtype).name),
            function ? "table" : kNoCandidate);
      }
    } else {
      function = dtype == DType::kF64 ? Probe<double>(*f, verdicts_)
                                      : Probe<float>(*f, verdicts_);
    }
    found = found_.emplace(std::pair(op, dtype), function).first;
  }
  return found->second ? &*found->second : nullptr;
}

void MathProbe::Call(const TjitMath& function, const void* const* in,
                     const double* scalars, void* out, std::int64_t n) const {
  if (function.kind >= kTjitPositionF32 && function.kind <= kTjitPositionF16) {
    CallPositionDependent(function, in, scalars, out, n);
  } else {
    CallAny(function, in[0], out, n);
  }
}

}  // namespace tjit::runtime
