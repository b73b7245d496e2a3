// Functions with ops that throw on values: what they index by is looked at
// before anything is replayed. Tests:
// runtime/thread/functions/replay_function.cpp, runtime/call/value_checks.h
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

at::Tensor RandomIndices(std::int64_t below, std::vector<std::int64_t> sizes) {
  return at::randint(below, sizes, at::kLong);
}

TEST_F(JitTest, EmbeddingsAreReplayed) {
  const at::Tensor table = at::rand({50, 8}), w = at::rand({8, 8});
  const auto f = [&](const at::Tensor& tokens) {
    return at::mm(at::embedding(table, tokens), w).relu();
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) ExpectSame(fast, f, RandomIndices(50, {6}));
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

TEST_F(JitTest, OpsWithIndicesAreReplayed) {
  const auto f = [](const at::Tensor& x, const at::Tensor& i) {
    at::Tensor y = at::zeros({10, 4});
    y.index_add_(0, i, x.index_select(0, i));
    y.scatter_add_(0, i.view({6, 1}).expand({6, 4}), x.narrow(0, 0, 6));
    return y + x.index({i}).sum(0) + x.gather(0, i.view({6, 1})).sum() +
           at::div(x, 0.3, "floor");
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    ExpectSame(fast, f, at::rand({10, 4}), RandomIndices(10, {6}));
  }
  EXPECT_GE(fast.stats().replays, 15) << fast.stats().why;
}

// Eager's op is short beside the look at its indices; the whole function is
// not.
TEST_F(JitTest, LongIndices) {
  const at::Tensor table = at::rand({50, 4});
  const auto f = [&](const at::Tensor& tokens) {
    return at::embedding(table, tokens).sum(0);
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 10; ++i) ExpectSame(fast, f, RandomIndices(50, {10000}));
  EXPECT_GE(fast.stats().replays, 6) << fast.stats().why;
}

// A classifier: the classes are passed, the loss and its gradient look at them.
TEST_F(JitTest, CrossEntropyIsReplayed) {
  const at::AutoGradMode with_gradients(true);
  at::Tensor w = at::rand({5, 8}).requires_grad_();
  const auto f = [&](const at::Tensor& x, const at::Tensor& classes) {
    const at::Tensor loss = at::cross_entropy_loss(at::linear(x, w), classes);
    loss.backward();
    return loss.detach();
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) {
    const at::Tensor x = at::rand({6, 8}), classes = RandomIndices(5, {6});
    const at::Tensor loss = fast(x, classes), gradient = w.grad();
    w.mutable_grad().reset();
    EXPECT_TRUE(SameBits(loss, f(x, classes))) << i;
    EXPECT_TRUE(SameBits(gradient, w.grad())) << i;
    w.mutable_grad().reset();
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
  EXPECT_EQ(fast.stats().not_same, 0);
}

// What the call throws, or nothing.
template <class Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const std::exception& e) {
    const std::string text = e.what();
    return text.substr(0, text.find('\n'));
  }
  return "";
}

