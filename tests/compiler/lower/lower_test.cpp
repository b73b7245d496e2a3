// The parts of lowering that need no recorded program: geometries, types,
// sizes, names. Streams: tests/filetests/lower/ and
// tests/runtime/against_eager/.
#include "compiler/lower/lower.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "compiler/lower/geometry.h"
#include "compiler/lower/op_rules.h"
#include "compiler/lower/promote.h"
#include "compiler/lower/size_vars.h"
#include "gtest/gtest.h"

namespace tjit::lower {
namespace {

using ir::DType;

TensorGeometry Of(std::initializer_list<std::int64_t> sizes,
                  std::initializer_list<std::int64_t> strides,
                  std::int64_t offset = 0) {
  TensorGeometry g;
  g.dtype = 6;
  g.itemsize = 4;
  g.ndim = static_cast<std::uint8_t>(sizes.size());
  g.offset = offset;
  std::copy(sizes.begin(), sizes.end(), g.sizes);
  std::copy(strides.begin(), strides.end(), g.strides);
  return g;
}

// The elements one by one.
std::set<std::int64_t> ElementsOf(const TensorGeometry& g, bool* is_injective) {
  std::set<std::int64_t> elements;
  *is_injective = true;
  for (std::int64_t i = 0; i < g.numel(); ++i) {
    std::int64_t rest = i, at = g.offset;
    for (int d = g.ndim; d-- > 0;) {
      at += rest % g.sizes[d] * g.strides[d];
      rest /= g.sizes[d];
    }
    *is_injective &= elements.insert(at).second;
  }
  return elements;
}

TEST(LowerGeometryTest, SlicesOfOneGridAreTold) {
  EXPECT_TRUE(AreDisjoint(Of({6}, {8}, 2), Of({6}, {8}, 5)));
  EXPECT_TRUE(AreDisjoint(Of({5, 4}, {8, 1}), Of({5, 4}, {8, 1}, 4)));
  EXPECT_TRUE(AreDisjoint(Of({10}, {2}), Of({10}, {2}, 1)));
  EXPECT_FALSE(AreDisjoint(Of({5, 5}, {8, 1}), Of({5, 4}, {8, 1}, 4)));
  EXPECT_FALSE(AreDisjoint(Of({3}, {0}), Of({3}, {1})));
}

// Claims against all elements, over many small geometries.
TEST(LowerGeometryTest, NothingIsClaimedThatIsNotSo) {
  std::vector<TensorGeometry> all;
  for (const std::int64_t n : {1, 2, 3}) {
    for (const std::int64_t m : {1, 2, 4}) {
      for (const std::int64_t s : {0, 1, 2, 4, 6, 8}) {
        for (const std::int64_t t : {0, 1, 2, 3}) {
          for (const std::int64_t offset : {0, 1, 4, 9}) {
            all.push_back(Of({n, m}, {s, t}, offset));
          }
        }
      }
    }
  }
  int disjoint = 0;
  for (const TensorGeometry& a : all) {
    bool is_injective = false, unused = false;
    const std::set<std::int64_t> elements = ElementsOf(a, &is_injective);
    EXPECT_TRUE(is_injective || !IsInjective(a));
    EXPECT_EQ(ReachOf(a).first, *elements.begin());
    EXPECT_EQ(ReachOf(a).last, *elements.rbegin());
    EXPECT_TRUE((is_injective && elements.size() == 8) || !Covers(a, 8));
    for (std::size_t i = 0; i < all.size(); i += 7) {
      if (!AreDisjoint(a, all[i])) continue;
      ++disjoint;
      for (const std::int64_t e : ElementsOf(all[i], &unused)) {
        ASSERT_EQ(elements.count(e), 0u);
      }
    }
  }
  EXPECT_GT(disjoint, 1000);
}

TEST(LowerGeometryTest, DimsOfSizeOneSayNothing) {
  EXPECT_TRUE(SameElements(Of({3, 1, 4}, {4, 77, 1}), Of({3, 4}, {4, 1})));
  EXPECT_FALSE(SameElements(Of({4, 3}, {1, 4}), Of({3, 4}, {4, 1})));
  EXPECT_FALSE(SameElements(Of({3, 4}, {4, 1}, 1), Of({3, 4}, {4, 1})));
}

TEST(LowerPromoteTest, AsInLibtorch) {
  EXPECT_EQ(Promote(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(Promote(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(Promote(DType::kI64, DType::kF16), DType::kF16);
  EXPECT_EQ(Promote(DType::kBool, DType::kU8), DType::kU8);
  Promotion dims_first;
  dims_first.AddTensor(DType::kF32, 2);
  dims_first.AddTensor(DType::kF64, 0);
  EXPECT_EQ(dims_first.Common(), DType::kF32);
  Promotion kinds;
  kinds.AddTensor(DType::kI32, 2);
  kinds.AddTensor(DType::kF64, 0);
  EXPECT_EQ(kinds.Common(), DType::kF64);
  Promotion unknown;
  unknown.AddTensor(DType::kI32, 2);
  unknown.AddNumber(DType::kF64);
  EXPECT_EQ(unknown.Common(), std::nullopt);
}

TEST(LowerSizesTest, OneSymbolForRelatedDims) {
  SizeVars sizes;
  const auto make = [&] {
    sizes.Restart();
    return Dims{sizes.Argument(5, {0, 0, 0}), sizes.Argument(1, {0, 0, 1}),
                sizes.Result(5), sizes.Argument(7, {1, 0, 0}), sizes.Result(9)};
  };
  Dims dims = make();
  sizes.Relate(dims[2], dims[0]);
  sizes.Fix(dims[3]);
  sizes.Solve();
  dims = make();
  EXPECT_EQ(ToText(sizes.Of(dims)), "n0,1,n0,7,9");
  ASSERT_EQ(sizes.symbols().size(), 1u);
  EXPECT_EQ(sizes.symbols()[0], (SizeSource{0, 0, 0}));
}

TEST(LowerRulesTest, NamesAreGivenOnce) {
  std::size_t names = 0;
  for (const auto family :
       {BatchNormRules(), VectorRemainderRules(), PointwiseRules(),
        CompositeRules(), CopyFillRules(), GroupNormRules(), ConcatRules(),
        ForeachRules(), LossRules(), NllLossRules(), NormRules(),
        NormBackwardRules(), ReduceRules(), RowRules(),
        PositionDependentRules()}) {
    for (const OpRule& rule : family) {
      for (const std::string_view name :
           {rule.functional, rule.in_place, rule.out}) {
        if (name.empty()) continue;
        ++names;
        EXPECT_EQ(RuleOf(name), &rule) << name;
      }
    }
  }
  EXPECT_EQ(LoweredOps().size(), names);
}

TEST(LowerRefusalTest, NamesStepAndOp) {
  StepRecord relu;
  ArgRecord arg;
  arg.slot = 0;
  arg.geometry = Of({2, 3}, {3, 1});
  ResultRecord result;
  result.slot = 1;
  result.geometry = arg.geometry;
  relu.args = {arg};
  relu.results = {result};
  EXPECT_TRUE(CanLower({&relu, "aten::relu"}));
  EXPECT_EQ(WhyNotLowered({&relu, "aten::cumsum"}),
            "%0 aten::cumsum: is not lowered");
  Lowered lowered;
  std::string reason;
  EXPECT_FALSE(Lower({{&relu, "aten::relu"}, {&relu, "aten::relu"}},
                     {{0, 24, false, true}, {1, 24, true, true}}, &lowered,
                     &reason));
  EXPECT_EQ(reason, "%1 aten::relu: s1 is not born where it is made");
  EXPECT_FALSE(Lower({{&relu, "aten::relu"}},
                     {{0, 20, false, true}, {1, 24, true, true}}, &lowered,
                     &reason));
  EXPECT_EQ(reason, "%0 aten::relu: s0 is shorter than its use");
}

}  // namespace
}  // namespace tjit::lower
