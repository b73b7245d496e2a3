// Columns and whole loops and the statistics of layer norm as kernels, with the
// functions of compiler/row_functions, against the interpreter with the same
// ones.
#include "compiler/functions/row_functions.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

const RowFunction* Find(Op op, Axis axis, bool is_double) {
  AxisOp what;
  if (!AxisOpOf(op, axis, &what)) return nullptr;
  for (int i = 0; i < kPlainRows.count; ++i) {
    const RowFunction& f = kPlainRows.functions[i];
    if (f.what == what && f.is_double == is_double) return &f;
  }
  return nullptr;
}

const std::vector<TjitMath>& Functions() {
  static const auto* table = [] {
    auto* made = new std::vector<TjitMath>;
    for (int i = 0; i < kPlainRows.count; ++i) {
      const RowFunction& f = kPlainRows.functions[i];
      if (f.needs_math || f.what.axis == Axis::kStrided) continue;
      made->push_back(EntryOf(f));
      if (f.what.op != RowOp::kMoments) continue;
      made->push_back(made->back());
      made->back().op = "norm_mean";
    }
    return made;
  }();
  return *table;
}

bool Call(const RowsCall& call) {
  const RowFunction* f = Find(call.op, call.axis, call.dtype == DType::kF64);
  if (f == nullptr) return false;
  if (call.op == Op::kNormMean) {
    const TjitRowNumber number{call.number, call.out};
    f->run(call.rows, call.n, call.a, &number, nullptr);
  } else {
    RunAlongAxis(*f, call.rows, call.n, call.a, call.b, call.number, call.out);
  }
  return true;
}

TjitLlvmOptions Options(int vector_bits) {
  return OptionsWith(Functions(), vector_bits);
}

// All sizes on all widths.
void ExpectSame(const std::string& text, int loops) {
  const Function f = Parsed(text);
  Hooks hooks;
  hooks.rows = Call;
  for (const int bits : {512, 256, 128}) {
    const CompiledKernel kernel(f, Options(bits));
    ASSERT_EQ(kernel.error(), "") << text;
    EXPECT_EQ(kernel.kernel().loop_count, loops) << text;
    for (const std::int64_t rows : {1, 2, 3, 17, 65, 1100}) {
      for (const std::int64_t n : {1, 2, 3, 8, 17, 31, 100, 129, 1000}) {
        if (rows * n > 40000) continue;
        ASSERT_EQ(Compare(f, kernel, {rows, n}, 7, hooks), "")
            << rows << " rows of " << n << ", " << bits << " bits\n"
            << text;
      }
    }
  }
}

TEST(LlvmColumnsTest, EachFunctionAlone) {
  for (const std::string type : {"f32", "f64"}) {
    for (const std::string op : {"sum", "mean", "var", "std", "welford_mean",
                                 "amax", "amin", "sum_sequential"}) {
      const bool has_number = op[0] == 'v' || op[0] == 's';
      const std::string number = has_number && op != "sum" ? ", 1" : "";
      ExpectSame("func f(n0, n1) {\n  external %0: " + type +
                     "[n0*n1]\n  %1 = " + op + " " + type + "[n1] %0[n0,n1]" +
                     number + " dims=[0]\n  return %1\n}",
                 1);
    }
  }
}

// As many parts as threads, along rows and columns, with a second operand.
TEST(LlvmColumnsTest, Dots) {
  for (const std::string parts : {"1", "3", "5000"}) {
    ExpectSame(
        "func f(n0, n1) {\n"
        "  external %0: f32[n0*n1]\n"
        "  external %1: f32[n1]\n"
        "  %2 = mul f32[n0,n1] %0[n0,n1], %0[n0,n1]\n"
        "  %3 = dot f32[n1] %0[n0,n1], %2, " +
            parts +
            " dims=[0]\n"
            "  %4 = dot f32[n1] %0[n0,n1], %1[n0,n1](0,1), " +
            parts +
            " dims=[0]\n"
            "  %5 = sum_sequential f32[n1] %0[n0,n1], " +
            parts +
            " dims=[0]\n"
            "  return %3, %4, %5\n}",
        1);
  }
  ExpectSame(R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  external %1: f64[n1]
  %2 = dot f64[n0] %0[n0,n1], %1[n0,n1](0,1), 1 dims=[1]
  %3 = sum_sequential f64[n0] %0[n0,n1], 1 dims=[1]
  %4 = mul f64[n0,n1] %0[n0,n1], %2[n0,n1](1,0)
  %5 = sub f64[n0,n1] %4, %3[n0,n1](1,0), 1
  return %5
})",
             1);
}

// What only the sums read is computed in their loop; sums of the same elements
// share it. What is made of their results comes behind.
TEST(LlvmColumnsTest, PrologueAndSiblings) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  external %2: f32[n1*2]
  scalar $0: f64
  %3 = mul f32[n0,n1] %0[n0,n1], %1[n0,n1](0,1)
  %4 = add f32[n0,n1] %3, $0, 1
  %5 = sum f32[n1] %4 dims=[0]
  %6 = var f32[n1] %0[n0,n1], $0 dims=[0]
  %7 = mean f32[n1] %0[n0,n1] dims=[0]
  %8 = mul f32[n1] %6, %7
  write %1[n1] = %5
  write %2[n1](2) = %7
  return %8
})",
             3);
}

// A result with the dims that were reduced, put into a column of something.
TEST(LlvmColumnsTest, KeptDims) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1*3]
  %2 = sum f32[1,n1] %0[n0,n1] dims=[0] keepdim
  %3 = mean f32[1,1,n1] %0[2,n0,n1](0,n1,1) dims=[0,1] keepdim
  write %1[1,n1](1,3)+1 = %2
  return %3
})",
             2);
}

