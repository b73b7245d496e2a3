// Each field of the key in a test where only that differs, and each thing
// that must not be in it.
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/trace.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

TraceKey KeyOf(const PathBuilder& path) {
  return MakeTraceKey(path.records());
}

// mm, add_ with a scalar, relu: two externals of a batch, one bias.
PathBuilder Model(std::int64_t batch = 32) {
  PathBuilder path;
  const int x = path.External(F32({batch, 8}));
  const int w = path.External(F32({8, 4}));
  const int b = path.External(F32({4}));
  const int h = path.Op("aten::mm", {x, w}, F32({batch, 4}));
  path.InPlace("aten::add_.Tensor", {h, b});
  path.last().scalars = {FreeScalar(1.0), BakedScalar(0.5)};
  path.Op("aten::relu", {h});
  path.last().statics = {7, 9};
  return path;
}

struct Change {
  const char* name;
  std::function<void(std::vector<NewStep>*)> apply;
};

StepRecord& At(std::vector<NewStep>* steps, int i) {
  return (*steps)[static_cast<std::size_t>(i)].step;
}

// Strides of x so that its layout class is another one.
void SwapLayout(TensorGeometry* g) {
  g->strides[0] = 1;
  g->strides[1] = g->sizes[0];
}

const Change kDifferent[] = {
    {"op", [](auto* s) { At(s, 2).op = InternOp("aten::tanh"); }},
    {"kind", [](auto* s) { At(s, 2).kind = StepKind::kAtCall; }},
    {"context", [](auto* s) { At(s, 1).context = 1; }},
    {"arg slot", [](auto* s) { At(s, 2).args[0].slot = 0; }},
    {"undefined arg", [](auto* s) { At(s, 1).args[1] = ArgRecord(); }},
    {"written", [](auto* s) { At(s, 1).args[0].written = false; }},
    {"arg dtype", [](auto* s) { At(s, 0).args[1].geometry.Own().dtype = 3; }},
    {"arg ndim", [](auto* s) { At(s, 1).args[1].geometry = F32({1, 4}); }},
    {"arg layout",
     [](auto* s) { SwapLayout(&At(s, 0).args[0].geometry.Own()); }},
    {"arg key set",
     [](auto* s) { At(s, 0).args[0].geometry.Own().key_set = 5; }},
    {"wrapped number",
     [](auto* s) { At(s, 1).args[1].geometry.Own().wrapped_number = true; }},
    {"zero size",
     [](auto* s) { At(s, 0).args[0].geometry.Own().sizes[0] = 0; }},
    {"number of args",
     [](auto* s) { At(s, 2).args.push_back(At(s, 2).args[0]); }},
    {"static", [](auto* s) { At(s, 2).statics[1] = 8; }},
    {"number of statics", [](auto* s) { At(s, 2).statics.push_back(0); }},
    {"scalar type", [](auto* s) { At(s, 1).scalars[0].value.type = 4; }},
    {"scalar class", [](auto* s) { At(s, 1).scalars[0].value_class = 1; }},
    {"guarded bits", [](auto* s) { At(s, 1).scalars[1].value.bits[0]++; }},
    {"guarded high bits", [](auto* s) { At(s, 1).scalars[1].value.bits[1]++; }},
    {"scalar is guarded",
     [](auto* s) { At(s, 1).scalars[0].may_vary = false; }},
    {"result kind",
     [](auto* s) {
       At(s, 2).results[0].kind = ResultRecord::Kind::kUndefined;
     }},
    {"result slot", [](auto* s) { At(s, 2).results[0].slot = 3; }},
    {"result alias", [](auto* s) { At(s, 1).results[0].alias_arg = 1; }},
    {"result dtype",
     [](auto* s) { At(s, 2).results[0].geometry.Own().dtype = 7; }},
    {"result layout",
     [](auto* s) { SwapLayout(&At(s, 2).results[0].geometry.Own()); }},
    {"a step more", [](auto* s) { s->push_back({At(s, 2), {}, nullptr}); }},
    {"a step less", [](auto* s) { s->pop_back(); }},
};

TEST(TraceKeyTest, EveryFieldMakesAnotherKey) {
  const TraceKey base = KeyOf(Model());
  for (const Change& change : kDifferent) {
    PathBuilder path = Model();
    change.apply(&path.steps());
    const TraceKey key = KeyOf(path);
    EXPECT_FALSE(key == base) << change.name;
    EXPECT_NE(key.words, base.words) << change.name;
    EXPECT_NE(key.hash, base.hash) << change.name;
  }
}

TEST(TraceKeyTest, SizesAreNotInTheKey) {
  EXPECT_EQ(KeyOf(Model(32)), KeyOf(Model(5)));
  EXPECT_EQ(KeyOf(Model(32)), KeyOf(Model(1)));
}

TEST(TraceKeyTest, BitsOfFreeScalarsAreNotInTheKey) {
  PathBuilder path = Model();
  path.steps()[1].step.scalars[0].value.bits[0] = 12345;
  path.steps()[1].step.scalars[0].runtime = true;
  EXPECT_EQ(KeyOf(path), KeyOf(Model()));
}

TEST(TraceKeyTest, EqualHashIsNotEqualKey) {
  TraceKey a = KeyOf(Model()), b = a;
  EXPECT_EQ(a, b);
  b.words.back() ^= 1;
  EXPECT_FALSE(a == b);
}

