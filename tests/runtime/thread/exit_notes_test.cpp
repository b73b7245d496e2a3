// What an exit's note costs: the place of the call is found without a look
// through the symbols of libtorch, which takes a millisecond for each function
// on the stack.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tanh.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstring>

namespace {
int looks = 0;  // for a symbol
int looks_into_torch = 0;
}  // namespace

// Instead of the C library's, for libtjit as well.
extern "C" [[gnu::visibility("default")]] int dladdr(const void* address,
                                                   Dl_info* info) noexcept {
  using Function = int (*)(const void*, Dl_info*);
  static const auto real =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "dladdr"));
  const int found = real(address, info);
  ++looks;
  if (found != 0 && std::strstr(info->dli_fname, "libtorch") != nullptr) {
    ++looks_into_torch;
  }
  return found;
}

namespace tjit {
namespace {

TEST(ExitNotes, ThePlaceOfACallTakesOneLookForASymbol) {
  const at::NoGradGuard no_grad;
  Options fast;
  fast.hot_threshold = 2;
  ASSERT_TRUE(enable(fast));
  const Stats before = stats();
  at::Tensor x = at::rand({64});
  for (int i = 0; i < 60; ++i) {
    if (i == 40) looks = looks_into_torch = 0;
    x = at::mul(at::tanh(x), 0.5);
    x = i == 40 ? at::abs(x) : at::add(x, x);
    x = at::add(at::tanh(x), x);
    mark_step();
    if (i == 40) break;
  }
  sync();
  const Stats counted = stats() - before;
  disable();
  EXPECT_EQ(counted.side_exit_count("op_differs"), 1);
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(looks_into_torch, 0);
}

}  // namespace
}  // namespace tjit
