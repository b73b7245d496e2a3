// Ops that go around libtorch's dispatcher: only where nobody can tell, and
// the same ops as those that go through it.
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

using Step = std::function<at::Tensor()>;

class DirectCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clear();
    options_.hot_threshold = 2;
    ASSERT_TRUE(enable(options_));
    x_* y_;  // the thread takes part from its first op on
  }
  void TearDown() override { disable(); }

  // Counters of `steps` steps, all of whose results are eager's.
  Stats Run(const Step& step, int steps = 1) {
    disable();
    const at::Tensor wanted = step();
    EXPECT_TRUE(enable(options_));
    const Stats before = stats();
    std::vector<at::Tensor> results;
    for (int i = 0; i < steps; ++i) {
      results.push_back(step());
      mark_step();
    }
    sync();
    const Stats after = stats();
    for (const at::Tensor& result : results) {
      EXPECT_TRUE(at::equal(result, wanted));
      EXPECT_EQ(result.key_set(), wanted.key_set());
    }
    return after - before;
  }

  Options options_;
  const at::Tensor x_ = torch::randn({4, 8}), y_ = torch::randn({4, 8});
};

constexpr int kOps = 130;  // at least, without views

// With MoreOps(), all ops of direct_calls.def with new results.
at::Tensor MoreOps(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor half = x.clamp(-0.5, 0.5), square = x * x + 1;
  at::Tensor z = half.acos() + half.asin() * half.atan() + x.ceil() - y.trunc();
  z = z + half.cosh() * half.sinh() - half.tan() + square.log2() / y.exp2();
  z = z - square.log10() + at::atan2(x, y) + square.pow(y);
  z = z + at::leaky_relu(x) + x.lerp(y, 0.25);
  const at::Tensor both = at::logical_and(x > 0, y > 0);
  z = at::where(at::bitwise_and(both, at::bitwise_not(x > 1)), x, z);
  z = z + at::threshold_backward(x, y, 0) + at::tanh_backward(x, y.tanh());
  z = z + at::sigmoid_backward(x, y) * at::silu_backward(x, y);
  z = z - at::gelu(x) + at::gelu_backward(x, y) + at::gelu(y, "tanh");
  const at::Tensor loss = at::mse_loss(x, y);
  z = z + at::mse_loss_backward(loss, x, y, at::Reduction::Mean);
  const at::Tensor soft = at::softmax(x, 1), logs = at::log_softmax(x, 1);
  z = z + at::_softmax_backward_data(y, soft, 1, at::kFloat);
  z = z + at::_log_softmax_backward_data(y, logs, 1, at::kFloat);
  z = z + x.amax({1}, true) - y.amin({1}, true);
  z = at::addcmul(z, x, y, 0.5) + at::addcdiv(z, x, square, 2);
  return z;
}

at::Tensor AllOps(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor z = (x + y) * 2 - y / 3 + x.abs().sqrt() + 1;
  z = 2 - z.neg().exp() * y.sin() + x.cos() - y.tanh() / z.sigmoid();
  z = at::maximum(z, x.relu()) - at::minimum(x, y) * (x * x + 1).rsqrt();
  z = z * (y.abs() + 1).reciprocal() + (x * x + 1).log() + x.pow(3) - 1;
  z = z + x.erf() * x.expm1() - y.floor() * (y * y).log1p() + z.round();
  z = z * y.sign() - at::silu(x) + x.clamp_min(-0.5) * y.clamp_max(0.5);
  z = at::where(x > y, z, x) + at::where(x >= y, x, z);
  z = at::where(at::logical_not(x < y), z, y) + at::where(x <= y, y, z);
  z = at::where(x == y, z, x) * at::where(x != y, z, y);
  z = at::where(x > 0, z, x) + at::where(x >= 0.5, x, z);
  z = at::where(x < 0, z, y) + at::where(x <= 0.5, y, z);
  z = at::where(x == 0, z, x) + at::where(x != 0, z, y);
  z = z.roll({1, 2}, {0, 1}) + at::softmax(z, 1);
  const at::Tensor square = at::addmm(x.mm(x.t()), x, y.t(), 2, 3);
  return at::bmm(square.unsqueeze(0), z.unsqueeze(0)).squeeze(0) +
         z.sum({1}, true) + z.mean({0}).sum({0}) + MoreOps(x, y);
}

