// Sums of rows that the loop computes itself (Note [Sums of registers] in
// compiler/llvm/row_sums.h): the bits of the row function that has each row in
// memory, for all lengths, and that it was done.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/functions/row_functions.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

// What the kernels called: rows that had been added up, and others.
struct Counts {
  std::int64_t begun = 0;
  std::int64_t whole = 0;
};
Counts& Called() {
  static Counts counts;
  return counts;
}

// Sum and mean of f32 and f64, and the sum of halves, in the order of one
// table.
struct Order {
  const char* name;
  int vector_bytes;                    // of a way
  const RowFunction* functions[2][2];  // by is_double, is_mean
  const RowFunction* of_halves;
};

const RowFunction* Find(const RowTable& table, const AxisOp& what,
                        bool is_double, int vector_bytes) {
  const int lanes = vector_bytes / (is_double ? 8 : 4);
  for (int i = 0; i < table.count; ++i) {
    const RowFunction& f = table.functions[i];
    if (f.what == what && f.is_double == is_double && f.sum_lanes == lanes) {
      return &f;
    }
  }
  return nullptr;
}

Order OrderOf(const char* name, const RowTable& table, int vector_bytes) {
  Order order{name, vector_bytes, {}, nullptr};
  order.of_halves = Find(table, {RowOp::kSum, Axis::kInner, true}, false, 32);
  for (const int is_double : {0, 1}) {
    order.functions[is_double][0] =
        Find(table, {RowOp::kSum}, is_double == 1, vector_bytes);
    order.functions[is_double][1] =
        Find(table, {RowOp::kMean}, is_double == 1, vector_bytes);
  }
  return order;
}

std::vector<Order> Orders() {
  std::vector<Order> orders = {OrderOf("plain", kPlainRows, 32)};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    orders.push_back(OrderOf("AVX2", kAvx2Rows, 32));
  }
  if (__builtin_cpu_supports("avx512f")) {
    orders.push_back(OrderOf("AVX-512 by halves", kAvx512Rows, 32));
    orders.push_back(OrderOf("AVX-512", kAvx512Rows, 64));
  }
  return orders;
}

const Order*& Current() {
  static const Order* order = nullptr;
  return order;
}

template <int is_double, int is_mean>
void Counting(std::int64_t rows, std::int64_t n, const void* a, const void* b,
              void* out) {
  (b == nullptr ? Called().whole : Called().begun) += rows;
  Current()->functions[is_double][is_mean]->run(rows, n, a, b, out);
}

void CountingHalves(std::int64_t rows, std::int64_t n, const void* a,
                    const void* b, void* out) {
  (b == nullptr ? Called().whole : Called().begun) += rows;
  Current()->of_halves->run(rows, n, a, b, out);
}

void Amax(std::int64_t rows, std::int64_t n, const void* a, const void*,
          void* out) {
  for (int i = 0; i < kPlainRows.count; ++i) {
    const RowFunction& f = kPlainRows.functions[i];
    if (f.what != AxisOp{RowOp::kAmax} || f.is_double) continue;
    f.run(rows, n, a, nullptr, out);
  }
}

void Exp(std::int64_t n, const float* x, float* y, std::int64_t /*mode*/) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
}

std::vector<TjitMath> Functions(const Order& order) {
  const std::int64_t f32 = order.vector_bytes / 4, f64 = f32 / 2;
  const auto at = [](auto* f) { return reinterpret_cast<void*>(f); };
  return {{"sum", kTjitRowF32, at(Counting<0, 0>), f32},
          {"mean", kTjitRowF32, at(Counting<0, 1>), f32},
          {"sum", kTjitRowF64, at(Counting<1, 0>), f64},
          {"mean", kTjitRowF64, at(Counting<1, 1>), f64},
          {"sum_of_halves", kTjitRowF32, at(CountingHalves), 8},
          {"amax", kTjitRowF32, at(Amax), 0},
          {"exp", kTjitMathVmlF32, at(Exp), 0}};
}

