// Views that go around libtorch's dispatcher: what libtorch would have made, in
// every state of the thread, and only where nobody can tell.
#include <ATen/record_function.h>
#include <c10/core/AutogradState.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

using Maker = std::function<at::Tensor(const at::Tensor&)>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

struct View {
  Maker make;
  std::uint64_t direct = 1;  // the views on the way that can be made directly
};

// Of a tensor of [4, 8].
const std::vector<View>& Views() {
  using T = const at::Tensor&;
  using I = std::vector<std::int64_t>;
  static const std::vector<View> views = {
      {[](T t) { return t.select(0, 1); }},
      {[](T t) { return t.select(-1, -2); }},
      {[](T t) { return t[0][1]; }, 2},
      {[](T t) { return t.slice(0, 1, 3); }},
      {[](T t) { return t.slice(1, -3, kMost, 2); }},
      {[](T t) { return t.slice(1, 2, 1); }},
      {[](T t) { return t.slice(0, -100, 100, 3); }},
      {[](T t) { return t.slice(0, kLeast, 2); }},
      {[](T t) { return t.slice(0, kMost); }},
      {[](T t) { return t.slice(0, std::nullopt, 2); }},
      {[](T t) { return t.slice(1, 0, 8, 9); }},
      {[](T t) { return t.narrow(1, 1, 2); }},
      {[](T t) { return t.transpose(0, 1); }},
      {[](T t) { return t.transpose(-1, 0).select(0, 2); }, 2},
      {[](T t) { return t.t(); }},
      {[](T t) { return t.unsqueeze(0); }},
      {[](T t) { return t.unsqueeze(-1); }},
      {[](T t) { return t.slice(1, 0, 3).unsqueeze(1); }, 2},
      {[](T t) { return t.transpose(0, 1).unsqueeze(1); }, 2},
      {[](T t) { return t.slice(0, 1, 3).unsqueeze(-1); }, 2},
      {[](T t) { return t.view(I{-1}); }},
      {[](T t) {
        return t.view(I{2, -1, 2});
      }},
      {[](T t) {
         return t.slice(0, 1).view(I{3, 2, 4});
       },
       2},
      {[](T t) {
         return t.slice(0, 1, 1).view(I{0, 2});
       },
       2},
      {[](T t) {
         return t.transpose(0, 1).view(I{2, 4, 4});
       },
       2},
      {[](T t) {
         return t.slice(1, 2, 6).view(I{2, 2, 2, -1});
       },
       2},
      {[](T t) {
        return t.permute(I{1, 0});
      }},
      {[](T t) {
        return t.permute(I{-1, -2});
      }},
      {[](T t) {
        return t.permute(I{0, 1});
      }},
      {[](T t) {
         return t.unsqueeze(1).permute(I{-1, 0, 1});
       },
       2},
      {[](T t) {
        return t.expand(I{4, 8});
      }},
      {[](T t) {
        return t.expand(I{2, 3, -1, -1});
      }},
      {[](T t) {
         return t.slice(1, 0, 1).expand(I{-1, 5});
       },
       2},
      {[](T t) {
         return t.slice(1, 0, 1).expand(I{2, -1, 1});
       },
       2},
      {[](T t) {
         return t.slice(0, 1, 2).expand(I{0, 8});
       },
       2},
      {[](T t) {
         return t.unsqueeze(1).expand(I{3, 4, 1, 8});
       },
       2},
      {[](T t) {
         return t.unsqueeze(1).expand(I{-1, 7, -1});
       },
       2},
      {[](T t) {
         return t.unsqueeze(0).expand(I{6, -1, 8})[3];
       },
       3},
      {[](T t) {
         return t.t().expand(I{2, 8, 4});
       },
       2},
      {[](T t) { return t[0][1].unsqueeze(-1); }, 3},
      // One of no dims is left to libtorch.
      {[](T t) {
         return t[0][1].expand(I{2, 2});
       },
       2},
  };
  return views;
}

