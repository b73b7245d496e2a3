// Ops that pick elements: where, masked_fill, index_select, gather, cat, roll
// Mirrors TensorAdvancedIndexing.cpp, TensorCompare.cpp and TensorShape.cpp.
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat_native.h>
#include <ATen/ops/gather_native.h>
#include <ATen/ops/index_add_native.h>
#include <ATen/ops/index_select_native.h>
#include <ATen/ops/masked_fill_native.h>
#include <ATen/ops/scatter_add_native.h>
#include <ATen/ops/scatter_native.h>
#include <ATen/ops/tril_native.h>
#include <ATen/ops/triu_native.h>
#include <ATen/ops/where_native.h>

#include <algorithm>
#include <cstring>

#include "runtime/library_calls/native_step.h"
#include "runtime/library_calls/structured_step.h"
#include "runtime/platform/kernel_stubs.h"
#include "runtime/platform/parallel.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;

std::unique_ptr<PreparedStep> PrepareWhere(const Request& request) {
  const at::Tensor& condition = request.args[0];
  const at::Tensor& self = request.args[1];
  const at::Tensor& other = request.args[2];
  if (condition.scalar_type() != at::kBool) return nullptr;  // warns
  if (self.scalar_type() != other.scalar_type()) {
    return PrepareOutCall<&native::where_self_out>(request);
  }
  return PrepareIterator(
      request,
      [&] {
        return at::TensorIteratorConfig()
            .check_all_same_dtype(false)
            .add_output(request.results[0])
            .add_const_input(condition)
            .add_const_input(self)
            .add_const_input(other)
            .build();
      },
      [](at::TensorIterator& it, const ScalarValue*) {
        native::where_kernel(at::kCPU, it);
      });
}

std::unique_ptr<PreparedStep> PrepareMaskedFill(const Request& request) {
  const at::Tensor& self = request.args[0];
  const at::Tensor& mask = request.args[1];
  if (mask.scalar_type() != at::kBool) return nullptr;
  if (request.step.args[0].slot == request.step.args[1].slot) return nullptr;
  return PrepareIterator(
      request,
      [&] {
        return at::TensorIteratorConfig()
            .set_check_mem_overlap(false)
            .check_all_same_dtype(false)
            .resize_outputs(false)
            .add_output(self)
            .add_const_input(mask)
            .build();
      },
      [](at::TensorIterator& it, const ScalarValue* scalars) {
        native::masked_fill_stub(at::kCPU, it, DecodeScalar(scalars[0]));
      });
}

// meta of cat works out how the pieces lie; that is kept.
class CatStep final : public PreparedStep {
 public:
  using Kernel = structured::Kernel<native::structured_cat_out_cpu, 1>;
  using Meta = decltype(std::declval<Kernel&>().meta(
      std::declval<const at::ITensorListRef&>(), std::int64_t{}));

  explicit CatStep(const Request& request)
      : CatStep(ArgumentCursor{request}, request) {}
  bool fits() const { return kernel_.fits(); }
  void Run(char* const*, const ScalarValue*) override {
    kernel_.impl(tensors_.Get(), meta_->dim, meta_->valid,
                 meta_->all_contiguous, meta_->all_same_dtype,
                 meta_->all_same_sizes_and_stride, meta_->memory_format,
                 kernel_.outputs()[0]);
  }

 private:
  CatStep(ArgumentCursor cursor, const Request& request)
      : tensors_(&cursor),
        kernel_({request.results[0]},
                request.step.results[0].kind == ResultRecord::Kind::kFresh) {
    const std::int64_t dim = cursor.NextValue().toInt();
    meta_ = std::make_unique<Meta>(kernel_.meta(tensors_.Get(), dim));
  }
  Param<const at::ITensorListRef&> tensors_;
  Kernel kernel_;
  std::unique_ptr<Meta> meta_;
};

std::unique_ptr<PreparedStep> PrepareCat(const Request& request) {
  const DummyMemory memory(request, DummyMemory::Use::kAddresses);
  auto step = std::make_unique<CatStep>(request);
  if (!step->fits()) return nullptr;
  return step;
}

// roll of a dense tensor, in one pass over runs of bytes; eager's makes a copy
// per dim that it rolls.
class RollStep final : public PreparedStep {
 public:
  // Element i of a dim goes to (i + shift) % size.
  struct RolledDim {
    std::int64_t size, shift, stride;  // bytes
  };

  RollStep(SlotAddress to, SlotAddress from, std::vector<RolledDim> dims)
      : to_(to), from_(from), dims_(std::move(dims)) {}

  void Run(char* const* slots, const ScalarValue*) override {
    char* const to = to_.In(slots);
    const char* const from = from_.In(slots);
    const std::int64_t grain =
        at::internal::GRAIN_SIZE / std::max<std::int64_t>(1, dims_[0].stride);
    ParallelFor(0, dims_[0].size, grain + 1,
                [&](std::int64_t begin, std::int64_t end) {
                  Move(0, begin, end, to, from);
                });
  }
  bool uses_tensors() const override { return false; }