bool Reference(const RowsCall& call) {
  if (call.op == Op::kSumOfHalves) {
    Current()->of_halves->run(call.rows, call.n, call.a, nullptr, call.out);
    return true;
  }
  if (call.op != Op::kSum && call.op != Op::kMean) return false;
  const int is_double = call.dtype == DType::kF64 ? 1 : 0;
  const int is_mean = call.op == Op::kMean ? 1 : 0;
  Current()->functions[is_double][is_mean]->run(call.rows, call.n, call.a,
                                                nullptr, call.out);
  return true;
}

// Numbers whose sums depend on the order, some rows with what is no number.
template <class T>
void FillWith(const Buffer& buffer, std::int64_t n) {
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < buffer.elements; ++i) {
    state = state * 1664525 + 1013904223;
    T number = static_cast<T>(static_cast<std::int32_t>(state)) * T(0x1p-28);
    const std::int64_t row = i / n;
    if (row % 7 == 5 && state % 97 == 0) number = INFINITY;
    if (row % 7 == 6 && state % 97 == 0) number = NAN;
    if (row % 7 == 4) number = -T(0);
    std::memcpy(buffer.data + i * static_cast<std::int64_t>(sizeof(T)), &number,
                sizeof(T));
  }
}

void Fill(const Function& f, const KernelRun& run, std::int64_t n) {
  for (std::size_t i = 0; i < run.arguments.externals.size(); ++i) {
    const Buffer& buffer = run.arguments.externals[i];
    if (f.values[i].dtype == DType::kF32) FillWith<float>(buffer, n);
    if (f.values[i].dtype == DType::kF64) FillWith<double>(buffer, n);
  }
}

std::string Difference(const Function& f, const CompiledKernel& kernel,
                       std::int64_t rows, std::int64_t n, int parts) {
  KernelRun got(f, {rows, n}, 3), wanted(f, {rows, n}, 3);
  Fill(f, got, n);
  Fill(f, wanted, n);
  Hooks hooks;
  hooks.rows = Reference;
  std::string error = kernel.Run(got.arguments, parts);
  if (error.empty()) error = Interpret(f, wanted.arguments, hooks);
  return error.empty() ? got.DifferenceFrom(wanted) : error;
}

// Each width with each order that it takes.
template <class Test>
void ForAll(const std::string& text, const Test& test) {
  const Function f = Parsed(text);
  for (const Order& order : Orders()) {
    Current() = &order;
    const std::vector<TjitMath> math = Functions(order);
    for (const int bits : {512, 256, 128}) {
      if (2 * bits < 8 * order.vector_bytes) continue;  // on no processor
      const CompiledKernel kernel(f, OptionsWith(math, bits));
      ASSERT_EQ(kernel.error(), "") << text;
      EXPECT_EQ(kernel.kernel().loop_count, 1) << text;
      SCOPED_TRACE(absl::StrCat(order.name, ", ", bits, " bits\n", text));
      Called() = {};
      const int registers = 4 * 8 * order.vector_bytes / bits;  // of a sum
      ASSERT_NO_FATAL_FAILURE(test(f, kernel, registers));
    }
  }
}

// sums: that are added up together; 0: none is.
void ExpectSame(const std::string& text, int sums = 1) {
  ForAll(text,
         [&](const Function& f, const CompiledKernel& kernel, int registers) {
           const bool is_taken = sums > 0 && sums * registers <= 8;
           for (const std::int64_t n :
                {1, 7, 31, 63, 64, 65, 96, 127, 500, 1024, 1055}) {
             for (const std::int64_t rows : {1, 2, 33, 70}) {
               if (rows * n > 20000 && n != 1055) continue;
               for (const int parts : {1, 3}) {
                 Called() = {};
                 ASSERT_EQ(Difference(f, kernel, rows, n, parts), "")
                     << rows << " rows of " << n << ", " << parts << " parts";
                 EXPECT_EQ(Called().begun > 0, n >= 64 && is_taken) << n;
                 EXPECT_NE(Called().begun > 0, Called().whole > 0) << n;
               }
             }
           }
         });
}