// Of a tensor of no dims.
const std::vector<View>& ViewsOfNumbers() {
  using T = const at::Tensor&;
  using I = std::vector<std::int64_t>;
  static const std::vector<View> views = {
      {[](T t) { return t.unsqueeze(0); }},
      {[](T t) { return t.unsqueeze(-1); }},
      {[](T t) { return t.unsqueeze(0).unsqueeze(1); }, 2},
      {[](T t) { return t.view(I{}); }},
      {[](T t) { return t.view(I{1}); }},
      {[](T t) { return t.view(I{-1}); }},
      {[](T t) { return t.view(I{1, -1, 1}); }},
      {[](T t) { return t.permute(I{}); }},
      {[](T t) { return t.view(I{1}).expand(I{3}); }, 2},
      {[](T t) { return t.view(I{1}).select(0, -1); }, 2},
      // libtorch's, which takes a number for a vector where it has to.
      {[](T t) { return t.t(); }, 0},
      {[](T t) { return t.transpose(0, -1); }, 0},
      {[](T t) { return t.expand(I{}); }, 0},
      {[](T t) { return t.expand(I{2, 3}); }, 0},
  };
  return views;
}

// Of a tensor of [3, 0, 4].
const std::vector<View>& ViewsOfNothing() {
  using T = const at::Tensor&;
  using I = std::vector<std::int64_t>;
  static const std::vector<View> views = {
      {[](T t) { return t.select(0, 2); }},
      {[](T t) { return t.select(-1, -4); }},
      {[](T t) { return t.slice(0, 1); }},
      {[](T t) { return t.slice(1, 0, kMost); }},
      {[](T t) { return t.slice(1, -5, 7, 1); }},
      {[](T t) { return t.slice(2, 3, 1); }},
      {[](T t) { return t.slice(2, 1, 4, 2); }},
      {[](T t) { return t.transpose(0, 1); }},
      {[](T t) { return t.select(0, 0).t(); }, 2},
      {[](T t) { return t.unsqueeze(1); }},
      {[](T t) { return t.unsqueeze(2); }},
      {[](T t) { return t.unsqueeze(-1); }},
      {[](T t) { return t.permute(I{1, 2, 0}); }},
      {[](T t) { return t.expand(I{2, 3, 0, 4}); }},
      {[](T t) { return t.expand(I{-1, -1, -1}); }},
      {[](T t) { return t.slice(0, 0, 1).expand(I{5, 0, 4}); }, 2},
      {[](T t) { return t.view(I{0}); }},
      {[](T t) { return t.view(I{-1}); }},
      {[](T t) { return t.view(I{7, 0, 2}); }},
      {[](T t) { return t.view(I{6, -1}); }},
      {[](T t) { return t.transpose(0, 2).view(I{0, 12}); }, 2},
  };
  return views;
}

// Of a tensor of [1, 2, 1, 2, 1, 2, 4, 1]: more than eight dims are libtorch's,
// but for what becomes nine of eight.
const std::vector<View>& ViewsOfEightDims() {
  using T = const at::Tensor&;
  using I = std::vector<std::int64_t>;
  static const std::vector<View> views = {
      {[](T t) { return t.select(7, 0); }},
      {[](T t) { return t.slice(6, 1, 3); }},
      {[](T t) { return t.transpose(0, 7); }},
      {[](T t) { return t.permute(I{7, 6, 5, 4, 3, 2, 1, 0}); }},
      {[](T t) { return t.permute(I{-1, 0, -2, 1, -3, 2, -4, 3}); }},
      {[](T t) { return t.expand(I{3, -1, 3, 2, 1, 2, -1, 5}); }},
      {[](T t) { return t.view(I{2, 1, 2, 1, 2, 1, -1, 2}); }},
      {[](T t) { return t.unsqueeze(0); }},
      {[](T t) { return t.unsqueeze(4); }},
      {[](T t) { return t.unsqueeze(8); }},
      {[](T t) { return t.unsqueeze(-1).unsqueeze(0); }, 1},
      {[](T t) { return t.unsqueeze(3).select(8, 0); }, 1},
      {[](T t) { return t.unsqueeze(3).slice(7, 1); }, 1},
      {[](T t) { return t.unsqueeze(3).transpose(0, 8); }, 1},
      {[](T t) {
         return t.unsqueeze(3).permute(I{8, 7, 6, 5, 4, 3, 2, 1, 0});
       },
       1},
      {[](T t) {
         return t.unsqueeze(0).expand(I{3, 1, 2, 1, 2, 1, 2, 4, 1});
       },
       1},
      {[](T t) { return t.unsqueeze(3).view(I{-1}); }, 1},
      {[](T t) { return t.expand(I{3, 1, 2, 1, 2, 1, 2, 4, 1}); }, 0},
      {[](T t) { return t.view(I{1, 1, 2, 1, 2, 1, 2, 4, 1}); }, 0},
  };
  return views;
}

