// Functions with ops that run at the call: Note [Parts] in parts.h.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <tjit/torchscript.h>
#include <torch/library.h>
#include <unistd.h>

#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;

at::Tensor Matrix(std::int64_t n = 6) {
  return at::rand({n, n}) + static_cast<double>(n) * at::eye(n);
}

// Of a function that is replayed: `calls` more of them have eager's bits, and
// nearly all of them are replays.
template <class F, class Make>
void ExpectReplayed(const F& f, const Make& make, int calls = 40) {
  auto fast = jit(f);
  for (int i = 0; i < 6; ++i) ExpectSame(fast, f, make());
  const std::int64_t before = fast.stats().replays;
  for (int i = 0; i < calls; ++i) ExpectSame(fast, f, make());
  EXPECT_GE(fast.stats().replays - before, calls - 8) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

at::Tensor Solved(const at::Tensor& a) {
  const at::Tensor m = at::tanh(at::mm(a, a.t())) + 20 * at::eye(a.size(0));
  const at::Tensor x = at::linalg_solve(m, at::sigmoid(a * 2) + 1);
  return at::relu(at::tanh(x) * 2 - 0.1) + a;
}

TEST_F(JitTest, AFunctionWithASolverIsReplayed) {
  int runs = 0;
  auto fast = jit([&](const at::Tensor& a) {
    ++runs;
    return Solved(a);
  });
  for (int i = 0; i < 10; ++i) fast(at::rand({16, 16}));
  const int before = runs;
  const Stats then = stats();
  for (int i = 0; i < 20; ++i) {
    const at::Tensor a = at::rand({16, 16});
    EXPECT_TRUE(SameBits(fast(a), Solved(a))) << i;
  }
  EXPECT_LE(runs - before, 2) << fast.stats().why;  // checks
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
  EXPECT_GT((stats() - then).ops_replayed, 18 * 8);
}

TEST_F(JitTest, EachSolverIsAPart) {
  const auto spd = [] {
    const at::Tensor a = Matrix();
    return at::mm(a, a.t());
  };
  ExpectReplayed([](const at::Tensor& a) { return at::inverse(a * 2) + 1; },
                 spd);
  ExpectReplayed(
      [](const at::Tensor& a) { return at::linalg_cholesky(a * 2) * a; }, spd);
  ExpectReplayed(
      [](const at::Tensor& a) {
        const auto [values, vectors] = at::linalg_eigh(a + 1);
        return vectors * values.exp().log();
      },
      spd);
  ExpectReplayed(
      [](const at::Tensor& a) { return at::linalg_eigvalsh(a + 1) * 2; }, spd);
  ExpectReplayed(
      [](const at::Tensor& a) {
        const auto [u, s, v] = at::linalg_svd(a * 0.5);
        return u * s + v;
      },
      spd);
  ExpectReplayed(
      [](const at::Tensor& a) {
        const auto [lu, pivots] = at::linalg_lu_factor(a * 2);
        return at::linalg_lu_solve(lu, pivots, a + 1) - 1;
      },
      spd);
  ExpectReplayed(
      [](const at::Tensor& a) {
        return std::get<0>(at::linalg_cholesky_ex(a + a));
      },
      spd);
}

TEST_F(JitTest, APartMayBeFirstOrLastAndReturnedItself) {
  ExpectReplayed([](const at::Tensor& a) { return at::inverse(a) * 2; },
                 [] { return Matrix(); });
  ExpectReplayed(
      [](const at::Tensor& a) { return std::get<0>(at::linalg_inv_ex(a * 2)); },
      [] { return Matrix(); });
  ExpectReplayed(
      [](const at::Tensor& a) {
        return std::get<0>(at::linalg_inv_ex(a * 2)).t().narrow(0, 1, 3);
      },
      [] { return Matrix(); });
  ExpectReplayed(
      [](const at::Tensor& a) {
        return std::get<0>(at::linalg_inv_ex(a * 2)).mul_(3).add_(1);
      },
      [] { return Matrix(); });
}

// Attention's kernel has other bits where query, key and value are one tensor,
// and asks whether they are the same, not whether they have the same values.
TEST_F(JitTest, PartsArePassedTheSameTensorsAgain) {
  const at::Tensor in = at::rand({24, 8}) - 0.5, in_bias = at::rand({24});
  const at::Tensor out = at::rand({8, 8}) - 0.5, out_bias = at::rand({8});
  const auto attend = [&](const at::Tensor& q, const at::Tensor& k) {
    return std::get<0>(at::_native_multi_head_attention(
        q, k, k, 8, 2, in, in_bias, out, out_bias));
  };
  const auto make = [] { return at::rand({4, 6, 8}) - 0.5; };
  const at::Tensor x = make();
  ExpectReplayed(
      [&](const at::Tensor& a) {
        const at::Tensor b = a * 2;
        return attend(b, b) + attend(b, b.view_as(b)) + attend(a, a);
      },
      make);
  const auto f = [&](const at::Tensor& a, const at::Tensor& b) {
    return attend(a, b) * 2;
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) {
    const at::Tensor a = make(), b = i % 3 == 0 ? a : a.view_as(a);
    EXPECT_TRUE(SameBits(fast(a, b), f(a, b))) << i;
  }
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
  if (SameBits(attend(x, x), attend(x, x.view_as(x)))) {
    GTEST_SKIP() << "both ways have the same bits on this processor";
  }
}

// As a cache of keys begins: what is added to nothing.
TEST_F(JitTest, PartsArePassedTensorsWithoutElements) {
  ExpectReplayed(
      [](const at::Tensor& x) {
        const at::Tensor none = at::empty({0}), cache = at::zeros({3, 0, 4});
        return (at::cat({none, x * 2}, 1) + 1).tanh() +
               at::cat({cache, x.exp()}, 1);
      },
      [] { return at::rand({3, 5, 4}); });
}

TEST_F(JitTest, VersionsOfWhatPartsReturn) {
  const auto f = [](const at::Tensor& a) {
    const at::Tensor x = std::get<0>(at::linalg_inv_ex(a * 2));
    x.mul_(3);
    x.add_(a);
    return x;
  };
  auto fast = jit(f);
  for (int i = 0; i < 20; ++i) {
    const at::Tensor a = Matrix();
    const at::Tensor x = fast(a), expected = f(a);
    EXPECT_TRUE(SameBits(x, expected)) << i;
    EXPECT_EQ(x._version(), expected._version()) << i;
  }
  EXPECT_GE(fast.stats().replays, 12) << fast.stats().why;
}

TEST_F(JitTest, ManyPartsInARow) {
  ExpectReplayed(
      [](const at::Tensor& a) {
        at::Tensor x = a;
        for (int i = 0; i < 5; ++i) x = at::inverse(x) + a * i;
        return at::inverse(at::inverse(x)) - at::tanh(x);
      },
      [] { return Matrix(); });
}

// Values before a part that are used behind it, those that are not, views.
TEST_F(JitTest, ValuesLiveAcrossParts) {
  ExpectReplayed(
      [](const at::Tensor& a) {
        const at::Tensor x = a * 2, y = x.t() + 1, z = at::tanh(x);
        const at::Tensor v = at::linalg_solve(y.t(), z.narrow(1, 1, 2));
        return at::mm(x, v) + z.sum(1, true) + y.narrow(1, 0, 2);
      },
      [] { return Matrix(); });
}

TEST_F(JitTest, WhatAPartTakesFromOutside) {
  at::Tensor m = Matrix();
  const auto f = [&](const at::Tensor& a) {
    return at::linalg_solve(m, a) + a;
  };
  auto fast = jit(f);
  for (int i = 0; i < 30; ++i) {
    if (i % 3 == 0) m.add_(0.1);
    ExpectSame(fast, f, Matrix());
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
  m = Matrix();  // another tensor
  for (int i = 0; i < 30; ++i) ExpectSame(fast, f, Matrix());
  EXPECT_GE(fast.stats().replays, 35) << fast.stats().why;
}

TEST_F(JitTest, ArgumentsOfPartsBeginAnywhere) {
  const at::Tensor whole = at::rand({40, 5, 5}) + 4 * at::eye(5);
  const auto f = [](const at::Tensor& a) {
    return at::inverse(a.t()) + at::mm(a, a);
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) {
    const at::Tensor a = whole[i];
    ExpectSame(fast, f, a);
    ExpectSame(fast, f, whole[(7 * i) % 40].clone());
  }
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
}

TEST_F(JitTest, APartReadsMemoryThatTheProgramHolds) {
  std::vector<float> data(6 * 6);
  const auto f = [&](const at::Tensor& a) { return at::inverse(a) * 2 + a; };
  auto fast = jit(f);
  for (int i = 0; i < 30; ++i) {
    const at::Tensor from = Matrix();
    sync();
    std::memcpy(data.data(), from.const_data_ptr(), from.nbytes());
    const at::Tensor a = at::from_blob(data.data(), {6, 6});
    EXPECT_TRUE(SameBits(fast(a), f(from))) << i;
  }
}

TEST_F(JitTest, ASingularMatrixThrowsAsEagerDoes) {
  const auto f = [](const at::Tensor& a) {
    return at::linalg_solve(a * 2, a + 1) + 1;
  };
  auto fast = jit(f);
  for (int i = 0; i < 20; ++i) ExpectSame(fast, f, Matrix());
  const auto text_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "nothing";
  };
  const at::Tensor zero = at::zeros({6, 6});
  for (int i = 0; i < 3; ++i) {
    const std::string expected = text_of([&] { f(zero); });
    EXPECT_NE(expected.find("singular"), std::string::npos);
    EXPECT_EQ(text_of([&] { fast(zero); }), expected);
    ExpectSame(fast, f, Matrix());
  }
  const std::int64_t before = fast.stats().replays;
  for (int i = 0; i < 20; ++i) ExpectSame(fast, f, Matrix());
  EXPECT_GE(fast.stats().replays - before, 10) << fast.stats().why;
}

// As programs do that add to the diagonal until a matrix is positive definite.
TEST_F(JitTest, AnErrorThatTheFunctionCatches) {
  const auto f = [](const at::Tensor& a) {
    at::Tensor m = a * 1;
    for (double jitter = 1;; jitter *= 10) {
      try {
        return at::linalg_cholesky(m) * 2;
      } catch (const c10::Error&) {
        m = a + jitter * at::eye(6);
      }
    }
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) {
    const at::Tensor a = Matrix(), spd = at::mm(a, a.t());
    ExpectSame(fast, f, spd);
    if (i % 8 == 7) ExpectSame(fast, f, spd - 30 * at::eye(6));
  }
  EXPECT_GE(fast.stats().replays, 10) << fast.stats().why;
}

// Its kernel throws, and no read behind it.
TEST_F(JitTest, AKernelThatThrows) {
  const auto f = [](const at::Tensor& a) {
    return std::get<0>(at::linalg_eigh(a * 1)) + 1;
  };
  auto fast = jit(f);
  for (int i = 0; i < 20; ++i) ExpectSame(fast, f, Matrix());
  const at::Tensor bad = at::full({6, 6}, NAN);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(f(bad), c10::Error);
    EXPECT_THROW(fast(bad), c10::Error);
    ExpectSame(fast, f, Matrix());
  }
  EXPECT_GE(fast.stats().replays, 12) << fast.stats().why;
}