// A test below puts a kernel before that of sign.
TEST_F(DirectCallsTest, AreOpen) {
  EXPECT_EQ(testing::ClosedDirectCalls(),
            std::vector<std::string>{"aten::sign"});
}

TEST_F(DirectCallsTest, WithoutGradients) {
  const at::NoGradGuard no_grad;
  const Stats d = Run([&] { return AllOps(x_, y_); }, 20);
  EXPECT_GE(d.ops_direct, 20 * kOps) << d.to_json();
  EXPECT_GT(d.ops_replayed, 10 * kOps) << d.to_json();
}

// Programs that say nothing of gradients.
TEST_F(DirectCallsTest, OfTensorsThatAskForNoGradients) {
  const Stats d = Run([&] { return AllOps(x_, y_); }, 20);
  EXPECT_GE(d.ops_direct, 20 * kOps) << d.to_json();
  EXPECT_GT(d.ops_replayed, 10 * kOps) << d.to_json();
  EXPECT_FALSE(AllOps(x_, y_).requires_grad());
  // Views have autograd's metadata, which asks for nothing.
  EXPECT_EQ(Run([&] { return x_[0] * y_.select(0, 1); }).ops_direct, 1);
}

TEST_F(DirectCallsTest, InInferenceMode) {
  const at::InferenceMode mode;
  const Stats d = Run([&] { return AllOps(x_, y_); }, 20);
  EXPECT_GE(d.ops_direct, 20 * kOps) << d.to_json();
  EXPECT_GT(d.ops_replayed, 10 * kOps) << d.to_json();
}

// A trace that was recorded of the ones is replayed for the others.
TEST_F(DirectCallsTest, AreTheOpsThatTheDispatcherPassesOn) {
  enum class State { kUsual, kNoGradients, kInference };
  for (const State state :
       {State::kUsual, State::kNoGradients, State::kInference}) {
    const c10::InferenceMode mode(state == State::kInference);
    const at::AutoGradMode grad_mode(state == State::kUsual);
    const at::Tensor x = torch::randn({4, 8}), y = torch::randn({4, 8});
    const auto step = [&] { return AllOps(x, y); };
    const Stats direct = Run(step, 20);
    EXPECT_GT(direct.ops_replayed, 10 * kOps) << direct.to_json();
    testing::SetDirectCalls(false);
    const Stats d = Run(step, 20);
    testing::SetDirectCalls(true);
    EXPECT_EQ(d.ops_direct, 0);
    EXPECT_EQ(d.ops_replayed, d.ops_seen) << d.to_json();
    EXPECT_EQ(d.sequences, 0);
  }
}

TEST_F(DirectCallsTest, NotWithGradients) {
  const at::Tensor w = torch::randn({4, 8}, torch::requires_grad());
  EXPECT_EQ(Run([&] { return (w * x_).detach(); }).ops_direct, 0);
  EXPECT_EQ(Run([&] { return (x_ * w.t().t()).detach(); }).ops_direct, 0);
  EXPECT_EQ(Run([&] { return at::where(x_ > 0, x_, w).detach(); }).ops_direct,
            1);  // the comparison
  EXPECT_NE((w * x_).grad_fn(), nullptr);
  EXPECT_NE((w[0] * x_).grad_fn(), nullptr);
  // Autograd's own ops, whose tensors have no gradients, are.
  const Stats before = stats();
  (w * x_).sum().backward();
  EXPECT_GT((stats() - before).ops_direct, 0);
  EXPECT_TRUE(at::equal(w.grad(), x_));
}

