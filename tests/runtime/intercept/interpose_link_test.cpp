// A program that links tjit::tjit as any program does: its own calls and those
// from inside libtorch bind to libtjit, and what is pending is seen.
#include <ATen/TensorIterator.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

const std::vector<const char*> kSymbols = {
#define TJIT_CONST_POINTER(symbol) #symbol,
#define TJIT_TENSOR_MAKER(symbol) #symbol,
#define TJIT_BOOL_SETTER(symbol) #symbol,
#define TJIT_INTERPOSED_AS_IS(symbol) #symbol,
#include "runtime/intercept/interposed.def"
};

std::string FileOf(const char* symbol) {
  Dl_info info;
  const void* first = dlsym(RTLD_DEFAULT, symbol);
  if (first == nullptr || dladdr(first, &info) == 0) return "nowhere";
  return info.dli_fname;
}

TEST(InterposeLinkTest, LibtjitStandsBeforeLibtorch) {
  EXPECT_GE(kSymbols.size(), 90u);
  for (const char* symbol : kSymbols) {
    EXPECT_THAT(FileOf(symbol), testing::HasSubstr("libtjit.so")) << symbol;
  }
}

// Nothing else leaves the library: neither our own insides nor copies of
// libtorch's templates.
TEST(InterposeLinkTest, NothingElseOfLibtorchIsExported) {
  EXPECT_THAT(FileOf("_ZN2at18TensorIteratorBaseD1Ev"),
              testing::Not(testing::HasSubstr("libtjit.so")));
  EXPECT_THAT(FileOf("_ZN4tjit7runtime13AllocateBlockEmb"),
              testing::StrEq("nowhere"));
}

}  // namespace
