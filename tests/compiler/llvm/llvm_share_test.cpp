// Loops that differ in sizes and places only share their code.
#include <malloc.h>

#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

// The same update of `count` parameters, of sizes of their own.
Function Updates(int count, int first_size, const char* factor) {
  std::string text = "func f(n0) {\n";
  const auto size = [&](int i) {
    return i == 0 ? std::string("n0") : absl::StrCat(first_size + 3 * i);
  };
  for (int i = 0; i < 2 * count; ++i) {
    absl::StrAppend(&text, "external %", i, ": f32[", size(i / 2), "]\n");
  }
  absl::StrAppend(&text, "scalar $0: f64\nscalar $1: f64\n");
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "%", 2 * count + i, " = add f32[", size(i), "] %",
                    2 * i, ", %", 2 * i + 1, ", ", factor, i % 2, "\n");
  }
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "write %", 2 * i, "[", size(i), "] = %",
                    2 * count + i, "\n");
  }
  return Parsed(text + "}");
}

int FunctionsOf(const CompiledKernel& kernel) {
  std::set<TjitKernelFn> functions;
  for (int i = 0; i < kernel.kernel().loop_count; ++i) {
    functions.insert(kernel.kernel().loops[i].run);
  }
  return static_cast<int>(functions.size());
}

TEST(LlvmShareTest, LoopsOfOneKernel) {
  const Function f = Updates(30, 5, "$");
  const CompiledKernel kernel(f);
  ASSERT_EQ(kernel.error(), "");
  EXPECT_EQ(kernel.kernel().loop_count, 30);
  EXPECT_EQ(FunctionsOf(kernel), 1);
  for (const std::int64_t n : {0, 1, 100}) {
    EXPECT_EQ(Compare(f, kernel, {n}, 3), "");
  }
}

TEST(LlvmShareTest, LoopsOfSeveralKernels) {
  const Function f = Updates(3, 5, "$"), g = Updates(8, 40, "$");
  auto first = std::make_unique<CompiledKernel>(f);
  EXPECT_GT(first->kernel().code_bytes, 0u);
  const CompiledKernel second(g);
  EXPECT_EQ(second.kernel().code_bytes, 0u);
  EXPECT_EQ(second.kernel().loops[0].run, first->kernel().loops[0].run);
  first.reset();  // its code stays
  EXPECT_EQ(Compare(g, second, {7}, 3), "");
}

// One loop of many ops over %0.
Function Long(int count) {
  std::string text = "func f(n0) {\nexternal %0: f32[n0]\n";
  for (int i = 1; i <= count; ++i) {
    absl::StrAppend(&text, "%", i, " = mul f32[n0] %", i - 1, "[n0], 1.5\n");
  }
  return Parsed(absl::StrCat(text, "return %", count, "\n}"));
}

// A program with many sizes has hundreds of kernels, and only a few loops.
TEST(LlvmShareTest, KernelWhoseLoopsAreThereIsSmall) {
  for (const Function& f : {Updates(30, 5, "$"), Long(300)}) {
    const CompiledKernel first(f);
    ASSERT_EQ(first.error(), "");
    constexpr int kKernels = 20;
    std::vector<std::unique_ptr<CompiledKernel>> others;
    for (int i = 0; i < kKernels; ++i) {
      others.push_back(std::make_unique<CompiledKernel>(f));
      ASSERT_EQ(others.back()->kernel().generated_count, 0);
    }
    const std::size_t said = others.back()->kernel().handle_bytes;
    EXPECT_LT(said, KeptBytesOf(f));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const std::size_t before = mallinfo2().uordblks;
    others.clear();
    const std::size_t freed = (before - mallinfo2().uordblks) / kKernels;
    EXPECT_GT(said, freed / 2) << freed;
    EXPECT_LT(said, freed * 3 / 2) << freed;
#endif
  }
}

TEST(LlvmShareTest, ConstantsAreNumbers) {
  // 3.0, 3.1: an optimizer's constants differ from step to step, and become
  // arguments when they do.
  const Function f = Updates(4, 5, "3."), g = Updates(4, 5, "7.");
  const CompiledKernel arguments(Updates(4, 5, "$"));
  const CompiledKernel first(f), second(g);
  ASSERT_EQ(first.error() + second.error(), "");
  EXPECT_EQ(FunctionsOf(first), 1);
  for (const CompiledKernel* kernel : {&first, &second}) {
    EXPECT_EQ(kernel->kernel().code_bytes, 0u);
    EXPECT_EQ(kernel->kernel().loops[0].run, arguments.kernel().loops[0].run);
    EXPECT_EQ(Compare(kernel == &first ? f : g, *kernel, {77}, 3), "");
  }
  // Equal ones and different ones of a loop are not the same loop.
  const auto two = [](const char* a, const char* b) {
    return Parsed(absl::StrCat("func f() {\nexternal %0: f32[9]\n%1 = mul ",
                               "f32[9] %0, ", a, "\n%2 = add f32[9] %1, ", b,
                               ", 1\nreturn %2\n}"));
  };
  const CompiledKernel same(two("0.3", "0.3")), other(two("0.3", "0.7"));
  EXPECT_NE(same.kernel().loops[0].run, other.kernel().loops[0].run);
  EXPECT_EQ(Compare(two("0.3", "0.7"), other, {}, 3), "");
}

