// End to end through the public interface: loops are recorded, deferred and
// replayed, with eager's bits. Every test asserts by counters that it was so.
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         (x.numel() == 0 ||
          std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) ==
              0);
}

Options Fast() {
  Options o;
  o.hot_threshold = 2;
  return o;
}

// Runs `loop` eagerly and under tjit; returns the counters of the second run.
Stats Compare(const std::function<std::vector<at::Tensor>()>& loop) {
  torch::manual_seed(1);
  disable();
  const std::vector<at::Tensor> eager = loop();
  clear();
  torch::manual_seed(1);
  EXPECT_TRUE(enable(Fast()));
  const Stats before = stats();
  const std::vector<at::Tensor> ours = loop();
  sync();
  const Stats after = stats();
  disable();
  EXPECT_EQ(eager.size(), ours.size());
  for (std::size_t i = 0; i < eager.size() && i < ours.size(); ++i) {
    EXPECT_TRUE(SameBits(eager[i], ours[i])) << "result " << i;
  }
  const Stats d = after - before;
  EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained);
  return d;
}

TEST(Replay, LoopWithItem) {
  const Stats d = Compare([] {
    at::Tensor x = torch::randn({8, 8}), w = torch::randn({8, 8});
    for (int i = 0; i < 40; ++i) {
      x = torch::tanh(torch::mm(x, w)) + 0.5;
      x = x / x.abs().sum();
      (void)x.sum().item<float>();
    }
    return std::vector<at::Tensor>{x};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
}

TEST(Replay, LoopWithMarkStep) {
  const Stats d = Compare([] {
    at::Tensor x = torch::randn({16}), y = torch::randn({16});
    for (int i = 0; i < 40; ++i) {
      y = x * y + 0.25;
      x = torch::sigmoid(y) - x;
      x.mul_(1.5).add_(y, -0.5);
      mark_step();
    }
    return std::vector<at::Tensor>{x, y};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
}

TEST(Replay, ScalarsThatVaryAreNotFrozen) {
  const Stats d = Compare([] {
    at::Tensor x = torch::ones({16});
    for (int i = 0; i < 40; ++i) {
      x = x.add(torch::ones({16}), 0.01 * i);
      x = x * (1.0 + 0.001 * i);
      mark_step();
    }
    return std::vector<at::Tensor>{x};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
}

// The second slice of a storage that pending ops own already lies elsewhere
// from step 30 on: what was recorded is not what is read.
TEST(Replay, SlicesThatMoveAgainstEachOther) {
  const Stats d = Compare([] {
    const at::Tensor base = torch::randn({64});
    std::vector<at::Tensor> results;
    for (int i = 0; i < 40; ++i) {
      const at::Tensor x = torch::neg(base.narrow(0, 0, 8));
      const at::Tensor y = torch::abs(base.narrow(0, i < 30 ? 16 : 24, 8));
      results.push_back(x + y);
      mark_step();
    }
    return results;
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
}

// Of an op that writes more than its results the schema says which is which.
TEST(Replay, OutOpsReturnTheirResults) {
  const Stats d = Compare([] {
    const at::Tensor x = torch::randn({4, 3, 5}), w = torch::randn({3});
    at::Tensor mean = torch::zeros({3}), var = torch::ones({3});
    at::Tensor out = torch::empty({4, 3, 5}), m = torch::empty({3});
    at::Tensor s = torch::empty({3}), y = x;
    for (int i = 0; i < 40; ++i) {
      const auto results = at::_native_batch_norm_legit_out(
          out, m, s, y, w, w, mean, var, true, 0.1, 1e-5);
      EXPECT_EQ(&std::get<0>(results), &out);
      EXPECT_EQ(&std::get<1>(results), &m);
      EXPECT_EQ(&std::get<2>(results), &s);
      EXPECT_EQ(&at::fmax_out(s, m, w), &s);
      y = std::get<0>(results) + x;
      mark_step();
    }
    return std::vector<at::Tensor>{y, mean, var, m, s};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen * 8 / 10) << d.to_json();
}

// One small loop through wrappers of many signatures.
TEST(Replay, OpsOfManySignatures) {
  const Stats d = Compare([] {
    at::Tensor x = torch::randn({2, 4, 6, 6}), sum = torch::zeros({});
    const at::Tensor index = torch::tensor({3, 1, 0});
    for (int i = 0; i < 40; ++i) {
      at::Tensor y = at::reflection_pad2d(x, {1, 1, 1, 1});
      y = at::upsample_bicubic2d(y, {6, 6}, false);
      y = at::fmax(y, x).logit(0.1).sinc();
      y = at::floor_divide(y, at::full_like(y, 0.25)) + at::logaddexp(x, y);
      y = at::index_copy(y, 2, index, y.slice(2, 0, 3));
      y = at::scatter_reduce(y, 3, at::zeros_like(y, at::kLong), x, "amax");
      const auto [least, most] = at::aminmax(y, 3);
      sum = sum + at::nansum(most - least) + at::trace(y[0][0]);
      x = at::rsub(at::renorm(y, 2, 0, 1.5), x, 0.5);
      mark_step();
    }
    return std::vector<at::Tensor>{x, sum};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
}

// Their out variants resize an empty result, which runs at the call.
TEST(Replay, OpsThatFillAnEmptyResult) {
  const Stats d = Compare([] {
    at::Tensor x = torch::randn({6, 6});
    for (int i = 0; i < 40; ++i) {
      const at::Tensor a = at::abs(x), b = x > 0.25;
      const at::Tensor c = at::logical_or(at::logical_not(b), a > 1);
      const at::Tensor d = at::logical_xor(at::logical_and(b, c), a > 0.5);
      x = at::where(d, a, x) - at::logsumexp(x, {1}, true);
      mark_step();
    }
    return std::vector<at::Tensor>{x};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen * 6 / 10) << d.to_json();
  EXPECT_EQ(d.flush_count("op_at_call"), 0) << d.to_json();
}

TEST(Replay, TrainingStepWithAdam) {
  const Stats d = Compare([] {
    torch::nn::Sequential net(torch::nn::Linear(8, 32), torch::nn::Tanh(),
                              torch::nn::Linear(32, 1));
    torch::optim::Adam opt(net->parameters(), 1e-3);
    at::Tensor x = torch::randn({32, 8}), y = torch::randn({32, 1});
    for (int i = 0; i < 40; ++i) {
      opt.zero_grad();
      at::Tensor loss = torch::mse_loss(net->forward(x), y);
      loss.backward();
      opt.step();
      (void)loss.item<float>();
    }
    return net->parameters();
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen * 6 / 10) << d.to_json();
  EXPECT_GE(d.median_segment_length(), 32) << d.to_json();
}

TEST(Replay, TrainingStepWithoutSyncPoint) {
  const Stats d = Compare([] {
    torch::nn::Linear net(4, 2);
    at::Tensor x = torch::randn({16, 4}), y = torch::randn({16, 2});
    torch::optim::SGD opt(net->parameters(), 0.05);
    for (int i = 0; i < 1200; ++i) {
      opt.zero_grad();
      torch::mse_loss(net->forward(x), y).backward();
      opt.step();
    }
    return net->parameters();
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 5) << d.to_json();
}

TEST(Replay, SlicesOfOneTensorAreOneTrace) {
  const Stats d = Compare([] {
    at::Tensor data = torch::randn({640, 8}), w = torch::randn({8, 8});
    at::Tensor sum = torch::zeros({8, 8});
    for (int i = 0; i < 40; ++i) {
      at::Tensor batch = data.narrow(0, 16 * i, 16);
      sum = sum + torch::mm(batch.t(), torch::mm(batch, w));
      mark_step();
    }
    return std::vector<at::Tensor>{sum};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
}

TEST(Replay, AnotherBatchSizeRunsEagerlyOnce) {
  const Stats d = Compare([] {
    at::Tensor w = torch::randn({8, 8}), acc = torch::zeros({8});
    for (int i = 0; i < 60; ++i) {
      at::Tensor x = torch::ones({i % 10 == 9 ? 3 : 16, 8});
      acc = acc + torch::tanh(torch::mm(x, w)).sum(0);
      mark_step();
    }
    return std::vector<at::Tensor>{acc};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 2) << d.to_json();
}

TEST(Replay, ThePathMayChange) {
  const Stats d = Compare([] {
    at::Tensor x = torch::randn({32}), y = torch::randn({32});
    for (int i = 0; i < 90; ++i) {
      x = x * 0.5 + y;
      x = i % 3 == 0 ? torch::tanh(x) : torch::sin(x);
      y = i % 7 == 0 ? x - y : y - x;
      mark_step();
    }
    return std::vector<at::Tensor>{x, y};
  });
  EXPECT_GT(d.ops_replayed, 0) << d.to_json();
}

TEST(Replay, ForcedDrainGivesTheSameBits) {
  for (int k = 1; k < 5; ++k) {
    testing::SetForcedDrainAt(k);
    const Stats d = Compare([] {
      at::Tensor x = torch::randn({8}), y = torch::randn({8});
      for (int i = 0; i < 20; ++i) {
        y = y * 0.5 + x;
        x = torch::tanh(y) - x;
        x.add_(0.125);
        mark_step();
      }
      return std::vector<at::Tensor>{x, y};
    });
    testing::SetForcedDrainAt(-1);
    EXPECT_GT(d.ops_drained, 0) << "k = " << k << d.to_json();
  }
}

TEST(Replay, RandomOpsDrawAtTheCall) {
  const Stats d = Compare([] {
    at::Tensor n = torch::empty({64}), x = torch::randn({64});
    at::Tensor acc = torch::zeros({64});
    for (int i = 0; i < 40; ++i) {
      n.normal_();
      at::Tensor y = x + n;
      n.normal_();
      acc = acc + y * n;
      mark_step();
    }
    return std::vector<at::Tensor>{acc, n};
  });
  EXPECT_GT(d.ops_replayed, d.ops_seen / 4) << d.to_json();
  EXPECT_GT(d.flush_count("random_dependency"), 0) << d.to_json();
}

TEST(Replay, RawPointerWritesAreSeen) {
  const Stats d = Compare([] {
    at::Tensor in = torch::zeros({4096}), acc = torch::zeros({4096});
    for (int i = 0; i < 40; ++i) {
      in.data_ptr<float>()[i] = static_cast<float>(i);
      acc = acc + in;
      in.data_ptr<float>()[i + 1] = 77;
      acc = acc * 1.0625 - 0.5;
      mark_step();
    }
    return std::vector<at::Tensor>{acc};
  });
  EXPECT_GT(d.ops_replayed, 0) << d.to_json();
}

TEST(Replay, TwoThreadsShareWeights) {
  Compare([] {
    at::Tensor w = torch::randn({8, 8});
    std::vector<at::Tensor> out(2);
    const auto body = [&](int t) {
      torch::NoGradGuard no_grad;
      at::Tensor x = torch::full({8, 8}, 0.25 * (t + 1));
      for (int i = 0; i < 100; ++i) {
        x = torch::tanh(torch::mm(x, w)) + 0.125;
        mark_step();
      }
      out[t] = x;
    };
    std::thread a(body, 0), b(body, 1);
    a.join();
    b.join();
    return out;
  });
}

// Ops with a CPU kernel: what they call inside belongs to the kernel, which a
// deferred op runs later and unobserved.
bool HasKernel(const std::string& name) {
  static const std::set<std::string> kKernels = {
      "aten::add",  "aten::add_",  "aten::div",  "aten::fill_",
      "aten::mean", "aten::mm",    "aten::mul",  "aten::mul_",
      "aten::pow",  "aten::relu",  "aten::sub_", "aten::sum",
      "aten::threshold_backward"};
  return kKernels.count(name) != 0;
}

thread_local std::vector<std::string>* seen = nullptr;
thread_local int inside_kernel = 0;

struct Observed : at::ObserverContext {
  bool kernel = false;
};

// The ops that an independent observer sees in a residual network, whose
// gradients fan in: autograd steals or adds in place by use counts, which
// deferring must not change.
std::vector<std::string> ResidualOps(int steps) {
  std::vector<std::string> ops;
  torch::manual_seed(0);
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 4; ++i) {
    weights.push_back(torch::randn({32, 32}).div_(8).requires_grad_());
  }
  const at::Tensor x = torch::randn({16, 32});
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& f)
              -> std::unique_ptr<at::ObserverContext> {
            auto context = std::make_unique<Observed>();
            if (seen != nullptr && inside_kernel == 0) {
              seen->push_back(f.name());
            }
            context->kernel = HasKernel(f.name());
            inside_kernel += context->kernel;
            return context;
          },
          [](const at::RecordFunction&, at::ObserverContext* context) {
            inside_kernel -= static_cast<Observed*>(context)->kernel;
          })
          .scopes({at::RecordScope::FUNCTION}));
  for (int step = 0; step < steps; ++step) {
    if (step == steps - 1) seen = &ops;
    at::Tensor y = x;
    for (const at::Tensor& w : weights) y = y + torch::relu(torch::mm(y, w));
    at::Tensor loss = (y + y * y).pow(2).mean();
    loss.backward();
    {
      torch::NoGradGuard no_grad;
      for (at::Tensor& w : weights) {
        w.sub_(w.grad(), 0.01);
        w.mutable_grad() = at::Tensor();
      }
    }
    mark_step();
  }
  seen = nullptr;
  at::removeCallback(handle);
  return ops;
}

TEST(Replay, ObserversSeeTheSameOpStream) {
  disable();
  const std::vector<std::string> off = ResidualOps(3);
  clear();
  Options recording = Fast();
  recording.hot_threshold = 1000000;
  ASSERT_TRUE(enable(recording));
  const Stats before = stats();
  EXPECT_EQ(ResidualOps(8), off);
  EXPECT_EQ((stats() - before).ops_deferred, 0);
  clear();
  ASSERT_TRUE(enable(Fast()));
  EXPECT_EQ(ResidualOps(8), off);
  EXPECT_GT((stats() - before).ops_replayed, 50);
  disable();
  EXPECT_GT(off.size(), 50u);
}

TEST(Replay, ErrorsAreThrownAtTheCall) {
  const Stats d = Compare([] {
    at::Tensor x = torch::randn({8, 8});
    int caught = 0;
    for (int i = 0; i < 40; ++i) {
      x = torch::tanh(x * 1.25);
      if (i % 10 == 5) {
        try {
          torch::mm(x, torch::ones({3, 3}));
        } catch (const c10::Error&) {
          ++caught;
        }
        try {
          x.index_select(0, torch::full({1}, 99, torch::kLong));
        } catch (const c10::Error&) {
          ++caught;
        }
      }
      x = x - 0.125;
      mark_step();
    }
    EXPECT_EQ(caught, 8);
    return std::vector<at::Tensor>{x};
  });
  EXPECT_GT(d.ops_replayed, 0) << d.to_json();
}

TEST(Replay, OffAgainLeavesEverythingReady) {
  ASSERT_TRUE(enable(Fast()));
  at::Tensor x = torch::ones({8});
  for (int i = 0; i < 20; ++i) {
    x = x * 1.5 - 0.5;
    mark_step();
  }
  x = x * 1.5 - 0.5;
  disable();
  EXPECT_EQ(x.const_data_ptr<float>()[3], 1.0f);
}

}  // namespace
}  // namespace tjit
