// Functions of the process in kernels: over tiles and in registers.
#include "tests/compiler/llvm/llvm_math.h"

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

// All lengths, with tables of either kind, on all widths.
void ExpectSame(const std::string& text) {
  const Function f = Parsed(text);
  for (const auto* math : {&ArrayAndVectorMath(), &VectorMath()}) {
    for (const int bits : {512, 256, 128}) {
      const CompiledKernel kernel(f, OptionsWith(*math, bits));
      ASSERT_EQ(kernel.error(), "") << text;
      for (const std::int64_t n : Lengths()) {
        ASSERT_EQ(Compare(f, kernel, {n}, static_cast<std::uint64_t>(n)), "")
            << n << " elements, " << bits << " bits\n"
            << text;
      }
      ASSERT_EQ(Compare(f, kernel, {3000}, 5, {}, 7), "") << text;
    }
  }
}

constexpr const char kExp[] = R"(func f(n0) {
  external %0: f32[n0]
  %1 = exp f32[n0] %0
  return %1
})";

TEST(LlvmMathTest, OneFunction) { ExpectSame(kExp); }

TEST(LlvmMathTest, FunctionsBetweenArithmetic) {
  ExpectSame(R"(func f(n0) {
  external %0: f32[n0]
  external %1: f64[n0]
  external %2: bool[n0]
  %3 = mul f32[n0] %0, 0.1
  %4 = exp f32[n0] %3
  %5 = lt bool[n0] %4, 1.0
  %6 = tanh f32[n0] %4
  %7 = add f32[n0] %6, %3, 1.0
  %8 = where f32[n0] %5, %7, %0
  %9 = log f64[n0] %1
  %10 = to f32[n0] %9
  %11 = log f32[n0] %8
  %12 = mul f32[n0] %11, %10
  %13 = logical_and bool[n0] %2, %5
  write %0[n0] = %12
  return %4
  return %13
})");
}

// Rows shorter and longer than a tile, of operands that repeat.
TEST(LlvmMathTest, TilesOverRows) {
  const Function f = Parsed(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  external %2: f32[n0]
  %3 = add f32[n0,n1] %0[n0,n1], %1[n0,n1](0,1), 1.0
  %4 = exp f32[n0,n1] %3
  %5 = mul f32[n0,n1] %4, %2[n0,n1](1,0)
  %6 = tanh f32[n0,n1] %5
  %7 = sub f32[n0,n1] %6, %0[n0,n1], 1.0
  write %0[n0,n1] = %7
  return %5
})");
  for (const int bits : {512, 256, 128}) {
    const CompiledKernel kernel(f, OptionsWith(ArrayAndVectorMath(), bits));
    ASSERT_EQ(kernel.error(), "");
    for (const std::int64_t rows : {0, 1, 3, 200}) {
      for (const std::int64_t columns : {0, 1, 5, 16, 40, 1023, 1100}) {
        Calls() = {};
        ASSERT_EQ(Compare(f, kernel, {rows, columns}, 3), "")
            << rows << " rows of " << columns;
        ASSERT_EQ(Compare(f, kernel, {rows, columns}, 3, {}, 3), "");
        EXPECT_EQ(Calls().wrong_modes, 0);
        // Short rows share a call.
        if (rows == 200 && columns == 5) {
          EXPECT_GT(Calls().longest, 200);
        }
        if (rows > 0 && columns > 0) {
          EXPECT_GE(Calls().count, 2);
        }
      }
    }
  }
}

TEST(LlvmMathTest, NarrowFloatsUseVectorFunctions) {
  for (const char* type : {"f16", "bf16"}) {
    std::string text = kExp;
    for (std::size_t at; (at = text.find("f32")) != std::string::npos;) {
      text.replace(at, 3, type);
    }
    Calls() = {};
    ExpectSame(text);
    EXPECT_EQ(Calls().count, 0);
  }
}

