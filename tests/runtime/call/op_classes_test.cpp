// Every name in the table exists, and the rules around it fail closed.
#include "runtime/call/op_classes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tjit::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

c10::OperatorHandle Op(const std::string& name, const std::string& overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(),
                                                        overload.c_str());
}

OpTraits Traits(const std::string& name, const std::string& overload = "") {
  return TraitsOf(Op(name, overload));
}

std::vector<std::string> TableNames() {
  std::vector<std::string> names;
#define TJIT_OP_CLASS(name, value) names.push_back(name);
#define TJIT_OP_LEAVE_ALONE(name) names.push_back(name);
#define TJIT_OP_VALUE_CHECK(name, value) names.push_back(name);
#define TJIT_OP_WARNS(name) names.push_back(name);
#define TJIT_OP_WRITES(name, argument) names.push_back(name);
#include "runtime/call/op_classes.def"
#undef TJIT_OP_CLASS
#undef TJIT_OP_LEAVE_ALONE
#undef TJIT_OP_VALUE_CHECK
#undef TJIT_OP_WARNS
#undef TJIT_OP_WRITES
  return names;
}

// Names of the table that a later libtorch has no more: they went in 2.MINOR.
bool IsGone(const std::string& name) {
  constexpr std::pair<std::string_view, int> kGone[] = {{"aten::cholesky", 14}};
  for (const auto& [gone, minor] : kGone) {
    if (name == gone) return TORCH_VERSION_MINOR >= minor;
  }
  return false;
}

TEST(OpClassesTest, EveryNameInTheTableExists) {
  std::vector<std::string> bases;
  std::vector<std::string> full;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    bases.push_back(name.name);
    full.push_back(name.name + "." + name.overload_name);
  }
  for (const std::string& name : TableNames()) {
    const bool is_exact = name.find('.') != std::string::npos;
    if (IsGone(name)) {
      EXPECT_THAT(bases, testing::Not(testing::Contains(name)));
    } else {
      EXPECT_THAT(is_exact ? full : bases, testing::Contains(name));
    }
  }
}

TEST(OpClassesTest, PlainOps) {
  EXPECT_EQ(Traits("aten::add", "Tensor").op_class, OpClass::kPlain);
  EXPECT_EQ(Traits("aten::add", "out").op_class, OpClass::kPlain);
  EXPECT_EQ(Traits("aten::mul_", "Tensor").op_class, OpClass::kPlain);
  EXPECT_EQ(Traits("aten::copy_").op_class, OpClass::kPlain);
  EXPECT_EQ(Traits("aten::convolution_backward").op_class, OpClass::kPlain);
  EXPECT_EQ(Traits("aten::__lshift__", "Tensor").op_class, OpClass::kPlain);
  EXPECT_EQ(Traits("aten::nonzero_static").op_class, OpClass::kPlain);
  EXPECT_FALSE(Traits("aten::add", "Tensor").may_throw_on_values());
  EXPECT_FALSE(Traits("aten::div", "Tensor").may_throw_on_values());
}

TEST(OpClassesTest, ReadersOfValues) {
  EXPECT_EQ(Traits("aten::_local_scalar_dense").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::equal").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::nonzero").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::masked_select").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::_unique2").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::_assert_async", "msg").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::_pack_padded_sequence").op_class, OpClass::kSync);
}

TEST(OpClassesTest, RandomOpsByTag) {
  EXPECT_EQ(Traits("aten::normal_").op_class, OpClass::kRandom);
  EXPECT_EQ(Traits("aten::native_dropout").op_class, OpClass::kRandom);
  EXPECT_EQ(Traits("aten::multinomial").op_class, OpClass::kRandom);
  EXPECT_EQ(Traits("aten::_fused_sdp_choice").op_class, OpClass::kMetadata);
  EXPECT_EQ(
      Traits("aten::_scaled_dot_product_flash_attention_for_cpu").op_class,
      OpClass::kPlain);
}

TEST(OpClassesTest, MetadataAndMemory) {
  EXPECT_EQ(Traits("aten::empty", "memory_format").op_class, OpClass::kEmpty);
  EXPECT_EQ(Traits("aten::set_", "source_Tensor").op_class, OpClass::kMetadata);
  EXPECT_EQ(Traits("aten::set_", "source_Storage_storage_offset").op_class,
            OpClass::kForeign);
  EXPECT_EQ(Traits("aten::resize_").op_class, OpClass::kResize);
  EXPECT_TRUE(Traits("aten::view").leave_alone);
  EXPECT_TRUE(Traits("aten::as_strided").leave_alone);
  EXPECT_TRUE(Traits("aten::unfold").leave_alone);
  EXPECT_TRUE(Traits("aten::_efficientzerotensor").leave_alone);
  EXPECT_FALSE(Traits("aten::set_").leave_alone);
  EXPECT_FALSE(Traits("aten::add_", "Tensor").leave_alone);
}

TEST(OpClassesTest, ThrowersAndWarners) {
  const OpTraits index = Traits("aten::index", "Tensor");
  EXPECT_EQ(index.op_class, OpClass::kPlain);
  EXPECT_EQ(index.value_check, ValueCheck::kIndices);
  EXPECT_TRUE(index.may_warn);
  EXPECT_EQ(Traits("aten::gather", "out").value_check, ValueCheck::kDimIndex);
  EXPECT_EQ(Traits("aten::nll_loss_forward").value_check, ValueCheck::kTarget);
  EXPECT_EQ(Traits("aten::remainder", "Tensor").value_check,
            ValueCheck::kIntegral);
  EXPECT_EQ(Traits("aten::histc").value_check, ValueCheck::kUnknown);
}

TEST(OpClassesTest, SchemasThatLie) {
  EXPECT_THAT(Traits("aten::native_batch_norm").extra_writes,
              ElementsAre(3, 4));
  EXPECT_THAT(Traits("aten::mkldnn_rnn_layer_backward").extra_writes,
              ElementsAre(22));
  EXPECT_THAT(Traits("aten::native_batch_norm", "out").extra_writes,
              ElementsAre(3, 4));
  EXPECT_THAT(Traits("aten::batch_norm_update_stats").extra_writes,
              ElementsAre(1, 2));
  EXPECT_THAT(Traits("aten::add", "Tensor").extra_writes, IsEmpty());
}

at::Tensor Same(const at::Tensor& t) { return t; }

TORCH_LIBRARY(tjit_op_classes_test, m) {
  m.def("same", &Same);
  m.def("count(Tensor t) -> int");
}

TORCH_LIBRARY_FRAGMENT(aten, m) {
  m.def("tjit_test_quiet_writer_(Tensor t) -> Tensor");
  m.def("tjit_test_count(Tensor t) -> int");
  m.def("tjit_test_drop(Tensor t) -> ()");
}

TEST(OpClassesTest, FailsClosed) {
  EXPECT_EQ(Traits("tjit_op_classes_test::same").op_class, OpClass::kForeign);
  EXPECT_EQ(Traits("tjit_op_classes_test::count").op_class, OpClass::kForeign);
  EXPECT_EQ(Traits("aten::tjit_test_quiet_writer_").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::tjit_test_count").op_class, OpClass::kSync);
  EXPECT_EQ(Traits("aten::tjit_test_drop").op_class, OpClass::kSync);
}

}  // namespace
}  // namespace tjit::runtime
