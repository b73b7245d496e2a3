// Reductions and the losses that end in one. Mirrors ReduceOps.cpp and
// Loss.cpp: mean is sum and a division in place, mse_loss is a pointwise part
// into scratch and then sum or mean.
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/all_native.h>
#include <ATen/ops/amax_native.h>
#include <ATen/ops/amin_native.h>
#include <ATen/ops/any_native.h>
#include <ATen/ops/argmax_native.h>
#include <ATen/ops/argmin_native.h>
#include <ATen/ops/cumprod_native.h>
#include <ATen/ops/cumsum_native.h>
#include <ATen/ops/linalg_vector_norm_native.h>
#include <ATen/ops/max_native.h>
#include <ATen/ops/mean_native.h>
#include <ATen/ops/min_native.h>
#include <ATen/ops/mse_loss_backward_native.h>
#include <ATen/ops/mse_loss_native.h>
#include <ATen/ops/norm_native.h>
#include <ATen/ops/prod_native.h>
#include <ATen/ops/sort_native.h>
#include <ATen/ops/std_native.h>
#include <ATen/ops/sum_native.h>
#include <ATen/ops/topk_native.h>
#include <ATen/ops/var_native.h>

#include "runtime/library_calls/native_step.h"
#include "runtime/library_calls/structured_step.h"
#include "runtime/memory/block.h"
#include "runtime/platform/kernel_stubs.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;

// Memory behind a tensor of a step, for the time of a run.
class ScratchScope {
 public:
  explicit ScratchScope(c10::StorageImpl* storage) : storage_(storage) {
    if (storage_ == nullptr) return;
    storage_->set_data_ptr_noswap(
        BlockAllocator()->allocate(storage_->nbytes()));
  }
  ~ScratchScope() {
    if (storage_ == nullptr) return;
    storage_->set_data_ptr_noswap(at::DataPtr(nullptr, c10::kCPU));
  }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  c10::StorageImpl* const storage_;
};

// Iterators that run one after the other, over the operands of the step and
// scratch, which has memory only while they run: steps that differ in the
// offset of a batch are a class each, and many.
class ChainStep final : public PreparedStep {
 public:
  using Kernel = void (*)(at::TensorIterator&);

  explicit ChainStep(const Request& request)
      : args_(request.args), results_(request.results) {}
  // False if an operand cannot be patched.
  bool Add(const Request& request, at::TensorIterator iterator, Kernel kernel) {
    Part& part = parts_.emplace_back();
    part.iterator = std::move(iterator);
    part.kernel = kernel;
    return part.patches.Plan(part.iterator, request,
                             IteratorPatches::kConstant);
  }
  // REQUIRES: called once, after the last Add(). One operand of a part at most.
  void SetScratch(const at::Tensor& scratch) {
    scratch_ = scratch;
    c10::StorageImpl* const storage = scratch.storage().unsafeGetStorageImpl();
    for (Part& part : parts_) {
      for (int i = 0; i < part.iterator.ntensors(); ++i) {
        const at::TensorBase& t = part.iterator.tensor_base(i);
        if (t.storage().unsafeGetStorageImpl() == storage) {
          part.scratch_operand = i;
        }
      }
    }
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, c10::kCPU));
  }
  void Run(char* const* slots, const ScalarValue* scalars) override {
    const ScratchScope scratch(scratch_.defined()
                                   ? scratch_.storage().unsafeGetStorageImpl()
                                   : nullptr);
    for (Part& part : parts_) {
      part.patches.Apply(&part.iterator, slots, scalars);
      if (part.scratch_operand >= 0) {
        part.iterator._unsafe_set_arg_data(part.scratch_operand,
                                           scratch_.mutable_data_ptr());
      }
      part.kernel(part.iterator);
    }
  }

 private:
  struct Part {
    at::TensorIterator iterator;
    IteratorPatches patches;
    Kernel kernel = nullptr;
    int scratch_operand = -1;  // -1: none
  };
  // The iterators borrow these.
  std::vector<at::Tensor> args_;
  std::vector<at::Tensor> results_;
  at::Tensor scratch_;  // undefined: none
  c10::SmallVector<Part, 2> parts_;
};

