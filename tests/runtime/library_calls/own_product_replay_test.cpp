// Small nets under tjit: products run by own code in tier 1 and in compiled
// segments, forward and backward, with eager's bits.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tjit {
namespace {

using ::testing::HasSubstr;
using torch::Tensor;

using Program = std::function<Tensor()>;

// Steps until new sizes have been tried, and more.
constexpr int kSteps = 200;

// 8 -> 16 -> 32 -> 12, a forward pass.
Program Net() {
  torch::manual_seed(1);
  const Tensor x = torch::randn({32, 8});
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::Tanh(),
                            torch::nn::Linear(16, 32), torch::nn::ReLU(),
                            torch::nn::Linear(32, 12));
  return [=]() mutable {
    const torch::NoGradGuard no_grad;
    return net->forward(x);
  };
}

// The same with its backward pass and a step of SGD; returns the last weight.
Program Training() {
  torch::manual_seed(1);
  const Tensor x = torch::randn({32, 8}), y = torch::randn({32, 16});
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::Tanh(),
                            torch::nn::Linear(16, 32), torch::nn::Tanh(),
                            torch::nn::Linear(32, 16));
  auto sgd = std::make_shared<torch::optim::SGD>(net->parameters(), 0.05);
  return [=]() mutable {
    sgd->zero_grad();
    torch::mse_loss(net->forward(x), y).backward();
    sgd->step();
    return net->parameters()[4].detach();
  };
}

// Attention of two heads: products of batches.
Program Attention() {
  torch::manual_seed(1);
  const Tensor q = torch::randn({2, 16, 16}), k = torch::randn({2, 16, 16}),
               v = torch::randn({2, 16, 16});
  return [=] {
    const torch::NoGradGuard no_grad;
    const Tensor weights = torch::softmax(torch::bmm(q, k.transpose(1, 2)), -1);
    return torch::bmm(weights, v);
  };
}

std::vector<Tensor> RunSteps(const Program& program) {
  std::vector<Tensor> results;
  for (int i = 0; i < kSteps; ++i) {
    results.push_back(program().clone());
    mark_step();
  }
  return results;
}

// Which products are own was measured on these processors. On others only bits
// are compared.
bool IsKnown() {
  return __builtin_cpu_is("amd") != 0 && __builtin_cpu_supports("avx512f") != 0;
}
bool HasOwn(const Stats& did, std::int64_t least = 1) {
  return did.products_own >= least || !IsKnown();
}

// In a process of its own. Its exit status is 0 if `is_right` of what it did.
int RunProcess(bool (*is_right)(const Stats&)) {
  const pid_t child = fork();
  if (child == 0) {
    at::set_num_threads(1);
    Options options;
    options.hot_threshold = 2;
    options.backend = Backend::kReplay;
    if (!enable(options)) _exit(2);
    RunSteps(Net());
    sync();
    _exit(is_right(stats()) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// Before this process has verdicts itself.
TEST(OwnProductProcessesTest, TheNextOneTakesTheVerdicts) {
  const char* const folder = std::getenv("TJIT_CACHE_DIR");
  if (folder == nullptr || folder == std::string("off")) {
    GTEST_SKIP() << "ctest says where";
  }
  std::filesystem::remove_all(folder);
  const auto tries = [](const Stats& did) {
    return did.products_tried > 0 && HasOwn(did);
  };
  const auto knows = [](const Stats& did) {
    return did.products_tried == 0 && (did.products_own > 0 || !IsKnown());
  };
  EXPECT_EQ(RunProcess(tries), 0);
  EXPECT_EQ(RunProcess(knows), 0);
}

class OwnProductReplayTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override {
    disable();
    clear();
  }

  // Runs it eagerly and under tjit, which gets the same bits.
  Stats Compare(Program (*make)(), bool own_products) {
    const std::vector<Tensor> eager = RunSteps(make());
    Options options;
    options.hot_threshold = 2;
    options.backend = GetParam();
    options.cache_dir = "off";
    options.own_products = own_products;
    EXPECT_TRUE(enable(options));
    const Stats before = stats();
    const std::vector<Tensor> ours = RunSteps(make());
    sync();
    int differences = 0;
    for (std::size_t i = 0; i < eager.size(); ++i) {
      differences += std::memcmp(eager[i].const_data_ptr(),
                                 ours[i].const_data_ptr(), ours[i].nbytes())
                         ? 1
                         : 0;
    }
    EXPECT_EQ(differences, 0);
    return stats() - before;
  }
};

TEST_P(OwnProductReplayTest, AForwardPass) {
  const Stats did = Compare(&Net, true);
  EXPECT_TRUE(HasOwn(did, 100)) << did.to_json();
  EXPECT_EQ(did.products_switched_off, 0);
}

TEST_P(OwnProductReplayTest, ATrainingStep) {
  const Stats did = Compare(&Training, true);
  EXPECT_TRUE(HasOwn(did, 300)) << did.to_json();
  EXPECT_EQ(did.products_switched_off, 0);
}

TEST_P(OwnProductReplayTest, Batches) {
  const Stats did = Compare(&Attention, true);
  EXPECT_TRUE(HasOwn(did, 100)) << did.to_json();
}

// The library's step behind an own one runs ops of libtorch, in the state of
// the call: results are read outside of the mode.
TEST_P(OwnProductReplayTest, TheLibraryTakesOverInInferenceMode) {
  const Program attention = Attention();
  const Program program = [=] {
    const c10::InferenceMode inference;
    return attention();
  };
  const std::vector<Tensor> eager = RunSteps(program);
  Options options;
  options.hot_threshold = 2;
  options.backend = GetParam();
  options.cache_dir = "off";
  for (const bool own : {true, false}) {
    options.own_products = own;
    ASSERT_TRUE(enable(options));
    const Stats before = stats();
    const std::vector<Tensor> ours = RunSteps(program);
    sync();
    for (std::size_t i = 0; i < eager.size(); ++i) {
      ASSERT_TRUE(at::equal(eager[i], ours[i])) << i;
    }
    const Stats did = stats() - before;
    EXPECT_TRUE((did.products_own > 100) == own || !IsKnown()) << did.to_json();
    EXPECT_GT(did.ops_replayed, 300) << did.to_json();
  }
}

TEST_P(OwnProductReplayTest, TheLibraryIfItIsToBe) {
  const Stats did = Compare(&Training, false);
  EXPECT_GT(did.ops_replayed, 1000) << did.to_json();
  EXPECT_EQ(did.products_own, 0);
  EXPECT_EQ(did.products_tried, 0);
}

TEST_P(OwnProductReplayTest, ExplainNamesThem) {
  Compare(&Net, true);
  EXPECT_THAT(explain(/*verbose=*/true),
              HasSubstr("matrix products:\n  product "));
}

INSTANTIATE_TEST_SUITE_P(Backends, OwnProductReplayTest,
                         ::testing::Values(Backend::kReplay, Backend::kLlvm));

}  // namespace
}  // namespace tjit