// Eager's error, at the call, with what came before it done and nothing else.
TEST_F(JitTest, IndicesOutOfRangeThrow) {
  const at::Tensor table = at::rand({50, 8});
  at::Tensor state = at::zeros({8}), other = at::zeros({8});
  const auto f = [&](at::Tensor& s, const at::Tensor& tokens) {
    s.add_(1);
    const at::Tensor y = table.index_select(0, tokens).sum(0);
    s.add_(y);
    return s * 2;
  };
  auto fast = jit([&](const at::Tensor& t) { return f(state, t); },
                  {.verify_every = 0});
  for (int i = 0; i < 40; ++i) {
    at::Tensor tokens = RandomIndices(50, {6});
    if (i % 8 == 7) tokens[i % 6] = i % 16 == 7 ? 50 : -1;
    at::Tensor a, b;
    const std::string error = ErrorOf([&] { a = fast(tokens); });
    EXPECT_EQ(error, ErrorOf([&] { b = f(other, tokens); })) << i;
    EXPECT_EQ(error.empty(), i % 8 != 7) << error;
    EXPECT_TRUE(SameBits(a, b)) << i;
    EXPECT_TRUE(SameBits(state, other)) << i;
    EXPECT_EQ(state._version(), other._version()) << i;
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

// The class that is to be ignored passes, others below 0 do not.
TEST_F(JitTest, ClassesThatAreIgnored) {
  const auto f = [](const at::Tensor& x, const at::Tensor& classes) {
    return at::nll_loss(x, classes, {}, at::Reduction::Mean, -100);
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 20; ++i) {
    at::Tensor classes = RandomIndices(4, {6});
    classes[i % 6] = i % 5 == 4 ? -3 : -100;
    const at::Tensor x = at::rand({6, 4});
    at::Tensor a, b;
    EXPECT_EQ(ErrorOf([&] { a = fast(x, classes); }),
              ErrorOf([&] { b = f(x, classes); }))
        << i;
    EXPECT_TRUE(SameBits(a, b)) << i;
  }
  EXPECT_GE(fast.stats().replays, 10) << fast.stats().why;
}

// What they index by is looked at when it has been computed.
TEST_F(JitTest, ComputedIndicesAreReplayed) {
  const at::Tensor table = at::rand({8, 8});
  const auto next = [&](const at::Tensor& x) {
    const at::Tensor y = at::embedding(table, x.argmax(1)) + x;
    const auto [best, which] = y.topk(3, 1);
    return (y.gather(1, which) - best).abs().sum() +
           y.index_select(0, y.sum(1).argsort()).select(0, 0);
  };
  auto fast = jit(next);
  for (int i = 0; i < 40; ++i) ExpectSame(fast, next, at::rand({3, 8}));
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
}

// They are out of range for some: eager's error, at the call.
TEST_F(JitTest, ComputedIndicesOutOfRange) {
  const at::Tensor table = at::rand({8, 8});
  const auto f = [&](const at::Tensor& x) {
    return table.index_select(0, x.to(at::kLong) * 2) + 1;
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 40; ++i) {
    const at::Tensor x = at::full({3}, i % 8 == 7 ? 4.0 : 0.5 * (i % 7));
    at::Tensor a, b;
    EXPECT_EQ(ErrorOf([&] { a = fast(x); }), ErrorOf([&] { b = f(x); })) << i;
    EXPECT_TRUE(SameBits(a, b)) << i;
  }
  EXPECT_GE(fast.stats().replays, 25) << fast.stats().why;
}

// By then an argument has been written.
TEST_F(JitTest, IndicesThatAreWrittenBeforeAreRefused) {
  const at::Tensor table = at::rand({8, 8});
  const auto shifted = [&](at::Tensor tokens) {
    return table.index_select(0, tokens.add_(1));
  };
  auto fast = jit(shifted);
  for (int i = 0; i < 8; ++i) {
    const at::Tensor tokens = RandomIndices(6, {3});
    const at::Tensor a = fast(tokens.clone());
    EXPECT_TRUE(SameBits(a, shifted(tokens.clone()))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_value_check"), std::string::npos)
      << fast.stats().why;
}

// One that is written behind the op that indexes by it.
TEST_F(JitTest, IndicesThatAreWrittenLater) {
  const at::Tensor table = at::rand({10, 8});
  const auto f = [&](at::Tensor tokens) {
    const at::Tensor y = table.index_select(0, tokens);
    tokens.add_(1);
    return y * 2;
  };
  auto fast = jit(f, {.verify_every = 0});
  at::Tensor a = at::zeros({3}, at::kLong), b = a.clone();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(SameBits(fast(a), f(b))) << i;
    EXPECT_TRUE(SameBits(a, b)) << i;
  }
  EXPECT_GE(fast.stats().replays, 6) << fast.stats().why;
  EXPECT_NE(ErrorOf([&] { fast(a); }), "");
  EXPECT_TRUE(SameBits(a, b));
}

// Pending ops of the program make them.
TEST_F(JitTest, IndicesThatArePending) {
  const at::Tensor table = at::rand({8, 8});
  const auto f = [&](const at::Tensor& tokens) {
    return at::embedding(table, tokens).tanh();
  };
  auto fast = jit(f, {.verify_every = 0});
  at::Tensor a = at::rand({3, 8}), b = a.clone();
  for (int i = 0; i < 60; ++i) {
    a = fast((a * 1.5 - 0.25).argmax(1));
    b = f((b * 1.5 - 0.25).argmax(1));
  }
  EXPECT_TRUE(SameBits(a, b));
  EXPECT_GE(fast.stats().replays, 50) << fast.stats().why;
}

TEST_F(JitTest, IndicesFilledThroughAPointer) {
  const at::Tensor table = at::rand({8, 4});
  const auto f = [&](const at::Tensor& t) {
    return table.index_select(0, t) + 1;
  };
  auto fast = jit(f, {.verify_every = 0});
  std::vector<std::int64_t> memory(3);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 3; ++j) memory[j] = (i * 5 + j) % 8;
    if (i == 12) memory[1] = 8;
    const at::Tensor tokens = at::from_blob(memory.data(), {3}, at::kLong);
    at::Tensor a, b;
    EXPECT_EQ(ErrorOf([&] { a = fast(tokens); }),
              ErrorOf([&] { b = f(tokens); }))
        << i;
    EXPECT_TRUE(SameBits(a, b)) << i;
  }
  EXPECT_GE(fast.stats().replays, 10) << fast.stats().why;
}

TEST_F(JitTest, ALateErrorIsFound) {
  const at::Tensor x = at::rand({6, 4});
  const auto f = [&](const at::Tensor& classes) {
    return at::nll_loss(x, classes);
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 4; ++i) fast(RandomIndices(4, {6}));
  at::Tensor bad = RandomIndices(4, {6});
  bad[2] = 9;
  EXPECT_NE(ErrorOf([&] { fast(bad); }), "");
  for (int i = 0; i < 4; ++i) fast(RandomIndices(4, {6}));
  EXPECT_TRUE(testing::SetPlantedDefect("late_error"));
  at::Tensor y;
  EXPECT_EQ(ErrorOf([&] { y = fast(bad); }), "");
  sync();  // the error comes here, too late, and is a warning
  testing::SetPlantedDefect("");
}

}  // namespace
}  // namespace tjit
