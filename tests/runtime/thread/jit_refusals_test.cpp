// Functions that cannot be replayed: each has eager's bits, runs at each call,
// and says why. Tests: runtime/thread/functions/refusal.h
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <string>
#include <utility>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

// Calls it ten times; it has eager's bits, is never replayed and says why.
void ExpectRefused(const std::function<at::Tensor(const at::Tensor&)>& f,
                   const std::string& why) {
  auto fast = jit(f);
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8});
    at::manual_seed(i);
    const at::Tensor y = fast(x);
    at::manual_seed(i);
    EXPECT_TRUE(SameBits(y, f(x))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0) << why;
  EXPECT_NE(fast.stats().why.find(why), std::string::npos) << fast.stats().why;
}

at::Tensor Chain(const at::Tensor& x, int ops) {
  at::Tensor y = x;
  for (int i = 0; i < ops; ++i)
    y = i % 3 == 0 ? at::mul(y, 0.5) : at::add(y, x);
  return y;
}

TEST_F(JitTest, FunctionsMayBeLong) {
  for (const int ops : {1000, 4096, 5000, 32768}) {
    auto fast = jit([ops](const at::Tensor& x) { return Chain(x, ops); });
    std::int64_t drained = 0;
    for (int i = 0; i < 12; ++i) {
      const at::Tensor x = at::rand({8});
      const Stats before = stats();
      const at::Tensor y = fast(x);
      (void)y.const_data_ptr();
      drained += (stats() - before).ops_drained;
      EXPECT_TRUE(SameBits(y, Chain(x, ops))) << ops;
    }
    EXPECT_GE(fast.stats().replays, 3) << ops << " " << fast.stats().why;
    // Left in the middle by nobody: all of them ran as one.
    EXPECT_EQ(drained, 0);
    clear();
  }
}

