// Streams that repeat end up replayed, whatever they do around it: other
// sizes, alternating variants, few boundaries or boundaries of two kinds.
#include <c10/core/impl/alloc_cpu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/cleanup/cleanup.h"

namespace tjit {
namespace {

int sync_points = 0;

// Reads a value: the one op of a step that is never replayed.
void SyncPoint(const at::Tensor& x) {
  ++sync_points;
  (void)x.sum().item<float>();
}

// Runs step(0), step(1), ... eagerly and under tjit and compares the last
// result's bits. From step `warm` on at least 95 % of the ops must be replayed,
// sync points left out.
void ExpectReplayed(
    int warm, int steps,
    const std::function<std::function<at::Tensor(int)>()>& make) {
  const auto run = [&](Stats* at_warm) {
    const auto step = make();
    at::Tensor last;
    for (int i = 0; i < steps; ++i) {
      if (i == warm) {
        *at_warm = stats();
        sync_points = 0;
      }
      last = step(i);
    }
    return last;
  };
  Stats before;
  disable();
  const at::Tensor eager = run(&before);
  clear();
  Options options;
  options.hot_threshold = 4;
  EXPECT_TRUE(enable(options));
  const at::Tensor ours = run(&before);
  sync();
  const Stats d = stats() - before;
  disable();
  EXPECT_EQ(eager.nbytes(), ours.nbytes());
  EXPECT_EQ(std::memcmp(eager.const_data_ptr(), ours.const_data_ptr(),
                        eager.nbytes()),
            0);
  const auto ops = static_cast<double>(d.ops_seen - sync_points);
  EXPECT_GT(ops, 0);
  EXPECT_GE(static_cast<double>(d.ops_replayed) / ops, 0.95) << d.to_json();
}

// Ten ops on `n` floats, without any boundary.
at::Tensor Chain(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  at::Tensor x = a + b;
  x = x * b;
  x = x - a;
  x = x + a;
  x = x * a;
  x = x - b;
  x = x + b;
  x = x * b;
  x = x - a;
  return x + b;
}

at::Tensor Adds(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  at::Tensor x = a;
  for (int i = 0; i < 10; ++i) x = x + b;
  return x;
}

// The sizes of `of` in turn, `each` steps long.
std::function<std::function<at::Tensor(int)>()> SizesInTurn(
    std::vector<std::int64_t> of, int each,
    at::Tensor (*body)(const at::Tensor&, const at::Tensor&)) {
  return [=] {
    std::vector<at::Tensor> a, b;
    torch::manual_seed(1);
    for (const std::int64_t n : of) {
      a.push_back(torch::rand({n}));
      b.push_back(torch::rand({n}));
    }
    return [=, out = at::Tensor()](int i) mutable {
      const std::size_t k = static_cast<std::size_t>(i / each) % of.size();
      out = body(a[k], b[k]);
      return out;
    };
  };
}

TEST(Engagement, AnotherSizeWithoutBoundary) {
  ExpectReplayed(630, 900, SizesInTurn({64, 65536}, 600, &Chain));
}

TEST(Engagement, AnotherSizeOfEqualOpsWithoutBoundary) {
  ExpectReplayed(630, 900, SizesInTurn({64, 65536}, 600, &Adds));
}

TEST(Engagement, ManySizesInTurnWithoutBoundary) {
  ExpectReplayed(4 * 600, 8 * 600,
                SizesInTurn({64, 4096, 128, 1024}, 600, &Chain));
}

// The first step meets `c` for the first time, so it is but like the others.
// 110 steps are more than 2^31 elements, and fewer ops than a light loop needs.
TEST(Engagement, HeavyStepsThatReadAConstant) {
  const at::Tensor c = torch::full({1 << 21}, 0.25);
  ExpectReplayed(80, 110, [&] {
    return [c, u = torch::ones({1 << 21})](int) mutable {
      const at::Tensor x = (u * 0.5).neg().abs().sqrt().add(1).square();
      return u = (x.mul(2).sub(1).neg().relu().abs() + c).clamp(0.5, 1);
    };
  });
}

// A step of two halves that begin alike, each with its own sync point.
TEST(Engagement, AnotherSizeAtTheWrongBoundary) {
  ExpectReplayed(80, 120, [] {
    torch::manual_seed(1);
    at::Tensor x = torch::rand({64}), y = torch::rand({256});
    return [=](int i) mutable {
      at::Tensor& z = i < 60 ? x : y;
      z = z * 0.5;
      z = z.sin();
      SyncPoint(z);
      if (i == 60) return z;  // the other size begins with the second half
      z = z * 0.5;
      z = z.cos() - 0.25;
      SyncPoint(z);
      return z;
    };
  });
}

TEST(Engagement, AfterOneMarkStepASyncLoop) {
  ExpectReplayed(30, 200, [] {
    torch::manual_seed(1);
    mark_step();
    at::Tensor x = torch::rand({64});
    return [=](int) mutable {
      for (int k = 0; k < 30; ++k) x = x.sin() + 0.5;
      SyncPoint(x);
      return x;
    };
  });
}

TEST(Engagement, MarkedTrainingThenUnmarkedEvaluation) {
  ExpectReplayed(80, 200, [] {
    torch::manual_seed(1);
    at::Tensor x = torch::rand({64});
    return [=](int i) mutable {
      if (i < 60) {
        for (int k = 0; k < 40; ++k) x = x * 0.5 + 0.25;
        mark_step();
        return x;
      }
      for (int k = 0; k < 20; ++k) x = x.sin() + 0.5;
      SyncPoint(x);
      return x;
    };
  });
}

enum class End { kSync, kMark, kNone };

// Steps "A" and "B" in the order of `word`, over and over.
std::function<std::function<at::Tensor(int)>()> Variants(const char* word,
                                                         End end) {
  return [=] {
    torch::manual_seed(1);
    at::Tensor w = torch::rand({8, 8}), x = torch::rand({8, 8});
    const std::size_t length = std::strlen(word);
    return [=](int i) mutable {
      const at::NoGradGuard no_grad;
      switch (word[static_cast<std::size_t>(i) % length]) {
        case 'A':
          x = torch::mm(x, w).tanh() + 0.5;
          x = x * x - 0.25;
          break;
        case 'B':  // begins with another op
          x = (x - 1.5).cos() * w;
          x = torch::mm(x, w).sigmoid() + x;
          break;
        default:  // begins with A's op
          x = torch::mm(x, w).sin() * 0.5;
          x = x + w;
      }
      if (end == End::kSync) SyncPoint(x);
      if (end == End::kMark) mark_step();
      return x;
    };
  };
}

struct Case {
  const char* word;
  End end;
};

// As a name of tests: runs of equal letters by their length.
std::string NameOf(const Case& c) {
  std::string name;
  const std::string word = c.word;
  for (std::size_t i = 0; i < word.size();) {
    const std::size_t end = std::min(word.find_first_not_of(word[i], i),
                                     word.size());
    name += word[i] + std::to_string(end - i);
    i = end;
  }
  constexpr const char* kEnds[] = {"Sync", "Mark", "None"};
  return name + kEnds[static_cast<int>(c.end)];
}

class EngagementOf : public ::testing::TestWithParam<Case> {};

TEST_P(EngagementOf, Variants) {
  ExpectReplayed(1500, 2100, Variants(GetParam().word, GetParam().end));
}

INSTANTIATE_TEST_SUITE_P(
    Words, EngagementOf,
    ::testing::Values(Case{"AB", End::kSync}, Case{"AAB", End::kSync},
                      Case{"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB", End::kSync},
                      Case{"AAAABBCAAAABC", End::kSync},
                      Case{"AB", End::kMark}, Case{"AAB", End::kMark},
                      Case{"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB", End::kMark},
                      Case{"AAAABBCAAAABC", End::kMark},
                      Case{"AB", End::kNone}, Case{"AAB", End::kNone}),
    [](const auto& info) { return NameOf(info.param); });

// A is hot before B first comes, and B comes once in a while.
TEST(Engagement, VariantThatComesLate) {
  ExpectReplayed(600, 900, [] {
    const auto only_a = Variants("A", End::kSync)();
    const auto with_b = Variants("AAB", End::kSync)();
    return [=](int i) { return i < 100 ? only_a(i) : with_b(i); };
  });
}

// Shuffled batches with a short last one, then an evaluation.
TEST(Engagement, TrainingEvaluationAndAShortBatch) {
  for (const bool marked : {false, true}) {
    ExpectReplayed(14 * 20, 14 * 40, [=] {
      torch::manual_seed(1);
      at::Tensor w = torch::rand({8, 8}), data = torch::rand({16 * 11, 8});
      return [=](int i) mutable {
        const at::NoGradGuard no_grad;
        const int k = i % 14;
        if (k < 10) {
          const at::Tensor x = data.narrow(0, 16 * k, k == 9 ? 5 : 16);
          const at::Tensor y = torch::mm(x, w).tanh();
          w = w - torch::mm(x.t(), y * 0.125) * 0.01;
          SyncPoint(y);
          if (marked) mark_step();
          return w;
        }
        const at::Tensor x = data.narrow(0, 16 * (k - 10), 16);
        SyncPoint(torch::mm(x.cos(), w).relu());
        return w;
      };
    });
  }
}

// A size drawn for each step.
TEST(Engagement, SizesMixed) {
  for (const End end : {End::kSync, End::kMark}) {
    SCOPED_TRACE(static_cast<int>(end));
    ExpectReplayed(1500, 2100, [=] {
      torch::manual_seed(1);
      std::vector<at::Tensor> a, b;
      for (const std::int64_t n : {64, 96, 200}) {
        a.push_back(torch::rand({n}));
        b.push_back(torch::rand({n}));
      }
      return [=, rng = std::mt19937_64(1), out = at::Tensor()](int) mutable {
        const std::size_t k = rng() % 3;
        out = Chain(a[k], b[k]);
        if (end == End::kSync) SyncPoint(out);
        if (end == End::kMark) mark_step();
        return out;
      };
    });
  }
}

TEST(Engagement, VariantsMixed) {
  for (const End end : {End::kSync, End::kMark}) {
    SCOPED_TRACE(static_cast<int>(end));
    std::mt19937_64 rng(1);
    std::string word;
    for (int i = 0; i < 2100; ++i) word += "AABBC"[rng() % 5];
    ExpectReplayed(1500, 2100, Variants(word.c_str(), end));
  }
}

// An inner loop of varying trip count, hot alone, inside a step.
TEST(Engagement, StepAroundALoopOfVaryingTripCount) {
  for (const End end : {End::kSync, End::kMark}) {
    SCOPED_TRACE(static_cast<int>(end));
    ExpectReplayed(300, 600, [=] {
      torch::manual_seed(1);
      at::Tensor w = torch::rand({8, 8}), x = torch::rand({8, 8});
      return [=, rng = std::mt19937_64(1)](int) mutable {
        const at::NoGradGuard no_grad;
        x = torch::relu(x * 0.5) + w;
        x = x.sin() - 0.25;
        const int trips = static_cast<int>(10 + rng() % 50);
        for (int k = 0; k < trips; ++k) {
          x = torch::mm(x, w).tanh() * 0.5;
          x = x + w;
        }
        x = x.cos() * w - 0.5;
        x = x.sigmoid();
        if (end == End::kSync) SyncPoint(x);
        if (end == End::kMark) mark_step();
        return x;
      };
    });
  }
}

// A sequence of a length that is drawn: the loop over its time steps, and what
// stands around it, engage within a few steps, and one recording serves all
// lengths. No step is like another, and there is no boundary.
TEST(Engagement, LoopOverASequenceOfVaryingLength) {
  ExpectReplayed(150, 250, [=] {
    torch::manual_seed(1);
    at::Tensor w = torch::rand({8, 8}), u = torch::rand({8, 8});
    at::Tensor start = torch::rand({4, 8});
    std::vector<at::Tensor> sequences;
    for (std::int64_t n = 5; n < 40; ++n) {
      sequences.push_back(torch::rand({n, 4, 8}));
    }
    return [=, rng = std::mt19937_64(1)](int) mutable {
      const at::NoGradGuard no_grad;
      const at::Tensor& x = sequences[rng() % sequences.size()];
      at::Tensor h = start * 0.5;
      std::vector<at::Tensor> states;
      for (std::int64_t t = 0; t < x.size(0); ++t) {
        const at::Tensor z = torch::mm(x[t], w) + torch::mm(h, u);
        h = z.tanh() * 0.5 + h.sigmoid() * z;
        h = h.cos() * h - 0.25;
        states.push_back(h);
      }
      at::Tensor g = h * 0.5, sum = torch::mm(h.t(), g);
      while (!states.empty()) {  // back through time
        const at::Tensor state = states.back();
        states.pop_back();
        g = (torch::mm(g * state, u).tanh() + state.sin()) * 0.5;
        sum = sum + torch::mm(state.t(), g);
      }
      u = u - sum.tanh() * 0.01;
      u = u - torch::mm(h.t(), h).tanh() * 0.01;
      at::Tensor y = (u.sin() + w).cos() * u - w.sigmoid();
      y = (y.abs() + 0.5).sqrt().neg().exp() - y.relu() * u;
      y = torch::mm(y, w).tanh() * y.sin() + (u - y).cos();
      y = (y * y + 1).log().sigmoid() - (y + u).abs() * w;
      y = y.clamp(-1, 1).sin() * 0.5 + torch::mm(u, y).tanh();
      w = w * 0.5 + y * 0.1 - (w - u).tanh() * 0.25;
      start = (start + h.exp().neg().relu()).tanh();
      return w;
    };
  });
}

// Its training: a loop forward, one backward, and the optimizer, of which only
// the last comes with a fixed count. No period lies around them.
TEST(Engagement, TrainingOverSequencesOfVaryingLength) {
  ExpectReplayed(45, 75, [=] {
    torch::manual_seed(1);
    torch::nn::LSTMCell cell(8, 16);
    torch::nn::Linear dense(16, 1);
    std::vector<at::Tensor> all = cell->parameters();
    for (const at::Tensor& p : dense->parameters()) all.push_back(p);
    auto adam = std::make_shared<torch::optim::Adam>(all);
    return [=, rng = std::mt19937_64(1)](int) mutable {
      const at::Tensor x =
          torch::randn({static_cast<std::int64_t>(5 + rng() % 36), 4, 8});
      adam->zero_grad();
      at::Tensor h = torch::zeros({4, 16}), c = torch::zeros({4, 16});
      for (std::int64_t t = 0; t < x.size(0); ++t) {
        std::tie(h, c) = cell(x[t], std::make_tuple(h, c));
      }
      torch::mse_loss(dense(h), torch::ones({4, 1})).backward();
      adam->step();
      return all[0].detach();
    };
  });
}

// A step of thousands of ops is no chance once it has come a few times. Ten
// sightings of it would be all that a short program has.
TEST(Engagement, ALongStepIsTrustedSooner) {
  const auto run = [] {
    torch::manual_seed(1);
    at::Tensor x = torch::rand({8}), w = torch::rand({8});
    for (int step = 0; step < 9; ++step) {
      std::mt19937_64 rng(1);
      for (int i = 0; i < 3300; ++i) {
        switch (rng() % 4) {
          case 0:
            x = x * 0.5;
            break;
          case 1:
            x = x + w;
            break;
          case 2:
            x = x.sin();
            break;
          default:
            x = x - w;
            break;
        }
      }
      SyncPoint(x);
    }
    return x;
  };
  const at::Tensor eager = run();
  clear();
  ASSERT_TRUE(enable());
  const Stats before = stats();
  const at::Tensor ours = run();
  sync();
  const Stats d = stats() - before;
  disable();
  EXPECT_TRUE(at::equal(eager, ours));
  EXPECT_GE(static_cast<double>(d.ops_replayed),
            0.4 * static_cast<double>(d.ops_seen))
      << d.to_json();
}

// A training loop with a log line every few steps, whose ops are others.
TEST(Engagement, LogLineEveryFewSteps) {
  ExpectReplayed(300, 600, [=] {
    torch::manual_seed(1);
    const auto train = Variants("A", End::kMark)();
    return [=](int i) {
      at::Tensor x = train(i);
      if (i % 7 == 0) {
        SyncPoint(x.abs());
        SyncPoint((x * x).sqrt());
      }
      return x;
    };
  });
}

// --- Without any sync point or mark_step, and never in the same order ------
// Nothing periodic is found for 32,768 ops; then the stream is cut at its
// forks.

TEST(Engagement, VariantsMixedWithoutBoundary) {
  for (const char* of : {"AB", "AAB", "ABC"}) {
    SCOPED_TRACE(of);
    std::mt19937_64 rng(1);
    std::string word;
    for (int i = 0; i < 12000; ++i) word += of[rng() % std::strlen(of)];
    ExpectReplayed(9000, 12000, Variants(word.c_str(), End::kNone));
  }
}

TEST(Engagement, FiveVariantsMixedWithoutBoundary) {
  ExpectReplayed(9000, 12000, [] {
    torch::manual_seed(1);
    at::Tensor w = torch::rand({8, 8}), x = torch::rand({8, 8});
    return [=, rng = std::mt19937_64(1)](int) mutable {
      const at::NoGradGuard no_grad;
      switch (rng() % 5) {
        case 0: x = (torch::mm(x, w).tanh() + 0.5) * x - 0.25; break;
        case 1: x = torch::mm((x - 1.5).cos() * w, w).sigmoid() + x; break;
        case 2: x = torch::mm(x, w).sin() * 0.5 + w; break;
        case 3: x = (x.exp().neg().sigmoid() - w).relu() + 0.25; break;
        default: x = torch::mm(w, x).relu().sqrt() * 0.5 + w * x; break;
      }
      return x;
    };
  });
}

TEST(Engagement, SizesMixedWithoutBoundary) {
  ExpectReplayed(5000, 7000, [] {
    torch::manual_seed(1);
    std::vector<at::Tensor> a, b;
    for (int i = 0; i < 10; ++i) {
      a.push_back(torch::rand({64 + 32 * i}));
      b.push_back(torch::rand({64 + 32 * i}));
    }
    return [=, rng = std::mt19937_64(1), out = at::Tensor()](int) mutable {
      const std::size_t k = rng() % a.size();
      out = Chain(a[k], b[k]);
      return out;
    };
  });
}

// The same body over batches in an order that is drawn: no token repeats where
// a batch comes in.
TEST(Engagement, BatchesMixed) {
  for (const End end : {End::kSync, End::kMark, End::kNone}) {
    SCOPED_TRACE(static_cast<int>(end));
    ExpectReplayed(9000, 12000, [=] {
      torch::manual_seed(1);
      std::vector<at::Tensor> batches;
      for (int i = 0; i < 20; ++i) batches.push_back(torch::rand({64}));
      at::Tensor w = torch::rand({64});
      return [=, rng = std::mt19937_64(1)](int) mutable {
        const at::NoGradGuard no_grad;
        const at::Tensor& batch = batches[rng() % batches.size()];
        const at::Tensor x = (batch * w + batch).tanh() * 0.5;
        w = w - x * 0.01;
        if (end == End::kSync) SyncPoint(w);
        if (end == End::kMark) mark_step();
        return w;
      };
    });
  }
}

// Loops in loops, all trip counts drawn.
TEST(Engagement, LoopsInLoopsOfVaryingTripCount) {
  for (const End end : {End::kSync, End::kMark, End::kNone}) {
    SCOPED_TRACE(static_cast<int>(end));
    ExpectReplayed(1500, 2000, [=] {
      torch::manual_seed(1);
      at::Tensor w = torch::rand({8, 8}), x = torch::rand({8, 8});
      return [=, rng = std::mt19937_64(1)](int) mutable {
        const at::NoGradGuard no_grad;
        for (int outer = 0; outer < 3; ++outer) {
          for (std::uint64_t n = 2 + rng() % 3; n != 0; --n) {
            x = torch::mm(x, w).tanh() * 0.5;
            x = x + w;
          }
          x = x.cos() * w - 0.5;
        }
        x = x.sigmoid().sqrt() + w;
        if (end == End::kSync) SyncPoint(x);
        if (end == End::kMark) mark_step();
        return x;
      };
    });
  }
}

// --- Loops with boundaries ---------------------------------------------------

// Training with an evaluation every ten steps that reads its loss.
TEST(Engagement, EvaluationEveryTenSteps) {
  for (const End end : {End::kSync, End::kMark, End::kNone}) {
    SCOPED_TRACE(static_cast<int>(end));
    ExpectReplayed(200, 400, [=] {
      torch::manual_seed(1);
      at::Tensor w = torch::rand({8, 8});
      const at::Tensor x = torch::rand({8, 8});
      return [=](int i) mutable {
        const at::NoGradGuard no_grad;
        const at::Tensor y = torch::mm(x, w).tanh();
        w = w - torch::mm(x.t(), y * 0.125) * 0.01;
        if (end == End::kSync) SyncPoint(y);
        if (end == End::kMark) mark_step();
        if (i % 10 == 9) SyncPoint(torch::mm(x.cos(), w).relu() - x);
        return w;
      };
    });
  }
}

// A loop without boundary that prints a value every hundredth step: the period
// is the hundred steps.
TEST(Engagement, PrintEveryHundredSteps) {
  ExpectReplayed(1000, 1600, [] {
    const auto step = Variants("A", End::kNone)();
    return [=](int i) {
      at::Tensor x = step(i);
      if (i % 100 == 99) SyncPoint(x);
      return x;
    };
  });
}

// A host test for convergence in each iteration, after a number of them that
// depends on the data.
TEST(Engagement, NewtonUntilConvergence) {
  ExpectReplayed(200, 600, [] {
    torch::manual_seed(1);
    const at::Tensor a = torch::rand({64}) + 0.5;
    return [=, rng = std::mt19937_64(1)](int) mutable {
      const at::NoGradGuard no_grad;
      const at::Tensor target = a * 0.5 + 0.25;
      at::Tensor x = target.sqrt();
      for (std::uint64_t n = 3 + rng() % 5; n != 0; --n) {
        x = x - (x * x - target) / (x * 2.0);
        SyncPoint(x * x - target);
      }
      return x;
    };
  });
}

// --- Tiny loops --------------------------------------------------------------

// Runs `steps` iterations and answers what happened in the second half.
Stats SecondHalf(int steps, const std::function<void()>& step) {
  clear();
  EXPECT_TRUE(enable());
  for (int i = 0; i < steps / 2; ++i) step();
  const Stats before = stats();
  for (int i = steps / 2; i < steps; ++i) step();
  sync();
  const Stats d = stats() - before;
  disable();
  return d;
}

double OpsOfASegment(const Stats& d) {
  return static_cast<double>(d.ops_replayed) / static_cast<double>(d.segments);
}

// Iterations that feed one another become one segment.
TEST(TinyLoop, IterationsAreMerged) {
  const at::NoGradGuard no_grad;
  at::Tensor x = torch::rand({64});
  const Stats d = SecondHalf(6000, [&] { x = x.sin().add(0.5).mul(0.75); });
  EXPECT_GE(d.ops_replayed, 0.99 * 3 * 3000) << d.to_json();
  EXPECT_GE(OpsOfASegment(d), 60) << d.to_json();
  EXPECT_EQ(d.ops_drained, 0);
}

// Others are not: all results but the last would be dead.
TEST(TinyLoop, IterationsThatStandAloneAreNotMerged) {
  const at::NoGradGuard no_grad;
  const at::Tensor a = torch::rand({64});
  at::Tensor x;
  const Stats d = SecondHalf(6000, [&] { x = a.sin().add(0.5).mul(0.75); });
  EXPECT_GE(d.ops_replayed, 0.99 * 3 * 3000) << d.to_json();
  EXPECT_LE(OpsOfASegment(d), 3.1) << d.to_json();
}

// It may end after any iteration, and within one: the same bits, and no op is
// drained once each way out has come a few times.
TEST(TinyLoop, MayEndAnywhere) {
  for (const int rest : {0, 1, 2}) {
    SCOPED_TRACE(rest);
    ExpectReplayed(1500, 2500, [=] {
      torch::manual_seed(1);
      at::Tensor w = torch::rand({8, 8}), x = torch::rand({8, 8});
      return [=, rng = std::mt19937_64(1)](int) mutable {
        const at::NoGradGuard no_grad;
        for (std::uint64_t n = 30 + rng() % 20; n != 0; --n) {
          x = (x.sin() + w) * 0.75;
        }
        if (rest > 0) x = x.sin();
        if (rest > 1) x = x + w;
        x = torch::mm(x, w).tanh();
        x = x.cos() - w;
        return x;
      };
    });
  }
}

// Steps of 10,000 ops: the third is captured.
TEST(Engagement, LongStepIsFoundAfterTwoPeriods) {
  clear();
  ASSERT_TRUE(enable());
  std::mt19937_64 rng(1);
  std::vector<int> ops(10000);
  for (int& op : ops) op = static_cast<int>(rng() % 4);
  at::Tensor x = torch::rand({4}).abs();
  const auto run = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      switch (ops[i]) {
        case 0: x = x.sin(); break;
        case 1: x = x.cos(); break;
        case 2: x = x.tanh(); break;
        default: x = x.abs();
      }
    }
  };
  const Stats before = stats();
  for (int step = 0; step < 2; ++step) {
    mark_step();
    run(0, ops.size());
  }
  EXPECT_EQ((stats() - before).sequences, 0);
  mark_step();
  run(0, 1);
  EXPECT_EQ((stats() - before).sequences, 1);
  run(1, ops.size());
  const Stats d = stats() - before;
  EXPECT_EQ(d.sequences, 1);
  EXPECT_EQ(d.traces, 1);
  disable();
}