// All ops of direct_calls.def that write to their first argument.
at::Tensor AllInPlace(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor z = x.clone();
  z.add_(y, 2).sub_(x).mul_(y).div_(x.exp_().add_(1)).add_(1).sub_(2);
  z.mul_(3).div_(7).lerp_(y, 0.25).addcmul_(x, y, 0.5).addcdiv_(y, x, -0.5);
  z.neg_().tanh_().sigmoid_().sqrt_().reciprocal_().log_().sin_().cos_();
  z.mul_(5).floor_().abs_().add_(2).rsqrt_().round_().clamp_(-1, 1);
  z.clamp_min_(-2).clamp_max_(2).masked_fill_(y > 0, 4);
  at::Tensor w = at::empty_like(z);
  w.copy_(z);
  w.sub_(y).relu_();
  at::Tensor part = z.select(0, 1);
  part.fill_(5);
  w.select(1, 0).zero_();
  return z + w;
}
constexpr int kInPlaceOps = 37;

TEST_F(DirectCallsTest, InPlace) {
  for (const bool grad_mode : {false, true}) {
    const at::AutoGradMode mode(grad_mode);
    const auto step = [&] { return AllInPlace(x_.clone(), y_); };
    const Stats d = Run(step, 20);
    EXPECT_GE(d.ops_direct, 20 * kInPlaceOps) << d.to_json();
    EXPECT_GT(d.ops_replayed, 10 * kInPlaceOps) << d.to_json();
    testing::SetDirectCalls(false);
    const Stats through = Run(step, 20);
    testing::SetDirectCalls(true);
    EXPECT_EQ(through.ops_replayed, through.ops_seen) << through.to_json();
    EXPECT_EQ(through.sequences, 0);
  }
}

TEST_F(DirectCallsTest, InPlaceCountVersions) {
  // By state of the thread and kind of tensor, as eager has it.
  const auto versions = [&](bool mode, bool of_inference) {
    at::Tensor x;
    {
      const c10::InferenceMode made_in(of_inference);
      x = at::ones({4, 8});
    }
    const c10::InferenceMode used_in(mode);
    x.add_(1).mul_(y_).sub_(x);
    return x.is_inference() ? -1 : std::int64_t{x._version()};
  };
  const auto all = [&] {
    return std::vector<std::int64_t>{
        versions(true, true), versions(true, false), versions(false, false)};
  };
  disable();
  const auto wanted = all();
  EXPECT_TRUE(enable(options_));
  const Stats before = stats();
  EXPECT_EQ(all(), wanted);
  EXPECT_EQ((stats() - before).ops_direct, 12);     // ones() fills
  EXPECT_THROW(versions(false, true), c10::Error);  // written to outside
}

TEST_F(DirectCallsTest, InPlaceIsSeenByAutograd) {
  at::Tensor w = torch::randn({4, 8}, torch::requires_grad());
  EXPECT_THROW(w.add_(1), c10::Error);
  EXPECT_THROW(w[0].add_(1), c10::Error);
  at::Tensor x = x_.clone();
  const at::Tensor product = w * x;
  const Stats before = stats();
  x.add_(1);
  EXPECT_EQ((stats() - before).ops_direct, 1);
  EXPECT_THROW(product.sum().backward(), c10::Error);  // x was saved
  x.add_(w);
  EXPECT_TRUE(x.requires_grad());
  // What an optimizer does.
  const at::NoGradGuard no_grad;
  const auto version = w._version();
  const at::Tensor wanted = w.clone() + 2 * y_;
  EXPECT_TRUE(w.add_(y_, 2).is_same(w));
  EXPECT_EQ(w._version(), version + 1);
  EXPECT_TRUE(w.requires_grad() && w.is_leaf());
  EXPECT_TRUE(at::equal(w, wanted));
}

