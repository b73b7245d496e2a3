// Functions of tjit::jit() as packages: what is loaded has the bits of the
// function and is replayed; what is damaged, missing or another's is named.
#include <tjit/package.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/runtime/thread/jit_testing.h"

namespace tjit {
namespace {

namespace nn = torch::nn;
using at::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SavedPackageTest : public JitTest {
 protected:
  ~SavedPackageTest() override { std::remove(path_.c_str()); }

  template <class F, class... Args>
  void Save(const F& f, const PackageOptions& options, const Args&... args) {
    auto fast = jit(f, {.name = "net"});
    for (int i = 0; i < 6; ++i) fast(args...);
    ASSERT_GT(fast.stats().replays, 0) << fast.stats().why;
    save_package(path_, fast, options, args...);
  }

  template <class Call>
  static std::string ErrorOf(const Call& call) {
    try {
      call();
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "none";
  }

  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  const std::string path_ = ::testing::TempDir() + "/function.tjit";
};

TEST_F(SavedPackageTest, ALoadedOneIsReplayedAtItsFirstCall) {
  nn::Sequential net(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 3));
  const auto f = [net](const Tensor& x, double scale) mutable {
    const torch::NoGradGuard no_grad;
    return net->forward(x) * scale;
  };
  const Tensor x = at::rand({5, 8});
  Save(f,
       {.tensors = net->named_parameters().pairs(),
        .arguments = {"x", "s"},
        .structure = "[\"\t\", 1]\n"},
       x, 0.5);
  Package loaded = load_package(path_);
  EXPECT_EQ(loaded.info().name, "net");
  EXPECT_EQ(loaded.info().structure, "[\"\t\", 1]\n");
  ASSERT_EQ(loaded.info().arguments.size(), 2u);
  EXPECT_EQ(loaded.info().arguments[0].name, "x");
  EXPECT_THAT(loaded.info().arguments[0].sizes, ElementsAre(5, 8));
  EXPECT_FALSE(loaded.info().arguments[1].is_tensor);
  EXPECT_EQ(loaded.info().tensors.size(), 4u);
  auto g = f;
  const std::int64_t before = loaded.stats().replays;
  const Tensor part = at::rand({9, 8}).slice(0, 2, 7);
  EXPECT_TRUE(SameBits(loaded({part}, {0.5})[0], g(part, 0.5)));
  EXPECT_EQ(loaded.stats().replays, before + 1) << loaded.stats().why;
  EXPECT_EQ(loaded.verify(), "");
  for (int i = 0; i < 20; ++i) {
    const Tensor other = at::rand({5, 8});
    EXPECT_TRUE(SameBits(loaded({other}, {0.5})[0], g(other, 0.5)));
  }
  EXPECT_GE(loaded.stats().replays, before + 15) << loaded.stats().why;
}

TEST_F(SavedPackageTest, APlainLibtorchOpensIt) {
  const Tensor w = at::rand({4, 4});
  const auto f = [w](const Tensor& x) { return at::tanh(at::mm(x, w)); };
  const Tensor x = at::rand({3, 4});
  Save(f, {.tensors = {{"w", w}}}, x);
  torch::jit::Module module = torch::jit::load(path_);
  EXPECT_TRUE(SameBits(module.forward({x}).toTensor(), f(x)));
}

TEST_F(SavedPackageTest, StateAndRandomNumbersAreAsBeforeTheWarmUp) {
  const Tensor sum = at::zeros({6});
  const auto f = [sum](const Tensor& x) {
    const Tensor noisy = x + at::rand({6});
    sum.add_(noisy);
    return sum * 2;
  };
  const Tensor x = at::rand({6});
  Save(f, {.tensors = {{"sum", sum}}}, x);
  at::manual_seed(7);
  const Tensor as_saved = sum.clone();
  Package loaded = load_package(path_);
  EXPECT_TRUE(loaded.info().tensors[0].is_written);
  EXPECT_EQ(loaded.verify(), "");
  std::vector<Tensor> actual, expected;
  for (int i = 0; i < 5; ++i) actual.push_back(loaded({x})[0]);
  EXPECT_EQ(loaded.verify(), "");
  actual.push_back(loaded({x})[0]);
  at::manual_seed(7);
  sum.copy_(as_saved);
  for (int i = 0; i < 6; ++i) expected.push_back(f(x));
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(SameBits(actual[i], expected[i])) << i;
  }
  EXPECT_GT(loaded.stats().replays, 3) << loaded.stats().why;
}

TEST_F(SavedPackageTest, TensorsAreGivenByName) {
  const Tensor w = at::rand({64, 64}), b = at::rand({64});
  const auto f = [w, b](const Tensor& x) { return at::mm(x, w) + b; };
  const Tensor x = at::rand({3, 64});
  Save(f, {.tensors = {{"m.w", w}, {"b", b}}, .given = {"m.w"}}, x);
  EXPECT_LT(Bytes().size(), w.nbytes());
  EXPECT_THAT(ErrorOf([&] { load_package(path_); }),
              HasSubstr("has to be given tensor \"m.w\" (Float with sizes [64, "
                        "64] and strides [64, 1])"));
  EXPECT_THAT(
      ErrorOf([&] { load_package(path_, {{"m.w", w.t()}}); }),
      HasSubstr("but is Float with sizes [64, 64] and strides [1, 64]"));
  EXPECT_THAT(ErrorOf([&] { load_package(path_, {{"m.w", w}, {"v", w}}); }),
              HasSubstr("has no tensor \"v\""));
  Package loaded = load_package(path_, {{"m.w", w}});
  EXPECT_EQ(loaded.verify(), "");
  EXPECT_TRUE(SameBits(loaded({x})[0], f(x)));
  w.mul_(2);  // its storage is shared
  EXPECT_TRUE(SameBits(loaded({x})[0], f(x)));
  EXPECT_THAT(ErrorOf([&] { Save(f, {.given = {"q"}}, x); }),
              HasSubstr("\"q\" is to be given, but the function uses no tensor "
                        "of that name"));
}

TEST_F(SavedPackageTest, OtherArgumentsAreRefused) {
  const auto f = [](const Tensor& x) { return at::tanh(x) + 1; };
  Save(f, {}, at::rand({4}));
  Package loaded = load_package(path_);
  EXPECT_THAT(ErrorOf([&] { loaded({}); }),
              HasSubstr("takes 1 tensors and 0 numbers, but got 0 and 0"));
  try {
    loaded({at::rand({5})});
    ADD_FAILURE() << "sizes were not checked";
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), HasSubstr("tensor0 has to be a tensor of Float with "
                                    "sizes [4] and strides [1]"));
  }
}