TEST(LlvmMathTest, TwoOperandsAndScalars) {
  ExpectSame(R"(func f(n0) {
  external %0: f32[n0]
  external %1: f64[n0]
  scalar $0: f64
  %2 = pow f32[n0] %0, 2.5
  %3 = atan2 f32[n0] %0, %2
  %4 = fmod f64[n0] %1, $0
  %5 = remainder f64[n0] %4, 0.3
  return %3
  return %5
})");
}

TEST(LlvmMathTest, PositionDependentFunctions) {
  for (const char* type : {"f32", "f64", "bf16", "f16"}) {
    std::string text = R"(func f(n0) {
  external %0: T[n0]
  external %1: T[n0]
  scalar $0: f64
  %2 = mul T[n0] %0, %1
  %3 = silu T[n0] %2
  %4 = softplus T[n0] %0, $0, 1.5
  %5 = elu T[n0] %3, 0.5, 2.0, $0
  %6 = add T[n0] %5, %4, 1.0
  %7 = softplus_backward T[n0] %6, %1, 0.75, 2.0
  %8 = gelu_backward T[n0] %7, %3
  write %1[n0] = %7
  return %8
})";
    for (std::size_t at; (at = text.find("T[")) != std::string::npos;) {
      text.replace(at, 1, type);
    }
    const Function f = Parsed(text);
    for (const int bits : {512, 256, 128}) {
      const CompiledKernel kernel(f, OptionsWith(ArrayAndVectorMath(), bits));
      ASSERT_EQ(kernel.error(), "") << text;
      Calls() = {};
      for (const std::int64_t n : Lengths()) {
        ASSERT_EQ(Compare(f, kernel, {n}, static_cast<std::uint64_t>(n)), "")
            << n << " elements, " << bits << " bits\n"
            << text;
      }
      ASSERT_EQ(Compare(f, kernel, {3000}, 5, {}, 7), "") << text;
      EXPECT_GT(Calls().count, 100);
      EXPECT_EQ(Calls().wrong_places, 0);
    }
  }
}

// out[i] is the place.
void Place(std::int64_t n, const void*, const void*, void* out,
           std::int64_t first, std::int64_t total, double, double, double) {
  for (std::int64_t i = 0; i < n; ++i) {
    static_cast<double*>(out)[i] =
        static_cast<double>(total * 10000 + first + i);
  }
}

// In row-major order of the op's own dims, whatever else the loop does: rows
// that repeat, a result that lies transposed, three dims, parts.
TEST(LlvmMathTest, PositionDependentFunctionsAreToldThePosition) {
  const std::vector<TjitMath> math = {
      {"silu", kTjitPositionF64, reinterpret_cast<void*>(Place), 0}};
  for (const char* text : {R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  external %1: f64[n1]
  %2 = add f64[n0,n1] %0[n0,n1], %1[n0,n1](0,1), 1.0
  %3 = silu f64[n0,n1] %2
  return %3
})",
                           R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  external %1: f64[n0*n1]
  %2 = silu f64[n0,n1] %0[n0,n1]
  %3 = mul f64[n0,n1] %2, 2.0
  write %1[n0,n1](1,n0) = %3
  return %2
})",
                           R"(func f(n0, n1) {
  external %0: f64[n0*n1*3]
  external %1: f64[n0*n1]
  %2 = add f64[n0,3,n1] %0[n0,3,n1], %1[n0,3,n1](n1,0,1), 1.0
  %3 = silu f64[n0,3,n1] %2
  return %3
})"}) {
    const Function f = Parsed(text);
    const CompiledKernel kernel(f, OptionsWith(math));
    ASSERT_EQ(kernel.error(), "") << text;
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 1},
          {3, 50},
          {400, 7},
          {2, 2500},
          {16, 64}}) {
      for (const int parts : {1, 3}) {
        KernelRun run(f, {rows, columns}, 1);
        ASSERT_EQ(kernel.Run(run.arguments, parts), "");
        const Buffer& out = run.arguments.returns[0];
        for (std::int64_t i = 0; i < out.elements; ++i) {
          ASSERT_EQ(LoadAs<double>(out.data + 8 * i),
                    static_cast<double>(out.elements * 10000 + i))
              << text << rows << " rows of " << columns;
        }
      }
    }
  }
}

