// Machine code against the interpreter, bit by bit.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/op.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr int kVectorBits[] = {512, 256, 128};

// All lengths as n0, on all widths of vectors.
void ExpectSame(const std::string& text) {
  const Function f = Parsed(text);
  for (const int bits : kVectorBits) {
    TjitLlvmOptions options = DefaultOptions();
    options.vector_bits = bits;
    const CompiledKernel kernel(f, options);
    ASSERT_EQ(kernel.error(), "") << text;
    for (const std::int64_t n : Lengths()) {
      ASSERT_EQ(Compare(f, kernel, {n}, static_cast<std::uint64_t>(n)), "")
          << n << " elements, " << bits << " bits\n"
          << text;
    }
    ASSERT_EQ(Compare(f, kernel, {1000}, 5, {}, 7), "") << "in parts\n" << text;
  }
}

TEST(LlvmKernelTest, AddsTwoTensors) {
  ExpectSame(R"(func f(n0) {
  external %0: f32[n0]
  external %1: f32[n0]
  %2 = add f32[n0] %0, %1, 1.0
  return %2
})");
}

TEST(LlvmKernelTest, ChainsWithScalarsAndWriteBacks) {
  ExpectSame(R"(func chain(n0) {
  external %0: f32[n0]
  external %1: f32[n0]
  scalar $0: f64
  scalar $1: i64
  %2 = mul f32[n0] %0, $0
  %3 = add f32[n0] %2, %1, $1
  %4 = addcmul f32[n0] %3, %0, %1, 0.3
  %5 = clamp f32[n0] %4, -2.0, $0
  %6 = sub f32[n0] %5, 1.0, 0.1
  write %1[n0] = %5
  write %0[n0] = %6
  return %3
})");
}

std::string PointwiseText(Op op, DType dtype) {
  const OpInfo& info = InfoOf(op);
  const bool is_float = InfoOf(dtype).kind == DTypeKind::kFloat;
  const bool is_bool = InfoOf(dtype).kind == DTypeKind::kBool;
  const std::string type = Name(dtype);
  std::string operands;
  int tensors = 0;
  for (const char* kind = info.operands; *kind != '\0'; ++kind) {
    std::string operand = absl::StrCat("%", tensors);
    if (*kind == 'c') {
      operand = "%4";
    } else if (*kind == 's' || *kind == 'r') {
      operand = is_float ? "0.3" : is_bool ? "true" : "3";
    } else {
      ++tensors;
    }
    absl::StrAppend(&operands, operands.empty() ? "" : ", ", operand);
  }
  const std::string result =
      info.type_rule == TypeRule::kCompare ? "bool" : type;
  return absl::StrCat(
      "func f(n0) {\n  external %0: ", type, "[n0]\n  external %1: ", type,
      "[n0]\n  external %2: ", type, "[n0]\n  external %3: ", type,
      "[n0]\n  external %4: bool[n0]\n  %5 = ", info.name, " ", result, "[n0] ",
      operands, "\n  return %5\n}");
}

TEST(LlvmKernelTest, EveryNativeOpOfEveryType) {
  int kernels = 0;
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (InfoOf(op).family != Family::kPointwise) continue;
    for (int d = 0; d < kDTypeCount; ++d) {
      const DType dtype = static_cast<DType>(d);
      if (!Contains(InfoOf(op).dtypes, dtype)) continue;
      const Function f = Parsed(PointwiseText(op, dtype));
      const CompiledKernel kernel(f);
      if (!kernel.error().empty()) {
        EXPECT_EQ(kernel.error(),
                  absl::StrCat("%5: no function for ", InfoOf(op).name, " of ",
                               Name(dtype)));
        continue;
      }
      ++kernels;
      for (const std::int64_t n : {1, 7, 500}) {
        ASSERT_EQ(Compare(f, kernel, {n}, 11), "") << Print(f);
      }
    }
  }
  EXPECT_GT(kernels, 200);
}

// Scalars that no narrow type holds, between ops: every result is rounded.
TEST(LlvmKernelTest, ScalarsBeyondTheirType) {
  for (const char* type : {"bf16", "f16", "i8", "u8", "i32"}) {
    const bool is_float = type[0] == 'b' || type[0] == 'f';
    const std::string scalar = is_float ? "0.1" : "4294967599";
    for (const char* op : {"where", "maximum", "clamp", "threshold", "add"}) {
      std::string in = absl::StrCat("%0, ", scalar);
      if (op == std::string("where")) in = absl::StrCat("%1, ", in);
      if (op == std::string("clamp")) absl::StrAppend(&in, ", ", scalar);
      if (op == std::string("threshold")) {
        in = absl::StrCat("%0, %0, ", scalar, ", ", scalar);
      }
      if (op == std::string("add")) absl::StrAppend(&in, ", ", scalar);
      ExpectSame(absl::StrCat(
          "func f(n0) {\n  external %0: ", type,
          "[n0]\n  external %1: bool[n0]\n  %2 = ", op, " ", type, "[n0] ", in,
          "\n  %3 = mul ", type, "[n0] %2, ", is_float ? "3.0" : "3",
          "\n  %4 = lt bool[n0] %2, ", scalar, "\n  %5 = to f64[n0] %2\n",
          "  return %3\n  return %4\n  return %5\n}"));
    }
  }
}

TEST(LlvmKernelTest, CompileTimes) {
  std::string text =
      "func f(n0) {\n  external %0: f32[n0]\n"
      "  external %1: f32[n0]\n  scalar $0: f64\n";
  for (int i = 2; i < 12; i += 2) {
    absl::StrAppend(&text, "  %", i, " = mul f32[n0] %", i - 1, ", $0\n");
    absl::StrAppend(&text, "  %", i + 1, " = add f32[n0] %", i, ", %0, 0.5\n");
  }
  absl::StrAppend(&text, "  return %11\n}");
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const CompiledKernel kernel(Parsed(text));
    ASSERT_EQ(kernel.error(), "");
    const double ms = static_cast<double>(kernel.compile_ns()) / 1e6;
    std::cout << "compile of 10 ops: " << ms << " ms, "
              << kernel.kernel().code_bytes << " bytes\n";
    best = std::min(best, ms);
  }
  EXPECT_LT(best, 20);
}

}  // namespace
}  // namespace tjit::ir
