// A program that links libtorch before libtjit: nothing is interposed, and the
// loop is replayed all the same.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <string>

namespace tjit {
namespace {

TEST(LinkOrderTest, LibtorchFirst) {
  Dl_info info;
  void* first = dlsym(RTLD_DEFAULT, "_ZN2at18in_parallel_regionEv");
  ASSERT_NE(dladdr(first, &info), 0);
  ASSERT_EQ(std::string(info.dli_fname).find("libtjit"), std::string::npos);

  const at::NoGradGuard no_grad;
  const at::Tensor x = torch::randn({8, 8});
  const auto step = [&] {
    return ((x * 2 + x).tanh() - x).sum().item<float>();
  };
  const float eager = step();
  Options options;
  options.hot_threshold = 2;
  ASSERT_TRUE(enable(options));
  const Stats before = stats();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(step(), eager);
  at::set_num_threads(1);
  const Stats d = stats() - before;
  disable();
  EXPECT_GT(d.ops_replayed, 50) << d.to_json();
  EXPECT_EQ(d.ops_direct, 0);
}

}  // namespace
}  // namespace tjit