TEST(LlvmMathTest, RefusesWhatIsNotInTheTable) {
  const std::vector<TjitMath> tanh_only = {
      {"tanh", kTjitMathVmlF32, nullptr, 0}};
  EXPECT_EQ(CompiledKernel(kExp, OptionsWith(tanh_only)).error(),
            "%1: no function for exp of f32");
  // Vectors that the kernel may not use.
  const std::vector<TjitMath> wide = {{"exp", kTjitMathF32x16, nullptr, 0}};
  EXPECT_EQ(CompiledKernel(kExp, OptionsWith(wide, 256)).error(),
            "%1: no function for exp of f32");
  EXPECT_EQ(CompiledKernel(R"(func f(n0) {
  external %0: f32[n0]
  %1 = pow f32[n0] %0, 2.5
  return %1
})",
                           OptionsWith({{"pow", kTjitMathVmlF32, nullptr, 0}}))
                .error(),
            "%1: pow takes no scalar from an array function");
}

// An entry of the table comes before the instruction.
TEST(LlvmMathTest, TheTableComesFirst) {
  const auto seven = +[](int n, const double*, double* out, std::int64_t) {
    for (int i = 0; i < n; ++i) out[i] = 7;
  };
  const std::vector<TjitMath> math = {
      {"sqrt", kTjitMathVmlF64, reinterpret_cast<void*>(seven), 0}};
  const Function f = Parsed(R"(func f(n0) {
  external %0: f64[n0]
  %1 = sqrt f64[n0] %0
  return %1
})");
  KernelRun run(f, {5}, 1);
  ASSERT_EQ(CompiledKernel(f, OptionsWith(math)).Run(run.arguments), "");
  EXPECT_EQ(LoadAs<double>(run.arguments.returns[0].data + 32), 7);
}

int BuffersOf(const std::string& text) {
  TjitLlvmOptions options = OptionsWith(ArrayAndVectorMath());
  options.flags = kTjitLlvmDumpIr;
  const CompiledKernel kernel(text, options);
  EXPECT_EQ(kernel.error(), "");
  const std::vector<std::string> parts =
      absl::StrSplit(kernel.kernel().dump, " x i8], align 64");
  return static_cast<int>(parts.size()) - 1;
}

// Note [Late steps] in phases.h: buffers are what the function reads and makes.
TEST(LlvmMathTest, StepsThatCanWaitNeedNoBuffers) {
  const std::string late = R"(func f(n0) {
  external %0: f32[n0]
  external %1: f32[n0]
  %2 = mul f32[n0] %1, %1
  %3 = mul f32[n0] %2, %1
  %4 = add f32[n0] %0, 0.1, 1
  %5 = exp f32[n0] %4
  %6 = mul f32[n0] %0, %1
  %7 = add f32[n0] %6, %4, 1
  %8 = add f32[n0] %5, %3, 1
  %9 = add f32[n0] %8, %7, 1
  write %0[n0] = %9
  write %1[n0] = %3
})";
  EXPECT_EQ(BuffersOf(late), 2);
  ExpectSame(late);
}

// Columns of memory are read once.
TEST(LlvmMathTest, StepsThatReadColumnsDoNotWait) {
  const std::string columns = R"(func f(n0) {
  external %0: f32[n0]
  external %1: f32[4*n0]
  %2 = mul f32[n0] %1[n0](4), 2.0
  %3 = exp f32[n0] %0
  %4 = add f32[n0] %3, %2, 1
  return %4
})";
  EXPECT_EQ(BuffersOf(columns), 2);
  ExpectSame(columns);
}

}  // namespace
}  // namespace tjit::ir
