// copy_, fill_, zero_. Mirrors aten/src/ATen/native/{Copy,Fill}.cpp; a copy
// between equal dtypes has the same bits whatever the algorithm, but for bools:
// libtorch's kernel makes 1 of each byte that is not 0, as those of a mask of
// bytes seen as bools (view(torch::kBool)).
#include <ATen/TensorIterator.h>
#include <ATen/ops/copy_native.h>

#include <algorithm>
#include <cstring>

#include "runtime/library_calls/native_step.h"
#include "runtime/platform/kernel_stubs.h"

namespace tjit::runtime {
namespace {

// From here on eager copies and fills with all threads.
constexpr std::int64_t kParallelElements = 32768;
// From here on eager transposes blockwise.
constexpr std::int64_t kBlockedTranspose = 60 * 60;

class MoveBytes final : public PreparedStep {
 public:
  MoveBytes(SlotAddress to, SlotAddress from, std::size_t bytes)
      : to_(to), from_(from), bytes_(bytes) {}
  void Run(char* const* slots, const ScalarValue*) override {
    std::memmove(to_.In(slots), from_.In(slots), bytes_);
  }
  bool uses_tensors() const override { return false; }

 private:
  SlotAddress to_;
  SlotAddress from_;
  std::size_t bytes_;
};

// Copies between equal dtypes where the innermost dim is contiguous on both
// sides (heads of attention split and joined): runs of bytes. The iterator
// calls its loop for each run, which costs more than the run.
class MoveRuns final : public PreparedStep {
 public:
  static constexpr int kMaxOuter = 4;

  // Null if the copy is not of this kind. REQUIRES: `to` and `from` do not
  // share memory.
  static std::unique_ptr<PreparedStep> Make(const Request& request,
                                            const at::TensorIterator& it) {
    const auto item = static_cast<std::int64_t>(it.element_size(0));
    const int outer = it.ndim() - 1;
    if (outer < 1 || outer > kMaxOuter || it.strides(0)[0] != item ||
        it.strides(1)[0] != item || it.shape()[0] * item < kLeastRun) {
      return nullptr;
    }
    auto step = std::make_unique<MoveRuns>();
    step->to_ = request.arg_address(0);
    step->from_ = request.arg_address(1);
    step->run_ = static_cast<std::size_t>(it.shape()[0] * item);
    step->outer_ = outer;
    for (int d = 0; d < outer; ++d) {
      step->sizes_[d] = it.shape()[d + 1];
      step->to_strides_[d] = it.strides(0)[d + 1];
      step->from_strides_[d] = it.strides(1)[d + 1];
    }
    return step;
  }

  void Run(char* const* slots, const ScalarValue*) override {
    char* to = to_.In(slots);
    const char* from = from_.In(slots);
    switch (run_) {
      case 32: return Move<32>(outer_ - 1, to, from);
      case 64: return Move<64>(outer_ - 1, to, from);
      case 128: return Move<128>(outer_ - 1, to, from);
      case 256: return Move<256>(outer_ - 1, to, from);
      default: return Move<0>(outer_ - 1, to, from);
    }
  }
  bool uses_tensors() const override { return false; }

 private:
  static constexpr std::int64_t kLeastRun = 32;

  // kBytes: the run's length where the compiler is to know it, else 0.
  template <std::size_t kBytes>
  void Move(int dim, char* to, const char* from) const {
    for (std::int64_t i = 0; i < sizes_[dim]; ++i) {
      if (dim != 0) {
        Move<kBytes>(dim - 1, to, from);
      } else {
        std::memcpy(to, from, kBytes != 0 ? kBytes : run_);
      }
      to += to_strides_[dim];
      from += from_strides_[dim];
    }
  }

  SlotAddress to_;
  SlotAddress from_;
  std::size_t run_ = 0;
  int outer_ = 0;
  std::int64_t sizes_[kMaxOuter] = {};
  std::int64_t to_strides_[kMaxOuter] = {};
  std::int64_t from_strides_[kMaxOuter] = {};
};

class ZeroBytes final : public PreparedStep {
 public:
  ZeroBytes(SlotAddress to, std::size_t bytes) : to_(to), bytes_(bytes) {}
  void Run(char* const* slots, const ScalarValue*) override {
    std::memset(to_.In(slots), 0, bytes_);
  }
  bool uses_tensors() const override { return false; }