 private:
  // Elements [begin, end) of a dim, in two stretches: those that stay before
  // the end and those that come round to the front.
  void Move(std::size_t dim, std::int64_t begin, std::int64_t end, char* to,
            const char* from) const {
    const RolledDim& d = dims_[dim];
    const std::int64_t round = std::clamp(d.size - d.shift, begin, end);
    MoveStretch(dim, round - begin, to + (begin + d.shift) * d.stride,
                from + begin * d.stride);
    MoveStretch(dim, end - round, to + (round + d.shift - d.size) * d.stride,
                from + round * d.stride);
  }

  void MoveStretch(std::size_t dim, std::int64_t count, char* to,
                   const char* from) const {
    const std::int64_t stride = dims_[dim].stride;
    if (count == 0) return;
    if (dim + 1 == dims_.size()) {
      std::memcpy(to, from, static_cast<std::size_t>(count * stride));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      Move(dim + 1, 0, dims_[dim + 1].size, to + i * stride,
           from + i * stride);
    }
  }

  SlotAddress to_, from_;
  std::vector<RolledDim> dims_;  // the last one that is rolled comes last
};

// (self, shifts, dims): without dims over all elements in a row.
std::unique_ptr<PreparedStep> PrepareRoll(const Request& request) {
  const at::Tensor& self = request.args[0];
  if (request.step.results[0].kind != ResultRecord::Kind::kFresh ||
      self.numel() == 0 || !self.is_contiguous() ||
      !request.results[0].is_contiguous() ||
      self.scalar_type() != request.results[0].scalar_type()) {
    return nullptr;
  }
  const auto given = request.call.arguments[1].toDimVector();
  const auto dims = request.call.arguments[2].toDimVector();
  std::vector<RollStep::RolledDim> rolled;
  std::int64_t stride = static_cast<std::int64_t>(self.element_size());
  if (dims.empty()) {
    rolled.push_back({self.numel(), given[0], stride});
  } else {
    rolled.resize(static_cast<std::size_t>(self.dim()));
    for (std::int64_t d = self.dim() - 1; d >= 0; --d) {
      rolled[static_cast<std::size_t>(d)] = {self.size(d), 0, stride};
      stride *= self.size(d);
    }
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto d = at::maybe_wrap_dim(dims[i], self.dim());
      rolled[static_cast<std::size_t>(d)].shift += given[i];
    }
  }
  for (RollStep::RolledDim& d : rolled) {
    d.shift = (d.shift % d.size + d.size) % d.size;
  }
  while (rolled.size() > 1 && rolled.back().shift == 0) rolled.pop_back();
  return std::make_unique<RollStep>(request.result_address(0),
                                    request.arg_address(0), std::move(rolled));
}

// impl takes the dim that meta has wrapped.
struct IndexAddKernel : native::structured_index_add_cpu_out {
  using Base = native::structured_index_add_cpu_out;
  void meta(const at::Tensor& self, std::int64_t dim, const at::Tensor& index,
            const at::Tensor& source, const at::Scalar& alpha) {
    Base::meta(self, dim, index, source, alpha);
  }
  void impl(const at::Tensor& self, std::int64_t dim, const at::Tensor& index,
            const at::Tensor& source, const at::Scalar& alpha,
            const at::Tensor& out) {
    Base::impl(self, at::maybe_wrap_dim(dim, self.dim()), index, source, alpha,
               out);
  }
};

using MaskedFillTensor = at::Tensor& (*)(at::Tensor&, const at::Tensor&,
                                         const at::Tensor&);

constexpr FactoryRow kRows[] = {
    {"aten::cat", PrepareCat},
    {"aten::cat.out", PrepareCat},
    {"aten::gather", PrepareStructured<native::structured_gather_out>},
    {"aten::index_add", PrepareStructured<IndexAddKernel>},
    {"aten::index_add_", PrepareStructured<IndexAddKernel>},
    {"aten::index_select", PrepareOutCall<&native::index_select_out_cpu_>},
    {"aten::masked_fill_.Scalar", PrepareMaskedFill},
    {"aten::masked_fill_.Tensor",
     PrepareInPlaceCall<static_cast<MaskedFillTensor>(
         &native::masked_fill__cpu)>},
    {"aten::roll", PrepareRoll},
    {"aten::scatter.src",
     PrepareStructured<native::structured_scatter_src_out>},
    {"aten::scatter.value",
     PrepareStructured<native::structured_scatter_value_out>},
    {"aten::scatter_.src",
     PrepareStructured<native::structured_scatter_src_out>},
    {"aten::scatter_.value",
     PrepareStructured<native::structured_scatter_value_out>},
    {"aten::scatter_add", PrepareStructured<native::structured_scatter_add>},
    {"aten::scatter_add_", PrepareStructured<native::structured_scatter_add>},
    {"aten::tril", PrepareStructured<native::structured_tril_cpu>},
    {"aten::tril_", PrepareStructured<native::structured_tril_cpu>},
    {"aten::triu", PrepareStructured<native::structured_triu_cpu>},
    {"aten::triu_", PrepareStructured<native::structured_triu_cpu>},
    {"aten::where.self", PrepareWhere},
};

}  // namespace

c10::ArrayRef<FactoryRow> IndexRows() { return kRows; }

}  // namespace tjit::runtime