TEST_F(JitTest, WritesBehindParts) {
  at::Tensor state = at::zeros({6, 6}), twin = at::zeros({6, 6});
  const auto f = [](at::Tensor& to, const at::Tensor& a) {
    const at::Tensor x = at::inverse(a + 1);
    to.add_(x);
    return to.sum();
  };
  auto fast = jit([&](const at::Tensor& a) { return f(state, a); });
  for (int i = 0; i < 40; ++i) {
    const at::Tensor a = Matrix();
    EXPECT_TRUE(SameBits(fast(a), f(twin, a))) << i;
    EXPECT_TRUE(SameBits(state, twin)) << i;
    EXPECT_EQ(state._version(), twin._version()) << i;
  }
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
}

// `refused`: the reason.
template <class F>
void ExpectRefused(const F& f, const std::string& refused) {
  auto fast = jit(f);
  for (int i = 0; i < 8; ++i) {
    const at::Tensor a = Matrix();
    at::manual_seed(i);
    const at::Tensor y = fast(a);
    at::manual_seed(i);
    EXPECT_TRUE(SameBits(y, f(a))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find(refused), std::string::npos)
      << fast.stats().why;
}

// What was written before a solver that throws is put back, and the function
// writes it anew.
TEST_F(JitTest, WritesBeforeParts) {
  const auto f = [](const at::Tensor& to, const at::Tensor& part,
                    const at::Tensor& a) {
    to.mul_(0.5);
    part.add_(1);
    at::Tensor y = a;
    try {
      y = at::inverse(to + a);
    } catch (const c10::Error&) {
      to.sub_(3);
    }
    to.add_(y);
    return y * 2;
  };
  at::Tensor state = at::zeros({6, 6}), twin = at::zeros({6, 6});
  at::Tensor row = at::zeros({3, 6}), other = at::zeros({3, 6});
  auto fast = jit([&](const at::Tensor& part, const at::Tensor& a) {
    return f(state, part, a);
  });
  for (int i = 0; i < 60; ++i) {
    const at::Tensor a = i % 20 == 19 ? -0.5 * state : Matrix();
    EXPECT_TRUE(SameBits(fast(row[1], a), f(twin, other[1], a))) << i;
    EXPECT_TRUE(SameBits(state, twin)) << i;
    EXPECT_TRUE(SameBits(row, other)) << i;
    EXPECT_EQ(state._version(), twin._version()) << i;
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, PartsBehindLargeWritesAndDrawsAreRefused) {
  at::Tensor state = at::zeros({200, 200});
  ExpectRefused(
      [&](const at::Tensor& a) {
        state.add_(1);
        return std::get<0>(at::linalg_inv_ex(a + 1)) + state.sum() * 0;
      },
      "jit_call_after_write");
  ExpectRefused(
      [](const at::Tensor& a) {
        return std::get<0>(at::linalg_inv_ex(a + at::rand({6, 6})));
      },
      "jit_call_after_write");
}

// As programs ask that want no exception.
TEST_F(JitTest, WhatAPartReturnsIsReadOnTheHost) {
  const auto f = [](const at::Tensor& a) {
    const auto [l, info] = at::linalg_cholesky_ex(a * 2);
    return info.item<int>() == 0 ? l + 1 : a * 3;
  };
  auto fast = jit(f);
  for (int i = 0; i < 80; ++i) {
    const at::Tensor a = Matrix(), spd = at::mm(a, a.t());
    ExpectSame(fast, f, i % 4 == 3 ? spd * -1 : spd);
  }
  EXPECT_GE(fast.stats().replays, 50) << fast.stats().why;
  EXPECT_EQ(fast.stats().plans, 2);
}

TEST_F(JitTest, SizesThatDependOnValuesAreRefused) {
  ExpectRefused([](const at::Tensor& a) { return (a * 2).nonzero().sum(); },
                "jit_");
  ExpectRefused(
      [](const at::Tensor& a) { return (a * 2).index({a > 0.5}) + 1; }, "jit_");
}

TEST_F(JitTest, PartsThatKeepWhatTheyMakeAreRefused) {
  at::Tensor kept;
  ExpectRefused(
      [&](const at::Tensor& a) {
        kept = std::get<0>(at::linalg_inv_ex(a * 2));
        return kept + 1;
      },
      "jit_value_escapes");
}

TEST_F(JitTest, NumbersThatGoIntoParts) {
  const auto f = [](const at::Tensor& a, double tolerance) {
    return at::linalg_pinv(a * 2, tolerance, 0.0) + tolerance;
  };
  auto fast = jit(f);
  for (int i = 0; i < 60; ++i) ExpectSame(fast, f, Matrix(), 0.01 * (i % 7));
  EXPECT_GE(fast.stats().replays, 20) << fast.stats().why;
}

TEST_F(JitTest, OpaqueOpsAreParts) {
  mark_opaque("aten::cosh");
  const auto f = [](const at::Tensor& a) {
    return at::tanh(at::cosh(a * 2) + 1) * 2;
  };
  ExpectReplayed(f, [] { return Matrix(); });
}

TEST_F(JitTest, OpaqueOpsWithNumbers) {
  mark_opaque("aten::addcmul");
  const auto f = [](const at::Tensor& a, double k) {
    return at::tanh(at::addcmul(a * 2, a, a, k)) + k;
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) ExpectSame(fast, f, Matrix(), 0.1 * i);
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
}

// They could not be called again where a replay ends.
TEST_F(JitTest, OpsAtTheCallThatWriteAreRefused) {
  mark_opaque("aten::addcmul_");
  ExpectRefused(
      [](const at::Tensor& a) {
        at::Tensor x = a * 2;
        x.addcmul_(a, a, 0.5);
        return at::tanh(x);
      },
      "jit_at_call");
}

TEST_F(JitTest, AStaleNumberOfAPartIsFound) {
  mark_opaque("aten::addcmul");
  auto fast = jit([](const at::Tensor& a, double k) {
    return at::tanh(at::addcmul(a * 2, a, a, k));
  });
  const at::Tensor a = Matrix();
  for (int i = 0; i < 10; ++i) fast(a, 0.1 * i);
  const at::Tensor right = fast(a, 3.5);
  const Tensors wrong =
      UnderDefect("stale_scalar", [&] { return Tensors{fast(a, 3.5)}; });
  EXPECT_FALSE(SameBits(right, wrong[0]));
}

TEST_F(JitTest, ChecksOfFunctionsWithParts) {
  auto fast = jit(&Solved, {.verify_every = 2});
  for (int i = 0; i < 60; ++i) ExpectSame(fast, &Solved, at::rand({8, 8}));
  EXPECT_EQ(fast.stats().not_same, 0) << fast.stats().why;
  EXPECT_GE(fast.stats().verified, 10);
  EXPECT_GE(fast.stats().replays, 20);
}

TEST_F(JitTest, EachSizeOfAPartIsAWay) {
  auto fast = jit(&Solved);
  for (int i = 0; i < 60; ++i) {
    ExpectSame(fast, &Solved, at::rand({4 + i % 3, 4 + i % 3}));
  }
  EXPECT_GE(fast.stats().replays, 36) << fast.stats().why;
  EXPECT_EQ(fast.stats().plans, 3);
}

TEST_F(JitTest, PartsInLoopsThatConverge) {
  // Newton's method for x * x = a.
  const auto f = [](const at::Tensor& a) {
    at::Tensor x = at::eye(6) * 3;
    for (int i = 0; i < 30; ++i) {
      const at::Tensor next = (x + at::linalg_solve(x, a)) * 0.5;
      const bool is_near = ((next - x).abs().max() < 1e-3).item<bool>();
      x = next;
      if (is_near) break;
    }
    return x;
  };
  auto fast = jit(f);
  for (int i = 0; i < 60; ++i) {
    const at::Tensor a = Matrix() * (i % 3 == 0 ? 20 : 1);
    ExpectSame(fast, f, a);
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, TwoThreadsCallOneWithParts) {
  auto fast = jit(&Solved);
  const auto calls = [&] {
    const at::NoGradGuard no_grad;
    int wrong = 0;
    for (int i = 0; i < 100; ++i) {
      const at::Tensor a = at::full({8, 8}, 0.01 * (i % 10));
      wrong += !SameBits(fast(a), Solved(a));
    }
    EXPECT_EQ(wrong, 0);
  };
  std::thread other(calls);
  calls();
  other.join();
  EXPECT_GE(fast.stats().replays, 100) << fast.stats().why;
}

// A part's argument is pending on another thread.
TEST_F(JitTest, APartWaitsForOtherThreads) {
  const auto f = [](const at::Tensor& a) { return at::inverse(a) + 1; };
  auto fast = jit(f);
  for (int i = 0; i < 10; ++i) ExpectSame(fast, f, Matrix());
  auto make = jit([](const at::Tensor& a) { return at::tanh(a) + a * 9; });
  for (int i = 0; i < 20; ++i) {
    const at::Tensor from = Matrix();
    at::Tensor a;
    std::thread other([&] {
      const at::NoGradGuard no_grad;
      for (int n = 0; n < 4; ++n) a = make(from);
    });
    other.join();
    EXPECT_TRUE(SameBits(fast(a), f(at::tanh(from) + from * 9))) << i;
  }
}

TEST_F(JitTest, FunctionsWithPartsAreForgottenAndComeBack) {
  auto fast = jit(&Solved);
  for (int i = 0; i < 10; ++i) ExpectSame(fast, &Solved, at::rand({8, 8}));
  clear();
  for (int i = 0; i < 10; ++i) ExpectSame(fast, &Solved, at::rand({8, 8}));
  EXPECT_GE(fast.stats().replays, 6) << fast.stats().why;
}

TEST_F(JitTest, InInferenceMode) {
  const c10::InferenceMode mode;
  ExpectReplayed(&Solved, [] { return at::rand({8, 8}); });
}

// A step of training through a solver.
TEST_F(JitTest, BackwardPassesThroughParts) {
  const at::AutoGradMode grad(true);
  const auto weights = [] {
    at::manual_seed(3);
    return (at::rand({6, 6}) + 6 * at::eye(6)).requires_grad_();
  };
  at::Tensor w = weights(), twin = weights();
  const auto f = [](const at::Tensor& w, const at::Tensor& a) {
    const at::Tensor loss = at::linalg_solve(w * 2, a).pow(2).mean();
    loss.backward();
    return loss.detach();
  };
  auto fast = jit([&](const at::Tensor& a) { return f(w, a); });
  for (int i = 0; i < 30; ++i) {
    const at::Tensor a = at::rand({6, 3});
    w.mutable_grad().reset();
    twin.mutable_grad().reset();
    EXPECT_TRUE(SameBits(fast(a), f(twin, a))) << i;
    EXPECT_TRUE(SameBits(w.grad(), twin.grad())) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST_F(JitTest, ExplainNamesTheParts) {
  auto fast = jit(
      [](const at::Tensor& a) {
        const at::Tensor x = std::get<0>(at::linalg_inv_ex(a * 2));
        return std::get<0>(at::linalg_inv_ex(x + a)) * 2;
      },
      {.name = "parts", .verify_every = 0});
  for (int i = 0; i < 8; ++i) fast(Matrix());
  EXPECT_THAT(explain(),
              HasSubstr("jit parts: replayed 6 of 8 calls in 1 way: 3 traced "
                        "sequences, 2 ops at the call (aten::linalg_inv_ex: "
                        "may throw on values)\n"));
}

TEST_F(JitTest, FunctionsWithPartsAreNotSaved) {
  auto fast = jit([](const at::Tensor& a) {
    return std::get<0>(at::linalg_inv_ex(a * 2)) + 1;
  });
  const at::Tensor a = Matrix();
  for (int i = 0; i < 8; ++i) fast(a);
  const std::string path = ::testing::TempDir() + "jit_parts.pt";
  try {
    save_torchscript(path, fast, {}, a);
    ADD_FAILURE();
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("2 traced sequences, 1 op at the call "
                          "(aten::linalg_inv_ex: may throw on values), which a "
                          "file has not"));
  }
}

TEST_F(JitTest, StepsBetweenPartsAreCompiled) {
  disable();
  Options options;
  options.backend = Backend::kInterpreter;
  ASSERT_TRUE(enable(options));
  auto fast = jit(&Solved);
  // How many segments of 20 replays ran with code.
  const auto calls = [&] {
    const at::Tensor a = at::rand({16, 16});
    sync();
    const std::int64_t before = stats().replays_tier2;
    at::Tensor y;
    for (int i = 0; i < 20; ++i) y = fast(a);
    sync();
    const std::int64_t with_code = stats().replays_tier2 - before;
    EXPECT_TRUE(SameBits(y, Solved(a)));
    return with_code;
  };
  // Code of what lies before the solver and of what lies behind it: each is
  // compiled once it has run for long.
  std::int64_t with_code = 0;
  for (int i = 0; i < 500 && with_code < 2 * 18; ++i) {
    with_code = calls();
    ASSERT_TRUE(wait_until_compiled());
  }
  EXPECT_GE(with_code, 2 * 18);
  EXPECT_GE(fast.stats().replays, 18);
}

TEST_F(JitTest, AChildReplaysFunctionsWithParts) {
  auto fast = jit(&Solved, {.verify_every = 0});
  const at::Tensor a = at::rand({8, 8});
  for (int i = 0; i < 10; ++i) fast(a);
  const at::Tensor expected = Solved(a);
  sync();
  const pid_t child = fork();
  if (child == 0) {
    const std::int64_t before = fast.stats().replays;
    bool is_right = true;
    for (int i = 0; i < 5; ++i) is_right &= SameBits(fast(a), expected);
    _exit(is_right && fast.stats().replays == before + 5 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(SameBits(fast(a), expected));
}

TEST_F(JitTest, APlaceThatIsLostInAPartIsFound) {
  const at::Tensor whole = at::rand({9, 5, 5}) + 4 * at::eye(5);
  auto fast = jit([](const at::Tensor& a) { return at::inverse(a) + a; });
  for (int i = 0; i < 18; ++i) fast(whole[i % 9]);
  const at::Tensor right = fast(whole[5]);
  const Tensors wrong =
      UnderDefect("lost_shift", [&] { return Tensors{fast(whole[5])}; });
  EXPECT_FALSE(SameBits(right, wrong[0]));
}

// A random function with solvers in random places.
class Solver : public RandomFunction {
 public:
  explicit Solver(std::uint32_t seed) : RandomFunction(seed, {5, 5}) {}

  Tensors operator()(const at::Tensor& x, const at::Tensor& w, double k) {
    Begin(x, w);
    for (std::uint32_t ops = 4 + Below(14); ops != 0; --ops) AddOp(k);
    if (Below(2) == 0) state_.add_(One() * 0.01);
    if (Below(3) == 0) x.mul_(0.9);
    return Results();
  }

 private:
  at::Tensor Regular() {
    const at::Tensor a = at::tanh(One());
    return at::mm(a, a.t()) + 3 * at::eye(5);
  }
  void AddOp(double k) {
    const at::Tensor a = One(), b = One();
    switch (Below(14)) {
      case 0:
        return pool_.push_back(a + b);
      case 1:
        return pool_.push_back(a * k - b);
      case 2:
        return pool_.push_back(at::tanh(a).t());
      case 3:
        return pool_.push_back(at::zeros({5, 5}).add_(a));
      case 4:
        return pool_.push_back(a + at::arange(5));
      case 5:
        return pool_.push_back(at::linalg_solve(Regular(), b));
      case 6:
        return pool_.push_back(at::inverse(Regular()));
      case 7:
        return pool_.push_back(at::linalg_cholesky(Regular()));
      case 8:
        return pool_.push_back(std::get<1>(at::linalg_eigh(Regular())).add_(k));
      case 9:
        return pool_.push_back(
            std::get<0>(at::linalg_inv_ex(at::eye(5) + 0.1 * at::tanh(a))));
      case 11:
        state_.mul_(0.5).add_(a);
        return;
      case 12:
        // No matrix that is positive definite, in one call of thirty.
        try {
          pool_.push_back(at::linalg_cholesky(
              Regular() - at::relu(pool_[0][0][0] - 0.97) * 10000));
        } catch (const c10::Error&) {
          pool_.push_back(b * 2);
        }
        return;
      case 10: {
        at::Tensor c = a.clone();
        c[1].mul_(k);
        return pool_.push_back(c);
      }
      default:
        return pool_.push_back(at::mm(a, b) * 0.1);
    }
  }
};

TEST_F(JitTest, RandomFunctionsWithParts) {
  std::int64_t replays = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Solver wrapped(seed), eager(seed);
    auto fast = jit([&](const at::Tensor& x, const at::Tensor& w, double k) {
      return wrapped(x, w, k);
    });
    for (int i = 0; i < 20; ++i) {
      const at::Tensor x = at::rand({5, 5}), w = at::rand({5, 5}),
                       twin = x.clone();
      if (i % 16 == 15) static_cast<void>(x.data_ptr());
      const Tensors a = fast(x, w, 0.25 * (i % 4));
      const Tensors b = eager(twin, w, 0.25 * (i % 4));
      EXPECT_TRUE(SameBits(x, twin)) << seed << " " << i;
      EXPECT_TRUE(SameBits(wrapped.state(), eager.state())) << seed << " " << i;
      for (std::size_t r = 0; r < a.size(); ++r) {
        EXPECT_TRUE(SameBits(a[r], b[r])) << seed << " " << i << " " << r;
      }
    }
    replays += fast.stats().replays;
  }
  EXPECT_GE(replays, 60 * 8);
}

}  // namespace
}  // namespace tjit