 private:
  SlotAddress to_;
  std::size_t bytes_;
};

at::TensorIterator CopyIterator(const at::Tensor& to, const at::Tensor& from) {
  return at::TensorIteratorConfig()
      .add_output(to)
      .add_const_input(from)
      .resize_outputs(false)
      .check_all_same_dtype(false)
      .check_all_same_device(false)
      .build();
}

std::unique_ptr<PreparedStep> PrepareCopy(const Request& request) {
  const at::Tensor& to = request.args[0];
  const at::Tensor& from = request.args[1];
  const bool is_same_dtype = to.scalar_type() == from.scalar_type();
  const bool is_move = is_same_dtype && to.scalar_type() != at::kBool;
  if (is_move && to.sizes() == from.sizes() && to.strides() == from.strides() &&
      to.is_non_overlapping_and_dense() && to.numel() < kParallelElements) {
    return std::make_unique<MoveBytes>(request.arg_address(0),
                                       request.arg_address(1), to.nbytes());
  }
  if (is_move && to.numel() < kParallelElements &&
      request.step.args[0].slot != request.step.args[1].slot) {
    const DummyMemory memory(request, DummyMemory::Use::kAddresses);
    if (auto runs = MoveRuns::Make(request, CopyIterator(to, from))) {
      return runs;
    }
  }
  const bool is_half =
      to.scalar_type() == at::kHalf || from.scalar_type() == at::kHalf;
  const bool is_transpose = is_same_dtype && from.dim() == 2 &&
                            from.stride(0) == 1 &&
                            to.numel() >= kBlockedTranspose;
  if ((is_half && !is_same_dtype) || is_transpose ||
      c10::isComplexType(to.scalar_type())) {
    return PrepareInPlaceCall<&at::native::copy_>(request);
  }
  // Between a reduced float and another type the kernel takes its pointers
  // from the tensors.
  const bool is_reduced = c10::isReducedFloatingType(to.scalar_type()) ||
                          c10::isReducedFloatingType(from.scalar_type());
  return PrepareIterator(
      request, [&] { return CopyIterator(to, from); },
      [](at::TensorIterator& it, const ScalarValue*) {
        at::native::copy_stub(at::kCPU, it, /*non_blocking=*/false);
      },
      is_reduced && !is_same_dtype ? kReadsTensors : kPure);
}

at::TensorIterator FillIterator(const at::Tensor& to) {
  return at::TensorIteratorConfig()
      .set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .add_output(to)
      .resize_outputs(false)
      .build();
}

std::unique_ptr<PreparedStep> PrepareFill(const Request& request) {
  return PrepareIterator(
      request, [&] { return FillIterator(request.args[0]); },
      [](at::TensorIterator& it, const ScalarValue* scalars) {
        at::native::fill_stub(at::kCPU, it, DecodeScalar(scalars[0]));
      });
}

// fill_ with a tensor of one element: a broadcast copy, unless they overlap.
std::unique_ptr<PreparedStep> PrepareFillTensor(const Request& request) {
  if (request.step.args[0].slot == request.step.args[1].slot) return nullptr;
  return PrepareCopy(request);
}

std::unique_ptr<PreparedStep> PrepareZero(const Request& request) {
  const at::Tensor& to = request.args[0];
  if (to.is_non_overlapping_and_dense() && to.numel() < kParallelElements) {
    return std::make_unique<ZeroBytes>(request.arg_address(0), to.nbytes());
  }
  return PrepareIterator(
      request, [&] { return FillIterator(to); },
      [](at::TensorIterator& it, const ScalarValue*) {
        at::native::fill_stub(at::kCPU, it, 0);
      });
}

constexpr FactoryRow kRows[] = {
    {"aten::copy_", PrepareCopy},
    {"aten::fill_.Scalar", PrepareFill},
    {"aten::fill_.Tensor", PrepareFillTensor},
    {"aten::zero_", PrepareZero},
};

}  // namespace

c10::ArrayRef<FactoryRow> CopyRows() { return kRows; }

}  // namespace tjit::runtime
