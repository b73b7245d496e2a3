// Steps over other exported functions of libtorch: the out and in-place
// variants of at::native, and kernels over an iterator that we build.
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/util/Exception.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/library_calls/iterator_step.h"
#include "runtime/library_calls/params.h"

namespace tjit::runtime {

namespace native_call {

// Splits the parameters of an out function: schema arguments, then outputs.
template <class In, std::size_t kOut, class... Rest>
struct Split;
template <class... In, std::size_t kOut, class First, class... Rest>
  requires(sizeof...(Rest) >= kOut)
struct Split<ParamPack<In...>, kOut, First, Rest...>
    : Split<ParamPack<In..., First>, kOut, Rest...> {};
template <class... In, std::size_t kOut, class... Rest>
  requires(sizeof...(Rest) == kOut)
struct Split<ParamPack<In...>, kOut, Rest...> {
  using Params = ParamPack<In...>;
};

template <std::size_t kOut, class F>
struct Parameters;
template <std::size_t kOut, class R, class... A>
struct Parameters<kOut, R (*)(A...)> : Split<ParamPack<>, kOut, A...> {};

// Calls kFn(arguments..., results...), which writes into the given results.
template <auto kFn, std::size_t kOut>
class Step final : public PreparedStep {
 public:
  using Params = typename Parameters<kOut, decltype(kFn)>::Params;

  explicit Step(const Request& request)
      : Step(ArgumentCursor{request}, request) {}

  void Run(char* const*, const ScalarValue* scalars) override {
    params_.Update(scalars);
    std::array<at::Tensor, kOut> results = results_;
    params_.Call([&](auto&&... a) {
      std::apply([&](auto&... out) { kFn(a..., out...); }, results);
    });
    for (std::size_t i = 0; i < kOut; ++i) {
      TORCH_INTERNAL_ASSERT(
          results[i].is_same(results_[i]) && results[i].numel() == numels_[i],
          "an out function replaced its result");
    }
  }

 private:
  Step(ArgumentCursor cursor, const Request& request) : params_(&cursor) {
    for (std::size_t i = 0; i < kOut; ++i) {
      results_[i] = request.results[i];
      numels_[i] = results_[i].numel();
    }
  }
  Params params_;
  std::array<at::Tensor, kOut> results_;
  std::array<std::int64_t, kOut> numels_;
};

}  // namespace native_call

// For functional and out= variants: kFn takes the arguments of the functional
// variant and kOut results.
template <auto kFn, std::size_t kOut = 1>
std::unique_ptr<PreparedStep> PrepareOutCall(const Request& request) {
  if (request.results.size() != kOut) return nullptr;
  return std::make_unique<native_call::Step<kFn, kOut>>(request);
}

// For in-place variants: kFn takes exactly the arguments of the schema.
template <auto kFn>
std::unique_ptr<PreparedStep> PrepareInPlaceCall(const Request& request) {
  return std::make_unique<native_call::Step<kFn, 0>>(request);
}

// Runs `fn(iterator, scalars)` over an iterator that is patched for each run.
template <class F>
class IteratorStep final : public PreparedStep {
 public:
  IteratorStep(const Request& request, at::TensorIterator iterator, F fn,
               Purity purity)
      : args_(request.args),
        results_(request.results),
        iterator_(std::move(iterator)),
        fn_(std::move(fn)),
        purity_(purity) {}

  bool Plan(const Request& request) {
    return patches_.Plan(iterator_, request,
                         purity_ == kPureWrapped ? 0 : IteratorPatches::kNone);
  }
  void Run(char* const* slots, const ScalarValue* scalars) override {
    patches_.Apply(&iterator_, slots, scalars);
    fn_(iterator_, scalars);
  }
  bool uses_tensors() const override { return purity_ == kReadsTensors; }

 private:
  // The iterator borrows these.
  std::vector<at::Tensor> args_;
  std::vector<at::Tensor> results_;
  at::TensorIterator iterator_;
  IteratorPatches patches_;
  F fn_;
  Purity purity_;
};

// `build` makes the iterator; it is called over dummy memory. Null if an
// operand cannot be patched. `fn` must not change the iterator.
template <class Build, class F>
std::unique_ptr<PreparedStep> PrepareIterator(const Request& request,
                                              Build build, F fn,
                                              Purity purity = kPure) {
  const DummyMemory memory(request, DummyMemory::Use::kAddresses);
  auto step = std::make_unique<IteratorStep<F>>(request, build(), std::move(fn),
                                                purity);
  if (!step->Plan(request)) return nullptr;
  return step;
}

}  // namespace tjit::runtime
