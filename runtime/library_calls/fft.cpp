// Transforms (_fft_r2c, _fft_c2r, _fft_c2c) as calls of MKL with descriptors
// that are kept (fft_plan_cache.h), for what libtorch would ask of it (fft_stages.h).
//
// What libtorch fills in afterwards (both halves of a transform of real
// numbers) stays its own call, and so do large ones, which take longer than a
// descriptor by far (100x100x100 doubles: 9 of 4,500 us). Each is tried on
// random data against that call.
#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <optional>

#include "runtime/library_calls/fft_stages.h"
#include "runtime/library_calls/trial.h"
#include "runtime/memory/block.h"
#include "runtime/platform/kernel_stubs.h"

namespace tjit::runtime {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 18;
constexpr std::uintptr_t kAlignment = 64;  // of what libtorch allocates

using Stages = std::vector<FftStage>;

std::int64_t Count(const FftLayout& layout) {
  return c10::multiply_integers(layout.sizes);
}

// Copies what lies in any way to dense memory.
class DenseCopy {
 public:
  DenseCopy(const FftLayout& from, at::ScalarType dtype)
      : bytes_(static_cast<std::size_t>(Count(from)) *
               c10::elementSize(dtype)) {
    // Addresses come with each run.
    static char nowhere[kAlignment] = {};
    iterator_ = at::TensorIteratorConfig()
                    .set_check_mem_overlap(false)
                    .resize_outputs(false)
                    .add_owned_output(at::from_blob(nowhere, from.sizes, dtype))
                    .add_owned_const_input(
                        at::from_blob(nowhere, from.sizes, from.strides, dtype))
                    .build();
  }

  at::DataPtr Of(const char* from) {
    at::DataPtr to = BlockAllocator()->allocate(bytes_);
    iterator_._unsafe_set_arg_data(0, to.get());
    iterator_._unsafe_set_arg_data(1, const_cast<char*>(from));
    at::native::copy_stub(at::kCPU, iterator_, /*non_blocking=*/false);
    return to;
  }

 private:
  std::size_t bytes_;
  at::TensorIterator iterator_;
};

// One transform of MKL, and the copy before it.
class Transform {
 public:
  Transform(const FftStage& stage, at::ScalarType from) : fft_(stage.plan) {
    if (stage.copied) copy_.emplace(*stage.copied, from);
  }
  // False if MKL refuses.
  bool Run(const char* from, void* to) {
    if (!copy_) return fft_.Run(from, to);
    return fft_.Run(copy_->Of(from).get(), to);
  }

 private:
  std::optional<DenseCopy> copy_;
  KeptFft fft_;
};

class FftStep final : public PreparedStep {
 public:
  FftStep(const Request& request, const Stages& stages)
      : from_(request.arg_address(0)),
        to_(request.result_address(0)),
        last_(stages.back(), request.args[0].scalar_type()),
        libtorch_(PrepareBoxed(request.step, request.call, request.slot_bytes,
                               request.tensors)) {
    if (stages.size() == 1) return;
    first_.emplace(stages[0], request.args[0].scalar_type());
    between_bytes_ = static_cast<std::size_t>(Count(stages[0].out)) *
                     request.args[0].itemsize();
  }

  void Run(char* const* slots, const ScalarValue* scalars) override {
    if (RunKept(from_.In(slots), to_.In(slots))) return;
    has_refused_ = true;
    libtorch_->Run(slots, scalars);
  }
  // A trial. None if the run was libtorch's own: what this call has to do with
  // that (where its result lies, the thread) is no part of the plan.
  std::optional<bool> HasBitsOfLibtorch(const Request& request) {
    const bool has = HaveSameBits(request, this, libtorch_.get());
    if (has_refused_) return std::nullopt;
    return has;
  }

 private:
  bool RunKept(const char* from, char* to) {
    // The `out` of a program; libtorch's result would be copied there.
    if (reinterpret_cast<std::uintptr_t>(to) % kAlignment != 0) return false;
    if (!first_) return last_.Run(from, to);
    const at::DataPtr between = BlockAllocator()->allocate(between_bytes_);
    return first_->Run(from, between.get()) &&
           last_.Run(static_cast<const char*>(between.get()), to);
  }

  SlotAddress from_, to_;
  std::optional<Transform> first_;
  std::size_t between_bytes_ = 0;  // what the first one gives
  Transform last_;
  std::unique_ptr<PreparedStep> libtorch_;
  bool has_refused_ = false;
};

// The numbers of the call in its schema's order, behind self, dims and
// normalization: (onesided), (last_dim_size) or (forward).
// None: libtorch's own call.
Stages Plan(const Request& request, const FftLayout& in, const FftCall& call) {
  const c10::IValue& last = request.call.arguments[3];
  const bool is_complex = request.args[0].is_complex();
  if (request.results[0].is_complex()) {
    if (is_complex) return {PlanComplex(in, call, last.toBool())};
    return last.toBool() ? Stages{PlanRealToComplex(in, call)} : Stages{};
  }
  return is_complex ? PlanComplexToReal(in, call, last.toInt()) : Stages{};
}

bool AreDims(at::IntArrayRef dims, std::int64_t count) {
  std::uint64_t seen = 0;
  for (const std::int64_t d : dims) {
    if (d < 0 || d >= std::min<std::int64_t>(count, 64)) return false;
    if ((seen >> d & 1) != 0) return false;
    seen |= std::uint64_t{1} << d;
  }
  return !dims.empty();
}

std::unique_ptr<PreparedStep> PrepareFft(const Request& request) {
  const at::Tensor& self = request.args[0];
  const at::Tensor& result = request.results[0];
  FftCall call;
  call.dims = request.call.arguments[1].toDimVector();
  call.normalization = request.call.arguments[2].toInt();
  const at::ScalarType type = c10::toRealValueType(self.scalar_type());
  call.is_double = type == at::kDouble;
  if ((!call.is_double && type != at::kFloat) ||
      type != c10::toRealValueType(result.scalar_type()) || !HasDfti() ||
      std::max(self.numel(), result.numel()) > kMostElements ||
      request.arg_address(0).slot == request.result_address(0).slot ||
      !AreDims(call.dims, self.dim())) {
    return nullptr;
  }
  const Stages stages =
      Plan(request,
           {at::DimVector(self.sizes()), at::DimVector(self.strides())}, call);
  if (stages.empty() || stages.back().out.sizes != result.sizes() ||
      stages.back().out.strides != result.strides()) {
    return nullptr;
  }
  auto step = std::make_unique<FftStep>(request, stages);
  std::vector<FftPlan> key;
  for (const FftStage& stage : stages) key.push_back(stage.plan);
  // Never destroyed, as op tables.
  static auto& verdicts = *new TrialVerdicts<std::vector<FftPlan>>;
  if (!verdicts.Of(key, nullptr,
                   [&] { return step->HasBitsOfLibtorch(request); })) {
    return nullptr;
  }
  return step;
}

constexpr FactoryRow kRows[] = {
    {"aten::_fft_c2c", PrepareFft}, {"aten::_fft_c2c.out", PrepareFft},
    {"aten::_fft_c2r", PrepareFft}, {"aten::_fft_c2r.out", PrepareFft},
    {"aten::_fft_r2c", PrepareFft}, {"aten::_fft_r2c.out", PrepareFft},
};

}  // namespace

c10::ArrayRef<FactoryRow> FftRows() { return kRows; }

}  // namespace tjit::runtime
