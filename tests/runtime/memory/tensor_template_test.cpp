#include "runtime/memory/tensor_template.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace tjit::runtime {
namespace {

TensorGeometry GeometryOf(const c10::TensorImpl* impl) {
  TensorGeometry g;
  g.key_set = impl->key_set().raw_repr();
  g.dtype = static_cast<std::uint8_t>(c10::typeMetaToScalarType(impl->dtype()));
  g.itemsize = static_cast<std::uint8_t>(impl->itemsize());
  g.ndim = static_cast<std::uint8_t>(impl->dim());
  for (int d = 0; d < g.ndim; ++d) {
    g.sizes[d] = impl->size(d);
    g.strides[d] = impl->stride(d);
  }
  return g;
}

c10::Storage StorageFor(const at::Tensor& like) {
  return c10::Storage(c10::Storage::use_byte_size_t(), like.storage().nbytes(),
                      c10::GetAllocator(c10::kCPU),
                      /*resizable=*/true);
}

at::Tensor Make(const at::Tensor& like, std::uint32_t version = 0) {
  return MakeTensor(*TemplateOf(GeometryOf(like.unsafeGetTensorImpl())),
                    StorageFor(like), version);
}

void ExpectLike(const at::Tensor& made, const at::Tensor& like) {
  EXPECT_EQ(made.sizes(), like.sizes());
  EXPECT_EQ(made.strides(), like.strides());
  EXPECT_EQ(made.numel(), like.numel());
  EXPECT_EQ(made.storage_offset(), 0);
  EXPECT_EQ(made.dtype(), like.dtype());
  EXPECT_EQ(made.device(), like.device());
  EXPECT_EQ(made.key_set(), like.key_set());
  EXPECT_EQ(made.is_inference(), like.is_inference());
  EXPECT_EQ(made.requires_grad(), false);
  EXPECT_EQ(made.is_non_overlapping_and_dense(),
            like.is_non_overlapping_and_dense());
  for (const auto format :
       {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
        at::MemoryFormat::ChannelsLast3d}) {
    EXPECT_EQ(made.is_contiguous(format), like.is_contiguous(format));
  }
  EXPECT_EQ(made.use_count(), 1);
  EXPECT_EQ(made.weak_use_count(), 1);
  EXPECT_EQ(made.storage().use_count(), 1);
  EXPECT_EQ(made.storage().nbytes(), like.storage().nbytes());
  if (!like.is_inference()) {
    EXPECT_EQ(made._version(), 0);
  }
}

// False for a libtorch whose tensors lie otherwise: all are made as it makes
// them, and the rest holds the same.
bool TensorsAreCopied() {
  const at::Tensor like = at::empty_strided({1}, {1}, at::kFloat);
  const auto form = TemplateOf(GeometryOf(like.unsafeGetTensorImpl()));
  Make(like);
  return form->bytes.load() != nullptr;
}

struct Layout {
  std::vector<std::int64_t> sizes, strides;
};
const std::vector<Layout>& Layouts() {
  static const std::vector<Layout> layouts = {
      {{}, {}},
      {{7}, {1}},
      {{3, 5}, {5, 1}},
      {{3, 5}, {1, 3}},
      {{0, 4}, {4, 1}},
      {{2, 3, 4}, {12, 4, 1}},
      {{2, 3, 4, 5}, {60, 1, 15, 3}},
      {{2, 1, 2, 1, 2}, {4, 4, 2, 2, 1}},
      {{2, 1, 2, 1, 2, 3}, {12, 12, 6, 6, 3, 1}}};
  return layouts;
}

TEST(TensorFormTest, AllAreAsTheFirst) {
  for (const bool inference : {false, true}) {
    std::optional<c10::InferenceMode> mode;
    if (inference) mode.emplace();
    for (const at::ScalarType dtype :
         {at::kFloat, at::kDouble, at::kBool, at::kBFloat16}) {
      for (const Layout& layout : Layouts()) {
        const at::Tensor like =
            at::empty_strided(layout.sizes, layout.strides, dtype);
        const auto form = TemplateOf(GeometryOf(like.unsafeGetTensorImpl()));
        for (int i = 0; i < 3; ++i) ExpectLike(Make(like), like);
        EXPECT_EQ(form->bytes.load() != nullptr,
                  TensorsAreCopied() && layout.sizes.size() <= 5);
      }
    }
  }
}

TEST(TensorFormTest, TheVersionIsTheRecordedOne) {
  const at::Tensor like = at::empty_strided({4}, {1}, at::kFloat);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Make(like, 0)._version(), 0);
    EXPECT_EQ(Make(like, 3)._version(), 3);
  }
}

