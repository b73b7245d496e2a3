// Objects go to the caller's cache and come back from it, with the functions of
// the process that loads them.
#include <cstring>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

using ::testing::HasSubstr;

struct Kept {
  std::map<std::string, std::string> objects;
  int found = 0;
  std::string last;

  static std::int32_t Find(void* state, const char* key, std::size_t key_bytes,
                           const char** object, std::size_t* object_bytes) {
    auto* self = static_cast<Kept*>(state);
    const auto at = self->objects.find(std::string(key, key_bytes));
    if (at == self->objects.end()) return 0;
    ++self->found;
    self->last = at->second;
    *object = self->last.data();
    *object_bytes = self->last.size();
    return 1;
  }
  static void Store(void* state, const char* key, std::size_t key_bytes,
                    const char* object, std::size_t object_bytes) {
    static_cast<Kept*>(state)->objects[std::string(key, key_bytes)] =
        std::string(object, object_bytes);
  }
};

template <int kFactor>
void Times(std::int64_t n, const float* in, float* out, std::int64_t) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] * kFactor;
}

const char kExp[] =
    "func f(n0) {\nexternal %0: f32[n0]\n%1 = exp f32[n0] %0[n0]\nreturn "
    "%1\n}";

class LlvmCacheTest : public ::testing::Test {
 protected:
  // What exp is for 1 in a kernel whose exp is that function.
  float Exp(void (*function)(std::int64_t, const float*, float*, std::int64_t),
            int generated, std::uint32_t flags = 0) {
    const TjitMath math = {"exp", kTjitMathVmlF32,
                           reinterpret_cast<void*>(function), 7};
    TjitLlvmOptions options = DefaultOptions();
    options.math = &math;
    options.math_count = 1;
    options.cache = &cache_;
    options.flags = flags;
    const CompiledKernel kernel(std::string(kExp), options);
    EXPECT_EQ(kernel.error(), "");
    EXPECT_EQ(kernel.kernel().generated_count, generated);
    float in[3] = {1, 1, 1}, out[3] = {};
    RunArguments arguments;
    arguments.symbols = {3};
    arguments.externals = {{reinterpret_cast<char*>(in), 3}};
    arguments.returns = {{reinterpret_cast<char*>(out), 3}};
    EXPECT_EQ(kernel.Run(arguments), "");
    return out[0];
  }

  Kept kept_;
  const TjitObjectCache cache_{&kept_, &Kept::Find, &Kept::Store};
};

TEST_F(LlvmCacheTest, FunctionsAreThoseOfTheProcessThatLoads) {
  EXPECT_EQ(Exp(&Times<3>, 1), 3);
  ASSERT_EQ(kept_.objects.size(), 1u);
  const std::string& key = kept_.objects.begin()->first;
  EXPECT_THAT(key, HasSubstr("LLVM "));
  EXPECT_THAT(key, HasSubstr(" bits "));
  EXPECT_EQ(Exp(&Times<5>, 0), 5);
  EXPECT_EQ(kept_.found, 1);
}

TEST_F(LlvmCacheTest, AnObjectThatCannotBeLoadedIsCompiledAnew) {
  EXPECT_EQ(Exp(&Times<3>, 1), 3);
  std::string& object = kept_.objects.begin()->second;
  const std::string good = object;
  for (const std::string& bad :
       {std::string(), std::string("no name"), std::string("name\0no object", 14),
        "other" + good}) {
    object = bad;
    EXPECT_EQ(Exp(&Times<3>, 1), 3);
    EXPECT_EQ(object, good);
  }
}

TEST_F(LlvmCacheTest, DumpsAndPlantedFailuresPassItBy) {
  EXPECT_EQ(Exp(&Times<3>, 1), 3);
  EXPECT_EQ(Exp(&Times<3>, 1, kTjitLlvmDumpIr), 3);
  EXPECT_EQ(kept_.found, 0);
}

}  // namespace
}  // namespace tjit::ir