bool IsFullFloat(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
}

// `input` reduced into `result` over `dims`; the sum kernel clears its output
// tensor itself.
bool AddSum(ChainStep* chain, const Request& request, const at::Tensor& input,
            at::OptionalIntArrayRef dims, bool keepdim,
            const at::Tensor& result) {
  at::TensorIterator iterator = at::meta::make_reduction_from_out_ty(
      input, result, dims, keepdim, result.scalar_type());
  return chain->Add(request, std::move(iterator), [](at::TensorIterator& it) {
    native::sum_stub(at::kCPU, it);
  });
}

// result /= count, as mean does after its sum.
bool AddDivision(ChainStep* chain, const Request& request,
                 const at::Tensor& result, std::int64_t count) {
  at::Tensor out = result;
  at::TensorIterator iterator = at::TensorIterator::binary_float_op(
      out, result, native::wrapped_scalar_tensor(count));
  return chain->Add(request, std::move(iterator), [](at::TensorIterator& it) {
    native::div_true_stub(at::kCPU, it);
  });
}

struct ReduceArguments {
  explicit ReduceArguments(const Request& request)
      : cursor{request}, self(&cursor), dims(&cursor), keepdim(&cursor) {}
  ArgumentCursor cursor;
  Param<const at::Tensor&> self;
  Param<at::OptionalIntArrayRef> dims;
  Param<bool> keepdim;
};

std::unique_ptr<PreparedStep> PrepareSum(const Request& request) {
  const at::Tensor& result = request.results[0];
  ReduceArguments a(request);
  // Reduced floats are summed into a float32 buffer.
  if (a.self.Get().scalar_type() != result.scalar_type() ||
      c10::isReducedFloatingType(result.scalar_type())) {
    return PrepareStructured<native::structured_sum_out>(request);
  }
  const DummyMemory memory(request, DummyMemory::Use::kAddresses);
  auto chain = std::make_unique<ChainStep>(request);
  if (!AddSum(chain.get(), request, a.self.Get(), a.dims.Get(), a.keepdim.Get(),
              result)) {
    return nullptr;
  }
  return chain;
}

std::unique_ptr<PreparedStep> PrepareMean(const Request& request) {
  const at::Tensor& result = request.results[0];
  ReduceArguments a(request);
  const at::Tensor& self = a.self.Get();
  if (self.scalar_type() != result.scalar_type() || !IsFullFloat(result)) {
    return PrepareStructured<native::structured_mean_out>(request);
  }
  const at::OptionalIntArrayRef dims = a.dims.Get();
  std::int64_t count = 1;
  if (!dims.has_value() || dims->empty() || self.dim() == 0) {
    count = self.numel();
  } else {
    for (std::int64_t d : *dims) count *= self.size(d);
  }
  const DummyMemory memory(request, DummyMemory::Use::kAddresses);
  auto chain = std::make_unique<ChainStep>(request);
  if (!AddSum(chain.get(), request, self, dims, a.keepdim.Get(), result) ||
      !AddDivision(chain.get(), request, result, count)) {
    return nullptr;
  }
  return chain;
}

std::unique_ptr<PreparedStep> PrepareMseLoss(const Request& request) {
  const at::Tensor& result = request.results[0];
  const at::Tensor& input = request.args[0];
  const at::Tensor& target = request.args[1];
  const std::int64_t reduction = request.call.arguments[2].toInt();
  if (reduction == at::Reduction::None) {
    return PrepareStructured<native::structured_mse_loss_out, kPure>(request);
  }
  if (!IsFullFloat(result) || input.scalar_type() != target.scalar_type()) {
    return nullptr;
  }
  const DummyMemory memory(request, DummyMemory::Use::kAddresses);
  auto chain = std::make_unique<ChainStep>(request);
  at::Tensor scratch;
  at::TensorIterator iterator =
      at::TensorIterator::borrowing_binary_op(scratch, input, target);
  const at::Tensor loss = iterator.output();  // the iterator has made it
  const bool is_ready =
      chain->Add(
          request, std::move(iterator),
          [](at::TensorIterator& it) { native::mse_stub(at::kCPU, it); }) &&
      AddSum(chain.get(), request, loss, at::IntArrayRef{}, false, result) &&
      (reduction != at::Reduction::Mean ||
       AddDivision(chain.get(), request, result, loss.numel()));
  if (!is_ready) return nullptr;
  chain->SetScratch(loss);
  return chain;
}