// What is done to one does not show at the next.
TEST(TensorFormTest, CopiesAreIndependent) {
  const at::Tensor like = at::empty_strided({4, 6}, {6, 1}, at::kFloat);
  const auto form = TemplateOf(GeometryOf(like.unsafeGetTensorImpl()));
  Make(like);
  {
    const at::Tensor changed = Make(like);
    changed.t_();
    changed.unsqueeze_(0);
    changed.requires_grad_();
    changed.unsafeGetTensorImpl()->bump_version();
    EXPECT_EQ(changed._version(), 3);
    EXPECT_FALSE(HasBytesOf(changed.unsafeGetTensorImpl(), *form));
  }
  const at::Tensor shares = Make(like);
  const at::Tensor view = shares.detach();
  EXPECT_EQ(shares.storage().use_count(), 2);
  ExpectLike(Make(like), like);
}

TEST(TensorFormTest, StoragesDieWithTheirTensors) {
  const at::Tensor like = at::empty_strided({4}, {1}, at::kFloat);
  for (int i = 0; i < 3; ++i) {
    const c10::Storage storage = StorageFor(like);
    {
      const at::Tensor made = MakeTensor(
          *TemplateOf(GeometryOf(like.unsafeGetTensorImpl())), storage, 0);
      EXPECT_EQ(storage.use_count(), 2);
      EXPECT_TRUE(made.storage().is_alias_of(storage));
    }
    EXPECT_EQ(storage.use_count(), 1);
  }
}

TEST(TensorFormTest, OfTheReferenceLibtorchAreCopied) {
  if (std::string_view(TORCH_VERSION) != "2.13.0") {
    GTEST_SKIP() << "another libtorch, " << TORCH_VERSION;
  }
  EXPECT_TRUE(TensorsAreCopied());
}

TEST(TensorFormTest, OnlyFreshOnesHaveTheBytes) {
  if (!TensorsAreCopied()) GTEST_SKIP() << "tensors are not copied";
  const at::Tensor like = at::empty_strided({4, 6}, {6, 1}, at::kFloat);
  const auto form = TemplateOf(GeometryOf(like.unsafeGetTensorImpl()));
  const at::Tensor made = Make(like);
  ASSERT_NE(form->bytes.load(), nullptr);
  const auto has = [&](const at::Tensor& t) {
    return HasBytesOf(t.unsafeGetTensorImpl(), *form);
  };
  EXPECT_TRUE(has(Make(like)));
  EXPECT_FALSE(has(made.t()));
  EXPECT_FALSE(has(made.narrow(0, 1, 2)));
  EXPECT_FALSE(has(made.reshape({6, 4})));
  EXPECT_FALSE(has(made.view(at::kInt)));
  EXPECT_FALSE(has(made.conj_physical().to(at::kDouble)));
  // Views of the same geometry elsewhere in a storage.
  const at::Tensor big = at::empty_strided({9, 6}, {6, 1}, at::kFloat);
  EXPECT_FALSE(has(big.narrow(0, 1, 4)));
}

// A tensor as libtorch makes it, in memory that was full of `byte`.
at::Tensor MakeOver(int byte, const at::Tensor& like) {
  void* memory = ::operator new(sizeof(c10::TensorImpl));
  std::memset(memory, byte, sizeof(c10::TensorImpl));
  asm volatile("" : "+r"(memory) : : "memory");  // or that would be left out
  auto* const impl = new (memory) c10::TensorImpl(
      StorageFor(like), c10::DispatchKeySet(c10::DispatchKey::CPU),
      like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::
          unsafe_steal_from_new(impl));
}

