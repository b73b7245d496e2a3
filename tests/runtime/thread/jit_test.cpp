// Functions that tjit::jit() wraps: what is replayed has eager's bits and does
// not run the function, and what cannot be replayed says why.
// Tests: Note [Functions] in runtime/thread/functions/function_plan.h
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

struct JitTestState {
  at::Tensor position, velocity;
  double time = 0;
};
TJIT_FIELDS(JitTestState, position, velocity, time);

namespace tjit {
namespace {

// A chain of ten ops is replayed from the third call on, with new data.
TEST_F(JitTest, AChainIsReplayed) {
  int runs = 0;
  const auto chain = [&](const at::Tensor& a, const at::Tensor& b) {
    ++runs;
    at::Tensor x = a + b;
    for (int i = 0; i < 3; ++i) x = (x * b - a).relu();
    return x;
  };
  auto fast = jit(chain);
  for (int i = 0; i < 40; ++i) {
    const at::Tensor a = at::rand({64}), b = at::rand({64});
    const at::Tensor y = fast(a, b);
    const int now = runs;
    EXPECT_TRUE(SameBits(y, chain(a, b))) << i;
    runs = now;
  }
  const JitStats s = fast.stats();
  EXPECT_EQ(s.why, "");
  EXPECT_EQ(s.calls, 40);
  EXPECT_EQ(s.recordings, 1);
  EXPECT_EQ(runs + s.replays, 40);
  EXPECT_GE(s.replays, 30);
  EXPECT_EQ(s.not_same, 0);
}

// What the program asks for is replayed, not run eagerly.
TEST_F(JitTest, NoEagerKernelRuns) {
  auto fast = jit([](const at::Tensor& a) { return (a * 2 + 1).relu(); },
                  {.verify_every = 0});
  const at::Tensor a = at::rand({8});
  at::Tensor y;
  for (int i = 0; i < 4; ++i) y = fast(a);
  sync();
  const Stats before = stats();
  for (int i = 0; i < 10; ++i) {
    y = fast(a);
    mark_step();
  }
  const Stats since = stats() - before;
  EXPECT_EQ(since.ops_eager, 0) << fast.stats().why;
  EXPECT_EQ(since.ops_replayed, since.ops_seen);
  EXPECT_EQ(since.ops_seen, 30);
  EXPECT_TRUE(SameBits(y, (a * 2 + 1).relu()));
}

// Tensors from outside are read when the function is replayed.
TEST_F(JitTest, CapturedTensorsAreReadAnew) {
  at::Tensor w = at::rand({16, 8}), b = at::rand({8});
  const auto layer = [&](const at::Tensor& x) {
    return at::relu(at::linear(x, w.t(), b));
  };
  auto fast = jit(layer, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({4, 16});
    w.add_(0.25);
    EXPECT_TRUE(SameBits(fast(x), layer(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

// A weight that is replaced is seen, where the tensor is met itself.
TEST_F(JitTest, SetDataIsSeen) {
  at::Tensor w = at::rand({8});
  const at::Tensor old = w.detach();
  const auto scale = [&](const at::Tensor& x) { return x * w + 1; };
  auto fast = jit(scale, {.verify_every = 0});
  for (int i = 0; i < 5; ++i) fast(at::rand({8}));
  EXPECT_GE(fast.stats().replays, 2) << fast.stats().why;
  w.set_data(at::rand({8}));
  for (int i = 0; i < 5; ++i) {
    const at::Tensor x = at::rand({8});
    EXPECT_TRUE(SameBits(fast(x), scale(x))) << i;
  }
}

// State that the function updates in place, and its version counter.
TEST_F(JitTest, StateIsUpdatedInPlace) {
  at::Tensor state = at::zeros({32}), other = at::zeros({32});
  const auto update = [](at::Tensor& s, const at::Tensor& x) {
    s.mul_(0.5).add_(x);
    return s * 2;
  };
  auto fast = jit([&](const at::Tensor& x) { return update(state, x); },
                  {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({32});
    EXPECT_TRUE(SameBits(fast(x), update(other, x))) << i;
    EXPECT_TRUE(SameBits(state, other)) << i;
    EXPECT_EQ(state._version(), other._version()) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST_F(JitTest, AnArgumentIsUpdatedInPlace) {
  const auto update = [](at::Tensor s) { s.add_(1).mul_(2); };
  auto fast = jit(update, {.verify_every = 0});
  at::Tensor a = at::ones({32}), b = at::ones({32});
  for (int i = 0; i < 20; ++i) {
    fast(a);
    update(b);
    EXPECT_TRUE(SameBits(a, b)) << i;
    EXPECT_EQ(a._version(), b._version()) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

// A number that is passed may change from call to call.
TEST_F(JitTest, NumbersAreArguments) {
  const auto step = [](const at::Tensor& x, double dt) {
    return at::add(x * dt, x, dt).sub(1.5);
  };
  auto fast = jit(step, {.verify_every = 0});
  for (int i = 0; i < 30; ++i) {
    const at::Tensor x = at::rand({16});
    const double dt = 0.1 + 0.01 * i;
    EXPECT_TRUE(SameBits(fast(x, dt), step(x, dt))) << i;
  }
  const JitStats s = fast.stats();
  EXPECT_GE(s.replays, 25) << s.why;
  EXPECT_EQ(s.plans, 1);
}

// A number that decides what runs is one more form.
TEST_F(JitTest, WholeNumbersAreFixed) {
  const auto power = [](const at::Tensor& x, int n) {
    at::Tensor y = x;
    for (int i = 1; i < n; ++i) y = y * x;
    return y + 1;
  };
  auto fast = jit(power, {.verify_every = 0});
  for (int i = 0; i < 40; ++i) {
    const at::Tensor x = at::rand({16});
    const int n = 2 + i % 3;
    EXPECT_TRUE(SameBits(fast(x, n), power(x, n))) << i;
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_EQ(fast.stats().plans, 3);
}

// A double that only decides a branch is not known to be free.
TEST_F(JitTest, ANumberThatDecidesABranchIsNotFrozen) {
  const auto pick = [](const at::Tensor& x, double t) {
    return t < 0.5 ? (x + 1).relu() : (x - 1).relu();
  };
  auto fast = jit(pick, {.verify_every = 0});
  for (int i = 0; i < 60; ++i) {
    const at::Tensor x = at::rand({16});
    const double t = i % 2 == 0 ? 0.25 : 0.75;
    EXPECT_TRUE(SameBits(fast(x, t), pick(x, t))) << i;
  }
  EXPECT_GE(fast.stats().replays, 40) << fast.stats().why;
}

// A number from outside that moves is refused, and never frozen while it moves.
TEST_F(JitTest, ANumberFromNowhereIsRefused) {
  double t = 0;
  const auto step = [&](const at::Tensor& x) { return x * t + 1; };
  auto fast = jit(step);
  for (int i = 0; i < 20; ++i) {
    t = 0.125 * i;
    const at::Tensor x = at::rand({16});
    EXPECT_TRUE(SameBits(fast(x), step(x))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_number"), std::string::npos)
      << fast.stats().why;
}

// One that moves later is found by the next comparison, which runs the
// function.
TEST_F(JitTest, AFrozenNumberIsFound) {
  double t = 2;
  auto fast =
      jit([&](const at::Tensor& x) { return x * t + 1; }, {.verify_every = 4});
  const at::Tensor x = at::rand({16});
  for (int i = 0; i < 10; ++i) fast(x);
  t = 3;
  for (int i = 0; i < 6; ++i) fast(x);
  EXPECT_GE(fast.stats().not_same, 1);
  EXPECT_TRUE(SameBits(fast(x), x * 3 + 1));
}

TEST_F(JitTest, ThreeSizes) {
  const at::Tensor w = at::rand({8, 8});
  const auto layer = [&](const at::Tensor& x) { return at::mm(x, w).tanh(); };
  auto fast = jit(layer, {.verify_every = 0});
  for (int i = 0; i < 30; ++i) {
    const at::Tensor x = at::rand({2 + i % 3, 8});
    EXPECT_TRUE(SameBits(fast(x), layer(x))) << i;
  }
  EXPECT_EQ(fast.stats().plans, 3) << fast.stats().why;
  EXPECT_GE(fast.stats().replays, 20);
}

// Slices of one tensor: an argument that begins elsewhere.
TEST_F(JitTest, ArgumentsMoveInTheirStorage) {
  const at::Tensor all = at::rand({64, 8});
  const auto f = [](const at::Tensor& x) { return (x * x).sum(1) + x[0][0]; };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 16; ++i) {
    const at::Tensor x = all.narrow(0, 4 * i, 4);
    EXPECT_TRUE(SameBits(fast(x), f(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 12) << fast.stats().why;
}

// A tensor that is passed and captured: one storage for two things, until
// another one is passed.
TEST_F(JitTest, ACapturedTensorIsPassed) {
  const at::Tensor w = at::rand({8});
  const auto f = [&](const at::Tensor& x) { return (x + w) * x; };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(SameBits(fast(w), f(w)));
  EXPECT_GE(fast.stats().replays, 3) << fast.stats().why;
  for (int i = 0; i < 10; ++i) {
    const at::Tensor x = at::rand({8});
    EXPECT_TRUE(SameBits(fast(x), f(x))) << i;
  }
  EXPECT_TRUE(SameBits(fast(w), f(w)));
}

TEST_F(JitTest, TheSameTensorTwice) {
  const auto f = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).add(a * b);
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 24; ++i) {
    const at::Tensor a = at::rand({8}), b = i % 2 == 0 ? a : at::rand({8});
    EXPECT_TRUE(SameBits(fast(a, b), f(a, b))) << i;
  }
  EXPECT_GE(fast.stats().replays, 12) << fast.stats().why;
}

// A write that begins to be seen by another argument.
TEST_F(JitTest, ArgumentsThatBeginToOverlap) {
  const auto f = [](at::Tensor a, const at::Tensor& b) {
    a.add_(b);
    return a * b;
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 24; ++i) {
    const at::Tensor all = at::rand({16}), eager = all.clone();
    const bool overlaps = i % 3 == 2;
    const auto part = [&](const at::Tensor& t, int from) {
      return t.narrow(0, from, 8);
    };
    const at::Tensor y =
        fast(part(all, 0), overlaps ? part(all, 0) : at::ones({8}));
    const at::Tensor z =
        f(part(eager, 0), overlaps ? part(eager, 0) : at::ones({8}));
    EXPECT_TRUE(SameBits(y, z)) << i;
    EXPECT_TRUE(SameBits(all, eager)) << i;
  }
}

TEST_F(JitTest, StructuresOfTensors) {
  const auto f = [](const JitTestState& s, const Tensors& forces, double dt) {
    JitTestState next;
    next.velocity = s.velocity + (forces[0] + forces[1]) * dt;
    next.position = s.position + next.velocity * dt;
    next.time = 7;
    return next;
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const JitTestState s{at::rand({4}), at::rand({4}), 0};
    const Tensors forces = {at::rand({4}), at::rand({4})};
    const JitTestState a = fast(s, forces, 0.25), b = f(s, forces, 0.25);
    EXPECT_TRUE(SameBits(a.position, b.position)) << i;
    EXPECT_TRUE(SameBits(a.velocity, b.velocity)) << i;
    EXPECT_EQ(a.time, 7);
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST_F(JitTest, ResultsOfAllKinds) {
  const at::Tensor w = at::rand({4, 6});
  const auto f = [&](const at::Tensor& x) {
    const at::Tensor y = at::mm(x, w), z = y + 1;
    return Tensors{y, y.t(), z[0], x, x[1], at::Tensor(), y, w};
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({3, 4});
    const Tensors a = fast(x), b = f(x);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t r = 0; r < a.size(); ++r) {
      EXPECT_TRUE(SameBits(a[r], b[r])) << i << " " << r;
      if (!a[r].defined()) continue;
      EXPECT_EQ(a[r].strides(), b[r].strides()) << r;
      EXPECT_EQ(a[r].is_view(), b[r].is_view()) << r;
      EXPECT_EQ(a[r]._version(), b[r]._version()) << r;
    }
    EXPECT_TRUE(a[6].is_same(a[0]));
    EXPECT_TRUE(a[3].is_same(x));
    EXPECT_TRUE(a[7].is_same(w));
    EXPECT_EQ(a[1].storage().data(), a[0].storage().data());
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

// The base of a view is the tensor that it was made of, another result here.
TEST_F(JitTest, BasesOfViewsAreEagers) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor y = x * 2, alias = y.detach();
    return Tensors{y, alias, alias.narrow(0, 0, 2)};
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 8; ++i) {
    const at::Tensor x = at::rand({4});
    const Tensors a = fast(x), b = f(x);
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(SameBits(a[r], b[r])) << r;
      EXPECT_EQ(a[r].use_count(), b[r].use_count()) << r;
      EXPECT_EQ(a[r].is_view(), b[r].is_view()) << r;
    }
  }
}

// A later call does not overwrite what an earlier one returned.
TEST_F(JitTest, ResultsOwnTheirMemory) {
  auto fast = jit([](const at::Tensor& x) { return x * 2 + 1; });
  Tensors results, inputs;
  for (int i = 0; i < 20; ++i) {
    inputs.push_back(at::rand({8}));
    results.push_back(fast(inputs.back()));
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(SameBits(results[i], inputs[i] * 2 + 1)) << i;
  }
  EXPECT_GE(fast.stats().replays, 12) << fast.stats().why;
}

TEST_F(JitTest, AResultIsTheNextArgument) {
  const auto f = [](const at::Tensor& x) { return (x * 0.5 + 1).tanh(); };
  auto fast = jit(f);
  at::Tensor a = at::rand({8}), b = a.clone();
  for (int i = 0; i < 50; ++i) {
    a = fast(a);
    b = f(b);
  }
  EXPECT_TRUE(SameBits(a, b));
  EXPECT_GE(fast.stats().replays, 35) << fast.stats().why;
}

TEST_F(JitTest, TensorsThatAreMadeEmpty) {
  const auto f = [](const at::Tensor& x) {
    at::Tensor sum = at::zeros({8}), all = at::empty({2, 8});
    for (int i = 0; i < 3; ++i) sum.add_(x[i]);
    all[0].copy_(sum);
    all[1].copy_(sum * 2);
    const at::Tensor ones = at::ones({8});
    return Tensors{sum - ones, all};
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({3, 8});
    const Tensors a = fast(x), b = f(x);
    EXPECT_TRUE(SameBits(a[0], b[0])) << i;
    EXPECT_TRUE(SameBits(a[1], b[1])) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

// Inputs that the program fills through a pointer.
TEST_F(JitTest, ExposedArguments) {
  const at::Tensor x = at::empty({16});
  float* const data = x.data_ptr<float>();
  const auto f = [](const at::Tensor& t) { return (t * 3).relu() - t; };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    for (int j = 0; j < 16; ++j) data[j] = static_cast<float>(i * j) - 20;
    const at::Tensor y = fast(x), z = f(x);
    data[3] = 1000;
    EXPECT_TRUE(SameBits(y, z)) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST_F(JitTest, MemoryOfTheProgram) {
  std::vector<float> memory(16);
  const auto f = [](const at::Tensor& t) { return (t * 3).relu() - t; };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    for (int j = 0; j < 16; ++j) memory[j] = static_cast<float>(i * j) - 20;
    const at::Tensor x = at::from_blob(memory.data(), {16});
    EXPECT_TRUE(SameBits(fast(x), f(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

// --- calls that look like others
// -----------------------------------------------

// The same form, over other parts of one storage.
TEST_F(JitTest, PlacesThatAWholeNumberPicks) {
  const at::Tensor w = at::rand({3, 8});
  const auto f = [&](const at::Tensor& x, int i) { return x * w[i] + 1; };
  auto fast = jit(f);
  for (int i = 0; i < 90; ++i) ExpectSame(fast, f, at::rand({8}), i % 3);
  EXPECT_GE(fast.stats().replays, 60) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

TEST_F(JitTest, TwoFunctionsOverPartsOfOneStorage) {
  const at::Tensor all = at::rand({2, 8});
  const at::Tensor a = all[0], b = all[1];
  const auto first = [&](const at::Tensor& x) { return x * a + 1; };
  const auto second = [&](const at::Tensor& x) { return x * b + 1; };
  auto fast_first = jit(first);
  auto fast_second = jit(second);
  for (int i = 0; i < 30; ++i) {
    ExpectSame(fast_first, first, at::rand({8}));
    ExpectSame(fast_second, second, at::rand({8}));
  }
  EXPECT_GE(fast_first.stats().replays, 20) << fast_first.stats().why;
  EXPECT_GE(fast_second.stats().replays, 20) << fast_second.stats().why;
}

TEST_F(JitTest, ViewsOfArgumentsThatMove) {
  const at::Tensor all = at::rand({64, 8});
  const auto f = [](const at::Tensor& x) {
    return Tensors{x[1], x * 2, x.t()};
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 16; ++i) {
    const at::Tensor x = all.narrow(0, 4 * ((i * 7) % 16), 4);
    const Tensors a = fast(x), b = f(x);
    for (int r = 0; r < 3; ++r) {
      EXPECT_TRUE(SameBits(a[r], b[r])) << i << " " << r;
      EXPECT_EQ(a[r].storage_offset(), b[r].storage_offset());
    }
  }
  EXPECT_GE(fast.stats().replays, 12) << fast.stats().why;
}

TEST_F(JitTest, TwoPartsAtOtherDistances) {
  const at::Tensor all = at::rand({64});
  const auto f = [](const at::Tensor& a, const at::Tensor& b) {
    return a - b * 2;
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 40; ++i) {
    const int distance = i < 10 ? 8 : 8 + i % 3;
    ExpectSame(fast, f, all.narrow(0, i, 8), all.narrow(0, i + distance, 8));
  }
}

TEST_F(JitTest, NumbersOfOtherFormulas) {
  const auto mix = [](const at::Tensor& x, double t) {
    return at::lerp(x, x * x, t).pow(t * 10);
  };
  auto fast = jit(mix, {.verify_every = 0});
  for (const double t : {0.35, 0.45, 0.37, 0.2, 0.7, 0.05, 0.3, 0.9, 0.41}) {
    ExpectSame(fast, mix, at::rand({8}), t);
  }
  const auto power = [](const at::Tensor& x, double p) { return x.pow(p); };
  auto fast_power = jit(power, {.verify_every = 0});
  for (const double p : {3.5, 4.5, 5.5, 2.0, 3.0, 0.5, -1.0, 4.25, 6.0}) {
    ExpectSame(fast_power, power, at::rand({8}), p);
  }
}

TEST_F(JitTest, NumbersOfEqualValues) {
  const auto f = [](const at::Tensor& x, double a, double b) {
    return at::add(x * b, x, a);
  };
  for (const std::int64_t every : {0, 1}) {
    auto fast = jit(f, {.verify_every = every});
    for (const auto& [a, b] :
         std::vector<std::pair<double, double>>{{.1, .1},
                                                {.2, .2},
                                                {.5, .2},
                                                {.5, .6},
                                                {.7, .7},
                                                {.8, .9},
                                                {.3, .4},
                                                {.25, .75},
                                                {.1, .2}}) {
      ExpectSame(fast, f, at::rand({8}), a, b);
    }
  }
}

// Two that are always equal: nobody knows which one an op uses.
TEST_F(JitTest, NumbersThatAreAlwaysEqual) {
  const auto f = [](const at::Tensor& x, double a, double b) {
    return at::add(x * b, x, a);
  };
  auto fast = jit(f);
  for (int i = 0; i < 300; ++i) {
    ExpectSame(fast, f, at::rand({8}), 0.1 + i, 0.1 + i);
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_LE(fast.stats().recordings, 256);
  EXPECT_NE(fast.stats().why.find("jit_"), std::string::npos)
      << fast.stats().why;
}

TEST_F(JitTest, ReturnedNumbersFollow) {
  const auto f = [](const JitTestState& s, double dt) {
    JitTestState next;
    next.position = s.position * dt;
    next.velocity = s.velocity + 1;
    next.time = s.time + dt;
    return next;
  };
  auto fast = jit(f, {.verify_every = 0});
  for (const double dt : {.1, .2, .2, .2, .3, .3, .3, .4}) {
    const JitTestState s{at::rand({8}), at::rand({8}), 1};
    const JitTestState a = fast(s, dt), b = f(s, dt);
    EXPECT_EQ(a.time, b.time);
    EXPECT_TRUE(SameBits(a.position, b.position));
  }
}

// Branches that end alike: a check sees which results come out.
TEST_F(JitTest, AResultThatIsAnotherIsFound) {
  bool flag = true;
  auto fast = jit(
      [&](const at::Tensor& x) {
        const at::Tensor y = x + 1, z = x * 2;
        return flag ? y : z;
      },
      {.verify_every = 4});
  const at::Tensor x = at::rand({8});
  for (int i = 0; i < 9; ++i) fast(x);
  flag = false;
  for (int i = 0; i < 9; ++i) fast(x);
  EXPECT_GE(fast.stats().not_same, 1);
  EXPECT_TRUE(SameBits(fast(x), x * 2));
}

// Numbers that decide nothing that runs do not fill memory.
TEST_F(JitTest, PlansAreBounded) {
  const auto f = [](const at::Tensor& x, double) { return x * 2 + 1; };
  auto fast = jit(f);
  for (int i = 0; i < 300; ++i) ExpectSame(fast, f, at::rand({8}), i * 0.5);
  EXPECT_LE(fast.stats().plans, 64);
  for (int i = 0; i < 100; ++i) {
    ExpectSame(fast, f, at::rand({8}), 0.25);
    clear();
  }
}

// --- planted defects: the tests above would find them
// --------------------------

TEST_F(JitTest, AStaleNumberIsFound) {
  auto fast =
      jit([](const at::Tensor& x, double t) { return x * t + x.sub(t); },
          {.verify_every = 0});
  const at::Tensor x = at::rand({8});
  for (int i = 0; i < 4; ++i) fast(x, 0.5 + i);
  const Tensors y =
      UnderDefect("stale_scalar", [&] { return Tensors{fast(x, 9.5)}; });
  EXPECT_FALSE(SameBits(y[0], x * 9.5 + x.sub(9.5)));
}

TEST_F(JitTest, ASkippedGradientGuardIsFound) {
  const at::AutoGradMode with_gradients(true);
  auto fast =
      jit([](const at::Tensor& x) { return x * 2 + 1; }, {.verify_every = 0});
  for (int i = 0; i < 5; ++i) fast(at::rand({8}));
  EXPECT_GE(fast.stats().replays, 2) << fast.stats().why;
  const at::Tensor x = at::rand({8}).requires_grad_();
  EXPECT_TRUE(fast(x).requires_grad());
  const Tensors y =
      UnderDefect("skipped_grad_guard", [&] { return Tensors{fast(x)}; });
  EXPECT_FALSE(y[0].requires_grad());
}

TEST_F(JitTest, AReusedResultIsFound) {
  auto fast =
      jit([](const at::Tensor& x) { return x * 2 + 1; }, {.verify_every = 0});
  const at::Tensor x = at::rand({8}), z = at::rand({8});
  for (int i = 0; i < 4; ++i) fast(x);
  const Tensors y = UnderDefect("reused_result", [&] {
    Tensors results{fast(x)};
    sync();
    results.push_back(fast(x));
    return results;
  });
  EXPECT_TRUE(y[0].is_same(y[1]));
}

// --- around it
// -----------------------------------------------------------------

TEST_F(JitTest, FunctionsInsideFunctions) {
  auto inner = jit([](const at::Tensor& x) { return (x * 2).tanh(); });
  auto outer = jit([&](const at::Tensor& x) { return inner(x) + inner(x + 1); },
                   {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({8});
    EXPECT_TRUE(SameBits(outer(x), (x * 2).tanh() + ((x + 1) * 2).tanh()));
  }
  EXPECT_GE(outer.stats().replays, 15) << outer.stats().why;
}

TEST_F(JitTest, OneObjectOnManyThreads) {
  const at::Tensor w = at::rand({8, 8});
  const auto f = [&](const at::Tensor& x) { return at::mm(x, w).relu() + 1; };
  auto fast = jit(f);
  const auto work = [&] {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < 200; ++i) {
      const at::Tensor x = at::rand({4, 8});
      EXPECT_TRUE(SameBits(fast(x), f(x)));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  EXPECT_GE(fast.stats().replays, 900) << fast.stats().why;
}

TEST_F(JitTest, ClearAndDisableInBetween) {
  const auto f = [](const at::Tensor& x) { return (x * 2 + 1).relu(); };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 60; ++i) {
    if (i % 20 == 10) clear();
    if (i == 30) disable();
    if (i == 35) enable();
    const at::Tensor x = at::rand({8});
    EXPECT_TRUE(SameBits(fast(x), f(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

// What a call was recorded into is forgotten before the next one, which no op
// on this thread has noticed.
TEST_F(JitTest, ClearOnAnotherThread) {
  const auto chain = [](const at::Tensor& a) { return (a * 2 + 1).relu(); };
  Tensors in, out;
  for (int i = 0; i < 8; ++i) in.push_back(at::rand({8}) - 0.5);
  for (int round = 0; round < 4; ++round) {
    auto fast = jit(chain, {.verify_every = 0});
    out.clear();
    for (int i = 0; i < 8; ++i) {
      out.push_back(fast(in[i]));
      if (i == 0) std::thread([] { clear(); }).join();
    }
    EXPECT_EQ(fast.stats().recordings, 2) << fast.stats().why;
    EXPECT_GE(fast.stats().replays, 3) << fast.stats().why;
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(SameBits(out[i], chain(in[i]))) << round << " " << i;
    }
  }
}

// The program around it is recorded and replayed as ever.
TEST_F(JitTest, AStanceNamesTheFunction) {
  const auto chain = [](const at::Tensor& a) { return (a * 2 + 1).relu(); };
  auto known = jit(chain, {.name = "known", .verify_every = 0});
  auto unknown = jit(chain, {.name = "unknown", .verify_every = 0});
  const at::Tensor a = at::rand({8}) - 0.5;
  for (int i = 0; i < 4; ++i) known(a);
  set_stance(Stance::kFailOnRecompile);
  const std::int64_t before = known.stats().replays;
  EXPECT_NO_THROW(known(a));
  EXPECT_EQ(known.stats().replays, before + 1);
  try {
    unknown(a);
    mark_step();
    ADD_FAILURE() << "nothing was refused";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("\"unknown\""), std::string::npos)
        << e.what();
  }
  set_stance(Stance::kDefault);
  EXPECT_EQ(unknown.stats().recordings, 0);
  EXPECT_TRUE(SameBits(unknown(a), chain(a)));
}

// One that is given up is not recorded anyhow: nothing is refused.
TEST_F(JitTest, AStanceRefusesNothingThatIsGivenUp) {
  const auto reads = [](const at::Tensor& a) {
    return a * (a.sum().item<float>() > 0 ? 2 : 3);
  };
  auto fast = jit(reads);
  const at::Tensor a = at::rand({8});
  for (int i = 0; i < 20; ++i) fast(a);
  set_stance(Stance::kEagerOnRecompile);
  const Stats before = stats();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(SameBits(fast(a), reads(a)));
  set_stance(Stance::kDefault);
  EXPECT_EQ((stats() - before).recordings_refused, 0) << fast.stats().why;
}

TEST_F(JitTest, TheProgramAroundIt) {
  auto fast = jit([](const at::Tensor& x) { return (x * 2 + 1).relu(); });
  at::Tensor a = at::rand({8}), b = a.clone();
  for (int i = 0; i < 300; ++i) b = (((b * 0.5) * 2 + 1).relu() - 0.25).tanh();
  Stats half;
  for (int i = 0; i < 300; ++i) {
    if (i == 150) half = stats();
    a = (fast(a * 0.5) - 0.25).tanh();
  }
  const Stats since = stats() - half;
  EXPECT_TRUE(SameBits(a, b));
  EXPECT_GE(fast.stats().replays, 280) << fast.stats().why;
  EXPECT_GE(since.ops_replayed, since.ops_seen * 9 / 10) << since.to_json();
}

TEST_F(JitTest, InferenceMode) {
  const c10::InferenceMode inference;
  const at::Tensor w = at::rand({8, 8});
  const auto f = [&](const at::Tensor& x) { return at::linear(x, w).relu(); };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({4, 8});
    const at::Tensor y = fast(x);
    EXPECT_TRUE(y.is_inference());
    EXPECT_TRUE(SameBits(y, f(x))) << i;
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST_F(JitTest, ExplainNamesEachFunction) {
  auto good = jit([](const at::Tensor& x) { return x * 2 + 1; },
                  {.name = "good", .verify_every = 0});
  auto bad = jit([](const at::Tensor& x) { return x + at::bernoulli(x); },
                 {.name = "bad"});
  for (int i = 0; i < 8; ++i) {
    good(at::rand({8}));
    bad(at::rand({8}));
  }
  const std::string text = explain();
  EXPECT_NE(text.find("jit good: replayed 6 of 8 calls in 1 way\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("jit bad: replayed 0 of 8 calls in 0 ways; not replayed: "
                      "jit_random: it draws random numbers"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tjit
