// Softmax, normalisation, pooling, losses. Mirrors SoftMax.cpp,
// layer_norm.cpp, Normalization.cpp, DilatedMaxPool2d.cpp, LossNLL.cpp; the
// largest of windows and its backward are compiler/functions/max_pool.h.
#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_log_softmax_backward_data_native.h>
#include <ATen/ops/_log_softmax_native.h>
#include <ATen/ops/_softmax_backward_data_native.h>
#include <ATen/ops/_softmax_native.h>
#include <ATen/ops/adaptive_avg_pool2d_native.h>
#include <ATen/ops/avg_pool2d_backward_native.h>
#include <ATen/ops/avg_pool2d_native.h>
#include <ATen/ops/binary_cross_entropy_backward_native.h>
#include <ATen/ops/binary_cross_entropy_native.h>
#include <ATen/ops/max_pool2d_with_indices_backward_native.h>
#include <ATen/ops/max_pool2d_with_indices_native.h>
#include <ATen/ops/native_batch_norm_native.h>
#include <ATen/ops/nll_loss_backward_native.h>
#include <ATen/ops/nll_loss_forward_native.h>
#include <ATen/ops/upsample_bilinear2d_native.h>
#include <ATen/ops/upsample_nearest2d_backward_native.h>
#include <ATen/ops/upsample_nearest2d_native.h>

#include <atomic>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/functions/max_pool.h"
#include "runtime/library_calls/native_step.h"
#include "runtime/library_calls/structured_step.h"
#include "runtime/platform/kernel_stubs.h"
#include "runtime/platform/parallel.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;

bool IsContiguous(const at::Tensor& t) {
  return !t.defined() || t.is_contiguous();
}

// M rows of N elements, as layer_norm sees a contiguous input.
struct Rows {
  Rows(const at::Tensor& input, std::size_t normalized_dims) {
    const auto axis = static_cast<std::size_t>(input.dim()) - normalized_dims;
    for (std::size_t d = 0; d < axis; ++d) m *= input.size(d);
    for (std::size_t d = axis; d < axis + normalized_dims; ++d) {
      n *= input.size(d);
    }
  }
  std::int64_t m = 1;
  std::int64_t n = 1;
};

// Arguments: input, normalized_shape, weight, bias, eps.
class LayerNormStep final : public PreparedStep {
 public:
  explicit LayerNormStep(const Request& r)
      : args_(r.args),
        results_(r.results),
        rows_(r.args[0], r.call.arguments[1].toListRef().size()) {}
  void Run(char* const*, const ScalarValue* scalars) override {
    native::LayerNormKernel(at::kCPU, args_[0], args_[1], args_[2], rows_.m,
                            rows_.n, DecodeScalar(scalars[0]).toDouble(),
                            &results_[0], &results_[1], &results_[2]);
  }

 private:
  std::vector<at::Tensor> args_;
  std::vector<at::Tensor> results_;
  Rows rows_;
};

std::unique_ptr<PreparedStep> PrepareLayerNorm(const Request& request) {
  for (const at::Tensor& t : request.args) {
    if (!IsContiguous(t)) return nullptr;
  }
  for (const at::Tensor& t : request.results) {
    if (!t.defined() || !t.is_contiguous()) return nullptr;
  }
  return std::make_unique<LayerNormStep>(request);
}

// Arguments: grad_out, input, normalized_shape, mean, rstd, weight, bias, mask.
class LayerNormBackwardStep final : public PreparedStep {
 public:
  explicit LayerNormBackwardStep(const Request& r)
      : args_(r.args),
        results_(r.results),
        rows_(r.args[1], r.call.arguments[2].toListRef().size()) {}
  void Run(char* const*, const ScalarValue*) override {
    native::LayerNormBackwardKernel(at::kCPU, args_[0], args_[1], args_[2],
                                    args_[3], args_[4], rows_.m, rows_.n,
                                    &results_[0], &results_[1], &results_[2]);
  }

 private:
  std::vector<at::Tensor> args_;
  std::vector<at::Tensor> results_;
  Rows rows_;
};

std::unique_ptr<PreparedStep> PrepareLayerNormBackward(const Request& request) {
  for (const at::Tensor& t : request.args) {
    if (!IsContiguous(t)) return nullptr;
  }
  for (const at::Tensor& t : request.results) {
    if (!IsContiguous(t)) return nullptr;
  }
  return std::make_unique<LayerNormBackwardStep>(request);
}

