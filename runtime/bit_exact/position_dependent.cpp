#include "runtime/bit_exact/position_dependent.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/functions/gelu_exact.h"
#include "runtime/bit_exact/half_tables.h"
#include "runtime/bit_exact/position_check.h"
#include "runtime/bit_exact/position_tiles.h"
#include "runtime/bit_exact/pow_kernel.h"
#include "runtime/bit_exact/sigmoid_kernel.h"
#include "runtime/platform/kernel_stubs.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;
using ir::DType;
using ir::Op;

template <PositionKernel kKernel, PositionCut kCut, int kType>
void PositionFunction(std::int64_t n, const void* a, const void* b, void* out,
                      std::int64_t first, std::int64_t total, double s,
                      double t, double u) {
  const double scalars[] = {s, t, u};
  RunPositionTile(kKernel, kType, kCut, {n, a, b, out, first, total, scalars});
}

// ---- The ops.

struct PositionOp {
  Op op;
  PositionEager eager;
  TjitPositionFn functions[kPositionTypes];
  TjitPositionFn others[kPositionTypes] =
      {};  // where those have not eager's bits
  // Of f32, not null: the first one is own code, to be asked before it is run.
  bool (*quick_has_bits)(Check check) = nullptr;

  bool is_binary() const {
    return InfoOf(op).operands[1] == InfoOf(op).operands[0];
  }
};

template <PositionKernel kKernel, PositionCut kCut = PositionCut::kUsual>
constexpr PositionOp Make(Op op, PositionEager eager) {
  return {
      op,
      eager,
      {PositionFunction<kKernel, kCut, 0>, PositionFunction<kKernel, kCut, 1>,
       PositionFunction<kKernel, kCut, 2>, PositionFunction<kKernel, kCut, 3>}};
}

// Cut otherwise on a wider processor than one with AVX2: eager has the kernel
// for vectors of AVX2 at most, two of which are one of the wider ones; or the
// compiler made vectors of the loop over the remainder there alone.
template <PositionKernel kKernel>
constexpr PositionOp MakeNarrow(Op op, PositionEager eager) {
  PositionOp made = Make<kKernel, PositionCut::kOneVector>(op, eager);
  const PositionOp usual = Make<kKernel>(op, eager);
  for (int type = 0; type < kPositionTypes; ++type) {
    made.others[type] = usual.functions[type];
  }
  return made;
}

// Of f32 and f64 alone.
constexpr PositionOp WithoutHalves(PositionOp op) {
  for (int type = 2; type < kPositionTypes; ++type) {
    op.functions[type] = op.others[type] = nullptr;
  }
  return op;
}

// Less than two vectors of AVX2 are behind the last whole ones.
void MarkRemainder(at::TensorIterator& it, const double*) {
  constexpr std::int64_t kTwoVectors = 64;
  const bool is_rest = it.numel() * it.element_size(0) < kTwoVectors;
  AT_DISPATCH_FLOATING_TYPES(it.dtype(0), "in_remainder", [&] {
    std::fill_n(static_cast<scalar_t*>(it.data_ptr(0)), it.numel(),
                static_cast<scalar_t>(is_rest));
  });
}

// The one of eager's kernels that says it: from -1 all of the way to -0.
at::Tensor RemainderOf(const at::Tensor& like) {
  return at::lerp(at::full_like(like, -1), at::full_like(like, -0.0),
                  at::ones_like(like))
      .signbit()
      .to(like.scalar_type());
}

// Eager hands tensors of more than one element to oneDNN where it may.
template <TjitPositionFn kByOneDnn, TjitPositionFn kOtherwise>
void ByOneDnn(std::int64_t n, const void* a, const void* b, void* out,
              std::int64_t first, std::int64_t total, double s, double t,
              double u) {
  const bool is_by_onednn =
      total > 1 && at::globalContext().userEnabledMkldnn();
  (is_by_onednn ? kByOneDnn : kOtherwise)(n, a, b, out, first, total, s, t, u);
}

// By type; of halves.
std::atomic<HalfTableFn> g_gelu[kPositionTypes] = {};