// What is drawn and dropped, 160 MB, is held to the end.
TEST_F(JitTest, FunctionsMayDrawMuch) {
  const auto f = [](const at::Tensor& x) {
    at::Tensor y = x;
    for (int i = 0; i < 20; ++i) y = y * at::rand({2 << 20}) + x;
    return y;
  };
  auto fast = jit(f);
  for (int i = 0; i < 8; ++i) {
    const at::Tensor x = at::rand({2 << 20});
    at::manual_seed(i);
    const at::Tensor y = fast(x);
    at::manual_seed(i);
    EXPECT_TRUE(SameBits(y, f(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 3) << fast.stats().why;
}

TEST_F(JitTest, LongerFunctionsThanSequencesAreRefused) {
  auto fast = jit([](const at::Tensor& x) { return Chain(x, 32769); });
  const at::Tensor x = at::rand({8});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(SameBits(fast(x), Chain(x, 32769)));
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_too_long"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, HostReadsAreRefused) {
  ExpectRefused(
      [](const at::Tensor& x) {
        const at::Tensor y = x * 2;
        return y.sum().item<float>() > 8 ? y + 1 : y - 1;
      },
      "jit_host_read");
}

TEST_F(JitTest, ReadsThroughPointersAreRefused) {
  ExpectRefused(
      [](const at::Tensor& x) {
        const at::Tensor y = x * 2;
        return y + static_cast<double>(y.data_ptr<float>()[0]);
      },
      "jit_");
  ExpectRefused(
      [](const at::Tensor& x) {
        const at::Tensor y = x * 2;
        return y + static_cast<double>(y.const_data_ptr<float>()[0]);
      },
      "jit_");
}

TEST_F(JitTest, RandomNumbersAreRefused) {
  // By probabilities, into what was there, and into what is used already.
  ExpectRefused([](const at::Tensor& x) { return x + at::bernoulli(x); },
                "jit_random");
  const at::Tensor noise = at::rand({8});
  ExpectRefused([&](const at::Tensor& x) { return x + noise.uniform_(); },
                "jit_random");
  ExpectRefused(
      [](const at::Tensor& x) {
        at::Tensor y = at::zeros({8});
        return y.normal_() + x;
      },
      "jit_random");
  ExpectRefused([](const at::Tensor& x) { return x + at::randperm(8); },
                "jit_");
}

TEST_F(JitTest, OtherGeneratorsAreRefused) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  auto fast =
      jit([&](const at::Tensor& x) { return x + at::rand({8}, generator); });
  for (int i = 0; i < 8; ++i) fast(at::rand({8}));
  EXPECT_EQ(fast.stats().replays, 0);
}

// A function that seeds draws the same numbers each time.
TEST_F(JitTest, SeedsInsideAreRefused) {
  const auto f = [](const at::Tensor& x) {
    at::manual_seed(7);
    return x + at::rand({8});
  };
  auto fast = jit(f);
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::ones({8}) * i;
    EXPECT_TRUE(SameBits(fast(x), f(x))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_seeded"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, HostDataIsRefused) {
  double n = 0;
  ExpectRefused(
      [n](const at::Tensor& x) mutable {
        return x + at::tensor({n++, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0});
      },
      "jit_");
}

// A small tensor that dies inside is no number of libtorch's own.
TEST_F(JitTest, TensorsThatDieInsideAreRefused) {
  at::Tensor next = at::ones({1});
  auto fast = jit([&](const at::Tensor& x) {
    const at::Tensor scale = std::move(next);
    return x * scale;
  });
  for (int i = 0; i < 12; ++i) {
    next = at::full({1}, i < 5 ? 1.0f : static_cast<float>(i));
    const at::Tensor scale = next.clone(), x = at::rand({8});
    EXPECT_TRUE(SameBits(fast(x), x * scale)) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
}

TEST_F(JitTest, EscapingValuesAreRefused) {
  at::Tensor kept;
  auto fast = jit([&](const at::Tensor& x) {
    kept = x * 2;
    return kept + 1;
  });
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8});
    fast(x);
    EXPECT_TRUE(SameBits(kept, x * 2)) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_value_escapes"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, AHandleThatIsReplacedIsRefused) {
  at::Tensor h = at::zeros({8}), other = at::zeros({8});
  const auto next = [](at::Tensor& state, const at::Tensor& x) {
    state = state * 0.5 + x;
    return state * 2;
  };
  auto fast = jit([&](const at::Tensor& x) { return next(h, x); });
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8});
    EXPECT_TRUE(SameBits(fast(x), next(other, x))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
}

TEST_F(JitTest, KeptResultsAreRefused) {
  at::Tensor kept;
  auto fast = jit([&](const at::Tensor& x) {
    kept = x * 2;
    return kept;
  });
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8});
    fast(x);
    EXPECT_TRUE(SameBits(kept, x * 2)) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_value_escapes"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, OutputArgumentsAreRefused) {
  auto fast = jit([](at::Tensor& s, double& t) {
    s.add_(1);
    t += 0.5;
  });
  auto replaced = jit([](at::Tensor& s) { s = s + 1; });
  at::Tensor s = at::zeros({8}), r = at::zeros({8});
  double t = 0;
  for (int i = 0; i < 10; ++i) {
    fast(s, t);
    replaced(r);
  }
  EXPECT_EQ(t, 5);
  EXPECT_TRUE(SameBits(r, at::full({8}, 10.0f)));
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_output_argument"), std::string::npos)
      << fast.stats().why;
  EXPECT_EQ(replaced.stats().replays, 0);
}

TEST_F(JitTest, ArgumentsThatGrowAreRefused) {
  auto fast = jit([](Tensors& all) {
    all.push_back(all.back() * 2);
    return all.back() + 1;
  });
  Tensors all = {at::ones({4})};
  for (int i = 0; i < 8; ++i) fast(all);
  EXPECT_EQ(all.size(), 9u);
  EXPECT_TRUE(SameBits(all.back(), at::full({4}, 256.0f)));
  EXPECT_EQ(fast.stats().replays, 0);
}

TEST_F(JitTest, TypesTellCallsApart) {
  const auto f = [](const at::Tensor& x, auto t) {
    return std::pair(x * static_cast<double>(t), t);
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 6; ++i) {
    const at::Tensor x = at::rand({4});
    EXPECT_EQ(fast(x, 2.0).second, 2.0);
    EXPECT_EQ(fast(x, 3.0f).second, 3.0f);
    EXPECT_TRUE(SameBits(fast(x, 2).first, x * 2.0));
  }
}

