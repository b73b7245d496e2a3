// Functions of tjit::jit() as files that torch::jit::load() reads: what is
// loaded has the bits of the function, its names and its checks.
#include <tjit/torchscript.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

namespace nn = torch::nn;
using at::Tensor;
using ::testing::HasSubstr;
using IValues = std::vector<c10::IValue>;

class SaveTorchscriptTest : public JitTest {
 protected:
  // Until the function is replayed.
  template <class F, class... Args>
  static void Warm(Jit<F>& fast, const Args&... args) {
    for (int i = 0; i < 6; ++i) fast(args...);
    ASSERT_GT(fast.stats().replays, 0) << fast.stats().why;
  }

  template <class F, class... Args>
  torch::jit::Module SaveAndLoad(const Jit<F>& fast,
                                 const TorchscriptOptions& options,
                                 const Args&... args) {
    save_torchscript(path_, fast, options, args...);
    return torch::jit::load(path_);
  }

  template <class F, class... Args>
  std::string ErrorOf(const Jit<F>& fast, const TorchscriptOptions& options,
                      const Args&... args) {
    try {
      save_torchscript(path_, fast, options, args...);
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "none";
  }

  static std::string ErrorOfForward(torch::jit::Module module,
                                    const IValues& args) {
    try {
      module.forward(args);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "none";
  }

  // What is loaded computes what the function computes, of two examples.
  template <class F>
  void ExpectSameLoaded(const F& f, const Tensors& x, const Tensors& other) {
    auto fast = jit(f);
    Warm(fast, x);
    torch::jit::Module loaded = SaveAndLoad(fast, {}, x);
    for (const Tensors& now : {x, other}) {
      IValues args(now.begin(), now.end());
      const c10::IValue result = loaded.forward(args);
      const Tensors expected = f(now);
      Tensors actual;
      if (result.isTuple()) {
        for (const c10::IValue& one : result.toTupleRef().elements()) {
          actual.push_back(one.toTensor());
        }
      } else if (result.isTensor()) {
        actual.push_back(result.toTensor());
      }
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_TRUE(SameBits(actual[i], expected[i])) << i;
        EXPECT_EQ(actual[i].strides(), expected[i].strides()) << i;
      }
    }
  }

  const std::string path_ = ::testing::TempDir() + "/function.pt";
};

TEST_F(SaveTorchscriptTest, ANetworkKeepsItsNames) {
  nn::Sequential net(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 3));
  const Tensor mean = at::rand({8});
  const auto f = [net, mean](const Tensor& x) mutable {
    return net->forward(x - mean);
  };
  auto fast = jit(f);
  const Tensor x = at::rand({5, 8});
  Warm(fast, x);
  torch::jit::Module loaded = SaveAndLoad(
      fast, {.tensors = net->named_parameters().pairs(), .arguments = {"x"}},
      x);
  const Tensor other = at::rand({5, 8});
  EXPECT_TRUE(
      SameBits(loaded.forward({other}).toTensor(), net->forward(other - mean)));
  std::vector<std::string> names;
  for (const auto& p : loaded.named_parameters()) {
    names.push_back(p.name);
    EXPECT_TRUE(SameBits(p.value, net->named_parameters()[p.name])) << p.name;
    EXPECT_TRUE(p.value.requires_grad());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("0.weight", "0.bias",
                                                     "2.weight", "2.bias"));
  ASSERT_EQ(loaded.named_buffers().size(), 1);
  EXPECT_TRUE(SameBits((*loaded.named_buffers().begin()).value, mean));
  EXPECT_EQ(
      loaded.get_method("forward").function().getSchema().arguments()[1].name(),
      "x");
}

TEST_F(SaveTorchscriptTest, OpsOfAllKinds) {
  const Tensor table = at::rand({7, 6}), filter = at::rand({4, 3, 3, 3});
  const auto f = [&](const Tensors& in) {
    const Tensor &x = in[0], &image = in[1], &index = in[2];
    const Tensor h = at::softmax(at::mm(x, x.t()), 1);
    const Tensor c = at::relu(at::conv2d(image, filter, {}, 2, 1));
    const Tensor n = at::layer_norm(x, {6});
    const Tensor e = at::embedding(table, index);
    const Tensor both = at::cat({h.sum(0), n.mean(1), e.flatten()});
    const Tensor picked = at::where(x > 0.5, x, n);
    const auto [values, indices] = x.max(1);
    return Tensors{h,
                   c,
                   both,
                   picked,
                   values,
                   indices,
                   x.to(at::kBFloat16) * 2,
                   at::einsum("ij,kj->ik", {x, table})};
  };
  const auto make = [&] {
    return Tensors{at::rand({4, 6}), at::rand({2, 3, 8, 8}),
                   at::randint(7, {3}, at::kLong)};
  };
  ExpectSameLoaded(f, make(), make());
}

