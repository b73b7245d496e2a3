// The closed table against a runtime that only counts.
#include "runtime/intercept/foreign_kernels.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/intercept/direct_calls.h"
#include "runtime/intercept/kernel_wrap.h"
#include "runtime/memory/block.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/log.h"
#include "runtime/thread/materialize.h"

namespace tjit::runtime {

// ------------------------------------------------------------ a fake runtime

struct Seen {
  std::vector<const void*> reads;
  std::vector<FlushReason> flushes;
  std::vector<std::string> warnings;
};
Seen seen;

std::atomic<bool> g_enabled{true};
thread_local ThreadContext t_context
    __attribute__((tls_model("initial-exec")));

bool MayHavePending() noexcept {
  return g_enabled && t_context.inside == 0;
}
void MaterializeForRead(const c10::TensorImpl* t, FlushReason) {
  if (t != nullptr) seen.reads.push_back(t);
}
void RecordHostRead() {}
void RecordForeignKernel() {}
void FlushAllThreads(FlushReason reason) { seen.flushes.push_back(reason); }
void LogWarning(std::string_view text) { seen.warnings.emplace_back(text); }
void MaterializeHook(c10::StorageImpl*) {}
void RecordReplaced(std::string_view) {}
void OnKernelRegistered(const c10::OperatorName&,
                        std::optional<c10::DispatchKey>) {}
bool TakeOverDeadBlock(Block*) { return false; }

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

bool is_installed = false;

class ForeignKernelsTest : public testing::Test {
 protected:
  ForeignKernelsTest() {
    if (!std::exchange(is_installed, true)) {
      InstallAllocator();
      InstallForeignKernels();
    }
    g_enabled = true;
    seen = Seen();
  }
};

bool IsArmed(const at::Tensor& t) {
  return t.storage().unsafeGetStorageImpl()->has_materializer();
}

at::Tensor Sparse() {
  return at::ones({3, 3}).to_sparse();
}

TEST_F(ForeignKernelsTest, KernelsAtOtherKeysGetReadyInputs) {
  const at::Tensor dense = at::ones({3, 3});
  const at::Tensor sparse = Sparse();
  const auto flushed = [](auto&& call) {
    seen = Seen();
    call();
    EXPECT_EQ(t_context.inside, 0);
    return seen.flushes;
  };
  const auto once = ElementsAre(FlushReason::kForeignKey);
  EXPECT_THAT(flushed([&] { at::mm(sparse, dense); }), once);
  EXPECT_THAT(flushed([&] { at::add(sparse, sparse); }), once);
  const at::Tensor csr = sparse.to_sparse_csr();
  EXPECT_THAT(flushed([&] { at::mm(csr, dense); }), once);
  const at::Tensor mkldnn = dense.to_mkldnn();
  EXPECT_THAT(flushed([&] { at::relu(mkldnn); }), once);
  const at::Tensor quantized =
      at::quantize_per_tensor(dense, 0.5, 0, c10::kQUInt8);
  EXPECT_THAT(flushed([&] { at::relu(quantized); }), once);
  const at::Tensor nested = at::_nested_tensor_from_tensor_list(
      {at::ones({2, 3}), at::ones({4, 3})});
  EXPECT_THAT(flushed([&] { at::relu(nested); }), once);
}

TEST_F(ForeignKernelsTest, MetadataDoesNotFlush) {
  const at::Tensor sparse = Sparse();
  seen = Seen();
  EXPECT_EQ(sparse.sparse_dim(), 2);
  EXPECT_EQ(sparse._nnz(), 9);
  const at::Tensor values = sparse._values();
  EXPECT_THAT(seen.flushes, IsEmpty());
  EXPECT_TRUE(IsArmed(values));  // it leaves the sparse tensor
}

TEST_F(ForeignKernelsTest, WhatForeignKernelsTakeAndReturnIsArmed) {
  const at::Tensor dense = at::ones({3, 3});
  dense.mutable_data_ptr();
  EXPECT_FALSE(IsArmed(dense));
  const at::Tensor result = at::mm(Sparse(), dense);
  EXPECT_TRUE(IsArmed(dense));
  EXPECT_TRUE(IsArmed(result));
}

TEST_F(ForeignKernelsTest, ArmedAgainWhenTheKernelThrows) {
  const at::Tensor dense = at::ones({5, 3});
  EXPECT_THROW(at::mm(Sparse(), dense), c10::Error);
  EXPECT_TRUE(IsArmed(dense));
  EXPECT_EQ(t_context.inside, 0);
}

TEST_F(ForeignKernelsTest, PassesThroughInsideKernelsAndWhileOff) {
  const at::Tensor sparse = Sparse();
  seen = Seen();
  {
    KernelScope inside;
    at::add(sparse, sparse);
  }
  g_enabled = false;
  const at::Tensor dense = at::ones({3, 3});
  at::mm(sparse, dense);
  EXPECT_FALSE(IsArmed(dense));
  EXPECT_THAT(seen.flushes, IsEmpty());
}

// ------------------------------------------------------------ composites

TEST_F(ForeignKernelsTest, MaxPool1dReadsItsInputUnlessItDecomposes) {
  at::Tensor x = at::ones({1, 2, 8});
  seen = Seen();
  const at::Tensor y = at::max_pool1d(x, 2);
  EXPECT_THAT(seen.reads, ElementsAre(x.unsafeGetTensorImpl()));
  EXPECT_TRUE(IsArmed(y));
  x.set_requires_grad(true);
  seen = Seen();
  EXPECT_TRUE(at::max_pool1d(x, 2).requires_grad());
  EXPECT_TRUE(at::max_pool1d(at::ones({1, 2, 8}, at::Device(c10::kMeta)), 2).is_meta());
  EXPECT_THAT(seen.reads, IsEmpty());
}

TEST_F(ForeignKernelsTest, TensorSplitReadsTheIndicesOnly) {
  const at::Tensor x = at::ones({8});
  const at::Tensor indices = at::ones({2}, c10::kLong);
  seen = Seen();
  EXPECT_EQ(at::tensor_split(x, indices).size(), 3u);
  EXPECT_THAT(seen.reads, ElementsAre(indices.unsafeGetTensorImpl()));
  EXPECT_THAT(seen.flushes, IsEmpty());
}

TEST_F(ForeignKernelsTest, CtcLossReadsConvertedLengths) {
  const at::Tensor log_probs = at::log_softmax(at::ones({5, 1, 3}), 2);
  const at::Tensor targets = at::ones({1, 2}, c10::kLong);
  const at::Tensor input_lengths = at::full({1}, 5, c10::kInt);
  const at::Tensor target_lengths = at::full({1}, 2, c10::kLong);
  seen = Seen();
  const at::Tensor loss =
      at::ctc_loss(log_probs, targets, input_lengths, target_lengths);
  EXPECT_TRUE(loss.isfinite().item<bool>());
  EXPECT_EQ(seen.reads.size(), 2u);
  EXPECT_THAT(seen.reads, Contains(target_lengths.unsafeGetTensorImpl()));
  EXPECT_THAT(seen.reads, Not(Contains(log_probs.unsafeGetTensorImpl())));
  EXPECT_THROW(at::ctc_loss(log_probs, targets, at::full({1}, 5.f),
                            target_lengths),
               c10::Error);
}

// ------------------------------------------------------------ late kernels

at::Tensor Twice(const at::Tensor& t) { return at::mul(t, 2); }

at::Tensor Call(const char* name, const at::Tensor& t) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(t);
}