// Under a pause a function runs, and nothing is left pending.
TEST_F(JitTest, PausesAreObserved) {
  auto fast =
      jit([](const at::Tensor& x) { return x * 2 + 1; }, {.verify_every = 0});
  const at::Tensor x = at::rand({8});
  for (int i = 0; i < 5; ++i) fast(x);
  const std::int64_t replays = fast.stats().replays;
  {
    const Pause pause;
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(SameBits(fast(x), x * 2 + 1));
    EXPECT_EQ(fast.stats().replays, replays);
  }
  fast(x);
  EXPECT_EQ(fast.stats().replays, replays + 1);
}

TEST_F(JitTest, ReadsOfArgumentsAreRefused) {
  const auto pick = [](const at::Tensor& x, const at::Tensor& flag) {
    return flag.const_data_ptr<float>()[0] > 0.5f ? x + 1 : x - 1;
  };
  auto fast = jit(pick);
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({8}), flag = at::full({1}, i % 2 + 0.0f);
    EXPECT_TRUE(SameBits(fast(x, flag), pick(x, flag))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_host_read"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, SparseTensorsInsideAreRefused) {
  const at::Tensor sparse = at::eye(8).to_sparse();
  ExpectRefused(
      [&](const at::Tensor& x) { return at::mm(sparse, x.view({8, 1})) + 1; },
      "jit_");
}

// A replay would not make the tangent of its results.
TEST_F(JitTest, DualTensorsRun) {
  const at::AutoGradMode with_gradients(true);
  auto fast =
      jit([](const at::Tensor& x) { return x * 2 + 1; }, {.verify_every = 0});
  const at::Tensor x = at::rand({8}), tangent = at::rand({8});
  for (int i = 0; i < 6; ++i) fast(x);
  const std::int64_t replays = fast.stats().replays;
  EXPECT_GE(replays, 2) << fast.stats().why;
  const std::uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
  for (int i = 0; i < 4; ++i) {
    const at::Tensor dual = at::_make_dual(x, tangent, level);
    const auto [primal, rate] = at::_unpack_dual(fast(dual), level);
    EXPECT_TRUE(SameBits(primal, x * 2 + 1));
    EXPECT_TRUE(SameBits(rate, tangent * 2));
  }
  torch::autograd::ForwardADLevel::release_idx(level);
  EXPECT_EQ(fast.stats().replays, replays);
}

// A replay would leave the mode as it was.
TEST_F(JitTest, ModesThatStayChangedAreRefused) {
  auto fast = jit([](const at::Tensor& x) {
    at::GradMode::set_enabled(!at::GradMode::is_enabled());
    return x * 2 + 1;
  });
  for (int i = 0; i < 12; ++i) {
    const bool before = at::GradMode::is_enabled();
    fast(at::rand({8}));
    EXPECT_EQ(at::GradMode::is_enabled(), !before) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_mode"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, NoJitScopesAreRefused) {
  int prints = 0;
  ExpectRefused(
      [&](const at::Tensor& x) {
        const at::Tensor y = x * 2;
        {
          const NoJit host("prints");
          ++prints;
        }
        return y + 1;
      },
      "jit_opaque_scope");
  EXPECT_EQ(prints, 20);
}

TEST_F(JitTest, GradientsAreRefused) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor w = at::rand({8}).requires_grad_();
  auto fast = jit([&](const at::Tensor& x) { return (x * w).sum(); });
  for (int i = 0; i < 10; ++i) {
    const at::Tensor y = fast(at::rand({8}));
    EXPECT_TRUE(y.requires_grad());
    y.backward();
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_gradients"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, ExceptionsPassThrough) {
  const at::Tensor bad = at::rand({3});
  auto fast = jit([&](const at::Tensor& x, bool fails) {
    const at::Tensor y = x * 2;
    return fails ? y + bad : y + 1;
  });
  for (int i = 0; i < 12; ++i) {
    const at::Tensor x = at::rand({8});
    if (i % 3 == 1) {
      EXPECT_THROW(fast(x, true), c10::Error);
    } else {
      EXPECT_TRUE(SameBits(fast(x, false), x * 2 + 1)) << i;
    }
  }
  EXPECT_GE(fast.stats().replays, 3) << fast.stats().why;
}

TEST_F(JitTest, StrictThrows) {
  auto fast = jit([](const at::Tensor& x) { return x + at::bernoulli(x); },
                  {.name = "draws", .strict = true});
  try {
    fast(at::rand({8}));
    ADD_FAILURE();
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("draws is not replayed: jit_random"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tjit
