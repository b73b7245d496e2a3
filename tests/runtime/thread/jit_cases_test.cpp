// What TinyJit's tests ask for and no other test of jit() has: state between
// calls, outputs that come back, sizes, masks, a decoder with a cache.
// docs/jit-cases.md has the whole list.
// Tests: Note [Functions] in runtime/thread/functions/function_plan.h
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

// A tensor from outside that is assigned inside, and read by the program.
TEST_F(JitTest, CountersOfAllTypes) {
  for (const at::ScalarType type : {at::kFloat, at::kChar, at::kLong}) {
    at::Tensor count = at::zeros({1}, type), other = count.clone();
    const auto step = [](at::Tensor& c, const at::Tensor& x) {
      c.add_(1);
      return x + c;
    };
    auto fast = jit([&](const at::Tensor& x) { return step(count, x); });
    for (int i = 0; i < 40; ++i) {
      const at::Tensor x = at::rand({4});
      EXPECT_TRUE(SameBits(fast(x), step(other, x))) << type << " " << i;
      EXPECT_TRUE(SameBits(count, other)) << type << " " << i;
    }
    EXPECT_GE(fast.stats().replays, 30) << type << fast.stats().why;
  }
}

// Both: one tensor is passed and written, another one from outside as well, and
// a third one is only read and changed between the calls.
TEST_F(JitTest, AllRolesOfData) {
  struct Data {
    at::Tensor total = at::zeros({4}), last = at::zeros({4}),
               scale = at::ones({4});
  };
  Data a, b;
  const auto step = [](Data& d, at::Tensor& passed, const at::Tensor& x) {
    passed.mul_(d.scale);
    d.total.add_(passed);
    d.last.copy_(x);
    return d.total * x;
  };
  auto fast = jit([&](at::Tensor& passed, const at::Tensor& x) {
    return step(a, passed, x);
  });
  for (int i = 0; i < 40; ++i) {
    at::Tensor p = at::rand({4}), q = p.clone();
    const at::Tensor x = at::rand({4});
    a.scale.fill_(0.5 + i);
    b.scale.fill_(0.5 + i);
    EXPECT_TRUE(SameBits(fast(p, x), step(b, q, x))) << i;
    EXPECT_TRUE(SameBits(p, q)) << i;
    EXPECT_TRUE(SameBits(a.total, b.total)) << i;
    EXPECT_TRUE(SameBits(a.last, b.last)) << i;
  }
  EXPECT_GE(fast.stats().replays, 30) << fast.stats().why;
}

// The oldest row goes, a new one comes; the result is the next argument.
TEST_F(JitTest, ARingOfRows) {
  const auto shift = [](const at::Tensor& ring, const at::Tensor& row) {
    return at::cat({ring.narrow(0, 1, 7), row.unsqueeze(0)}, 0);
  };
  auto fast = jit(shift);
  at::Tensor a = at::zeros({8, 4}), b = a;
  for (int i = 0; i < 40; ++i) {
    const at::Tensor row = at::rand({4});
    a = fast(a, row);
    b = shift(b, row);
    EXPECT_TRUE(SameBits(a, b)) << i;
  }
  EXPECT_GE(fast.stats().replays, 28) << fast.stats().why;
}

// Two results from one value inside, one of which comes back.
TEST_F(JitTest, TwoResultsOneOfWhichComesBack) {
  const auto f = [](const at::Tensor& x) {
    const at::Tensor h = x * 0.5 + 1;
    return Tensors{h, h.relu()};
  };
  auto fast = jit(f);
  at::Tensor a = at::rand({16}), b = a;
  for (int i = 0; i < 40; ++i) {
    const Tensors x = fast(a), y = f(b);
    EXPECT_TRUE(SameBits(x[0], y[0])) << i;
    EXPECT_TRUE(SameBits(x[1], y[1])) << i;
    a = x[0];
    b = y[0];
  }
  EXPECT_GE(fast.stats().replays, 28) << fast.stats().why;
}