template <int kType>
void GeluByTable(std::int64_t n, const void* a, const void* /*b*/, void* out,
                 std::int64_t /*first*/, std::int64_t /*total*/, double, double,
                 double) {
  g_gelu[kType].load(std::memory_order_relaxed)(static_cast<int>(n),
                                                static_cast<const float*>(a),
                                                static_cast<float*>(out), 0);
}

// Gelu by erf: of f64 as the others.
template <PositionKernel kKernel, PositionCut kCut, TjitPositionFn kF32,
          TjitPositionFn kBF16, TjitPositionFn kF16>
constexpr PositionOp MakeByErf(Op op, PositionEager eager) {
  PositionOp made = Make<kKernel, kCut>(op, eager);
  made.functions[0] = ByOneDnn<kF32, PositionFunction<kKernel, kCut, 0>>;
  made.functions[2] = ByOneDnn<kBF16, PositionFunction<kKernel, kCut, 2>>;
  made.functions[3] = ByOneDnn<kF16, PositionFunction<kKernel, kCut, 3>>;
  // Where the processor has nothing for halves, eager does without oneDNN.
  made.others[2] = PositionFunction<kKernel, kCut, 2>;
  made.others[3] = PositionFunction<kKernel, kCut, 3>;
  if (kCut == PositionCut::kGelu) {
    made.others[0] =
        ByOneDnn<GeluMinimaxF32, PositionFunction<kKernel, kCut, 0>>;
  }
  return made;
}

// Of f32 by kQuick, where `has_bits` says so.
template <PositionKernel kQuick>
constexpr PositionOp WithQuick(bool (*has_bits)(Check), PositionOp made) {
  made.others[0] = made.functions[0];
  made.functions[0] = PositionFunction<kQuick, PositionCut::kUsual, 0>;
  made.quick_has_bits = has_bits;
  return made;
}

// The gradient of a loss as its op computes it, of an input that is the
// difference and a target of 0, with any norm.
template <class Stub>
at::Tensor OfDifference(Stub& stub, const at::Tensor& difference,
                        const at::Tensor& gradient, const double* s) {
  at::Tensor out = at::empty_like(difference);
  auto it = at::TensorIteratorConfig()
                .add_output(out)
                .add_owned_const_input(difference)
                .add_owned_const_input(at::zeros_like(difference))
                .add_owned_const_input(gradient)
                .build();
  stub(at::kCPU, it, s[0], s[1]);
  return out;
}

#define TJIT_STUB(...)                          \
  [](at::TensorIterator& it, const double* s) { \
    (void)s;                                    \
    native::__VA_ARGS__;                        \
  }
#define TJIT_EAGER(...)                                           \
  [](const at::Tensor& a, const at::Tensor& b, const double* s) { \
    (void)b, (void)s;                                             \
    return __VA_ARGS__;                                           \
  }
constexpr auto kCpu = at::kCPU;

#define TJIT_UNARY(op, name, ...)                                    \
  Make<TJIT_STUB(name##_stub(kCpu, it __VA_OPT__(, ) __VA_ARGS__))>( \
      Op::op, TJIT_EAGER(at::name(a __VA_OPT__(, ) __VA_ARGS__)))
#define TJIT_BINARY(op, name, ...)                                   \
  Make<TJIT_STUB(name##_stub(kCpu, it __VA_OPT__(, ) __VA_ARGS__))>( \
      Op::op, TJIT_EAGER(at::name(a, b __VA_OPT__(, ) __VA_ARGS__)))