TEST(TraceKeyTest, DataflowIsInTheKey) {
  // a - b, b - a and a - a.
  const auto difference = [](bool swapped, bool same) {
    PathBuilder path;
    const int a = path.External(F32({8}));
    const int b = path.External(F32({8}));
    const int c = path.Op("aten::mul.Tensor", {a, b});
    path.Op("aten::sub.Tensor", {swapped ? b : a, same ? a : swapped ? a : b});
    path.Op("aten::relu", {c});
    return KeyOf(path);
  };
  EXPECT_FALSE(difference(false, false) == difference(true, false));
  EXPECT_FALSE(difference(false, false) == difference(false, true));
}

TEST(TraceKeyTest, ChainIsNotFanOut) {
  const auto key = [](bool chain) {
    PathBuilder path;
    const int x = path.External(F32({8}));
    const int y = path.Op("aten::relu", {x});
    path.Op("aten::relu", {chain ? y : x});
    return KeyOf(path);
  };
  EXPECT_FALSE(key(true) == key(false));
}

TEST(TraceKeyTest, BroadcastIsInTheKeyAndSizeOneIsNot) {
  const auto sum = [](TensorGeometry a, TensorGeometry b, TensorGeometry r) {
    PathBuilder path;
    const int x = path.External(a);
    const int y = path.External(b);
    path.Op("aten::add.Tensor", {x, y}, r);
    return KeyOf(path);
  };
  const TraceKey same = sum(F32({5, 8}), F32({5, 8}), F32({5, 8}));
  EXPECT_FALSE(same == sum(F32({5, 8}), F32({1, 8}), F32({5, 8})));
  EXPECT_FALSE(same == sum(F32({5, 8}), F32({5, 1}), F32({5, 8})));
  EXPECT_FALSE(sum(F32({5, 8}), F32({1, 8}), F32({5, 8})) ==
               sum(F32({1, 8}), F32({5, 8}), F32({5, 8})));
  EXPECT_EQ(same, sum(F32({1, 8}), F32({1, 8}), F32({1, 8})));
  EXPECT_EQ(same, sum(F32({1, 1}), F32({1, 1}), F32({1, 1})));
}

TEST(TraceKeyTest, ViewIsNotItsBase) {
  const auto key = [](bool view) {
    PathBuilder path;
    const int x = path.External(F32({4, 4}));
    const int row = path.View(x, WithStrides(F32({4, 4}), {4, 1}, 0));
    const int half = path.View(x, WithStrides(F32({2, 4}), {4, 1}, 8));
    path.Op("aten::relu", {x}, F32({4, 4}));
    path.Op("aten::relu", {view ? half : row}, F32({2, 4}));
    return KeyOf(path);
  };
  EXPECT_FALSE(key(true) == key(false));
}

// Writes one part of a storage, then reads another one of `n` elements.
TraceKey PartsKey(std::int64_t n, std::int64_t offset, bool write) {
  PathBuilder path;
  const int base = path.External(F32({4 * n}));
  const int first = path.View(base, F32({n}));
  const int other = path.View(base, WithStrides(F32({n}), {1}, offset));
  if (write) {
    path.InPlace("aten::relu_", {first});
  } else {
    path.Op("aten::relu", {first});
  }
  path.Op("aten::tanh", {other});
  return KeyOf(path);
}

TEST(TraceKeyTest, OverlapWithAWriteIsInTheKey) {
  EXPECT_EQ(PartsKey(8, 8, true), PartsKey(8, 16, true));    // both apart
  EXPECT_EQ(PartsKey(8, 8, true), PartsKey(5, 5, true));     // other sizes
  EXPECT_FALSE(PartsKey(8, 8, true) == PartsKey(8, 4, true));  // meets
  EXPECT_FALSE(PartsKey(8, 4, true) == PartsKey(8, 0, true));  // is the same
}

TEST(TraceKeyTest, OverlapOfReadsIsNotInTheKey) {
  EXPECT_EQ(PartsKey(8, 8, false), PartsKey(8, 4, false));
}

TEST(TraceKeyTest, OverlapOfReadsApartFromTheWriteIsNotInTheKey) {
  const auto key = [](std::int64_t offset) {
    PathBuilder path;
    const int base = path.External(F32({32}));
    path.InPlace("aten::relu_", {path.View(base, F32({8}))});
    path.Op("aten::tanh", {path.View(base, WithStrides(F32({8}), {1}, 8))});
    path.Op("aten::exp",
            {path.View(base, WithStrides(F32({8}), {1}, offset))});
    return KeyOf(path);
  };
  EXPECT_EQ(key(16), key(12));
  EXPECT_FALSE(key(16) == key(4));
}

TEST(TraceKeyTest, WriteToAPartOfAFreshResultIsInTheKey) {
  const auto key = [](std::int64_t offset) {
    PathBuilder path;
    const int x = path.External(F32({16}));
    const int y = path.Op("aten::relu", {x});
    path.InPlace("aten::zero_", {path.View(y, F32({8}))});
    path.Op("aten::tanh",
            {path.View(y, WithStrides(F32({8}), {1}, offset))}, F32({8}));
    return KeyOf(path);
  };
  EXPECT_FALSE(key(8) == key(4));
}

// More views of one written storage than pairs are kept for.
TEST(TraceKeyTest, ManyViewsFallBackToExactGeometry) {
  const auto key = [](int moved) {
    PathBuilder path;
    const int base = path.External(F32({40000}));
    for (int i = 0; i < 1500; ++i) {
      const int offset = 4 * i + (i == moved ? 1 : 0);
      path.InPlace("aten::zero_",
                   {path.View(base, WithStrides(F32({2}), {1}, offset))});
    }
    return KeyOf(path);
  };
  EXPECT_EQ(key(-1), key(-1));
  EXPECT_FALSE(key(-1) == key(10));
  EXPECT_FALSE(key(-1) == key(1400));
  EXPECT_LT(key(-1).words.size(), 100000u);
}

}  // namespace
}  // namespace tjit
