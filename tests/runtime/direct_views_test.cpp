// Views that go around libtorch's dispatcher: what libtorch would have made, in
// every state of the thread, and only where nobody can tell.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

using Maker = std::function<at::Tensor(const at::Tensor&)>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Of tensors with at least two dims.
const std::vector<Maker>& Views() {
  static const std::vector<Maker> views = {
      [](const at::Tensor& t) { return t.select(0, 1); },
      [](const at::Tensor& t) { return t.select(-1, -2); },
      [](const at::Tensor& t) { return t[0][1]; },
      [](const at::Tensor& t) { return t.slice(0, 1, 3); },
      [](const at::Tensor& t) { return t.slice(1, -3, kMost, 2); },
      [](const at::Tensor& t) { return t.slice(1, 2, 1); },
      [](const at::Tensor& t) { return t.slice(0, -100, 100, 3); },
      [](const at::Tensor& t) { return t.slice(0, kMost); },
      [](const at::Tensor& t) { return t.slice(0, std::nullopt, 2); },
      [](const at::Tensor& t) { return t.narrow(1, 1, 2); },
      [](const at::Tensor& t) { return t.transpose(0, 1); },
      [](const at::Tensor& t) { return t.transpose(-1, 0).select(0, 2); },
      [](const at::Tensor& t) { return t.t(); },
      [](const at::Tensor& t) { return t.unsqueeze(0); },
      [](const at::Tensor& t) { return t.unsqueeze(-1); },
      [](const at::Tensor& t) { return t.slice(1, 0, 3).unsqueeze(1); },
      [](const at::Tensor& t) { return t.view({-1}); },
      [](const at::Tensor& t) {
        return t.view({2, -1, 2});
      },
      [](const at::Tensor& t) {
        return t.slice(0, 1).view({3, 2, 4});
      },
      [](const at::Tensor& t) {
        return t.slice(0, 1, 1).view({0, 2});
      },
      [](const at::Tensor& t) { return t.transpose(0, 1).unsqueeze(1); },
      [](const at::Tensor& t) {
        return t.permute({1, 0});
      },
      [](const at::Tensor& t) {
        return t.unsqueeze(1).permute({-1, 0, 1});
      },
      [](const at::Tensor& t) {
        return t.expand({4, 8});
      },
      [](const at::Tensor& t) {
        return t.expand({2, 3, -1, -1});
      },
      [](const at::Tensor& t) {
        return t.slice(1, 0, 1).expand({-1, 5});
      },
      [](const at::Tensor& t) {
        return t.slice(0, 1, 2).expand({0, 8});
      },
      [](const at::Tensor& t) {
        return t.unsqueeze(1).expand({3, 4, 1, 8});
      },
      [](const at::Tensor& t) {
        return t[0][1].expand({2, 2});
      },
  };
  return views;
}

// All that can be asked of a view.
std::string Describe(const at::Tensor& view, const at::Tensor& base) {
  std::ostringstream text;
  text << view.sizes() << view.strides() << view.storage_offset() << " "
       << view.key_set() << " " << view.dtype() << view.requires_grad()
       << view.is_leaf() << view.is_inference() << view.is_contiguous()
       << view.storage().is_alias_of(base.storage());
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  text << " view " << (meta != nullptr);
  if (meta != nullptr) {
    text << static_cast<int>(meta->get_creation_meta()) << meta->has_bw_view()
         << meta->has_fw_view() << meta->shared_view_info()
         << meta->requires_grad() << meta->get_backward_view().has_view_fn()
         << meta->get_backward_view().base_.is_same(base);
  }
  if (!view.is_inference()) {
    text << " version " << view._version() - base._version();
  }
  return text.str();
}

class DirectViewsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clear();
    ASSERT_TRUE(enable());
    const at::Tensor x = torch::ones({4, 8});
    x + x;  // the thread takes part from its first op on
  }
  void TearDown() override { disable(); }

  // Views made around the dispatcher by `make`.
  static std::uint64_t Direct(const std::function<void()>& make) {
    const std::uint64_t before = testing::DirectViewsMade();
    make();
    return testing::DirectViewsMade() - before;
  }
};