TEST(TensorFormTest, TheReferenceLibtorchLeavesOneBit) {
  if (std::string_view(TORCH_VERSION) != "2.13.0") {
    GTEST_SKIP() << "another libtorch, " << TORCH_VERSION;
  }
  constexpr std::size_t kLastOfBitFields = 23;
  for (std::size_t i = 0; i < sizeof(g_tail_padding.bits); ++i) {
    EXPECT_EQ(g_tail_padding.bits[i], i == kLastOfBitFields ? 0x80 : 0) << i;
  }
}

// libtorch 2.13 leaves a bit of the bit-fields as it finds it.
TEST(TensorFormTest, WhatWasInTheMemoryIsNotCompared) {
  if (!TensorsAreCopied()) GTEST_SKIP() << "tensors are not copied";
  const at::Tensor like = at::empty_strided({4, 6}, {6, 1}, at::kFloat);
  const auto form = TemplateOf(GeometryOf(like.unsafeGetTensorImpl()));
  Make(like);
  for (const int byte : {0, 0xff, 0x80, 0x55}) {
    const at::Tensor made = MakeOver(byte, like);
    c10::TensorImpl* const impl = made.unsafeGetTensorImpl();
    EXPECT_TRUE(HasBytesOf(impl, *form)) << byte;
    impl->set_python_custom_layout(true);  // the last bit that has a meaning
    EXPECT_FALSE(HasBytesOf(impl, *form)) << byte;
    impl->set_python_custom_layout(false);
  }
}

// Each size and stride is compared, and what lies behind the last is not: a
// tensor that was made elsewhere may have anything there.
TEST(TensorFormTest, TheBytesAreThoseInUse) {
  if (!TensorsAreCopied()) GTEST_SKIP() << "tensors are not copied";
  for (const Layout& layout : Layouts()) {
    const std::size_t ndim = layout.sizes.size();
    if (ndim > 5) continue;
    const at::Tensor like =
        at::empty_strided(layout.sizes, layout.strides, at::kFloat);
    const auto form = TemplateOf(GeometryOf(like.unsafeGetTensorImpl()));
    const auto has = [&](const at::Tensor& t) {
      return HasBytesOf(t.unsafeGetTensorImpl(), *form);
    };
    Make(like);
    at::Tensor other =
        at::empty_strided({9, 8, 7, 6, 5}, {1, 2, 3, 4, 5}, at::kFloat);
    c10::TensorImpl* const impl = other.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(layout.sizes, layout.strides);
    EXPECT_TRUE(has(other)) << ndim;
    for (std::size_t d = 0; d < ndim; ++d) {
      for (const bool size : {true, false}) {
        Layout changed = layout;
        (size ? changed.sizes : changed.strides)[d] += 1;
        impl->set_sizes_and_strides(changed.sizes, changed.strides);
        EXPECT_FALSE(has(other)) << ndim << " " << d << " " << size;
      }
    }
    impl->set_sizes_and_strides(layout.sizes, layout.strides);
    EXPECT_TRUE(has(other));
    // A copy onto one of more dimensions is of this form, too.
    const Layout five = {{2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}};
    impl->set_sizes_and_strides(five.sizes, five.strides);
    CopyShape(*form->bytes.load(), impl);
    EXPECT_TRUE(has(other));
    EXPECT_EQ(other.sizes(), like.sizes());
    EXPECT_EQ(other.strides(), like.strides());
  }
}

TEST(TensorFormTest, OneFormForAllWhoHoldIt) {
  TensorGeometry g =
      GeometryOf(at::empty_strided({5}, {1}, at::kFloat).unsafeGetTensorImpl());
  const auto first = TemplateOf(g);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) EXPECT_EQ(TemplateOf(g), first);
    });
  }
  for (std::thread& t : threads) t.join();
  // Forms that nobody holds go.
  for (std::int64_t n = 0; n < 10000; ++n) {
    g.sizes[0] = 10 + n;
    EXPECT_EQ(TemplateOf(g).use_count(), 1);
  }
}

}  // namespace
}  // namespace tjit::runtime