TEST_F(DirectCallsTest, OfParametersWithoutGradients) {
  const at::Tensor w = torch::randn({4, 8}, torch::requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_EQ(Run([&] { return w * x_; }).ops_direct, 1);
  EXPECT_FALSE((w * x_).requires_grad());
}

TEST_F(DirectCallsTest, NotOfDualTensors) {
  const at::NoGradGuard no_grad;
  const auto level = torch::autograd::ForwardADLevel::get_next_idx();
  const at::Tensor tangent = torch::ones({4, 8});
  at::Tensor dual = x_.clone();
  const auto of_plain = [&] { return x_.view({8, 4}) * 3; };
  EXPECT_EQ(Run(of_plain).ops_direct, 1);
  dual._set_fw_grad(tangent, level, /*is_inplace_op=*/false);
  const at::Tensor view = dual.view({8, 4});
  const at::Tensor product = dual * y_, of_view = view * 3;
  EXPECT_TRUE(at::equal(product._fw_grad(level), y_));
  EXPECT_TRUE(at::equal(of_view._fw_grad(level), 3 * torch::ones({8, 4})));
  dual = at::Tensor();
  torch::autograd::ForwardADLevel::release_idx(level);
}

TEST_F(DirectCallsTest, NotUnderAutocast) {
  const at::NoGradGuard no_grad;
  const at::Tensor square = torch::randn({8, 8});
  const auto multiply = [&] { return square.mm(square); };
  EXPECT_EQ(Run(multiply).ops_direct, 1);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor product = multiply();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(product.scalar_type(), at::kBFloat16);
  EXPECT_EQ(Run(multiply).ops_direct, 1);
}

TEST_F(DirectCallsTest, NotOfOtherTensors) {
  const at::NoGradGuard no_grad;
  const at::Tensor sparse = torch::eye(4).to_sparse(), dense = torch::eye(4);
  const at::Tensor complex = torch::randn({4}, at::kComplexFloat);
  const Stats before = stats();
  EXPECT_TRUE(at::equal(sparse.mm(dense), dense));
  EXPECT_TRUE(at::equal((complex.conj() * 2).resolve_conj(),
                        (complex * 2).conj().resolve_conj()));
  EXPECT_THROW(at::Tensor() * dense, c10::Error);
  EXPECT_LE((stats() - before).ops_direct, 1);  // complex * 2
}

TEST_F(DirectCallsTest, ThrowsWhatEagerThrows) {
  const at::NoGradGuard no_grad;
  const at::Tensor other = torch::randn({3}),
                   whole = torch::ones({4, 8}).to(at::kInt);
  at::Tensor x = x_.clone();
  const std::vector<std::function<void()>> wrong = {
      [&] { x* other; },
      [&] { x.mm(x); },
      [&] { x.sum({2}); },
      [&] { x.add_(other); },
      [&] { x.copy_(other); },
      [&] { at::Tensor(whole).mul_(x); },
      [&] { x.slice(0, 0, 1).add_(x); },
  };
  const auto words = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "";
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    disable();
    const auto version = x._version();
    const std::string wanted = words(wrong[i]);
    EXPECT_NE(wanted, "") << i;
    EXPECT_EQ(x._version(), version) << i;
    EXPECT_TRUE(enable(options_));
    const Stats before = stats();
    EXPECT_EQ(words(wrong[i]), wanted) << i;
    EXPECT_EQ((stats() - before).ops_direct, 1) << i;
    EXPECT_EQ(x._version(), version) << i;
    EXPECT_TRUE(at::equal(x, x_)) << i;
  }
}