// A capture gives each of them a block. They are used twice in a step, so the
// second use must not become another one by that.
TEST(Engagement, TensorsThatAreOlderThanTjitBreakNoCapture) {
  disable();
  clear();
  constexpr std::int64_t kTensors = 24;
  std::vector<at::Tensor> old;
  for (std::int64_t i = 0; i < kTensors; ++i) old.push_back(at::ones({4}));
  ASSERT_TRUE(enable());
  const Stats before = stats();
  Stats at_end = before;
  for (int step = 0; step < 60; ++step) {
    at::Tensor x = at::ones({4});
    for (const at::Tensor& t : old) x = x * 0.5 + t;
    for (const at::Tensor& t : old) {
      t.add_(x, 1e-3).mul_(0.99);
      SyncPoint(t);  // anywhere in the step a period may begin
    }
    if (step == 40) at_end = stats();
  }
  sync();
  const Stats d = stats() - before;
  EXPECT_EQ(d.side_exit_count("not_repeated"), 0) << d.to_json();
  EXPECT_EQ((stats() - at_end).ops_eager, 19 * kTensors);  // the sync points
  disable();
}

// A program that has an allocator of its own engages nothing. It is told so.
TEST(Engagement, AnotherAllocatorIsSaidToBeWhy) {
  class Own : public c10::Allocator {
   public:
    c10::DataPtr allocate(std::size_t bytes) override {
      void* const data = c10::alloc_cpu(bytes);
      return {data, data, &c10::free_cpu, c10::kCPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
    void copy_data(void* to, const void* from, std::size_t n) const override {
      std::memcpy(to, from, n);
    }
  };
  static Own own;
  disable();
  clear();
  Options options;
  options.hot_threshold = 4;
  ASSERT_TRUE(enable(options));
  c10::Allocator* const ours = c10::GetAllocator(c10::kCPU);
  std::vector<at::Tensor> as;
  for (int i = 0; i < 40; ++i) as.push_back(at::rand({2000}));
  const at::Tensor b = at::rand({2000});
  for (bool is_own : {true, false}) {
    if (is_own) c10::SetAllocator(c10::kCPU, &own, 1);
    const absl::Cleanup put_back = [&] {
      c10::SetAllocator(c10::kCPU, ours, 1);
    };
    const Stats before = stats();
    at::Tensor last;
    for (const at::Tensor& a : as) {
      last = Chain(a, b);
      mark_step();
    }
    const Stats did = stats() - before;
    const std::string said = explain();
    const Pause pause;
    EXPECT_TRUE(at::equal(last, Chain(as.back(), b)));
    EXPECT_EQ(did.ops_replayed == 0, is_own) << did.to_json();
    constexpr char kWhy[] =
        "10 ops run at the call: aten::add.Tensor, aten::mul.Tensor, "
        "aten::sub.Tensor (its result lies in memory of another allocator)";
    if (is_own) {
      EXPECT_THAT(said, ::testing::HasSubstr(kWhy));
    } else {
      EXPECT_THAT(said, ::testing::Not(::testing::HasSubstr(kWhy)));
    }
    clear();
  }
  disable();
}

}  // namespace
}  // namespace tjit