// One element, and none: that runs, as nothing is there to be computed.
TEST_F(JitTest, SmallSizes) {
  const auto f = [](const at::Tensor& x) { return (x * 2 + 1).sum(0); };
  auto fast = jit(f);
  for (int i = 0; i < 30; ++i) {
    ExpectSame(fast, f, at::rand({1}));
    ExpectSame(fast, f, at::rand({1, 3}));
    ExpectSame(fast, f, at::rand({0, 3}));
  }
  EXPECT_GE(fast.stats().replays, 40) << fast.stats().why;
}

// Sizes 1 to 10 in two arguments: each pair is a way of its own, and comes
// back.
TEST_F(JitTest, SizesOfOneToTen) {
  using Op = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;
  const at::Tensor w = at::rand({4, 4});
  const std::vector<Op> ops = {
      [](const auto& x, const auto&) { return (x + 1) * 2; },
      [](const auto& x, const auto&) {
        return at::constant_pad_nd(x, {0, 0, 1, 2});
      },
      [&](const auto& x, const auto&) { return at::mm(x, w); },
      [](const auto& x, const auto& y) {
        return at::mm(at::softmax(at::mm(x, y.t()) * 0.5, -1), y);
      },
      [](const auto& x, const auto& y) { return at::cat({x, y}, 0) + 1; },
      [](const auto& x, const auto& y) {
        return at::cat({x.t(), y.t()}, 1) + 1;
      },
      [](const auto& x, const auto&) { return x.narrow(0, 0, 1) * 3; },
      [](const auto& x, const auto& y) { return x.sum(0) + y.mean(0); },
      [](const auto& x, const auto&) {
        return x.var(at::OptionalIntArrayRef(1), 1.0);
      },
  };
  for (std::size_t o = 0; o < ops.size(); ++o) {
    auto fast = jit(ops[o], {.verify_every = 0});
    for (int round = 0; round < 4; ++round) {
      for (std::int64_t n = 1; n <= 10; ++n) {
        const at::Tensor x = at::rand({n, 4}), y = at::rand({11 - n, 4});
        EXPECT_TRUE(SameBits(fast(x, y), ops[o](x, y))) << o << " " << n;
      }
    }
    EXPECT_EQ(fast.stats().plans, 10) << o << fast.stats().why;
    EXPECT_EQ(fast.stats().replays, 20) << o << fast.stats().why;
  }
}

// Sizes that never come back are not recorded for ever.
TEST_F(JitTest, SizesThatAreAlwaysNew) {
  const auto f = [](const at::Tensor& x) { return (x * 2 + 1).relu(); };
  auto fast = jit(f);
  for (int i = 1; i <= 400; ++i) ExpectSame(fast, f, at::rand({i}));
  EXPECT_LE(fast.stats().recordings, 256);
  EXPECT_NE(fast.stats().why.find("jit_too_many"), std::string::npos)
      << fast.stats().why;
}

// The size of what a mask selects is a value; the mask itself is none.
TEST_F(JitTest, Masks) {
  const auto fixed = [](const at::Tensor& x) {
    return at::where(x > 0.5, x, at::zeros({8})).sum() +
           x.masked_fill(x < 0.25, 0.0).sum();
  };
  const auto sized = [](const at::Tensor& x) {
    return x.masked_select(x > 0.5).sum();
  };
  auto fast_fixed = jit(fixed);
  auto fast_sized = jit(sized);
  for (int i = 0; i < 30; ++i) {
    const at::Tensor x = at::rand({8});
    ExpectSame(fast_fixed, fixed, x);
    ExpectSame(fast_sized, sized, x);
  }
  EXPECT_GE(fast_fixed.stats().replays, 20) << fast_fixed.stats().why;
  EXPECT_EQ(fast_sized.stats().replays, 0);
  EXPECT_NE(fast_sized.stats().why, "");
}

TEST_F(JitTest, NothingToReplay) {
  auto same = jit([](const at::Tensor& x) { return x; });
  auto number = jit([](const at::Tensor&) { return 7; });
  const at::Tensor x = at::rand({4});
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(same(x).is_same(x));
    EXPECT_EQ(number(x), 7);
  }
  EXPECT_NE(same.stats().why.find("jit_empty"), std::string::npos)
      << same.stats().why;
}

