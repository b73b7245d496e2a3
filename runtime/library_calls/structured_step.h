// Steps over libtorch's structured kernels (at::native::structured_*): the
// classes that at::X, at::X_ and at::X_out themselves run, one `meta` that
// checks and builds the iterator, one `impl` that computes.
//
// PrepareStructured<S> serves all variants of an op with one table row each:
//   {"aten::add.Tensor",  PrepareStructured<structured_ufunc_add_CPU, kPure>},
//   {"aten::add_.Tensor", PrepareStructured<structured_ufunc_add_CPU, kPure>},
// Kernels over a TensorIterator are built once and patched (see
// iterator_step.h), or built for each run where that is not possible
// (dtype promotion of whole tensors, kernels that change their iterator).
// Others (softmax, gather, ...) get only their impl called.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <c10/util/Exception.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "runtime/library_calls/iterator_step.h"
#include "runtime/library_calls/params.h"
#include "runtime/library_calls/trial.h"

namespace tjit::runtime {

namespace structured {

template <class F>
struct Signature;
template <class R, class C, class... A>
struct Signature<R (C::*)(A...)> {
  using Result = R;
  using Params = ParamPack<A...>;
  static constexpr std::size_t kCount = sizeof...(A);
};

template <class S>
using Meta = Signature<decltype(&S::meta)>;
template <class S>
inline constexpr std::size_t kOutputs =
    Signature<decltype(&S::impl)>::kCount - Meta<S>::kCount;
template <class S>
inline constexpr bool kHasIterator =
    std::is_base_of_v<at::TensorIteratorBase, S>;

// The kernel with outputs from the executor. As at::X does, a fresh output is
// unknown until `meta` asks for it; others are known from the start.
template <class S, std::size_t N = kOutputs<S>>
class Kernel final : public S {
 public:
  Kernel(std::array<at::Tensor, N> outputs, bool is_functional)
      : outputs_(std::move(outputs)), is_functional_(is_functional) {
    if (!is_functional_) known_ = outputs_;
  }

  const at::Tensor& maybe_get_output(std::int64_t i) override {
    return known_[i];
  }
  void set_output_strided(std::int64_t i, at::IntArrayRef sizes,
                          at::IntArrayRef strides,
                          at::TensorOptions options) override {
    Check(i, sizes, options);
    // Eager computes into a proxy and copies then.
    if (!strides.empty() ? outputs_[i].strides() != strides
                         : !outputs_[i].is_contiguous()) {
      fits_ = false;
    }
    Announce(i, sizes, strides, options);
  }
  void set_output_raw_strided(std::int64_t i, at::IntArrayRef sizes,
                              at::IntArrayRef strides,
                              at::TensorOptions options) override {
    Check(i, sizes, options);
    Announce(i, sizes, strides, options);
  }

  // False if `meta` asked for outputs other than the recorded ones.
  bool fits() const { return fits_; }
  const std::array<at::Tensor, N>& outputs() const { return outputs_; }

 private:
  void Check(std::int64_t i, at::IntArrayRef sizes,
             const at::TensorOptions& options) {
    known_[i] = outputs_[i];
    if (!outputs_[i].defined() || outputs_[i].sizes() != sizes ||
        (is_functional_ && outputs_[i].scalar_type() !=
                               at::typeMetaToScalarType(options.dtype()))) {
      fits_ = false;
    }
  }
  void Announce(std::int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options) {
    // An iterator that goes on with a wrong output would only throw later.
    TORCH_CHECK(fits_, "recorded result does not fit");
    if constexpr (kHasIterator<S>) {
      at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides,
                                                     options);
    }
  }

  std::array<at::Tensor, N> outputs_;
  std::array<at::Tensor, N> known_;
  bool is_functional_;
  bool fits_ = true;
};

template <class S>
class Step final : public PreparedStep {
 public:
  using Params = typename Meta<S>::Params;

  Step(Params params, std::array<at::Tensor, kOutputs<S>> outputs,
       bool is_functional)
      : params_(std::move(params)),
        outputs_(std::move(outputs)),
        is_functional_(is_functional) {}

  // Builds the kernel over dummy memory. False if this way cannot serve.
  bool Prepare(const Request& request, Purity purity);

  void Run(char* const* slots, const ScalarValue* scalars) override {
    params_.Update(scalars);
    if (!kernel_) {
      Kernel<S> kernel(outputs_, is_functional_);
      CallMeta(&kernel);
      CallImpl(&kernel);
      return;
    }
    if constexpr (kHasIterator<S>) {
      patches_.Apply(kernel_.get(), slots, scalars);
    }
    CallImpl(kernel_.get());
  }
  bool uses_tensors() const override { return uses_tensors_; }

