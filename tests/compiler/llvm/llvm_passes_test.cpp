// Passes of LLVM that are left out change nothing: Note [Passes that find
// nothing] in compiler/llvm/code_passes.h.
#include <string>

#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

std::int32_t FindNothing(void*, const char*, std::size_t, const char**,
                         std::size_t*) {
  return 0;
}

void Append(void* state, const char*, std::size_t, const char* object,
            std::size_t bytes) {
  static_cast<std::string*>(state)->append(object, bytes);
}

// The objects of all loops.
std::string ObjectsOf(const std::string& text, int vector_bits,
                      std::uint32_t flags) {
  std::string objects;
  const TjitObjectCache cache = {&objects, FindNothing, Append};
  TjitLlvmOptions options = DefaultOptions();
  options.vector_bits = vector_bits;
  options.flags = flags;
  options.cache = &cache;
  const CompiledKernel kernel(text, options);
  EXPECT_EQ(kernel.error(), "") << text;
  return objects;
}

// Arithmetic, quotients, roots and comparisons; conversions of all types;
// gathered, repeated and transposed accesses; scalars; narrow rows.
constexpr const char* kFunctions[] = {
    R"(func sums(n0) {
  external %0: f32[n0]
  external %1: f32[n0]
  scalar $0: f64
  %2 = add f32[n0] %0, %1, $0
  %3 = mul f32[n0] %2, 0.3
  %4 = div f32[n0] %3, %1
  %5 = gt bool[n0] %4, %0
  %6 = where f32[n0] %5, %3, %0
  write %0[n0] = %6
  return %4, %5
})",
    R"(func doubles(n0) {
  external %0: f64[n0]
  %1 = sqrt f64[n0] %0
  %2 = reciprocal f64[n0] %1
  %3 = neg f64[n0] %2
  return %3
})",
    R"(func types(n0) {
  external %0: bf16[n0]
  external %1: i64[n0]
  external %2: bool[n0]
  %3 = to f32[n0] %0
  %4 = to f32[n0] %1
  %5 = to f32[n0] %2
  %6 = mul f32[n0] %3, %4
  %7 = add f32[n0] %6, %5, 1
  %8 = to bf16[n0] %7
  %9 = mul i64[n0] %1, %1
  return %8, %9
})",
    R"(func places(n0, n1) {
  external %0: f32[n0*n1]
  external %1: f32[n1]
  external %2: f32[n0*n1]
  %3 = add f32[n0,n1] %0[n0,n1](1,n0), %1[n0,n1](0,1), 1
  %4 = mul f32[n0,n1] %3, %2[n0,n1]
  return %4
})",
    R"(func narrow(n0) {
  external %0: f32[n0*6]
  external %1: f32[n0]
  %2 = mul f32[n0,6] %0[n0,6], %1[n0,6](1,0)
  return %2
})",
};

TEST(LlvmPassesTest, ObjectsAreTheSameWithoutThoseThatFindNothing) {
  for (const char* text : kFunctions) {
    for (const int bits : {512, 256, 128}) {
      SCOPED_TRACE(bits);
      SCOPED_TRACE(text);
      const std::string all = ObjectsOf(text, bits, kTjitLlvmAllPasses);
      EXPECT_FALSE(all.empty());
      EXPECT_TRUE(ObjectsOf(text, bits, 0) == all);
    }
  }
}

}  // namespace
}  // namespace tjit::ir