// All that can be asked of a view. Changes the version of `base`.
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
    const std::int64_t before = view._version();
    base.unsafeGetTensorImpl()->bump_version();
    text << " version moves by " << view._version() - before;
  }
  return text.str();
}

constexpr const char* kNothing = "nothing thrown";

// What `f` throws.
std::string Words(const std::function<void()>& f) {
  try {
    f();
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return kNothing;
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
  // All views of `base` are libtorch's, whether made directly or not.
  static void ExpectSame(const at::Tensor& base, bool is_direct,
                         const std::vector<View>& views = Views()) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      disable();
      const at::Tensor wanted = views[i].make(base);
      ASSERT_TRUE(enable());
      at::Tensor view;
      EXPECT_EQ(Direct([&] { view = views[i].make(base); }),
                is_direct ? views[i].direct : 0)
          << i;
      EXPECT_EQ(Describe(view, base), Describe(wanted, base)) << i;
      EXPECT_TRUE(at::equal(view, wanted)) << i;
    }
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
        ExpectSame(base, true);
      }
    }
  }
}

TEST_F(DirectViewsTest, OfOtherTypes) {
  for (const at::ScalarType type :
       {at::kBool, at::kByte, at::kShort, at::kInt, at::kLong, at::kHalf,
        at::kBFloat16, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    SCOPED_TRACE(c10::toString(type));
    const at::Tensor numbers = torch::arange(37).remainder(7).to(type);
    ExpectSame(numbers.slice(0, 0, 32).view({4, 8}), true);
    ExpectSame(numbers.slice(0, 5).view({4, 8}), true);
    ExpectSame(numbers.select(0, 3), true, ViewsOfNumbers());
    ExpectSame(torch::empty({3, 0, 4}, type), true, ViewsOfNothing());
  }
}

TEST_F(DirectViewsTest, OfNoDims) {
  const at::Tensor row = torch::arange(5, torch::kFloat);
  const at::Tensor number = torch::full({}, 3, torch::kFloat);
  for (const bool in_inference : {true, false}) {
    const c10::InferenceMode mode(in_inference);
    ExpectSame(number, true, ViewsOfNumbers());
    ExpectSame(row.select(0, 4), true, ViewsOfNumbers());
  }
}

TEST_F(DirectViewsTest, OfNoElements) {
  const at::Tensor base = torch::empty({3, 0, 4});
  ExpectSame(base, true, ViewsOfNothing());
  // Of a storage that has elements, as far as its end.
  ExpectSame(torch::ones({3, 2, 4}).slice(1, 2), true, ViewsOfNothing());
}

TEST_F(DirectViewsTest, OfEightDimsAndNotOfNine) {
  const at::Tensor numbers = torch::arange(32, torch::kFloat);
  ExpectSame(numbers.view({1, 2, 1, 2, 1, 2, 4, 1}), true, ViewsOfEightDims());
}

// Behind kernels of libtorch that the thread excludes itself, and in a state in
// which autograd is told how to make the view again.
TEST_F(DirectViewsTest, InOtherStates) {
  const at::Tensor plain = torch::arange(32, torch::kFloat).view({4, 8});
  const at::Tensor leaf = plain.clone().requires_grad_();
  {
    const at::AutoDispatchBelowAutograd below;
    ExpectSame(plain, true);
    ExpectSame(leaf, true);
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    ExpectSame(plain, true);
    ExpectSame(leaf, true);
  }
  c10::AutogradState& state = c10::AutogradState::get_tls_state();
  state.set_view_replay_enabled(true);
  ExpectSame(plain, false);
  const at::NoGradGuard no_grad;
  ExpectSame(leaf, false);
  state.set_view_replay_enabled(false);
}

TEST_F(DirectViewsTest, ShareVersions) {
  const at::Tensor base = torch::zeros({4, 8});
  at::Tensor row, part;
  EXPECT_EQ(Direct([&] {
              row = base.select(0, 1);
              part = row.slice(0, 2, 5);
            }),
            2);
  const std::int64_t before = base._version();
  part.add_(1);
  EXPECT_EQ(base._version(), before + 1);
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
  at::Tensor small_double = torch::zeros({4, 8}, at::kDouble);
  small_double.storage().unsafeGetStorageImpl()->set_nbytes(31 * 8);
  struct Wrong {
    std::function<void()> make;
    std::uint64_t direct = 0;  // the views on the way
  };
  const std::vector<Wrong> wrong = {
      {[&] { x.select(0, 4); }},
      {[&] { x.select(0, -5); }},
      {[&] { x.select(0, kLeast); }},
      // There are elements before and behind these.
      {[&] { x.slice(0, 0, 2).select(0, kLeast); }, 1},
      {[&] { x.slice(0, 0, 2).select(0, 2); }, 1},
      {[&] { x.slice(0, 2).select(0, -3); }, 1},
      {[&] { x.select(1, kMost); }},
      {[&] { x.select(2, 0); }},
      {[&] { x.select(kLeast, 0); }},
      {[&] { number.select(0, 0); }},
      {[&] { x.slice(0, 0, 1, 0); }},
      {[&] { x.slice(0, 0, 1, -1); }},
      {[&] { x.slice(3); }},
      {[&] { number.slice(0); }},
      {[&] { x.transpose(0, 2); }},
      {[&] { x.select(0, 1).unsqueeze(0).unsqueeze(0).t(); }, 3},
      {[&] { x.unsqueeze(3); }},
      {[&] { x.unsqueeze(-4); }},
      {[&] { number.unsqueeze(1); }},
      {[&] { x.permute({0, 0}); }},
      {[&] { x.permute({1, -1}); }},
      {[&] { x.permute({0, 2}); }},
      {[&] { x.permute({0}); }},
      {[&] { x.permute({}); }},
      {[&] { x.permute({0, 1, 1}); }},
      {[&] { number.permute({0}); }},
      {[&] { x.expand({8}); }},
      {[&] { x.expand({}); }},
      {[&] { x.expand({-1, 4, 8}); }},
      {[&] { x.expand({4, 7}); }},
      {[&] { x.expand({4, 16}); }},
      {[&] { x.expand({-2, 8}); }},
      {[&] { x.slice(0, 0, 1).expand({-3, 8}); }, 1},
      {[&] { x.view({3, -1}); }},
      {[&] { x.view({-1, -1}); }},
      {[&] { x.view({5, 7}); }},
      {[&] { x.view(at::IntArrayRef()); }},
      {[&] { number.view({2}); }},
      {[&] { x.t().view({32}); }, 1},
      {[&] { x.view({-2, 16}); }},
      {[&] { small.select(0, 3); }},
      {[&] { small.slice(0, 1); }},
      {[&] { small.transpose(0, 1); }},
      {[&] { small_double.select(0, 3); }},
      {[&] { small_double.unsqueeze(0); }},
      {[&] { x.slice(0, 4).view({-1, 0}); }, 1}};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    disable();
    const std::string wanted = Words(wrong[i].make);
    EXPECT_NE(wanted, kNothing) << i;
    ASSERT_TRUE(enable());
    std::string words;
    EXPECT_EQ(Direct([&] { words = Words(wrong[i].make); }), wrong[i].direct)
        << i;
    EXPECT_EQ(words, wanted) << i;
  }
  // They have room, just so.
  EXPECT_EQ(Direct([&] { small_double.slice(1, 0, 7); }), 1);
  EXPECT_EQ(Direct([&] { small_double.select(1, 6).select(0, 3); }), 2);
}