 private:
  void CallMeta(Kernel<S>* kernel) {
    params_.Call([&](auto&&... a) { kernel->meta(a...); });
  }
  void CallImpl(Kernel<S>* kernel) {
    params_.Call([&](auto&&... a) {
      std::apply([&](const auto&... out) { kernel->impl(a..., out...); },
                 outputs_);
    });
  }
  bool PreparePatches(const Request& request, int scalar,
                      const DummyMemory& memory);
  // Runs the kernel over ones; nothing where it throws.
  std::optional<bool> LeavesIterator(const Request& request);

  Params params_;
  std::array<at::Tensor, kOutputs<S>> outputs_;
  bool is_functional_;
  bool uses_tensors_ = true;
  std::unique_ptr<Kernel<S>> kernel_;  // null: built for each run
  IteratorPatches patches_;
};

template <class S>
bool Step<S>::Prepare(const Request& request, Purity purity) {
  const DummyMemory memory(request, purity == kComputesInMeta
                                        ? DummyMemory::Use::kRuns
                                        : DummyMemory::Use::kAddresses);
  kernel_ = std::make_unique<Kernel<S>>(outputs_, is_functional_);
  try {
    CallMeta(kernel_.get());
  } catch (const c10::Error&) {
    return false;
  }
  if (!kernel_->fits()) return false;
  if (purity == kComputesInMeta) {
    kernel_.reset();
    return true;
  }
  if constexpr (kHasIterator<S>) {
    const int scalar = purity == kPureWrapped ? 0 : IteratorPatches::kNone;
    if (PreparePatches(request, scalar, memory)) {
      uses_tensors_ = purity == kReadsTensors;
    } else {
      kernel_.reset();
    }
  }
  return true;
}

template <class S>
std::optional<bool> Step<S>::LeavesIterator(const Request& request) {
  const DummyMemory memory(request, DummyMemory::Use::kRuns);
  memory.FillWithOnes(request);
  patches_.Apply(kernel_.get(), memory.slots(), ScalarsOf(request).data());
  const IteratorShape shape(*kernel_);
  try {
    CallImpl(kernel_.get());
  } catch (const c10::Error&) {
    return std::nullopt;  // a converted operand may divide by zero
  }
  return shape.IsUnchanged(*kernel_);
}

template <class S>
bool Step<S>::PreparePatches(const Request& request, int scalar,
                             const DummyMemory& memory) {
  if constexpr (kHasIterator<S>) {
    if (!patches_.Plan(*kernel_, request, scalar)) return false;
    // Kernels that read a one-element operand as a scalar remove it.
    bool may_change = false;
    for (int i = 0; i < kernel_->ntensors(); ++i) {
      may_change |= kernel_->is_scalar(i);
    }
    if (!may_change) return true;
    // Other sizes are another iterator of the same kind: to run each would take
    // longer than several runs of the op.
    static auto& verdicts = *new TrialVerdicts<std::string>;
    return verdicts.Of(KindOf(*kernel_, request), /*trials=*/nullptr, [&] {
      return memory.is_small() ? LeavesIterator(request) : std::nullopt;
    });
  }
  return true;
}

}  // namespace structured

template <class S, Purity kPurity = kReadsTensors>
std::unique_ptr<PreparedStep> PrepareStructured(const Request& request) {
  constexpr std::size_t kOutputs = structured::kOutputs<S>;
  static_assert(std::is_void_v<typename structured::Meta<S>::Result>,
                "impl takes what meta computed: wrap the kernel");
  if (request.results.size() != kOutputs) return nullptr;
  std::array<at::Tensor, kOutputs> outputs;
  bool is_functional = true;
  for (std::size_t i = 0; i < kOutputs; ++i) {
    const ResultRecord::Kind kind = request.step.results[i].kind;
    if (kind == ResultRecord::Kind::kUndefined) return nullptr;
    if (kind == ResultRecord::Kind::kAlias) is_functional = false;
    outputs[i] = request.results[i];
  }
  ArgumentCursor cursor{request};
  auto step = std::make_unique<structured::Step<S>>(
      typename structured::Meta<S>::Params(&cursor), std::move(outputs),
      is_functional);
  if (!step->Prepare(request, kPurity)) return nullptr;
  return step;
}

}  // namespace tjit::runtime
