// Every pointwise op of the tables, over dtypes and geometries: a prepared
// step gives the bits of the op called through the dispatcher.
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "recorder/in_place.h"
#include "tests/runtime/library_calls/make_tensors.h"
#include "tests/runtime/library_calls/recorded_call.h"

namespace tjit::runtime::testing {
namespace {

// Arguments: T tensor, P positive tensor (of complex numbers any), S scalar
// that varies (double, integer for integer tensors, complex for complex ones),
// R the same but never complex, N None, m -0.5, d 2, b false, t "tanh", n
// "none", f "floor".
struct Spec {
  const char* name;
  const char* arguments;
};

constexpr at::ScalarType kDtypes[] = {
    at::kFloat, at::kDouble, at::kBFloat16,     at::kHalf,
    at::kLong,  at::kBool,   at::kComplexFloat, at::kComplexDouble};
// In few geometries.
constexpr at::ScalarType kOtherDtypes[] = {at::kInt,    at::kShort,
                                           at::kChar,   at::kByte,
                                           at::kUInt16, at::kUInt32,
                                           at::kUInt64};

bool IsInPlace(const std::string& name) {
  const std::string base = name.substr(0, name.find('.'));
  return base.back() == '_';
}

Maker MakerFor(const Spec& spec, const std::vector<std::string>& layouts,
               std::vector<std::int64_t> sizes, at::ScalarType dtype,
               bool same_tensor) {
  const std::string arguments = spec.arguments;
  const bool is_complex = at::isComplexType(dtype);
  return [=](int seed) {
    Data data(seed);
    torch::jit::Stack stack;
    std::size_t tensor = 0;
    for (char c : arguments) {
      const std::string& layout = layouts[tensor % layouts.size()];
      switch (c) {
        case 'T':
        case 'P':
          if (tensor > 0 && same_tensor) {
            stack.emplace_back(stack[0]);
          } else if (c == 'P') {
            at::Tensor t = data.Laid(layout, sizes, dtype);
            if (dtype != at::kBool && !is_complex) t.abs_();
            stack.emplace_back(t);
          } else {
            stack.emplace_back(data.Laid(layout, sizes, dtype));
          }
          ++tensor;
          break;
        case 'S':
        case 'R':
          if (at::isFloatingType(dtype) || (c == 'R' && is_complex)) {
            stack.emplace_back(0.25 + data.Uniform() / 4);
          } else if (is_complex) {
            const double real = 0.25 + data.Uniform() / 4;
            stack.emplace_back(
                at::Scalar(c10::complex<double>(real, data.Uniform() - 0.5)));
          } else {
            stack.emplace_back(std::int64_t{1} + seed % 3);
          }
          break;
        case 'm':
          stack.emplace_back(-0.5);
          break;
        case 'd':
          stack.emplace_back(2);
          break;
        case 'N':
          stack.emplace_back();
          break;
        case 'b':
          stack.emplace_back(false);
          break;
        case 't':
          stack.emplace_back("tanh");
          break;
        case 'n':
          stack.emplace_back("none");
          break;
        case 'f':
          stack.emplace_back("floor");
          break;
      }
    }
    return stack;
  };
}

struct Counts {
  int compared = 0;
  int in_place = 0;
  int boxed = 0;
  int refused = 0;  // by eager
};

void Check(const Spec& spec, const std::vector<std::string>& layouts,
           const std::vector<std::int64_t>& sizes, at::ScalarType dtype,
           bool same_tensor, Counts* counts) {
  const Maker maker = MakerFor(spec, layouts, sizes, dtype, same_tensor);
  std::unique_ptr<RecordedCall> call;
  try {
    call = std::make_unique<RecordedCall>(spec.name, maker);
  } catch (const std::exception&) {  // oneDNN's errors are not c10::Error
    ++counts->refused;
    return;
  }
  counts->boxed += call->step().is_boxed();
  for (int seed = 1; seed < 3; ++seed) {
    const std::string difference = call->Compare(&call->step(), seed);
    ASSERT_EQ(difference, "")
        << spec.name << " " << at::toString(dtype) << " layouts " << layouts[0]
        << "," << layouts.back() << " sizes " << at::IntArrayRef(sizes)
        << " seed " << seed << " same tensor " << same_tensor;
    ++counts->compared;
    for (const auto& [result, operand] : InPlacePairs(call->record())) {
      ASSERT_EQ(call->CompareOver(&call->step(), seed, result, operand), "")
          << spec.name << " " << at::toString(dtype) << " layouts "
          << layouts[0] << "," << layouts.back() << " sizes "
          << at::IntArrayRef(sizes) << " seed " << seed << " over slot "
          << operand;
      ++counts->in_place;
    }
  }
}

void CheckAll(const Spec& spec, Counts* counts) {
  const std::vector<std::vector<std::string>> unary = {
      {"dense"}, {"transposed"}, {"strided"}};
  const std::vector<std::vector<std::string>> binary = {
      {"dense", "dense"},       {"dense", "transposed"},
      {"strided", "dense"},     {"dense", "expanded"},
      {"dense", "row"},         {"dense", "column"},
      {"dense", "scalar"},      {"dense", "wrapped"},
      {"scalar", "dense"},      {"transposed", "transposed"},
      {"transposed", "wrapped"}};
  const std::string arguments = spec.arguments;
  int tensors = 0;
  for (char c : arguments) tensors += c == 'T' || c == 'P';
  const std::vector<std::vector<std::int64_t>> shapes = {
      {8, 8}, {5, 14}, {2, 3, 7}};
  std::size_t turn = 0;
  for (at::ScalarType dtype : kDtypes) {
    for (const auto& layouts : tensors > 1 ? binary : unary) {
      Check(spec, layouts, shapes[turn++ % 3], dtype, false, counts);
      Check(spec, layouts, shapes[turn++ % 3], dtype, false, counts);
    }
    for (const std::vector<std::int64_t>& sizes :
         {std::vector<std::int64_t>{}, {1}, {70}, {40000}}) {
      Check(spec, {"dense"}, sizes, dtype, false, counts);
      if (tensors > 1) {
        Check(spec, {"dense", "wrapped"}, sizes, dtype, false, counts);
        Check(spec, {"dense", "scalar"}, sizes, dtype, false, counts);
      }
    }
    if (tensors > 1) Check(spec, {"dense"}, {8, 8}, dtype, true, counts);
  }
  for (at::ScalarType dtype : kOtherDtypes) {
    for (const auto& layouts : std::vector<std::vector<std::string>>{
             {"dense", "dense"}, {"strided", "wrapped"}, {"dense", "row"}}) {
      Check(spec, layouts, {5, 14}, dtype, false, counts);
    }
  }
  // Real ones beside complex ones, in either order.
  for (at::ScalarType dtype : {at::kComplexFloat, at::kComplexDouble}) {
    for (const auto& layouts :
         std::vector<std::vector<std::string>>{{"dense", "real"},
                                               {"real", "dense"},
                                               {"real", "wrapped complex"},
                                               {"dense", "wrapped complex"}}) {
      if (tensors > 1) Check(spec, layouts, {5, 14}, dtype, false, counts);
    }
  }
}

// A functional op with one result of the type of an operand.
bool MayRunInPlace(const std::string& name) {
  static const std::set<std::string> other = {"log_sigmoid_forward",
                                              "isnan",
                                              "signbit",
                                              "eq",
                                              "ge",
                                              "gt",
                                              "le",
                                              "lt",
                                              "ne"};
  const std::string base = name.substr(6, name.find('.') - 6);
  return !IsInPlace(name) && other.count(base) == 0;
}

class Pointwise : public ::testing::TestWithParam<Spec> {};

TEST_P(Pointwise, SameBitsAsEager) {
  Counts counts;
  CheckAll(GetParam(), &counts);
  EXPECT_GT(counts.compared, IsInPlace(GetParam().name) ? 10 : 20);
  if (MayRunInPlace(GetParam().name)) {
    EXPECT_GT(counts.in_place, 10) << "results over operands";
  }
  EXPECT_EQ(counts.boxed, 0) << "a pointwise op must not need the boxed way";
}

#define TJIT_BOTH(name, arguments) \
  Spec{"aten::" name, arguments}, Spec { "aten::" name "_", arguments }
#define TJIT_BOTH2(name, overload, arguments)         \
  Spec{"aten::" name "." overload, arguments}, Spec { \
    "aten::" name "_." overload, arguments            \
  }

const Spec kSpecs[] = {
    TJIT_BOTH("acos", "T"),
    TJIT_BOTH("acosh", "P"),
    TJIT_BOTH("asin", "T"),
    TJIT_BOTH("asinh", "T"),
    TJIT_BOTH("atan", "T"),
    TJIT_BOTH("atanh", "T"),
    TJIT_BOTH("bitwise_not", "T"),
    TJIT_BOTH("ceil", "T"),
    TJIT_BOTH("clamp", "TSS"),
    {"aten::clamp", "TSN"},
    {"aten::clamp", "TNS"},
    TJIT_BOTH("clamp_max", "TS"),
    TJIT_BOTH("clamp_min", "TS"),
    TJIT_BOTH("cos", "T"),
    TJIT_BOTH("cosh", "T"),
    TJIT_BOTH("elu", "TSSS"),
    TJIT_BOTH("erf", "T"),
    TJIT_BOTH("erfc", "T"),
    TJIT_BOTH("erfinv", "T"),
    TJIT_BOTH("exp", "T"),
    TJIT_BOTH("exp2", "T"),
    TJIT_BOTH("expm1", "T"),
    TJIT_BOTH("floor", "T"),
    TJIT_BOTH("frac", "T"),
    TJIT_BOTH("gelu", "Tn"),
    TJIT_BOTH("gelu", "Tt"),
    {"aten::gelu_backward", "TTn"},
    {"aten::gelu_backward", "TTt"},
    {"aten::hardshrink", "TS"},
    TJIT_BOTH("hardsigmoid", "T"),
    {"aten::hardsigmoid_backward", "TT"},
    TJIT_BOTH("hardswish", "T"),
    {"aten::hardswish_backward", "TT"},
    TJIT_BOTH("hardtanh", "TmS"),
    {"aten::hardtanh_backward", "TTmS"},
    {"aten::isnan", "T"},
    TJIT_BOTH("leaky_relu", "TS"),
    {"aten::leaky_relu_backward", "TTSb"},
    TJIT_BOTH("lgamma", "P"),
    TJIT_BOTH("log", "P"),
    TJIT_BOTH("log10", "P"),
    TJIT_BOTH("log1p", "P"),
    TJIT_BOTH("log2", "P"),
    {"aten::log_sigmoid_forward", "T"},
    TJIT_BOTH("mish", "T"),
    TJIT_BOTH("neg", "T"),
    TJIT_BOTH("reciprocal", "T"),
    TJIT_BOTH("relu", "T"),
    TJIT_BOTH("round", "T"),
    TJIT_BOTH2("round", "decimals", "Td"),
    TJIT_BOTH("rsqrt", "P"),
    TJIT_BOTH("sgn", "T"),
    TJIT_BOTH("sigmoid", "T"),
    {"aten::sigmoid_backward", "TT"},
    TJIT_BOTH("sign", "T"),
    {"aten::signbit", "T"},
    TJIT_BOTH("silu", "T"),
    {"aten::silu_backward", "TT"},
    TJIT_BOTH("sin", "T"),
    TJIT_BOTH("sinh", "T"),
    {"aten::softplus", "TSS"},
    {"aten::softplus_backward", "TTSS"},
    {"aten::softshrink", "TS"},
    TJIT_BOTH("sqrt", "P"),
    TJIT_BOTH("tan", "T"),
    TJIT_BOTH("tanh", "T"),
    {"aten::tanh_backward", "TT"},
    TJIT_BOTH("threshold", "TSS"),
    {"aten::threshold_backward", "TTS"},
    TJIT_BOTH("trunc", "T"),

    TJIT_BOTH2("add", "Scalar", "TSS"),
    TJIT_BOTH2("add", "Tensor", "TTS"),
    TJIT_BOTH2("add", "Tensor", "TTR"),
    TJIT_BOTH2("add", "Scalar", "TRR"),
    TJIT_BOTH("addcdiv", "TTTS"),
    TJIT_BOTH("addcmul", "TTTS"),
    TJIT_BOTH("atan2", "TT"),
    TJIT_BOTH2("bitwise_and", "Tensor", "TT"),
    TJIT_BOTH2("bitwise_or", "Tensor", "TT"),
    TJIT_BOTH2("bitwise_xor", "Tensor", "TT"),
    TJIT_BOTH2("clamp", "Tensor", "TTT"),
    TJIT_BOTH2("clamp_max", "Tensor", "TT"),
    TJIT_BOTH2("clamp_min", "Tensor", "TT"),
    TJIT_BOTH2("copysign", "Tensor", "TT"),
    TJIT_BOTH2("div", "Scalar", "TS"),
    TJIT_BOTH2("div", "Scalar", "TR"),
    TJIT_BOTH2("div", "Tensor", "TT"),
    TJIT_BOTH2("div", "Tensor_mode", "TTf"),
    TJIT_BOTH2("eq", "Tensor", "TT"),
    TJIT_BOTH2("eq", "Scalar", "TS"),
    {"aten::fmax", "TT"},
    {"aten::fmin", "TT"},
    TJIT_BOTH2("fmod", "Tensor", "TT"),
    TJIT_BOTH2("ge", "Tensor", "TT"),
    TJIT_BOTH2("ge", "Scalar", "TS"),
    TJIT_BOTH2("gt", "Tensor", "TT"),
    TJIT_BOTH2("gt", "Scalar", "TS"),
    TJIT_BOTH("hypot", "TT"),
    TJIT_BOTH2("le", "Tensor", "TT"),
    TJIT_BOTH2("le", "Scalar", "TS"),
    TJIT_BOTH2("lerp", "Scalar", "TTS"),
    TJIT_BOTH2("lerp", "Tensor", "TTT"),
    {"aten::logaddexp", "TT"},
    TJIT_BOTH2("lt", "Tensor", "TT"),
    TJIT_BOTH2("lt", "Scalar", "TS"),
    {"aten::maximum", "TT"},
    {"aten::minimum", "TT"},
    TJIT_BOTH2("mul", "Scalar", "TS"),
    TJIT_BOTH2("mul", "Scalar", "TR"),
    TJIT_BOTH2("mul", "Tensor", "TT"),
    TJIT_BOTH2("ne", "Tensor", "TT"),
    TJIT_BOTH2("ne", "Scalar", "TS"),
    {"aten::pow.Scalar", "SP"},
    {"aten::pow.Tensor_Scalar", "PS"},
    {"aten::pow_.Scalar", "PS"},
    {"aten::rsub.Scalar", "TSS"},
    TJIT_BOTH2("sub", "Scalar", "TSS"),
    TJIT_BOTH2("sub", "Tensor", "TTS"),
    TJIT_BOTH2("sub", "Tensor", "TTR"),
    TJIT_BOTH2("sub", "Scalar", "TRR"),
    {"aten::pow.Tensor_Tensor", "PT"},
    TJIT_BOTH2("remainder", "Tensor", "TT"),
    TJIT_BOTH2("xlogy", "Tensor", "TP"),
};

INSTANTIATE_TEST_SUITE_P(Ops, Pointwise, ::testing::ValuesIn(kSpecs),
                         [](const auto& info) {
                           std::string name = info.param.name + 6;
                           name += std::string("_") + info.param.arguments;
                           for (char& c : name) {
                             if (c == '.') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace tjit::runtime::testing