TEST_F(SaveTorchscriptTest, ViewsAndPlaces) {
  const auto f = [](const Tensors& in) {
    const Tensor &x = in[0], &y = in[1];
    const Tensor row = x.select(0, 1), made = x.t() + y;
    return Tensors{x,
                   row,
                   row.slice(0, 1, 3) * y.select(0, 0).slice(0, 1, 3),
                   made,
                   made.select(1, 0),
                   made};
  };
  const auto make = [] { return Tensors{at::rand({4, 5}), at::rand({5, 4})}; };
  ExpectSameLoaded(f, make(), make());
  // A tensor that begins elsewhere in its storage than the example.
  ExpectSameLoaded(f, make(),
                   {at::rand({9, 5}).slice(0, 3, 7), at::rand({5, 4})});
  ExpectSameLoaded(f, {at::rand({9, 5}).slice(0, 3, 7), at::rand({5, 4})},
                   make());
}

TEST_F(SaveTorchscriptTest, NumbersStayArguments) {
  const auto f = [](const Tensor& x, double dt, double power) {
    return at::add(x, x, dt) * dt + at::pow(x, power);
  };
  auto fast = jit(f);
  const Tensor x = at::rand({6});
  for (int i = 0; i < 8; ++i) fast(x, 0.5 + i, 3.0);
  ASSERT_GT(fast.stats().replays, 0) << fast.stats().why;
  torch::jit::Module loaded = SaveAndLoad(fast, {}, x, 0.25, 3.0);
  for (const double dt : {0.1, 1e-30, -7.0}) {
    EXPECT_TRUE(
        SameBits(loaded.forward({x, dt, 3.0}).toTensor(), f(x, dt, 3.0)));
  }
  EXPECT_THAT(ErrorOfForward(loaded, {x, 0.25, 2.0}),
              HasSubstr("number1 has to be 3, with which it was recorded, but "
                        "got 2"));
}

TEST_F(SaveTorchscriptTest, StateIsTheModules) {
  const Tensor state = at::ones({4});
  const auto f = [&](const Tensor& x) {
    state.mul_(0.5).add_(x);
    return state * 2;
  };
  auto fast = jit(f);
  const Tensor x = at::rand({4});
  Warm(fast, x);
  torch::jit::Module loaded =
      SaveAndLoad(fast, {.tensors = {{"state", state}}}, x);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(SameBits(loaded.forward({x}).toTensor(), f(x)));
    EXPECT_TRUE(SameBits(loaded.attr("state").toTensor(), state));
  }
}

TEST_F(SaveTorchscriptTest, RandomNumbersAreDrawnByTheModule) {
  const auto f = [](const Tensor& x) {
    return at::dropout(x, 0.5, /*train=*/true) + at::randn({8}) +
           at::arange(8) + at::zeros({8});
  };
  auto fast = jit(f);
  const Tensor x = at::rand({8});
  Warm(fast, x);
  torch::jit::Module loaded = SaveAndLoad(fast, {}, x);
  at::manual_seed(5);
  const Tensor expected = f(x);
  at::manual_seed(5);
  EXPECT_TRUE(SameBits(loaded.forward({x}).toTensor(), expected));
}

// arange() gives the tensor its sizes.
TEST_F(SaveTorchscriptTest, PartsOfWhatIsDrawn) {
  const auto f = [](const Tensors& in) {
    const Tensor places = at::arange(8), noise = at::zeros({8});
    return Tensors{in[0] * places.slice(0, 2, 5), places.slice(0, 6, 8),
                   in[0] + noise.slice(0, 1, 4)};
  };
  ExpectSameLoaded(f, {at::rand({3})}, {at::rand({3})});
}

TEST_F(SaveTorchscriptTest, WhatNothingUsesIsLeftOut) {
  nn::LSTM net(nn::LSTMOptions(4, 6).num_layers(2).batch_first(true));
  net->eval();
  ExpectSameLoaded(
      [&](const Tensors& x) {
        return Tensors{std::get<0>(net->forward(x[0]))};
      },
      {at::rand({3, 5, 4})}, {at::rand({3, 5, 4})});
  auto draws = jit([](const Tensor& x) {
    at::rand({8});
    return x + at::rand({8});
  });
  const Tensor x = at::rand({8});
  Warm(draws, x);
  EXPECT_THAT(ErrorOf(draws, {}, x),
              HasSubstr("random numbers are drawn that nothing uses"));
}

TEST_F(SaveTorchscriptTest, WhatIsLoadedIsReplayed) {
  const Tensor w = at::rand({8, 8});
  const auto f = [&](const Tensor& x) { return at::tanh(at::mm(x, w)) * 3; };
  auto fast = jit(f);
  const Tensor x = at::rand({4, 8});
  Warm(fast, x);
  auto again =
      jit([loaded = SaveAndLoad(fast, {}, x)](const Tensor& y) mutable {
        return loaded.forward({y}).toTensor();
      });
  for (int i = 0; i < 40; ++i) {
    const Tensor y = at::rand({4, 8});
    EXPECT_TRUE(SameBits(again(y), f(y)));
  }
  EXPECT_GE(again.stats().replays, 30) << again.stats().why;
}