const PositionOp kOps[] = {
    WithQuick<QuickSigmoidKernel>(SigmoidExactHasBitsOfEager,
                                  TJIT_UNARY(kSigmoid, sigmoid)),
    TJIT_UNARY(kSilu, silu),
    TJIT_UNARY(kMish, mish),
    MakeByErf<TJIT_STUB(GeluKernel(kCpu, it, native::GeluType::None)),
              PositionCut::kGelu, GeluF32, GeluByTable<2>, GeluByTable<3>>(
        Op::kGelu, TJIT_EAGER(at::gelu(a))),
    Make<TJIT_STUB(GeluKernel(kCpu, it, native::GeluType::Tanh)),
         PositionCut::kGelu>(Op::kGeluTanh, TJIT_EAGER(at::gelu(a, "tanh"))),
    TJIT_UNARY(kSoftplus, softplus, s[0], s[1]),
    TJIT_UNARY(kElu, elu, s[0], s[1], s[2]),
    MakeNarrow<TJIT_STUB(softshrink_stub(kCpu, it, s[0]))>(
        Op::kSoftshrink, TJIT_EAGER(at::softshrink(a, s[0]))),
    TJIT_UNARY(kExp2, exp2),
    TJIT_UNARY(kSinh, sinh),
    TJIT_UNARY(kCosh, cosh),
    TJIT_UNARY(kAsinh, asinh),
    TJIT_UNARY(kAcosh, acosh),
    TJIT_UNARY(kAtanh, atanh),
    WithQuick<QuickPowKernel>(
        PowExactHasBitsOfEager,
        Make<EagerPowKernel>(Op::kPowScalar, TJIT_EAGER(at::pow(a, s[0])))),
    Make<TJIT_STUB(pow_tensor_tensor_stub(kCpu, it))>(
        Op::kPow, TJIT_EAGER(at::pow(a, b))),
    MakeNarrow<TJIT_STUB(maximum_stub(kCpu, it))>(
        Op::kMaximumOfTensors, TJIT_EAGER(at::maximum(a, b))),
    MakeNarrow<TJIT_STUB(minimum_stub(kCpu, it))>(
        Op::kMinimumOfTensors, TJIT_EAGER(at::minimum(a, b))),
    TJIT_BINARY(kFmax, fmax),
    TJIT_BINARY(kFmin, fmin),
    TJIT_BINARY(kAtan2, atan2),
    TJIT_BINARY(kHypot, hypot),
    TJIT_BINARY(kNextafter, nextafter),
    TJIT_BINARY(kLogaddexp, logaddexp),
    TJIT_BINARY(kLogaddexp2, logaddexp2),
    TJIT_BINARY(kXlogy, xlogy),
    WithoutHalves(MakeNarrow<MarkRemainder>(Op::kInRemainder,
                                            TJIT_EAGER(RemainderOf(a)))),
    WithoutHalves(MakeNarrow<TJIT_STUB(smooth_l1_backward_stub(
                      kCpu, WithZeros(it), s[0], s[1]))>(
        Op::kSmoothL1Backward,
        TJIT_EAGER(OfDifference(native::smooth_l1_backward_stub, a, b, s)))),
    WithoutHalves(MakeNarrow<TJIT_STUB(
                      huber_backward_stub(kCpu, WithZeros(it), s[0], s[1]))>(
        Op::kHuberBackward,
        TJIT_EAGER(OfDifference(native::huber_backward_stub, a, b, s)))),
    TJIT_BINARY(kSiluBackward, silu_backward),
    TJIT_BINARY(kMishBackward, mish_backward),
    MakeByErf<TJIT_STUB(GeluBackwardKernel(kCpu, it, native::GeluType::None)),
              PositionCut::kUsual, GeluBackwardF32, GeluBackwardBF16,
              GeluBackwardF16>(Op::kGeluBackward,
                               TJIT_EAGER(at::gelu_backward(a, b))),
    Make<TJIT_STUB(GeluBackwardKernel(kCpu, it, native::GeluType::Tanh))>(
        Op::kGeluTanhBackward, TJIT_EAGER(at::gelu_backward(a, b, "tanh"))),
    TJIT_BINARY(kSoftplusBackward, softplus_backward, s[0], s[1]),
    Make<TJIT_STUB(elu_backward_stub(kCpu, it, s[0], s[1], s[2], false))>(
        Op::kEluBackward,
        TJIT_EAGER(at::elu_backward(a, s[0], s[1], s[2], false, b))),
    Make<TJIT_STUB(elu_backward_stub(kCpu, it, s[0], s[1], s[2], true))>(
        Op::kEluResultBackward,
        TJIT_EAGER(at::elu_backward(a, s[0], s[1], s[2], true, b))),
    MakeNarrow<TJIT_STUB(hardtanh_backward_stub(kCpu, it, s[0], s[1]))>(
        Op::kHardtanhBackward,
        TJIT_EAGER(at::hardtanh_backward(a, b, s[0], s[1]))),
    TJIT_BINARY(kHardswishBackward, hardswish_backward),
    MakeNarrow<TJIT_STUB(shrink_backward_stub(kCpu, it, s[0]))>(
        Op::kShrinkBackward, TJIT_EAGER(at::softshrink_backward(a, b, s[0]))),
};