// meta of avg_pool2d splits its lists; impl takes the parts.
struct AvgPool2dKernel : native::structured_avg_pool2d_out_cpu {
  using Base = native::structured_avg_pool2d_out_cpu;
  using Parts = decltype(std::declval<Base&>().meta(
      std::declval<const at::Tensor&>(), at::IntArrayRef{}, at::IntArrayRef{},
      at::IntArrayRef{}, false, false, std::nullopt));

  void meta(const at::Tensor& self, at::IntArrayRef kernel,
            at::IntArrayRef stride, at::IntArrayRef padding, bool ceil_mode,
            bool count_padding, std::optional<std::int64_t> divisor) {
    parts_ = std::make_unique<Parts>(Base::meta(
        self, kernel, stride, padding, ceil_mode, count_padding, divisor));
  }
  void impl(const at::Tensor& self, at::IntArrayRef, at::IntArrayRef,
            at::IntArrayRef, bool ceil_mode, bool count_padding,
            std::optional<std::int64_t> divisor, const at::Tensor& out) {
    Base::impl(self, parts_->kH, parts_->kW, parts_->dH, parts_->dW,
               parts_->padH, parts_->padW, ceil_mode, count_padding, divisor,
               out);
  }

 private:
  std::unique_ptr<Parts> parts_;
};

// Planes of `windows` windows that are worth a thread. Parts are as eager's
// where a team is yet to be made, or one whose threads may compute otherwise
// than this one (Note [Arithmetic of teams]).
std::int64_t GrainOfPlanes(std::int64_t windows) {
  const bool is_usual = t_context.had_region && !HasOddTeam();
  return is_usual ? at::internal::GRAIN_SIZE / windows + 1 : 0;
}

// Arguments: self, kernel_size, stride, padding, dilation, ceil_mode.
class MaxPoolStep final : public PreparedStep {
 public:
  MaxPoolStep(const Request& r, const PoolShape& shape)
      : in_(r.args[0]),
        out_(r.results[0]),
        places_(r.results[1]),
        shape_(shape) {}
  void Run(char* const*, const ScalarValue*) override {
    const std::int64_t in = shape_.rows.in * shape_.columns.in;
    const std::int64_t out = shape_.rows.out * shape_.columns.out;
    const auto* const numbers = in_.const_data_ptr<float>();
    auto* const largest = out_.mutable_data_ptr<float>();
    auto* const places = places_.mutable_data_ptr<std::int64_t>();
    ParallelFor(0, out_.numel() / out, GrainOfPlanes(out),
                [&](std::int64_t from, std::int64_t to) {
                  MaxPool(shape_, to - from, numbers + from * in,
                          largest + from * out, places + from * out);
                });
  }

 private:
  at::Tensor in_, out_, places_;
  PoolShape shape_;
};

// Arguments: grad_output, self, kernel_size, stride, padding, dilation,
// ceil_mode, indices; of which tensors are 0, 1 and 2.
class MaxPoolBackwardStep final : public PreparedStep {
 public:
  MaxPoolBackwardStep(const Request& r, const PoolShape& shape,
                      std::unique_ptr<PreparedStep> usual)
      : gradients_(r.args[0]),
        places_(r.args[2]),
        out_(r.results[0]),
        shape_(shape),
        usual_(std::move(usual)) {}
  void Run(char* const* slots, const ScalarValue* scalars) override {
    const std::int64_t in = shape_.rows.in * shape_.columns.in;
    const std::int64_t out = shape_.rows.out * shape_.columns.out;
    const auto* const gradients = gradients_.const_data_ptr<float>();
    const auto* const places = places_.const_data_ptr<std::int64_t>();
    auto* const to = out_.mutable_data_ptr<float>();
    std::atomic<bool> is_done{true};
    ParallelFor(
        0, out_.numel() / in, GrainOfPlanes(out),
        [&](std::int64_t from, std::int64_t until) {
          if (!MaxPoolBackward(shape_, until - from, gradients + from * out,
                               places + from * out, to + from * in)) {
            is_done.store(false, std::memory_order_relaxed);
          }
        });
    if (!is_done.load(std::memory_order_relaxed)) usual_->Run(slots, scalars);
  }

 private:
  at::Tensor gradients_, places_, out_;
  PoolShape shape_;
  std::unique_ptr<PreparedStep> usual_;
};

// `dim`: 0 of rows, 1 of columns. `first`: the call's argument of kernel_size.
PoolDim PoolDimOf(const Request& r, std::size_t dim, std::size_t first,
                  const at::Tensor& in, const at::Tensor& out) {
  const auto number = [&](std::size_t argument) {
    const std::vector<std::int64_t> list =
        r.call.arguments[argument].toIntVector();
    return list.size() == 1 ? list[0] : list[dim];
  };
  PoolDim made;
  const std::int64_t from_last = static_cast<std::int64_t>(dim) - 2;
  made.in = in.size(from_last);
  made.out = out.size(from_last);
  made.window = number(first);
  const bool has_stride = !r.call.arguments[first + 1].toIntVector().empty();
  made.stride = has_stride ? number(first + 1) : made.window;
  made.padding = number(first + 2);
  made.dilation = number(first + 3);
  return made;
}