TEST_F(DirectViewsTest, AreLibtorchs) {
  for (const bool grad_mode : {true, false}) {
    for (const bool in_inference : {true, false}) {
      for (const bool of_inference : {true, false}) {
        at::Tensor base;
        {
          const c10::InferenceMode mode(of_inference);
          base = torch::arange(32, torch::kFloat).view({4, 8});
        }
        const c10::InferenceMode mode(in_inference);
        const at::AutoGradMode grad(grad_mode);
        for (std::size_t i = 0; i < Views().size(); ++i) {
          disable();
          const at::Tensor wanted = Views()[i](base);
          ASSERT_TRUE(enable());
          at::Tensor view;
          EXPECT_GE(Direct([&] { view = Views()[i](base); }), 1) << i;
          EXPECT_EQ(Describe(view, base), Describe(wanted, base)) << i;
          EXPECT_TRUE(at::equal(view, wanted)) << i;
        }
      }
    }
  }
}

TEST_F(DirectViewsTest, ShareVersions) {
  const at::Tensor base = torch::zeros({4, 8});
  const at::Tensor row = base.select(0, 1), part = row.slice(0, 2, 5);
  part.add_(1);
  EXPECT_EQ(base._version(), part._version());
  EXPECT_EQ(base.sum().item<float>(), 3);
  EXPECT_TRUE(part._base().is_same(row._base()));
}

TEST_F(DirectViewsTest, OfDeferredResults) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = torch::randn({4, 8});
  const auto step = [&] {
    const at::Tensor y = x * 2;
    return y.select(0, 1) + y.t().select(1, 2) * y.view({8, 4})[0][1];
  };
  disable();
  const at::Tensor wanted = step();
  ASSERT_TRUE(enable());
  const Stats before = stats();
  for (int i = 0; i < 20; ++i) {
    at::Tensor result;
    EXPECT_GE(Direct([&] { result = step(); }), 6);
    mark_step();
    EXPECT_TRUE(at::equal(result, wanted));
  }
  EXPECT_GT((stats() - before).ops_replayed, 10);
}

// What autograd makes of views afterwards.
std::string GradientsThroughViews(bool grad_mode) {
  std::ostringstream text;
  at::Tensor base = torch::ones({3, 4});
  const at::Tensor w = torch::full({4}, 2.0, torch::requires_grad());
  at::Tensor view;
  {
    const at::AutoGradMode mode(grad_mode);
    view = base.select(0, 1);
  }
  try {
    view.mul_(w);
    text << view.grad_fn()->name() << base.grad_fn()->name();
    (base * base).sum().backward();
    text << w.grad();
  } catch (const c10::Error& e) {
    text << e.what_without_backtrace();
  }
  at::Tensor other = torch::ones({3, 4});
  const at::Tensor column = other.transpose(0, 1).select(0, 2);
  other.mul_(w);
  text << column.requires_grad() << column.grad_fn()->name();
  at::Tensor leaf = torch::ones({3, 4});
  const at::Tensor part = leaf.unsqueeze(0);
  leaf.requires_grad_();
  text << part.requires_grad() << (part * w).requires_grad();
  return text.str();
}

TEST_F(DirectViewsTest, AutogradGoesOnAsWithLibtorchs) {
  for (const bool grad_mode : {true, false}) {
    disable();
    const std::string wanted = GradientsThroughViews(grad_mode);
    ASSERT_TRUE(enable());
    std::string text;
    EXPECT_GE(Direct([&] { text = GradientsThroughViews(grad_mode); }), 3);
    EXPECT_EQ(text, wanted);
  }
}

TEST_F(DirectViewsTest, NotWithGradients) {
  const at::Tensor w = torch::randn({4, 8}, torch::requires_grad());
  at::Tensor view;
  EXPECT_EQ(Direct([&] { view = w.select(0, 1).unsqueeze(0).view({-1}); }), 0);
  EXPECT_EQ(view.grad_fn()->name(), "ViewBackward0");
  const at::NoGradGuard no_grad;
  disable();
  const std::string wanted = Describe(w.unsqueeze(0), w);
  ASSERT_TRUE(enable());
  EXPECT_EQ(Direct([&] { view = w.unsqueeze(0); }), 1);
  EXPECT_EQ(Describe(view, w), wanted);
}

TEST_F(DirectViewsTest, OfDualTensors) {
  const auto level = torch::autograd::ForwardADLevel::get_next_idx();
  at::Tensor dual = torch::zeros({4, 8});
  dual._set_fw_grad(torch::ones({4, 8}), level, /*is_inplace_op=*/false);
  at::Tensor row;
  EXPECT_EQ(Direct([&] { row = dual.select(0, 1); }), 1);  // of the tangent
  EXPECT_TRUE(at::equal(row._fw_grad(level), torch::ones({8})));
  row = dual = at::Tensor();
  torch::autograd::ForwardADLevel::release_idx(level);
}