TEST(LlvmColumnsTest, RowsThatLieOtherwise) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f64[n0*n1*2]
  external %1: f64[n0*n1]
  %2 = sum f64[n1] %0[n0,n1](n1*2,1) dims=[0]
  %3 = sum f64[n1] %1[n0,n1](1,n0) dims=[0]
  %4 = sum f64[n1] %0[2,n0,n1](n1,n1*2,1) dims=[0,1]
  return %2, %3, %4
})",
             3);
}

// As many rows as columns: nothing is taken for a value of rows.
TEST(LlvmColumnsTest, AsManyRowsAsColumns) {
  const Function f = Parsed(R"(func f(n0) {
  external %0: f32[n0*n0]
  external %1: f32[n0]
  %2 = add f32[n0,n0] %0[n0,n0], %1[n0,n0](0,1), 1
  %3 = sum f32[n0] %2 dims=[0]
  return %3
})");
  Hooks hooks;
  hooks.rows = Call;
  const CompiledKernel kernel(f, Options(0));
  ASSERT_EQ(kernel.error(), "");
  for (const std::int64_t n : {1, 2, 7, 64, 100}) {
    ASSERT_EQ(Compare(f, kernel, {n}, 3, hooks), "") << n;
  }
}

TEST(LlvmColumnsTest, LayerNorm) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  scalar $0: f64
  %2 = mul f32[n0,n1] %0[n0,n1], 2.0
  %3 = norm_mean f32[n0] %2 dims=[1]
  %4 = norm_rstd f32[n0] %2, 1e-05 dims=[1]
  %5 = sub f32[n0,n1] %2, %3[n0,n1](1,0), 1
  %6 = mul f32[n0,n1] %5, %4[n0,n1](1,0)
  %7 = mul f32[n0,n1] %6, %1[n0,n1](0,1)
  %8 = var f32[n0] %0[n0,n1], $0 dims=[1]
  return %7, %8, %4
})",
             1);
  ExpectSame(R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  %1 = norm_mean f64[n0] %0[n0,n1] dims=[1]
  %2 = sub f64[n0,n1] %0[n0,n1], %1[n0,n1](1,0), 1
  return %2
})",
             1);
}

// The mean is of the function beside it, which differs only in the root.
TEST(LlvmColumnsTest, GroupNorm) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = norm_mean f32[n0] %0[n0,n1] dims=[1]
  %2 = norm_rstd_wide f32[n0] %0[n0,n1], 1e-05 dims=[1]
  %3 = sub f32[n0,n1] %0[n0,n1], %1[n0,n1](1,0), 1
  %4 = mul f32[n0,n1] %3, %2[n0,n1](1,0)
  return %4, %1
})",
             1);
}

TEST(LlvmColumnsTest, AllElements) {
  for (const std::string type : {"f32", "f64"}) {
    for (const std::string op : {"sum", "mean", "amax", "amin", "norm"}) {
      const std::string number = op == "norm" ? ", 2" : "";
      ExpectSame("func f(n0, n1) {\n  external %0: " + type +
                     "[n0*n1]\n  %1 = " + op + " " + type + "[] %0[n0,n1]" +
                     number + " dims=[0,1]\n  return %1\n}",
                 1);
      ExpectSame("func f(n0, n1) {\n  external %0: " + type +
                     "[n0*n1]\n  external %1: " + type + "[3]\n  %2 = square " +
                     type + "[n0*n1] %0\n  %3 = " + op + " " + type + "[1] %2" +
                     number + " dims=[0] keepdim\n  write %1[1](2)+1 = %3\n}",
                 1);
    }
  }
}

// Operands that lie otherwise keep the elements' order; a value that others
// read too has a loop of its own.
TEST(LlvmColumnsTest, AllElementsWithWhatIsAround) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  external %2: f32[n0]
  scalar $0: f64
  %3 = mul f32[n0,n1] %0[n0,n1], %1[n0,n1](0,1)
  %4 = add f32[n0,n1] %3, %2[n0,n1](1,0), 1
  %5 = add f32[n0,n1] %4, $0, 1
  %6 = sum f32[] %5 dims=[0,1]
  %7 = mean f32[] %4 dims=[0,1]
  %8 = amax f32[] %0[n0,n1](1,n0) dims=[0,1]
  %9 = square f32[n0,n1] %0[n0,n1]
  %10 = sum f32[] %9 dims=[0,1]
  %11 = div f32[n0,n1] %9, %10[n0,n1](0,0)
  %12 = add f32[] %6, %8, 1
  return %11, %12, %7
})",
             7);
  ExpectSame(R"(func f(n0, n1) {
  external %0: f64[n0*n1*2]
  %1 = sum f64[] %0[2,n0,n1](n1,n1*2,1) dims=[0,1,2]
  %2 = amin f64[] %0[n0,n1](2,n0*2) dims=[0,1]
  return %1, %2
})",
             2);
}

TEST(LlvmColumnsTest, ColumnsAreBounded) {
  const Function f = Parsed(R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  %1 = square f64[n0,n1] %0[n0,n1]
  %2 = sum f64[n1] %1 dims=[0]
  return %2
})");
  const CompiledKernel kernel(f, Options(0));
  ASSERT_EQ(kernel.error(), "");
  Hooks hooks;
  hooks.rows = Call;
  ASSERT_EQ(Compare(f, kernel, {2, 10000}, 1, hooks), "");
  EXPECT_EQ(Compare(f, kernel, {2, 10923}, 1, hooks),
            "a row of 10923 elements takes more than 524288 bytes");
}

}  // namespace
}  // namespace tjit::ir