// Behind kernels of libtorch that the thread excludes itself.
TEST_F(DirectCallsTest, BehindAutograd) {
  const at::Tensor w = torch::randn({4, 8}, torch::requires_grad());
  const auto step = [&] {
    const at::Tensor product = w * x_;
    at::Tensor sum = x_.clone();
    const auto version = sum._version();
    sum.add_(product).mul_(w);
    return torch::cat({sum, at::full_like(sum, sum._version() - version),
                       at::full_like(sum, product.requires_grad())});
  };
  {
    const at::AutoDispatchBelowAutograd below;
    EXPECT_GE(Run(step, 4).ops_direct, 12);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  EXPECT_GE(Run(step, 4).ops_direct, 12);
}

// What the tracer of TorchScript has seen of a function of two tensors.
std::string Traced(const std::function<at::Tensor(at::Tensor, at::Tensor)>& f,
                   const at::Tensor& x, const at::Tensor& y) {
  const auto traced = torch::jit::tracer::trace(
      {x, y},
      [&f](torch::jit::Stack inputs) -> torch::jit::Stack {
        return {f(inputs[0].toTensor(), inputs[1].toTensor())};
      },
      [](const torch::autograd::Variable&) { return ""; });
  return traced.first->graph->toString(/*print_source_locations=*/false);
}

TEST_F(DirectCallsTest, NotPastTheTracer) {
  const auto step = [](const at::Tensor& x, const at::Tensor& y) {
    at::Tensor z = x * y;
    z.add_(y.select(0, 1).unsqueeze(0)).sub_(x.view({4, 8}));
    return z.t().relu();
  };
  disable();
  const std::string wanted = Traced(step, x_, y_);
  EXPECT_TRUE(enable(options_));
  const Stats before = stats();
  EXPECT_EQ(Traced(step, x_, y_), wanted);
  EXPECT_EQ((stats() - before).ops_direct, 0);
  for (const char* op :
       {"mul", "add_", "sub_", "select", "unsqueeze", "view"}) {
    EXPECT_NE(wanted.find("aten::" + std::string(op)), std::string::npos) << op;
  }
}

int kernels_called = 0;
at::Tensor OwnMaximum(const at::Tensor& x, const at::Tensor& y) {
  ++kernels_called;
  return at::where(x > y, x, y);
}

// Between autograd and the CPU, from before tjit looked at the ops.
int selections = 0;
at::Tensor OwnSign(c10::DispatchKeySet keys, const at::Tensor& x) {
  ++selections;
  return at::_ops::sign::redispatch(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                                 c10::DispatchKey::BackendSelect),
      x);
}
TORCH_LIBRARY_IMPL(aten, BackendSelect, library) {
  library.impl("sign", &OwnSign);
}

TEST_F(DirectCallsTest, NotPastAKernelFromBefore) {
  const at::NoGradGuard no_grad;
  const int before = selections;
  EXPECT_EQ(Run([&] { return x_.sign(); }, 4).ops_direct, 0);
  EXPECT_EQ(selections - before, 5);
}

TEST_F(DirectCallsTest, PastKernelsForOtherTensors) {
  const at::NoGradGuard no_grad;
  torch::Library own(torch::Library::IMPL, "aten", c10::DispatchKey::Meta,
                     __FILE__, __LINE__);
  own.impl("minimum", &OwnMaximum);
  EXPECT_EQ(Run([&] { return at::minimum(x_, y_); }).ops_direct, 1);
}

// Closing is for good: these two come last.
TEST_F(DirectCallsTest, NotPastAnotherKernel) {
  const at::NoGradGuard no_grad;
  EXPECT_EQ(Run([&] { return at::maximum(x_, y_); }).ops_direct, 1);
  torch::Library own(torch::Library::IMPL, "aten",
                     c10::DispatchKey::AutogradCPU, __FILE__, __LINE__);
  own.impl("maximum", &OwnMaximum);
  const Stats before = stats();
  at::maximum(x_, y_);
  EXPECT_EQ(kernels_called, 1);
  at::minimum(x_, y_);
  EXPECT_GE((stats() - before).ops_direct, 1);
}

int ops_observed = 0;

TEST_F(DirectCallsTest, NotPastObservers) {
  const at::NoGradGuard no_grad;
  at::addGlobalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(f.name()) == "aten::mul") ++ops_observed;
        return nullptr;
      }));
  const Stats before = stats();
  x_* y_;
  EXPECT_EQ(ops_observed, 1);
  EXPECT_EQ((stats() - before).ops_direct, 0);
}

}  // namespace
}  // namespace tjit