TEST_F(DirectViewsTest, ThrowWhatLibtorchThrows) {
  const at::Tensor x = torch::zeros({4, 8}), number = torch::zeros({});
  at::Tensor small = torch::zeros({4, 8});
  small.storage().unsafeGetStorageImpl()->set_nbytes(16);
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  const at::Tensor empty = torch::empty({0}).as_strided({0, 8}, {1, kFar});
  const at::Tensor far = torch::ones({4}).as_strided({1}, {kFar});
  const std::vector<std::function<void()>> wrong = {
      [&] { x.select(0, 4); },
      [&] { x.select(0, -5); },
      [&] { x.select(2, 0); },
      [&] { number.select(0, 0); },
      [&] { x.slice(0, 0, 1, 0); },
      [&] { x.slice(0, 0, 1, -1); },
      [&] { x.slice(3); },
      [&] { number.slice(0); },
      [&] { x.transpose(0, 2); },
      [&] { x.unsqueeze(3); },
      [&] {
        x.view({3, -1});
      },
      [&] {
        x.view({-1, -1});
      },
      [&] {
        x.view({5, 7});
      },
      [&] { x.t().view({32}); },
      [&] {
        x.view({-2, 16});
      },
      [&] { small.select(0, 3); },
      [&] { small.slice(0, 1); },
      [&] { small.transpose(0, 1); },
      [&] {
        x.slice(0, 4).view({-1, 0});
      }};
  const auto words = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "nothing thrown";
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    disable();
    const std::string wanted = words(wrong[i]);
    EXPECT_NE(wanted, "nothing thrown") << i;
    ASSERT_TRUE(enable());
    EXPECT_EQ(words(wrong[i]), wanted) << i;
  }
}

TEST_F(DirectViewsTest, NotOfOtherTensors) {
  const at::Tensor sparse = torch::eye(4).to_sparse();
  const at::Tensor complex = torch::ones({4, 4}, at::kComplexFloat).conj();
  const at::Tensor meta = torch::ones({4, 4}, at::kMeta);
  EXPECT_TRUE(sparse.transpose(0, 1).is_sparse());
  EXPECT_TRUE(complex.select(0, 1).is_conj());
  EXPECT_EQ(Direct([&] { EXPECT_TRUE(meta.select(0, 1).is_meta()); }), 0);
  EXPECT_THROW(at::Tensor().unsqueeze(0), c10::Error);
}

int kernels_called = 0;
at::Tensor OwnTranspose(const at::Tensor& x, std::int64_t, std::int64_t) {
  ++kernels_called;
  return x.alias();
}
at::Tensor OwnStrided(c10::DispatchKeySet keys, const at::Tensor& x,
                      c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  ++kernels_called;
  return at::_ops::as_strided::redispatch(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                                 c10::DispatchKey::BackendSelect),
      x, sizes, strides, std::move(offset));
}

// Closing is for good: these two come last.
TEST_F(DirectViewsTest, NotPastAnotherKernel) {
  const at::Tensor x = torch::ones({4, 4});
  EXPECT_EQ(Direct([&] { x.t(), x.transpose(0, 1), x.unsqueeze(0); }), 3);
  torch::Library own(torch::Library::IMPL, "aten", c10::DispatchKey::CPU,
                     __FILE__, __LINE__);
  own.impl("transpose.int", &OwnTranspose);
  EXPECT_EQ(Direct([&] { x.transpose(0, 1), x.t(); }), 0);
  EXPECT_EQ(kernels_called, 2);
  EXPECT_EQ(Direct([&] { x.unsqueeze(0), x.view({16}); }), 2);
}

// What most views are made of.
TEST_F(DirectViewsTest, NotPastAnotherAsStrided) {
  kernels_called = 0;
  const at::Tensor x = torch::ones({4, 4});
  torch::Library own(torch::Library::IMPL, "aten",
                     c10::DispatchKey::BackendSelect, __FILE__, __LINE__);
  own.impl("as_strided", &OwnStrided);
  EXPECT_EQ(Direct([&] {
              x.unsqueeze(0), x.select(0, 1), x.slice(0, 1), x.expand({4, 4}),
                  x.permute({1, 0});
            }),
            0);
  EXPECT_EQ(kernels_called, 5);
  EXPECT_EQ(Direct([&] { x.view({16}); }), 1);
}

}  // namespace
}  // namespace tjit