TEST_F(ForeignKernelsTest, LateKernelsOfOtherNamespaces) {
  torch::Library library(torch::Library::FRAGMENT, "tjit_closed_table_test",
                         std::nullopt, __FILE__, __LINE__);
  library.def("twice(Tensor t) -> Tensor");
  torch::Library kernels(torch::Library::IMPL, "tjit_closed_table_test",
                         c10::DispatchKey::CPU, __FILE__, __LINE__);
  kernels.impl("twice", &Twice);
  seen = Seen();
  const at::Tensor two = Call("tjit_closed_table_test::twice", at::ones({2}));
  EXPECT_EQ(two.sum().item<float>(), 4);
  EXPECT_THAT(seen.flushes, ElementsAre(FlushReason::kForeignKey));
  EXPECT_TRUE(IsArmed(two));
}

TEST_F(ForeignKernelsTest, ALateKernelOverOneOfAten) {
  {
    torch::Library kernels(torch::Library::IMPL, "aten", c10::DispatchKey::CPU,
                           __FILE__, __LINE__);
    seen = Seen();
    kernels.impl("relu", &Twice);
    EXPECT_THAT(seen.warnings, ElementsAre(testing::HasSubstr("aten::relu")));
    EXPECT_EQ(at::relu(at::ones({2})).sum().item<float>(), 4);
    EXPECT_THAT(seen.flushes, ElementsAre(FlushReason::kForeignKey));
  }
  EXPECT_EQ(at::relu(at::ones({2})).sum().item<float>(), 2);
}

TEST_F(ForeignKernelsTest, ARescanFindsWhatWentUnseen) {
  torch::Library library(torch::Library::FRAGMENT, "tjit_closed_table_test",
                         std::nullopt, __FILE__, __LINE__);
  library.def("unseen(Tensor t) -> Tensor");
  torch::Library kernels(torch::Library::IMPL, "tjit_closed_table_test",
                         c10::DispatchKey::CPU, __FILE__, __LINE__);
  {
    QuietOverrides leaves_alone;
    kernels.impl("unseen", &Twice);
  }
  seen = Seen();
  Call("tjit_closed_table_test::unseen", at::ones({2}));
  EXPECT_THAT(seen.flushes, IsEmpty());
  RescanLateKernels();
  Call("tjit_closed_table_test::unseen", at::ones({2}));
  EXPECT_THAT(seen.flushes, ElementsAre(FlushReason::kForeignKey));
  RescanLateKernels();  // wraps nothing twice
  seen = Seen();
  Call("tjit_closed_table_test::unseen", at::ones({2}));
  EXPECT_EQ(seen.flushes.size(), 1u);
}

// ------------------------------------------------------------ warnings

struct Collector : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    messages.push_back(warning.msg());
  }
  std::vector<std::string> messages;
};

TEST_F(ForeignKernelsTest, OnlyTheOverrideWarningIsSilenced) {
  Collector collector;
  c10::WarningUtils::WarningHandlerGuard guard(&collector);
  {
    QuietOverrides quiet;
    TORCH_WARN("Overriding a previously registered kernel for aten::add");
    TORCH_WARN("something else");
  }
  TORCH_WARN("a previously registered kernel, outside");
  EXPECT_THAT(collector.messages,
              ElementsAre("something else",
                          "a previously registered kernel, outside"));
}

}  // namespace
}  // namespace tjit::runtime