const PositionOp* PositionOpOf(Op op) {
  for (const PositionOp& o : kOps) {
    if (o.op == op) return &o;
  }
  return nullptr;
}

int TypeOf(DType dtype) {
  const auto* const end = std::end(kPositionDTypes);
  const auto* const found = std::find(std::begin(kPositionDTypes), end, dtype);
  return found == end ? -1 : static_cast<int>(found - kPositionDTypes);
}

// False if there is no table of gelu for halves.
bool PrepareGelu(int type) {
  if (kPositionDTypes[type] == DType::kF32) return true;
  const auto table = FindHalfTable(Op::kGelu, kPositionDTypes[type]);
  if (!table) return false;
  g_gelu[type] = reinterpret_cast<HalfTableFn>(table->address);
  return true;
}

}  // namespace

bool IsPositionDependent(Op op, DType dtype) {
  return PositionOpOf(op) != nullptr &&
         InfoOf(dtype).kind == ir::DTypeKind::kFloat;
}

std::optional<TjitMath> FindPositionDependent(Op op, DType dtype,
                                              Verdicts* verdicts) {
  constexpr TjitMathKind kKinds[kPositionTypes] = {
      kTjitPositionF32, kTjitPositionF64, kTjitPositionBF16, kTjitPositionF16};
  const PositionOp* const found_op = PositionOpOf(op);
  const int type = TypeOf(dtype);
  if (found_op == nullptr || type < 0) return std::nullopt;
  const at::NoGradGuard no_grad;
  const bool is_by_erf = op == Op::kGelu || op == Op::kGeluBackward;
  TjitPositionFn candidates[] = {found_op->functions[type],
                                 found_op->others[type]};
  if (is_by_erf && dtype != DType::kF64) {
    if (!HasGeluFormulas() || !at::globalContext().userEnabledMkldnn()) {
      return std::nullopt;  // eager does without oneDNN now
    }
    if (op == Op::kGelu && !PrepareGelu(type)) candidates[0] = nullptr;
    if (dtype == DType::kF32 && !HasGeluMinimax()) candidates[1] = nullptr;
  }
  const auto found = FirstWithBits(
      verdicts, absl::StrCat("tile ", InfoOf(op).name, " ", InfoOf(dtype).name),
      {"first", "other"},
      [&](std::size_t i, Check check, std::string* difference) {
        const bool is_quick =
            found_op->quick_has_bits != nullptr && i == 0 && type == 0;
        return candidates[i] != nullptr &&
               (!is_quick || found_op->quick_has_bits(check)) &&
               TilesHaveBitsOfEager(
                   candidates[i], found_op->eager, found_op->is_binary(),
                   kPositionTorchTypes[type], check, difference);
      });
  if (!found) return std::nullopt;
  return TjitMath{InfoOf(op).name, kKinds[type],
                  reinterpret_cast<void*>(candidates[*found]), 0};
}

void CallPositionDependent(const TjitMath& function, const void* const* in,
                           const double* scalars, void* out, std::int64_t n) {
  const PositionOp* const op =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const PositionOp& o) {
        return std::strcmp(InfoOf(o.op).name, function.op) == 0;
      });
  const int tensors = op->is_binary() ? 2 : 1;
  const int operands = static_cast<int>(std::strlen(InfoOf(op->op).operands));
  double s[3] = {};
  std::copy(scalars + tensors, scalars + operands, s);
  reinterpret_cast<TjitPositionFn>(function.address)(
      n, in[0], op->is_binary() ? in[1] : nullptr, out, 0, n, s[0], s[1], s[2]);
}

}  // namespace tjit::runtime
