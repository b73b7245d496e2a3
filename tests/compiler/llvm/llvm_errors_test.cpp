// What cannot be compiled says why; nothing crashes.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "compiler/llvm/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

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

TEST(LlvmErrorsTest, ABrokenLoop) {
  EXPECT_THAT(ErrorOf(kAdd, kTjitLlvmPlantBadLoop | kTjitLlvmVerifyLoops),
              HasSubstr("(rule "));
  EXPECT_EQ(ErrorOf(kAdd, kTjitLlvmVerifyLoops), "");
#ifdef NDEBUG
  // Nobody looks unless asked to.
  EXPECT_EQ(ErrorOf(kAdd, kTjitLlvmPlantBadLoop), "");
#else
  EXPECT_THAT(ErrorOf(kAdd, kTjitLlvmPlantBadLoop), HasSubstr("(rule "));
#endif
  ExpectWorks();
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

// Twice: the way out is there for the next compile, too.
TEST(LlvmErrorsTest, NoMemoryForLlvm) {
  ExpectWorks();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ErrorOf(kAdd, kTjitLlvmPlantNoHeap),
              "LLVM gave up: no memory, planted by a test");
    EXPECT_EQ(ErrorOf(kAdd, kTjitLlvmPlantThrow), "std::bad_alloc");
    EXPECT_EQ(ErrorOf(kAdd, kTjitLlvmPlantFatal),
              "LLVM gave up: planted by a test");
  }
  ExpectWorks();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
rlim_t MemoryBytes() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void LimitMemory(rlim_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_AS, &limit);
}

// Allocates what can be had of memory that the process has.
void TakeWhatIsFree() {
  for (std::size_t bytes = 1 << 16; bytes >= 16; bytes /= 2) {
    void* volatile taken = nullptr;
    do {
      taken = std::malloc(bytes);
    } while (taken != nullptr);
  }
}

// A loop of so many ops takes some MB to compile.
std::string LongText() {
  constexpr int kOps = 400;
  std::ostringstream text;
  text << "func f(n0) {\n  external %0: f32[n0]\n";
  for (int i = 1; i <= kOps; ++i) {
    text << "  %" << i << " = mul f32[n0] %" << i - 1 << ", %" << i / 2 << "\n";
  }
  text << "  return %" << kOps << "\n}\n";
  return text.str();
}

using Error = std::array<char, 200>;

Error Compile(const TjitLlvmApi& api, const std::string& text) {
  const TjitLlvmOptions options = DefaultOptions();
  TjitKernel kernel{};
  Error error{};
  api.compile(text.c_str(), &options, &kernel, error.data(), error.size());
  return error;
}

// What is said when `text` is compiled with so much memory left.
Error CompileWith(rlim_t left, const TjitLlvmApi& api,
                  const std::string& text) {
  const rlim_t now = MemoryBytes();
  LimitMemory(now);
  TakeWhatIsFree();
  LimitMemory(now + left);
  const Error error = Compile(api, text);
  LimitMemory(RLIM_INFINITY);
  return error;
}

// What children say that run `work` with 0, 1, ... times 64 KiB left.
std::set<std::string> SaidWithLittle(const std::function<Error(rlim_t)>& work) {
  std::set<std::string> said;
  for (rlim_t i = 0; i < 40; ++i) {
    int ends[2];
    if (pipe(ends) != 0) break;
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      const Error error = work(i << 16);
      const ssize_t n = write(ends[1], error.data(), error.size());
      _exit(n == error.size() && !testing::Test::HasFailure() ? 0 : 1);
    }
    close(ends[1]);
    Error error{};
    EXPECT_EQ(read(ends[0], error.data(), error.size()), error.size());
    close(ends[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << i;
    said.insert(error.data());
  }
  return said;
}

// At whichever allocation it ends.
TEST(LlvmErrorsTest, MemoryRunsOut) {
  ExpectWorks();  // what only the first compile makes is there
  const std::string text = LongText();
  const std::set<std::string> said = SaidWithLittle([&](rlim_t left) {
    const Error error = CompileWith(left, Api(), text);
    ExpectWorks();
    return error;
  });
  EXPECT_THAT(said, testing::Contains("std::bad_alloc"));
  EXPECT_THAT(said, testing::Contains("LLVM gave up: Allocation failed"));
}

// In a copy of the library, which has made nothing yet. What comes next does
// not wait for what is half made.
TEST(LlvmErrorsTest, MemoryRunsOutAtFirst) {
  const std::string path = testing::TempDir() + "libtjit_llvm_copy.so";
  std::filesystem::copy_file(TJIT_LLVM_LIBRARY, path,
                             std::filesystem::copy_options::overwrite_existing);
  const std::string text = LongText();
  const std::set<std::string> said = SaidWithLittle([&](rlim_t left) {
    std::string why;
    const TjitLlvmApi* const api = LoadLlvmApi(path, &why);
    EXPECT_NE(api, nullptr) << why;
    const Error first = CompileWith(left, *api, text);
    const Error next = Compile(*api, kAdd);
    EXPECT_TRUE(first[0] != 0 || next[0] == 0) << next.data();
    return next;
  });
  unlink(path.c_str());
  EXPECT_THAT(
      said, testing::IsSubsetOf({"", "memory ran out while LLVM was set up"}));
  EXPECT_THAT(said, testing::Contains("memory ran out while LLVM was set up"));
}
#endif

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
