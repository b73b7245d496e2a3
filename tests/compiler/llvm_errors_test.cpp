// What cannot be compiled says why; nothing crashes.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "compiler/llvm/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm_testing.h"

namespace tjit::ir {
namespace {

using testing::HasSubstr;

constexpr const char kAdd[] = R"(func adds(n0) {
  external %0: f32[n0]
  %1 = add f32[n0] %0, %0, 1.0
  return %1
})";

std::string ErrorOf(const std::string& text, std::uint32_t flags = 0) {
  TjitLlvmOptions options = DefaultOptions();
  options.flags = flags;
  return CompiledKernel(text, options).error();
}

// The next compile works.
void ExpectWorks() {
  const Function f = Parsed(kAdd);
  EXPECT_EQ(Compare(f, CompiledKernel(f), {33}, 1), "");
}

TEST(LlvmErrorsTest, NoLibrary) {
  std::string error;
  EXPECT_EQ(LoadLlvmApi("/nowhere/libtjit_llvm.so", &error), nullptr);
  EXPECT_THAT(error, HasSubstr("/nowhere/libtjit_llvm.so is not there: tjit "
                               "was built without LLVM"));
}

TEST(LlvmErrorsTest, NotALibrary) {
  const std::string path = testing::TempDir() + "libtjit_llvm_text.so";
  std::ofstream(path) << "no library\n";
  std::string error;
  EXPECT_EQ(LoadLlvmApi(path, &error), nullptr);
  EXPECT_THAT(error, HasSubstr(path));
  unlink(path.c_str());
}

TEST(LlvmErrorsTest, BesideTheProgram) {
  std::string error;
  EXPECT_NE(LlvmApi(&error), nullptr) << error;
}

TEST(LlvmErrorsTest, AnotherAbi) {
  TjitLlvmOptions options = DefaultOptions();
  options.abi = 99;
  EXPECT_THAT(CompiledKernel(std::string(kAdd), options).error(),
              HasSubstr("the caller's ABI is 99"));
}

TEST(LlvmErrorsTest, BadText) {
  EXPECT_THAT(ErrorOf("func f("), HasSubstr("1:"));
  EXPECT_THAT(ErrorOf(R"(func f(n0) {
  external %0: f32[n0]
  %1 = add f32[n0] %0, 2
  return %1
})"),
              HasSubstr("(rule 7): add has 2 operands, not 3"));
}

TEST(LlvmErrorsTest, WhatIsNotGeneratedIsNamed) {
  EXPECT_EQ(ErrorOf(R"(func f(n0) {
  external %0: f32[n0]
  %1 = exp f32[n0] %0
  return %1
})"),
            "%1: no function for exp of f32");
  EXPECT_THAT(ErrorOf(R"(func f(n0) {
  external %0: f32[n0]
  %1 = sum f32[] %0 dims=[0]
  return %1
})"),
              HasSubstr("no function for sum of f32"));
  EXPECT_THAT(ErrorOf(R"(func f(n0) {
  external %0: f32[n0*16]
  %1 = sum f32[n0,2] %0[n0,8,2] dims=[1]
  return %1
})"),
              HasSubstr("sum is not generated"));
  EXPECT_THAT(ErrorOf(R"(func f(n0) {
  external %0: f32[n0]
  %1 = call f32[n0] "aten::x" step=0 %0
  return %1
})"),
              HasSubstr("call"));
}

TEST(LlvmErrorsTest, LlvmRejectsTheModule) {
  EXPECT_THAT(ErrorOf(kAdd, kTjitLlvmPlantInvalid),
              HasSubstr("LLVM does not accept the module"));
  ExpectWorks();
}

TEST(LlvmErrorsTest, LlvmGivesUp) {
  EXPECT_EQ(ErrorOf(kAdd, kTjitLlvmPlantFatal),
            "LLVM gave up: planted by a test");
  ExpectWorks();
}

TEST(LlvmErrorsTest, NoExecutablePages) {
  EXPECT_THAT(ErrorOf(kAdd, kTjitLlvmPlantNoCode),
              HasSubstr("the system gives no executable memory"));
  ExpectWorks();
}

TEST(LlvmErrorsTest, CodeMemoryExhausted) {
  EXPECT_THAT(ErrorOf(kAdd, kTjitLlvmPlantNoMemory),
              HasSubstr("bytes of code: Cannot allocate memory"));
  ExpectWorks();
}

TEST(LlvmErrorsTest, AccessOutsideItsMemory) {
  const Function f = Parsed(R"(func f(n0, n1) {
  external %0: f32[n0]
  %1 = neg f32[n1] %0[n1]
  return %1
})");
  const CompiledKernel kernel(f);
  ASSERT_EQ(kernel.error(), "");
  KernelRun fits(f, {5, 5}, 1), reaches(f, {5, 6}, 1);
  EXPECT_EQ(kernel.Run(fits.arguments), "");
  EXPECT_EQ(kernel.Run(reaches.arguments),
            "%0: an access reaches element 5 of 5");
}

TEST(LlvmErrorsTest, DumpsShowWhatWasMade) {
  TjitLlvmOptions options = DefaultOptions();
  options.flags = kTjitLlvmDumpIr | kTjitLlvmDumpAssembly;
  const CompiledKernel kernel(std::string(kAdd), options);
  EXPECT_THAT(kernel.kernel().dump, HasSubstr("define void @tjit_adds"));
  EXPECT_THAT(kernel.kernel().dump, HasSubstr("tjit_adds:"));
  EXPECT_STREQ(CompiledKernel(std::string(kAdd)).kernel().dump, "");
}

TEST(LlvmErrorsTest, PerfSeesTheNames) {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  unlink(path.c_str());
  const CompiledKernel unnamed{std::string(kAdd)};
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "not without being asked";
  TjitLlvmOptions options = DefaultOptions();
  options.flags = kTjitLlvmPerfMap;
  const CompiledKernel kernel(std::string(kAdd), options);
  std::ifstream file(path);
  std::uint64_t start = 0, bytes = 0;
  std::string name;
  file >> std::hex >> start >> bytes >> name;
  EXPECT_EQ(start,
            reinterpret_cast<std::uintptr_t>(kernel.kernel().loops[0].run));
  EXPECT_GT(bytes, 50u);
  EXPECT_LT(bytes, 4000u);
  EXPECT_EQ(name, "tjit_adds");
  unlink(path.c_str());
}

}  // namespace
}  // namespace tjit::ir