// Sizes and strides whose products leave the range of int64.
TEST_F(DirectViewsTest, AreLibtorchsOfHugeGeometries) {
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  constexpr std::int64_t kHalf = std::int64_t{1} << 40;
  const at::Tensor empty = torch::empty({0}).as_strided({0, 8}, {1, kFar});
  const at::Tensor wide = torch::empty({0}).as_strided({0, 8}, {1, kFar >> 4});
  const at::Tensor far = torch::ones({4}).as_strided({1}, {kFar});
  const at::Tensor ones = torch::ones({1, 1}), none = torch::ones({0, 1});
  struct Case {
    at::Tensor base;
    Maker make;
    std::uint64_t direct = 0;
  };
  const std::vector<Case> cases = {
      {empty, [](const auto& t) { return t.select(1, 7); }},
      {empty, [](const auto& t) { return t.slice(1, 7); }},
      {empty, [](const auto& t) { return t.slice(1, 0, 8, 4); }},
      {empty, [](const auto& t) { return t.unsqueeze(1); }},
      {empty, [](const auto& t) { return t.transpose(0, 1); }},
      {empty,
       [](const auto& t) {
         return t.expand({3, 0, 8});
       }},
      {empty,
       [](const auto& t) {
         return t.view({8, 0});
       }},
      // No product leaves it, but they come near.
      {wide, [](const auto& t) { return t.unsqueeze(0); }},
      {ones,
       [](const auto& t) {
         return t.expand({kHalf, kHalf >> 20});
       }},
      {far, [](const auto& t) { return t.select(0, 0); }},
      {far, [](const auto& t) { return t.unsqueeze(0); }},
      {far, [](const auto& t) { return t.slice(0, 0, 1, 2); }},
      {far, [](const auto& t) { return t.expand({4}); }},
      {far,
       [](const auto& t) {
         return t.expand({4, 1});
       }},
      {ones,
       [](const auto& t) {
         return t.expand({kFar, 1});
       }},
      {ones,
       [](const auto& t) {
         return t.expand({kHalf, kHalf});
       }},
      {ones,
       [](const auto& t) {
         return t.expand({kFar, 2, 1});
       }},
      {none,
       [](const auto& t) {
         return t.expand({0, kFar});
       }},
      {none,
       [](const auto& t) {
         return t.expand({kFar, 0, kFar});
       }},
      {none,
       [](const auto& t) {
         return t.view({kHalf, 0, kHalf});
       }},
      {none,
       [](const auto& t) {
         return t.view({0, kFar, kFar});
       }},
      // Ordinary ones, and what is large, but not as large as that.
      {ones, [](const auto& t) { return t.select(0, 0); }, 1},
      {ones,
       [](const auto& t) {
         return t.expand({kHalf, 1});
       },
       1},
      {ones,
       [](const auto& t) {
         return t.expand({1 << 20, 2, kHalf >> 10});
       },
       1},
      {none,
       [](const auto& t) {
         return t.expand({0, kHalf});
       },
       1},
      {none,
       [](const auto& t) {
         return t.view({kHalf, 0});
       },
       1},
  };
  const auto outcome = [&](std::size_t i) {
    std::string text;
    const std::string words = Words([&] {
      text = Describe(cases[i].make(cases[i].base), cases[i].base);
    });
    return words == kNothing ? text : words;
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    disable();
    const std::string wanted = outcome(i);
    ASSERT_TRUE(enable());
    std::string found;
    EXPECT_EQ(Direct([&] { found = outcome(i); }), cases[i].direct) << i;
    EXPECT_EQ(found, wanted) << i;
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

// Closing is for good: these come last.
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

TEST_F(DirectViewsTest, NotPastObservers) {
  static int seen = 0;
  const at::Tensor x = torch::ones({4, 4});
  EXPECT_EQ(Direct([&] { x.view({16}); }), 1);
  at::addGlobalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(f.name()) == "aten::view") ++seen;
        return nullptr;
      }));
  EXPECT_EQ(Direct([&] { x.view({16}); }), 0);
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace tjit