TEST_F(SaveTorchscriptTest, OtherFormsAreRefusedByTheModule) {
  auto fast = jit([](const Tensor& x) { return at::relu(x) + 1; });
  const Tensor x = at::rand({2, 3});
  Warm(fast, x);
  const torch::jit::Module loaded = SaveAndLoad(fast, {}, x);
  const std::string wanted =
      "tensor0 has to be a tensor of Float with sizes [2, 3] and strides "
      "[3, 1], but got sizes ";
  EXPECT_THAT(ErrorOfForward(loaded, {at::rand({3, 3})}),
              HasSubstr(wanted + "[3, 3]"));
  EXPECT_THAT(ErrorOfForward(loaded, {at::rand({3, 2}).t()}),
              HasSubstr(wanted + "[2, 3] and strides [1, 2]"));
  EXPECT_THAT(ErrorOfForward(loaded, {at::rand({2, 3}, at::kDouble)}),
              HasSubstr(wanted));
  EXPECT_THAT(ErrorOfForward(loaded, {at::rand({6})}), HasSubstr(wanted));
}

TEST_F(SaveTorchscriptTest, WhatCannotBeSavedIsNamed) {
  auto fast = jit([](const Tensor& x) { return x + 1; }, {.name = "plus"});
  const Tensor x = at::rand({3});
  EXPECT_THAT(ErrorOf(fast, {}, x),
              HasSubstr("\"plus\" is not replayed for these arguments; call it "
                        "with them"));
  Warm(fast, x);
  EXPECT_THAT(ErrorOf(fast, {}, at::rand({4})), HasSubstr("is not replayed"));
  EXPECT_EQ(ErrorOf(fast, {}, x), "none");
  try {
    save_torchscript("/no/such/folder/f.pt", fast, x);
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("/no/such/folder/f.pt: cannot be written: "
                                    "No such file or directory"));
  }

  auto reads = jit([](const Tensor& y) { return y * y.sum().item<float>(); });
  for (int i = 0; i < 6; ++i) reads(x);
  EXPECT_THAT(ErrorOf(reads, {}, x), HasSubstr("jit_host_read"));

  const Tensor w = at::rand({3}).requires_grad_();
  auto trains = jit([&](const Tensor& y) { (w * y).sum().backward(); });
  {
    const at::AutoGradMode mode(true);
    for (int i = 0; i < 20; ++i) trains(x);
  }
  ASSERT_GT(trains.stats().replays, 0) << trains.stats().why;
  EXPECT_THAT(ErrorOf(trains, {}, x), HasSubstr("a backward pass inside"));

  const Tensor a = at::rand({3}), b = at::rand({3});
  auto two = jit([&](const Tensor& y) { return y * a + b; });
  Warm(two, x);
  EXPECT_THAT(ErrorOf(two, {.tensors = {{"w", a}, {"w", b}}}, x),
              HasSubstr("\"w\" names two tensors"));
  EXPECT_THAT(ErrorOf(two, {.tensors = {{"w", a}, {"w.b", b}}}, x),
              HasSubstr("\"w\" names a tensor and a module"));
  EXPECT_THAT(ErrorOf(two, {.tensors = {{"w", x}}}, x),
              HasSubstr("\"w\" is tensor 0 in the arguments, too"));
  auto sum = jit([](const Tensor& y, const Tensor& z) { return y + z; });
  Warm(sum, x, x);
  EXPECT_THAT(ErrorOf(sum, {}, x, x),
              HasSubstr("tensors 0 and 1 in the arguments have one storage"));
  EXPECT_THAT(ErrorOf(two, {.tensors = {{"a..b", a}}}, x),
              HasSubstr("\"a..b\" is no name of a tensor"));
  EXPECT_THAT(ErrorOf(two, {.tensors = {{"forward", a}}}, x),
              HasSubstr("\"forward\" is no name of a tensor"));
  EXPECT_THAT(ErrorOf(two, {.arguments = {"not this"}}, x),
              HasSubstr("\"not this\" is no name of an argument"));
  EXPECT_THAT(ErrorOf(two, {.arguments = {"self"}}, x),
              HasSubstr("\"self\" is no name of an argument"));
  auto casts = jit([](const Tensor& y) { return y.view(at::kInt) + 1; });
  Warm(casts, x);
  EXPECT_THAT(ErrorOf(casts, {}, x),
              HasSubstr("aten::add.Scalar: a tensor is read as elements of "
                        "another type; nothing was written"));
}

}  // namespace
}  // namespace tjit
