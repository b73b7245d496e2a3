// Steps that are prepared for one size after the other: what is not done anew.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/library_calls/internal.h"
#include "tests/runtime/library_calls/make_tensors.h"
#include "tests/runtime/library_calls/recorded_call.h"

namespace tjit::runtime::testing {
namespace {

struct Call {
  std::string name;
  Maker maker;
};

// What is looked at by its addresses alone takes no memory of its own, and
// nobody writes it: not where libtorch converts an operand either.
TEST(LibraryCallSizes, AddressesAreZerosForAll) {
  const std::vector<Call> cases = {
      {"aten::add.Tensor",
       TJIT_CALL(d.Dense({100, 64}), d.Dense({100, 64}), 1)},
      {"aten::mul.Tensor", TJIT_CALL(d.Dense({100, 64}), d.Dense({1}))},
      {"aten::add.Tensor",
       TJIT_CALL(d.Dense({100, 64}), d.Dense({100, 64}).to(at::kLong), 1)},
      {"aten::sum.dim_IntList",
       TJIT_CALL(d.Dense({100, 64}), std::vector<std::int64_t>{1}, false,
                 c10::nullopt)},
      {"aten::mm", TJIT_CALL(d.Dense({100, 64}), d.Dense({64, 9}))},
  };
  const char* const zeros = AddressesOfAll();
  ASSERT_NE(zeros, nullptr);
  for (const Call& c : cases) {
    RecordedCall call(c.name, c.maker);
    call.step();
    for (std::size_t i = 0; i < 100 * 64 * 4 * 2; ++i) {
      ASSERT_EQ(zeros[i], 0) << c.name << " " << i;
    }
    EXPECT_EQ(call.Compare(&call.step(), 1), "") << c.name;
  }
}

// Whether a kernel leaves its iterator as it is was tried in one size for all,
// also for those that are too large to be tried.
TEST(LibraryCallSizes, OtherSizesAreNotTried) {
  for (const std::int64_t rows : {32, 1 << 16}) {
    const std::vector<Call> cases = {
        {"aten::mul.Tensor", TJIT_CALL(d.Dense({rows, 24}), d.Dense({1}))},
        {"aten::div.Tensor", TJIT_CALL(d.Dense({rows, 24}), d.Dense({1}))},
    };
    for (const Call& c : cases) {
      RecordedCall call(c.name, c.maker);
      EXPECT_FALSE(call.step().uses_tensors()) << c.name << " " << rows;
      EXPECT_EQ(call.Compare(&call.step(), 1), "") << c.name << " " << rows;
    }
  }
}

}  // namespace
}  // namespace tjit::runtime::testing