TEST_F(JitTest, ResetRecordsAnew) {
  int runs = 0;
  auto fast = jit(
      [&](const at::Tensor& x) {
        ++runs;
        return x * 2 + 1;
      },
      {.verify_every = 0});
  const at::Tensor x = at::rand({4});
  for (int i = 0; i < 8; ++i) fast(x);
  EXPECT_EQ(runs, 2);
  fast.reset();
  EXPECT_EQ(fast.stats().plans, 0);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(SameBits(fast(x), x * 2 + 1));
  EXPECT_EQ(runs, 4);
}

// Prints, counters and the like happen when the function runs: at the first
// calls, and at those that compare.
TEST_F(JitTest, HostCodeRunsWithTheFunction) {
  int runs = 0;
  auto fast = jit(
      [&](const at::Tensor& x) {
        ++runs;
        return x * 2 + 1;
      },
      {.verify_every = 8});
  const at::Tensor x = at::rand({4});
  for (int i = 0; i < 66; ++i) fast(x);
  const JitStats s = fast.stats();
  EXPECT_EQ(runs, s.calls - s.replays);
  EXPECT_EQ(s.verified, 3 + 8);  // the 1st, 2nd, 4th, then each 8th replay
}

// One layer of a decoder: keys and values are written into a cache where a
// tensor says, and read up to there by a mask.
class Decoder {
 public:
  static constexpr std::int64_t kWidth = 8, kLength = 16, kVocabulary = 20;

  Decoder() {
    at::manual_seed(4);
    for (at::Tensor* w : {&q_, &k_, &v_, &out_}) {
      *w = at::rand({kWidth, kWidth}) - 0.5;
    }
    table_ = at::rand({kVocabulary, kWidth});
    keys_ = at::zeros({kLength, kWidth});
    values_ = at::zeros({kLength, kWidth});
    places_ = at::arange(kLength);
  }
  at::Tensor Next(const at::Tensor& token, const at::Tensor& place) {
    const at::Tensor x = at::embedding(table_, token);
    keys_.index_copy_(0, place, at::mm(x, k_));
    values_.index_copy_(0, place, at::mm(x, v_));
    const at::Tensor scores =
        (at::mm(at::mm(x, q_), keys_.t()) / std::sqrt(double{kWidth}))
            .masked_fill(places_ > place, -1e9);
    const at::Tensor mixed = at::mm(at::softmax(scores, -1), values_);
    return at::mm(x + at::mm(mixed, out_), table_.t());
  }

 private:
  at::Tensor q_, k_, v_, out_, table_, keys_, values_, places_;
};

TEST_F(JitTest, ADecoderWithACache) {
  Decoder replayed, eager;
  auto fast = jit([&](const at::Tensor& token, const at::Tensor& place) {
    return replayed.Next(token, place);
  });
  for (int text = 0; text < 3; ++text) {
    at::Tensor a = at::full({1}, text, at::kLong), b = a;
    for (std::int64_t i = 0; i < Decoder::kLength; ++i) {
      const at::Tensor place = at::full({1}, i, at::kLong);
      const at::Tensor x = fast(a, place), y = eager.Next(b, place);
      EXPECT_TRUE(SameBits(x, y)) << text << " " << i;
      a = x.argmax(1);
      b = y.argmax(1);
    }
  }
  EXPECT_GE(fast.stats().replays, 35) << fast.stats().why;
}

// libtorch makes tensors of these numbers below the dispatcher.
TEST_F(JitTest, NumbersThatAreTensorsWithoutAnOp) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto f = [&](const at::Tensor& x) {
      at::Tensor y =
          at::where(x > 0.5, x, 0.25) + at::scalar_tensor(1.5, x.options());
      y.index_put_({at::indexing::Slice(1, 3)}, 5.0);
      return at::where(y > 1, at::Scalar(2.0), y);
    };
    auto fast = jit(f);
    for (int i = 0; i < 20; ++i) ExpectSame(fast, f, at::rand({8}).to(type));
    EXPECT_GE(fast.stats().replays, 10) << type << ": " << fast.stats().why;
  }
}