std::string Squares(const std::string& type, const std::string& op) {
  return "func f(n0, n1) {\n  external %0: " + type + "[n0*n1]\n  %1 = mul " +
         type + "[n0,n1] %0[n0,n1], %0[n0,n1]\n  %2 = " + op + " " + type +
         "[n0] %1 dims=[1]\n  return %2\n}";
}

TEST(LlvmRowSumsTest, EachLength) {
  for (const char* type : {"f32", "f64"}) {
    ForAll(Squares(type, "sum"),
           [](const Function& f, const CompiledKernel& kernel, int) {
             for (std::int64_t n = 1; n <= 700; ++n) {
               ASSERT_EQ(Difference(f, kernel, 8, n, 1), "") << n;
             }
             EXPECT_EQ(Called().begun, 8 * (700 - 63));
             // Levels are carried every 16, 256 and 4,096 groups; rows of
             // so many lie in memory.
             Called() = {};
             for (const std::int64_t n :
                  {2000,  2048,  3583,  4095,  4096,  4097,  4100,
                   7600,  8191,  8192,  8193,  8703,  8704,  12288,
                   16384, 16400, 20000, 24576, 32767, 32768, 33000,
                   40960, 45000, 60000, 65535, 65536}) {
               ASSERT_EQ(Difference(f, kernel, 2, n, 1), "") << n;
             }
             EXPECT_GE(Called().begun, 2 * 18);
           });
  }
}

TEST(LlvmRowSumsTest, SumsAndMeans) {
  for (const char* type : {"f32", "f64"}) {
    ExpectSame(Squares(type, "sum"));
    ExpectSame(Squares(type, "mean"));
  }
}

// Whose vectors are folded before they are added up, by registers of all
// widths.
TEST(LlvmRowSumsTest, SumsOfHalves) {
  const std::string text = Squares("f32", "sum_of_halves");
  ExpectSame(text);
  ForAll(text, [](const Function& f, const CompiledKernel& kernel, int) {
    for (std::int64_t n = 1; n <= 700; ++n) {
      ASSERT_EQ(Difference(f, kernel, 8, n, 1), "") << n;
    }
    EXPECT_EQ(Called().begun, 8 * (700 - 63));
    for (const std::int64_t n :
         {1023, 1024, 1025, 4096, 16383, 16384, 16385, 40000, 98304, 131000}) {
      ASSERT_EQ(Difference(f, kernel, 2, n, 1), "") << n;
    }
  });
}

// As halves are, and beside a sum of f32, which may have other groups.
TEST(LlvmRowSumsTest, SumsOfHalvesAndOthers) {
  for (const char* text : {R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n0*n1]
  %2 = to bf16[n0,n1] %0[n0,n1]
  %3 = to bf16[n0,n1] %1[n0,n1]
  %4 = mul bf16[n0,n1] %2, %3
  %5 = to f32[n0,n1] %4
  %6 = sum_of_halves f32[n0] %5 dims=[1]
  %7 = to bf16[n0] %6
  %8 = to f32[n0,n1] %3
  %9 = sum_of_halves f32[n0] %8 dims=[1]
  return %7
  return %9
})",
                           R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = mul f32[n0,n1] %0[n0,n1], 3.0
  %2 = sum_of_halves f32[n0] %1 dims=[1]
  %3 = sum f32[n0] %1 dims=[1]
  return %2
  return %3
})"}) {
    ForAll(text, [](const Function& f, const CompiledKernel& kernel, int) {
      for (const std::int64_t n : {7, 64, 200, 1055}) {
        for (const std::int64_t rows : {1, 33, 70}) {
          ASSERT_EQ(Difference(f, kernel, rows, n, 1), "") << n;
        }
      }
    });
  }
}