TEST_F(SavedPackageTest, WithoutAnExample) {
  const auto f = [](const Tensor& x) { return at::tanh(x) + 1; };
  const Tensor x = at::rand({4});
  Save(f, {.keeps_example = false}, x);
  Package loaded = load_package(path_);
  EXPECT_EQ(loaded.stats().calls, 0);
  EXPECT_THAT(ErrorOf([&] { loaded.verify(); }),
              HasSubstr("was saved without an example"));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(SameBits(loaded({x})[0], f(x)));
  EXPECT_GT(loaded.stats().replays, 0) << loaded.stats().why;
}

TEST_F(SavedPackageTest, WhatIsDamagedIsNotLoaded) {
  const Tensor w = at::rand({40, 40});
  const auto f = [w](const Tensor& x) { return at::tanh(at::mm(x, w)); };
  const Tensor x = at::rand({3, 40});
  Save(f, {.tensors = {{"w", w}}}, x);
  const std::string bytes = Bytes();
  const auto expect_error = [&](const std::string& said) {
    EXPECT_THAT(ErrorOf([&] { load_package(path_); }),
                ::testing::AllOf(HasSubstr(path_), HasSubstr(said)));
  };
  // A weight, whose bytes libtorch does not check.
  std::string changed = bytes;
  const std::string_view weight(static_cast<const char*>(w.const_data_ptr()),
                                64);
  const std::size_t at = changed.find(weight);
  ASSERT_NE(at, std::string::npos);
  changed[at] = static_cast<char>(changed[at] ^ 1);
  SetBytes(changed);
  expect_error("is damaged");
  for (const double part : {0.0, 0.3, 0.9}) {
    SetBytes(bytes.substr(
        0, static_cast<std::size_t>(part * static_cast<double>(bytes.size()))));
    expect_error("is damaged");
  }
  // Wherever a byte is another one, it is found or does not matter.
  for (std::size_t i = 0; i < bytes.size(); i += bytes.size() / 150 + 1) {
    changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    SetBytes(changed);
    try {
      Package loaded = load_package(path_, {}, /*warms_up=*/false);
      EXPECT_TRUE(SameBits(loaded({x})[0], f(x))) << i;
    } catch (const c10::Error& e) {
      EXPECT_THAT(e.what_without_backtrace(), HasSubstr("is damaged"));
    }
  }
  std::string newer = bytes;
  const std::size_t format = newer.find("tjit-package\t1");
  ASSERT_NE(format, std::string::npos);
  newer[format + 13] = '2';
  SetBytes(newer);
  expect_error("has format 2, and this tjit reads format 1");
  std::remove(path_.c_str());
  expect_error("cannot be read: No such file or directory");
  torch::jit::Module plain("plain");
  plain.define("def forward(self, x):\n    return x\n");
  plain.save(path_);
  expect_error("is a module of TorchScript and no package");
}

}  // namespace
}  // namespace tjit