std::unique_ptr<PreparedStep> PrepareMseLossBackward(const Request& request) {
  const at::Tensor& grad = request.args[0];
  const at::Tensor& input = request.args[1];
  const at::Tensor& target = request.args[2];
  const bool is_mean = request.call.arguments[3].toInt() == at::Reduction::Mean;
  const at::Scalar norm =
      is_mean ? 2. / static_cast<double>(input.numel()) : 2.;
  return PrepareIterator(
      request,
      [&] {
        return at::TensorIteratorConfig()
            .add_output(request.results[0])
            .add_const_input(input)
            .add_const_input(target)
            .add_const_input(grad)
            .build();
      },
      [norm](at::TensorIterator& it, const ScalarValue*) {
        native::mse_backward_stub(at::kCPU, it, norm);
      });
}

// max and min along a dim: impl takes the dim that meta has wrapped.
template <class S>
struct AlongDim : S {
  void meta(const at::Tensor& self, std::int64_t dim, bool keepdim) {
    S::meta(self, dim, keepdim);
  }
  void impl(const at::Tensor& self, std::int64_t dim, bool keepdim,
            const at::Tensor& values, const at::Tensor& indices) {
    S::impl(self, at::maybe_wrap_dim(dim, self.dim()), keepdim, values,
            indices);
  }
};

using Correction = const std::optional<at::Scalar>&;
using DeviationOut = at::Tensor& (*)(const at::Tensor&, at::OptionalIntArrayRef,
                                     Correction, bool, at::Tensor&);

constexpr FactoryRow kRows[] = {
    {"aten::all", PrepareStructured<native::structured_all_all_out>},
    {"aten::all.dim", PrepareStructured<native::structured_all_out>},
    {"aten::amax", PrepareStructured<native::structured_amax_out>},
    {"aten::amin", PrepareStructured<native::structured_amin_out>},
    {"aten::any", PrepareStructured<native::structured_any_all_out>},
    {"aten::any.dim", PrepareStructured<native::structured_any_out>},
    {"aten::argmax", PrepareStructured<native::structured_argmax_out>},
    {"aten::argmin", PrepareStructured<native::structured_argmin_out>},
    {"aten::cumprod", PrepareStructured<native::structured_cumprod_out>},
    {"aten::cumsum", PrepareStructured<native::structured_cumsum_out>},
    {"aten::linalg_vector_norm",
     PrepareStructured<native::structured_linalg_vector_norm_out>},
    {"aten::max.dim", PrepareStructured<AlongDim<native::structured_max_out>>},
    {"aten::mean.dim", PrepareMean},
    {"aten::mean.out", PrepareMean},
    {"aten::min.dim", PrepareStructured<AlongDim<native::structured_min_out>>},
    {"aten::mse_loss", PrepareMseLoss},
    {"aten::mse_loss_backward", PrepareMseLossBackward},
    {"aten::norm.ScalarOpt_dim",
     PrepareStructured<native::structured_norm_out>},
    {"aten::prod.dim_int", PrepareStructured<native::structured_prod_out>},
    {"aten::sort.stable",
     PrepareStructured<native::structured_sort_stable_out>},
    {"aten::std.correction",
     PrepareOutCall<static_cast<DeviationOut>(&native::std_out)>},
    {"aten::sum.IntList_out", PrepareSum},
    {"aten::sum.dim_IntList", PrepareSum},
    {"aten::topk", PrepareStructured<native::structured_topk_out_cpu>},
    {"aten::var.correction",
     PrepareOutCall<static_cast<DeviationOut>(&native::var_out)>},
};

}  // namespace

c10::ArrayRef<FactoryRow> ReduceRows() { return kRows; }

}  // namespace tjit::runtime
