// Square roots in code have the bits of compiler/functions/sqrt_exact.h, which a probe
// compares with eager's.
#include "compiler/functions/sqrt_exact.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

constexpr const char kRoots[] = R"(func f(n0) {
  external %0: f32[n0]
  external %1: f32[n0]
  %2 = sqrt f32[n0] %0
  %3 = add f32[n0] %2, %1, 1.0
  return %3
})";

// Of halves eager takes the exact root, whatever it takes for floats.
constexpr const char kRootsOfHalves[] = R"(func f(n0) {
  external %0: f16[n0]
  external %1: f32[n0]
  external %2: bf16[n0]
  %3 = sqrt f16[n0] %0
  %4 = sqrt f32[n0] %1
  %5 = sqrt bf16[n0] %2
  return %3
  return %4
  return %5
})";

constexpr const char kRootsOfDoubles[] = R"(func f(n0) {
  external %0: f64[n0]
  %1 = sqrt f64[n0] %0
  return %1
})";

struct Root {
  std::int32_t kind;
  int vector_bits;
  const char* text;
};

template <class T>
using RootFn = void (*)(int n, const T* x, T* out, std::int64_t mode);

template <class T>
Hooks With(RootFn<T> function) {
  Hooks hooks;
  hooks.math = [=](Op op, DType dtype, const void* const* in, const double*,
                   void* out, std::int64_t n) {
    const auto bytes = static_cast<std::size_t>(InfoOf(dtype).bytes);
    if (op != Op::kSqrt || bytes != sizeof(T)) return false;
    function(static_cast<int>(n), static_cast<const T*>(in[0]),
             static_cast<T*>(out), 0);
    return true;
  };
  return hooks;
}

void ExpectSame(const Root& root, const Hooks& hooks) {
  const TjitMath math = {"sqrt", root.kind, nullptr, 0};
  TjitLlvmOptions options = DefaultOptions();
  options.math = &math;
  options.math_count = 1;
  options.vector_bits = root.vector_bits;
  const Function f = Parsed(root.text);
  const CompiledKernel kernel(f, options);
  ASSERT_EQ(kernel.error(), "");
  for (const std::int64_t n : Lengths()) {
    EXPECT_EQ(Compare(f, kernel, {n}, static_cast<std::uint64_t>(n), hooks), "")
        << n << " elements, kind " << root.kind;
  }
}

TEST(LlvmSqrtTest, OneStep) {
  if (!__builtin_cpu_supports("avx512dq")) GTEST_SKIP() << "no AVX-512";
  ExpectSame({kTjitSqrtStepF32, 512, kRoots},
             With<float>(runtime::SqrtStepF32));
  ExpectSame({kTjitSqrtStepF64, 512, kRootsOfDoubles},
             With<double>(runtime::SqrtStepF64));
  ExpectSame({kTjitSqrtStepF32, 512, kRootsOfHalves},
             With<float>(runtime::SqrtStepF32));
}

TEST(LlvmSqrtTest, TwoSteps) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "no AVX";
  const Hooks hooks = With<float>(runtime::SqrtTwoStepsF32);
  ExpectSame({kTjitSqrtTwoStepsF32x8, 256, kRoots}, hooks);
  if (!__builtin_cpu_supports("avx512dq")) return;
  ExpectSame({kTjitSqrtTwoStepsF32x16, 512, kRoots}, hooks);
  ExpectSame({kTjitSqrtTwoStepsF32x16, 512, kRootsOfHalves}, hooks);
}

}  // namespace
}  // namespace tjit::ir