// A power of two divides by a product, and one factor is none.
TEST(LlvmShareTest, ConstantsThatMakeOtherInstructionsStay) {
  std::set<TjitKernelFn> functions;
  std::vector<std::unique_ptr<CompiledKernel>> kernels;
  for (const char* factor : {"0.0", "1.0", "4.0", "0.3", "inf"}) {
    const Function f =
        Parsed(absl::StrCat("func f() {\nexternal %0: f32[9]\n%1 = div f32[9] ",
                            "%0, ", factor, "\nreturn %1\n}"));
    kernels.push_back(std::make_unique<CompiledKernel>(f));
    functions.insert(kernels.back()->kernel().loops[0].run);
    EXPECT_EQ(Compare(f, *kernels.back(), {}, 3), "");
  }
  EXPECT_EQ(functions.size(), 5u);
}

TEST(LlvmShareTest, WhatDecidesTheCodeIsNotShared) {
  const CompiledKernel scalars(Updates(4, 5, "$"));
  const CompiledKernel constants(Updates(4, 5, "0."));
  EXPECT_EQ(FunctionsOf(constants), 2);  // 0.0 and 0.1
  EXPECT_GT(constants.kernel().code_bytes, 0u);
  TjitLlvmOptions options = DefaultOptions();
  options.vector_bits = 128;
  const CompiledKernel narrow(Updates(4, 5, "$"), options);
  EXPECT_NE(narrow.kernel().loops[0].run, scalars.kernel().loops[0].run);
  // A stride of 1 and one of 2, and a repeated element; not where a row begins.
  const char* kReads[] = {"(1)", "(2)", "(0)", "+1"};
  std::set<TjitKernelFn> functions;
  std::vector<std::unique_ptr<CompiledKernel>> kernels;
  for (const char* read : kReads) {
    const Function f = Parsed(absl::StrCat(
        "func f(n0) {\nexternal %0: f32[n0*2+1]\n%1 = neg f32[n0] %0[n0]", read,
        "\nreturn %1\n}"));
    kernels.push_back(std::make_unique<CompiledKernel>(f));
    functions.insert(kernels.back()->kernel().loops[0].run);
    EXPECT_EQ(Compare(f, *kernels.back(), {33}, 3), "");
  }
  EXPECT_EQ(functions.size(), 3u);
  EXPECT_EQ(kernels[0]->kernel().loops[0].run,
            kernels[3]->kernel().loops[0].run);
}

TEST(LlvmShareTest, RowsOfAFewElementsArePartOfTheCode) {
  std::set<TjitKernelFn> functions;
  std::vector<std::unique_ptr<CompiledKernel>> kernels;
  const auto compile = [&](int row) {
    const std::string sizes = absl::StrCat("[n0,", row, "]");
    const Function f = Parsed(
        absl::StrCat("func f(n0) {\nexternal %0: f32[n0*", row,
                     "]\nexternal %1: f32[", row, "]\n%2 = mul f32", sizes,
                     " %0", sizes, ", %1", sizes, "(0,1)\nreturn %2\n}"));
    kernels.push_back(std::make_unique<CompiledKernel>(f));
    functions.insert(kernels.back()->kernel().loops[0].run);
  };
  for (const int row : {5, 6, 17, 6, 30}) compile(row);
  EXPECT_EQ(functions.size(), 3u);  // 5; 6; 17 and 30
}

// Only for the same text, functions and flags, and once.
TEST(LlvmShareTest, LoopsThatWereFormedAheadAreTaken) {
  const auto text = [](const char* op) {
    return absl::StrCat("func f(n0) {\n  external %0: f32[n0]\n  %1 = ", op,
                        " f32[n0] %0\n  return %1\n}\n");
  };
  TjitLlvmOptions ahead = DefaultOptions();
  ahead.flags = kTjitLlvmPlanOnly;
  const CompiledKernel plan(text("ceil"), ahead);
  EXPECT_EQ(plan.error(), "");
  EXPECT_EQ(plan.kernel().handle, nullptr);
  EXPECT_EQ(plan.kernel().loop_count, 0);
  TjitLlvmOptions narrow = DefaultOptions();
  narrow.vector_bits = 128;
  EXPECT_EQ(CompiledKernel(text("ceil"), narrow).kernel().was_planned, 0);
  EXPECT_EQ(CompiledKernel(text("floor")).kernel().was_planned, 0);
  const Function f = Parsed(text("ceil"));
  for (const int was_planned : {1, 0}) {
    const CompiledKernel kernel(text("ceil"));
    EXPECT_EQ(kernel.kernel().was_planned, was_planned);
    EXPECT_EQ(kernel.kernel().loop_count, 1);
    EXPECT_EQ(Compare(f, kernel, {33}, 3), "");
  }
  const CompiledKernel wrong("func f(", ahead);
  EXPECT_NE(wrong.error(), "");
}

}  // namespace
}  // namespace tjit::ir
