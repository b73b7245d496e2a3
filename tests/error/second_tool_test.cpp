// Another tool that overrides CPU kernels of libtorch, before tjit and after
// it: results are those of its kernels, it is said once, and the ops around go
// on being replayed.
//
// The tests run in the order of the file: the first switches tjit on.
#include <ATen/ops/_nested_get_jagged_dummy.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/library.h>

#include <cstring>
#include <string>
#include <vector>

namespace tjit {
namespace {

using ::testing::HasSubstr;

int calls = 0;  // of the other tool's kernels

// They read by pointers that tell nobody, and compute something else than
// libtorch: a replay that goes past them is seen, and so are stale inputs.
at::Tensor OtherMul(const at::Tensor& a, const at::Tensor& b) {
  ++calls;
  at::Tensor r = at::empty_like(a);
  const auto* x = static_cast<const float*>(a.const_data_ptr());
  auto* z = static_cast<float*>(r.mutable_data_ptr());
  if (b.dim() == 0) {
    const auto y = b.item<float>();
    for (std::int64_t i = 0; i < a.numel(); ++i) z[i] = x[i] * y + 0.125f;
    return r;
  }
  const auto* y = static_cast<const float*>(b.const_data_ptr());
  for (std::int64_t i = 0; i < a.numel(); ++i) z[i] = x[i] * y[i] + 0.125f;
  return r;
}

at::Tensor OtherSub(const at::Tensor& a, const at::Tensor& b,
                    const at::Scalar& alpha) {
  ++calls;
  at::Tensor r = at::empty_like(a);
  const auto* x = static_cast<const float*>(a.const_data_ptr());
  const float y = b.item<float>() * alpha.to<float>();
  auto* z = static_cast<float*>(r.mutable_data_ptr());
  for (std::int64_t i = 0; i < a.numel(); ++i) z[i] = x[i] - y + 0.0625f;
  return r;
}

at::Tensor OtherRelu(const at::Tensor& a) {
  ++calls;
  at::Tensor r = at::empty_like(a);
  const auto* x = static_cast<const float*>(a.const_data_ptr());
  auto* z = static_cast<float*>(r.mutable_data_ptr());
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    z[i] = x[i] > 0 ? x[i] : 0.25f * x[i];
  }
  return r;
}

std::vector<at::Tensor> Loop() {
  at::manual_seed(1);
  std::vector<at::Tensor> results;
  at::Tensor x = at::randn({16});
  for (int i = 0; i < 60; ++i) {
    at::Tensor y = at::tanh(at::add(x, x, 0.25));
    y = at::mul(y, at::tanh(x));
    x = at::add(at::relu(at::add(y, x)), y, -0.5);
    // Ops of a tensor and a number end in those of two tensors.
    x = at::mul(at::tanh(x), 0.75).sub(0.125);
    results.push_back(x);
    mark_step();
  }
  return results;
}

// The same bits with tjit on and off, and most ops replayed.
void Compare(int calls_a_step) {
  disable();
  calls = 0;
  const std::vector<at::Tensor> eager = Loop();
  EXPECT_EQ(calls, 60 * calls_a_step);
  clear();
  ASSERT_TRUE(enable({.hot_threshold = 2}));
  const Stats before = stats();
  calls = 0;
  const std::vector<at::Tensor> ours = Loop();
  sync();
  const Stats did = stats() - before;
  disable();
  EXPECT_EQ(calls, 60 * calls_a_step);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    ASSERT_EQ(std::memcmp(eager[i].const_data_ptr<float>(),
                          ours[i].const_data_ptr<float>(), 64),
              0)
        << "step " << i;
  }
  EXPECT_GT(did.ops_replayed, did.ops_seen / 3) << did.to_json();
}

std::string Said(const std::string& text) {
  std::string lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.starts_with("tjit: ")) lines += line + "\n";
    at = end + 1;
  }
  return lines;
}

TEST(SecondToolTest, OneThatCameBefore) {
  // Never taken back: libraries stay in a process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU,
                         __FILE__, __LINE__);
  library->impl("mul.Tensor", &OtherMul);
  ::testing::internal::CaptureStderr();
  Compare(2);
  EXPECT_EQ(Said(::testing::internal::GetCapturedStderr()),
            "tjit: another library has replaced CPU kernels of libtorch (1: "
            "aten::mul.Tensor): they run at the call, the ops around them are "
            "replayed\n");
}

// libtorch's Python does so when nested tensors are imported.
TEST(SecondToolTest, AKernelForAnOpThatHadNoneReplacesNothing) {
  ASSERT_TRUE(enable({.hot_threshold = 2}));
  ::testing::internal::CaptureStderr();
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU,
                         __FILE__, __LINE__);
  library->impl("_nested_get_jagged_dummy", &OtherRelu);
  calls = 0;
  const at::Tensor x = at::randn({4});
  const at::Tensor y = at::_nested_get_jagged_dummy(at::tanh(x));
  EXPECT_EQ(calls, 1);
  const at::Tensor t = x.tanh();
  for (int i = 0; i < 4; ++i) {
    const float in = t.const_data_ptr<float>()[i];
    EXPECT_EQ(y.const_data_ptr<float>()[i], in > 0 ? in : 0.25f * in);
  }
  disable();
  EXPECT_EQ(Said(::testing::internal::GetCapturedStderr()), "");
}

TEST(SecondToolTest, OneThatComesAfter) {
  ::testing::internal::CaptureStderr();
  constexpr int kLine = __LINE__;
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU,
                         __FILE__, kLine);
  library->impl("relu", &OtherRelu);
  library->impl("sub.Tensor", &OtherSub);
  Compare(4);
  EXPECT_EQ(Said(::testing::internal::GetCapturedStderr()),
            std::string("tjit: the CPU kernel of aten::relu is replaced while "
                        "tjit is on (registered at ") +
                __FILE__ + ":" + std::to_string(kLine) +
                "): such ops run at the call, and what is deferred runs "
                "before them\n");
}

}  // namespace
}  // namespace tjit