bool IsFlat(const at::Tensor& t) {
  return t.defined() && t.is_contiguous() && t.numel() > 0;
}

std::unique_ptr<PreparedStep> PrepareMaxPool(const Request& request) {
  const auto& [args, results] = std::tie(request.args, request.results);
  if (results.size() == 2 && IsFlat(args[0]) && IsFlat(results[0]) &&
      IsFlat(results[1]) && args[0].scalar_type() == at::kFloat) {
    const PoolShape shape = {PoolDimOf(request, 0, 1, args[0], results[0]),
                             PoolDimOf(request, 1, 1, args[0], results[0])};
    if (HasMaxPool(shape)) return std::make_unique<MaxPoolStep>(request, shape);
  }
  return PrepareStructured<native::structured_max_pool2d_with_indices_out_cpu>(
      request);
}

std::unique_ptr<PreparedStep> PrepareMaxPoolBackward(const Request& request) {
  auto usual = PrepareStructured<
      native::structured_max_pool2d_with_indices_backward_out_cpu>(request);
  const auto& [args, results] = std::tie(request.args, request.results);
  if (usual != nullptr && args.size() == 3 && results.size() == 1 &&
      IsFlat(args[0]) && IsFlat(args[2]) && IsFlat(results[0]) &&
      args[2].sizes() == args[0].sizes() &&
      args[2].scalar_type() == at::kLong &&
      args[0].scalar_type() == at::kFloat) {
    const PoolShape shape = {PoolDimOf(request, 0, 2, results[0], args[0]),
                             PoolDimOf(request, 1, 2, results[0], args[0])};
    if (HasMaxPoolBackward(shape)) {
      return std::make_unique<MaxPoolBackwardStep>(request, shape,
                                                   std::move(usual));
    }
  }
  return usual;
}

// Reduced losses resize their result on the way.
std::unique_ptr<PreparedStep> PrepareBinaryCrossEntropy(
    const Request& request) {
  if (request.call.arguments[3].toInt() != at::Reduction::None) return nullptr;
  return PrepareOutCall<&native::binary_cross_entropy_out_cpu>(request);
}

constexpr FactoryRow kRows[] = {
    {"aten::_adaptive_avg_pool2d",
     PrepareOutCall<&native::adaptive_avg_pool2d_out_cpu>},
    {"aten::_log_softmax",
     PrepareStructured<native::structured_log_softmax_cpu_out>},
    {"aten::_log_softmax_backward_data",
     PrepareStructured<native::structured_log_softmax_backward_cpu_out>},
    {"aten::_softmax", PrepareStructured<native::structured_softmax_cpu_out>},
    {"aten::_softmax_backward_data",
     PrepareStructured<native::structured_softmax_backward_cpu_out>},
    {"aten::avg_pool2d", PrepareStructured<AvgPool2dKernel>},
    {"aten::avg_pool2d_backward",
     PrepareStructured<native::structured_avg_pool2d_backward_out_cpu>},
    {"aten::binary_cross_entropy", PrepareBinaryCrossEntropy},
    {"aten::binary_cross_entropy_backward",
     PrepareOutCall<&native::binary_cross_entropy_backward_out_cpu>},
    {"aten::max_pool2d_with_indices", PrepareMaxPool},
    {"aten::max_pool2d_with_indices_backward", PrepareMaxPoolBackward},
    {"aten::native_layer_norm", PrepareLayerNorm},
    {"aten::native_layer_norm_backward", PrepareLayerNormBackward},
    {"aten::nll_loss_backward",
     PrepareStructured<native::structured_nll_loss_backward_out_cpu>},
    {"aten::nll_loss_forward",
     PrepareStructured<native::structured_nll_loss_forward_out_cpu>},
    {"aten::upsample_bilinear2d",
     PrepareStructured<native::structured_upsample_bilinear2d_out_cpu>},
    {"aten::upsample_nearest2d",
     PrepareStructured<native::structured_upsample_nearest2d_out_cpu>},
    {"aten::upsample_nearest2d_backward",
     PrepareStructured<native::structured_upsample_nearest2d_backward_out_cpu>},
};

}  // namespace

c10::ArrayRef<FactoryRow> NnRows() { return kRows; }

}  // namespace tjit::runtime
