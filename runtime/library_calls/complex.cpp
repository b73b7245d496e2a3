// Complex numbers from their parts; products and quotients of tensors. Those of
// complex numbers by real ones have loops of ours (complex_by_real.h); what
// these leave to libtorch, and all others, are libtorch's kernels.
#include <ATen/ops/complex_native.h>
#include <ATen/ops/conj_physical_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/polar_native.h>

#include <functional>
#include <optional>
#include <tuple>

#include "runtime/library_calls/complex_by_real.h"
#include "runtime/library_calls/native_step.h"
#include "runtime/library_calls/structured_step.h"
#include "runtime/library_calls/trial.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

bool Overlap(const char* a, std::int64_t a_bytes, const char* b,
             std::int64_t b_bytes) {
  const std::less<> is_before;
  return is_before(a, b + b_bytes) && is_before(b, a + a_bytes);
}

class ComplexByRealStep final : public PreparedStep {
 public:
  // `numbers`: which argument is complex; the other one is real.
  ComplexByRealStep(const Request& request, ByReal op, std::size_t numbers,
                    std::unique_ptr<PreparedStep> libtorch)
      : op_(op),
        is_double_(request.args[1 - numbers].scalar_type() == at::kDouble),
        count_(request.results[0].numel()),
        numbers_(request.arg_address(numbers)),
        by_(request.arg_address(1 - numbers)),
        out_(request.result_address(0)),
        libtorch_(std::move(libtorch)) {}

  void Run(char* const* slots, const ScalarValue* scalars) override {
    if (refusals_ < policy::kMostRefusals) {
      if (RunOurs(numbers_.In(slots), by_.In(slots), out_.In(slots))) return;
      ++refusals_;
    }
    libtorch_->Run(slots, scalars);
  }
  // A trial. None if the run was libtorch's own, as operands overlap.
  std::optional<bool> HasBitsOfLibtorch(const Request& request) {
    const bool has = HaveSameBits(request, this, libtorch_.get());
    if (refusals_ != 0) return std::nullopt;
    return has;
  }

 private:
  bool RunOurs(const char* numbers, const char* by, char* out) const {
    const std::int64_t by_bytes = count_ * (is_double_ ? 8 : 4);
    const std::int64_t bytes = 2 * by_bytes;
    if (Overlap(by, by_bytes, out, bytes) ||
        (out != numbers && Overlap(numbers, bytes, out, bytes))) {
      return false;
    }
    return RunComplexByReal(op_, is_double_, count_, numbers, by, out);
  }

  ByReal op_;
  bool is_double_;
  std::int64_t count_;
  SlotAddress numbers_, by_, out_;
  std::unique_ptr<PreparedStep> libtorch_;
  int refusals_ = 0;
};

// Element i of both is number i in memory.
bool LieAlike(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  if (a.is_contiguous()) return b.is_contiguous();
  return a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}

bool IsComplexByReal(const Request& request, std::size_t numbers) {
  const at::Tensor& z = request.args[numbers];
  const at::Tensor& by = request.args[1 - numbers];
  const at::Tensor& out = request.results[0];
  const at::ScalarType type = z.scalar_type();
  return (type == at::kComplexFloat || type == at::kComplexDouble) &&
         by.scalar_type() == c10::toRealValueType(type) &&
         out.scalar_type() == type && LieAlike(out, z) && LieAlike(out, by);
}

template <class S, ByReal kOp>
std::unique_ptr<PreparedStep> Prepare(const Request& request) {
  std::unique_ptr<PreparedStep> libtorch = PrepareStructured<S, kPure>(request);
  const std::size_t numbers =
      kOp == ByReal::kTimes && !request.args[0].is_complex() ? 1 : 0;
  if (!libtorch || !HasComplexByReal() || !IsComplexByReal(request, numbers)) {
    return libtorch;
  }
  auto step = std::make_unique<ComplexByRealStep>(request, kOp, numbers,
                                                  std::move(libtorch));
  const std::tuple<ByReal, at::ScalarType, std::size_t> key(
      kOp, request.results[0].scalar_type(), numbers);
  // Never destroyed, as op tables.
  static auto& verdicts =
      *new TrialVerdicts<std::tuple<ByReal, at::ScalarType, std::size_t>>;
  if (!verdicts.Of(key, nullptr,
                   [&] { return step->HasBitsOfLibtorch(request); })) {
    return PrepareStructured<S, kPure>(request);
  }
  return step;
}

constexpr Factory kDiv = Prepare<at::native::structured_div_out, ByReal::kOver>;
constexpr Factory kMul =
    Prepare<at::native::structured_mul_out, ByReal::kTimes>;

constexpr FactoryRow kRows[] = {
    {"aten::complex", PrepareOutCall<&at::native::complex_out>},
    {"aten::conj_physical_", PrepareInPlaceCall<&at::native::conj_physical_>},
    {"aten::div.Tensor", kDiv},
    {"aten::div_.Tensor", kDiv},
    {"aten::div.out", kDiv},
    {"aten::mul.Tensor", kMul},
    {"aten::mul_.Tensor", kMul},
    {"aten::mul.out", kMul},
    {"aten::polar", PrepareOutCall<&at::native::polar_out>},
};

}  // namespace

c10::ArrayRef<FactoryRow> ComplexRows() { return kRows; }

}  // namespace tjit::runtime