TEST_F(JitTest, NumbersThatAreTensorsMayBeArguments) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const auto f = [&](const at::Tensor& x, double bound) {
      return at::where(x > bound, x, bound);
    };
    auto fast = jit(f);
    for (int i = 0; i < 30; ++i) {
      ExpectSame(fast, f, at::rand({8}).to(type), 0.02 * i);
    }
    EXPECT_GE(fast.stats().replays, 20) << type << ": " << fast.stats().why;
  }
}

// A number of the host is none of the arguments.
TEST_F(JitTest, NumbersThatAreTensorsOfTheHost) {
  double bound = 0;
  const auto f = [&](const at::Tensor& x) {
    return at::where(x > 0.5, x, bound);
  };
  auto fast = jit(f);
  for (int i = 0; i < 12; ++i) {
    bound += 0.125;
    ExpectSame(fast, f, at::rand({8}));
  }
  EXPECT_EQ(fast.stats().replays, 0);
  EXPECT_NE(fast.stats().why.find("jit_number"), std::string::npos)
      << fast.stats().why;
}

// A tensor of the call before, of the same number, is no number of this call.
TEST_F(JitTest, TensorsOfTheCallBeforeAreNoNumbers) {
  at::Tensor next = at::scalar_tensor(1.0);
  double value = 1;
  const auto f = [&](const at::Tensor& x) {
    const at::Tensor bound = std::move(next);
    next = at::scalar_tensor(value);
    return at::where(x > 0.5, x, bound);
  };
  auto fast = jit(f);
  for (int i = 0; i < 40; ++i) {
    value = i < 20 ? 1 : i;
    const at::Tensor x = at::rand({8}), bound = next.clone();
    EXPECT_TRUE(SameBits(fast(x), at::where(x > 0.5, x, bound))) << i;
  }
  EXPECT_EQ(fast.stats().replays, 0);
}

// Whether two arguments are one tensor decides, or whether they are views of
// one storage.
TEST_F(JitTest, SameTensorsAreAnotherWayThanSameStorages) {
  const auto f = [](const at::Tensor& a, const at::Tensor& b,
                    const at::Tensor& c) {
    return a * 2 + (b.is_same(c) ? b : c * 4);
  };
  auto fast = jit(f, {.verify_every = 0});
  for (int i = 0; i < 60; ++i) {
    const at::Tensor x = at::rand({8}), z = x.slice(0, 0, 8);
    const at::Tensor c = i / 10 % 2 == 0 ? z : x.slice(0, 0, 8);
    EXPECT_TRUE(SameBits(fast(x, z, c), f(x, z, c))) << i;
  }
  EXPECT_GE(fast.stats().replays, 40) << fast.stats().why;
}

// As rotary embeddings return them.
TEST_F(JitTest, PartsOfComplexNumbersAreResults) {
  const auto turn = [](const at::Tensor& x, const at::Tensor& by) {
    return at::view_as_real(at::view_as_complex(x) * by).flatten(1);
  };
  const auto pair = [](const at::Tensor& x, const at::Tensor& by) {
    return at::view_as_complex(x * at::view_as_real(by)).slice(1, 1, 3);
  };
  auto fast_turn = jit(turn);
  auto fast_pair = jit(pair);
  for (int i = 0; i < 20; ++i) {
    const at::Tensor x = at::rand({3, 4, 2});
    const at::Tensor by = at::rand({4}, at::kComplexFloat);
    at::Tensor a = fast_turn(x, by), b = fast_pair(x, by);
    EXPECT_TRUE(SameBits(a, turn(x, by))) << i;
    EXPECT_TRUE(SameBits(b, pair(x, by))) << i;
    // They are views, as eager's are.
    EXPECT_EQ(a._base().scalar_type(), at::kComplexFloat);
    EXPECT_EQ(b._base().scalar_type(), at::kFloat);
    b.zero_();
    const at::Tensor whole(b._base());
    EXPECT_EQ(whole.select(1, 1).abs().sum().item<float>(), 0);
  }
  EXPECT_GE(fast_turn.stats().replays, 12) << fast_turn.stats().why;
  EXPECT_GE(fast_pair.stats().replays, 12) << fast_pair.stats().why;
}

}  // namespace
}  // namespace tjit