// Operands that are one for all rows, one per row, and rows at a distance.
TEST(LlvmRowSumsTest, RowsThatLieOtherwise) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1*2]
  external %1: f32[n1]
  external %2: f32[n0]
  scalar $0: f64
  %3 = sub f32[n0,n1] %0[n0,n1](n1*2,1)+n1, %1[n0,n1](0,1), 1
  %4 = mul f32[n0,n1] %3, %2[n0,n1](1,0)
  %5 = add f32[n0,n1] %4, 0.3, 1
  %6 = mean f32[n0] %5 dims=[1]
  %7 = sqrt f32[n0] %6
  return %7
})");
  ExpectSame(R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  %1 = mul f64[n0,n1] %0[n0,n1](1,n0), 3.0
  %2 = sum f64[n0] %1 dims=[1]
  return %2
})");
}

// Of one phase, and of one that needs the other's.
TEST(LlvmRowSumsTest, SeveralSums) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f64[n0*n1]
  external %1: f64[n0*n1]
  %2 = mul f64[n0,n1] %0[n0,n1], %1[n0,n1]
  %3 = sub f64[n0,n1] %0[n0,n1], %1[n0,n1], 1
  %4 = sum f64[n0] %2 dims=[1]
  %5 = mean f64[n0] %3 dims=[1]
  %6 = sub f64[n0,n1] %0[n0,n1], %5[n0,n1](1,0), 1
  %7 = square f64[n0,n1] %6
  %8 = sum f64[n0] %7 dims=[1]
  %9 = add f64[n0] %8, %4, 1
  return %9
})",
             2);
}

// Elements that are stored as they are added up; other types.
TEST(LlvmRowSumsTest, StoredElementsAndOtherTypes) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = mul f32[n0,n1] %0[n0,n1], 0.7
  %2 = sum f32[n0] %1 dims=[1]
  return %1
  return %2
})");
  ExpectSame(R"(func f(n0, n1) {
  external %0: bf16[n0*n1]
  external %1: bool[n0*n1]
  %2 = to f32[n0,n1] %0[n0,n1]
  %3 = where f32[n0,n1] %1[n0,n1], %2, -1.0
  %4 = mean f32[n0] %3 dims=[1]
  return %4
})");
}

// One register has all of a group, of two types.
TEST(LlvmRowSumsTest, WiderSums) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = to f64[n0,n1] %0[n0,n1]
  %2 = mul f64[n0,n1] %1, 0.1
  %3 = sum f64[n0] %2 dims=[1]
  return %3
})");
}

// Buffers stay where something else reads them, or functions are called.
TEST(LlvmRowSumsTest, OtherReaders) {
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = exp f32[n0,n1] %0[n0,n1]
  %2 = sum f32[n0] %1 dims=[1]
  return %2
})",
             0);
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = mul f32[n0,n1] %0[n0,n1], %0[n0,n1]
  %2 = sum f32[n0] %1 dims=[1]
  %3 = div f32[n0,n1] %1, %2[n0,n1](1,0)
  return %3
})",
             0);
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = mul f32[n0,n1] %0[n0,n1], %0[n0,n1]
  %2 = sub f32[n0,n1] %1, 0.5, 1
  %3 = sum f32[n0] %1 dims=[1]
  %4 = div f32[n0,n1] %2, %3[n0,n1](1,0)
  return %4
})",
             0);
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = mul f32[n0,n1] %0[n0,n1], %0[n0,n1]
  %2 = sum f32[n0] %1 dims=[1]
  %3 = amax f32[n0] %1 dims=[1]
  %4 = sub f32[n0] %2, %3, 1
  return %4
})",
             0);
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = mul f32[n0,n1] %0[n0,n1], %0[n0,n1]
  %2 = sum f32[n0] %1 dims=[1]
  write %0[n0,n1] = %1
  return %2
})",
             0);
  ExpectSame(R"(func f(n0, n1) {
  external %0: f32[n0*n1]
  %1 = sum f32[n0] %0[n0,n1] dims=[1]
  return %1
})",
             0);
}

}  // namespace
}  // namespace tjit::ir
