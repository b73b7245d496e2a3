// Every reason for which a run leaves its trace or a step is not prepared as
// planned: provoked in a loop that is replayed, counted under its name, with
// eager's bits before and after.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/testing.h"
#include "support/bail.h"

namespace tjit {
namespace {

constexpr int kSteps = 60;
constexpr int kOddStep = 40;

using Tensors = std::vector<at::Tensor>;
// Step i of a program over `x`, [side, side] f32; `odd` at kOddStep.
using Body = std::function<at::Tensor(const at::Tensor& x, bool odd)>;

Tensors Loop(const Body& body, int steps = kSteps, int side = 64) {
  at::manual_seed(3);
  at::Tensor x = at::rand({side, side});
  Tensors all;
  for (int i = 0; i < steps; ++i) {
    const at::Tensor y = body(at::tanh(x), i == kOddStep);
    x = at::add(at::abs(y), x, 0.125);
    if (steps == kSteps) all.push_back(x);
    mark_step();
  }
  all.push_back(x);
  return all;
}

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::set<std::string>& Provoked() {
  static std::set<std::string> names;
  return names;
}

// Runs `run` eagerly and under tjit, and returns what was counted.
Stats Compare(const std::function<Tensors()>& run) {
  const Tensors eager = run();
  Options fast;
  fast.hot_threshold = 2;
  EXPECT_TRUE(enable(fast));
  const Stats before = stats();
  const Tensors ours = run();
  sync();
  const Stats counted = stats() - before;
  disable();
  clear();
  EXPECT_EQ(eager.size(), ours.size());
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(SameBits(eager[i], ours[i])) << "step " << i;
  }
  EXPECT_EQ(counted.ops_seen,
            counted.ops_eager + counted.ops_replayed + counted.ops_drained);
  return counted;
}

// `reason` is counted once where the loop is odd, and the loop is replayed
// before and after.
void ExpectExit(const std::string& reason, const Body& body) {
  const Stats counted = Compare([&] { return Loop(body); });
  EXPECT_EQ(counted.side_exit_count(reason), 1) << counted.to_json();
  EXPECT_GT(counted.ops_replayed, counted.ops_seen / 2) << counted.to_json();
  Provoked().insert(reason);
}

TEST(SideExitsTest, AnotherOp) {
  ExpectExit("op_differs", [](const at::Tensor& x, bool odd) {
    return odd ? at::mul(x, x) : at::add(x, x);
  });
}

TEST(SideExitsTest, AnotherStaticArgument) {
  ExpectExit("static_differs", [](const at::Tensor& x, bool odd) {
    return at::add(x, at::sum(x, {odd ? 0 : 1}));
  });
}

TEST(SideExitsTest, AnotherGuardedScalar) {
  ExpectExit("scalar_differs", [](const at::Tensor& x, bool odd) {
    return at::pow(x, odd ? 3 : 2);
  });
}

TEST(SideExitsTest, OtherSizes) {
  const at::Tensor row = at::rand({1, 64}), column = at::rand({64, 1});
  ExpectExit("meta_differs", [&](const at::Tensor& x, bool odd) {
    return at::mul(x, odd ? row : column);
  });
}

TEST(SideExitsTest, AnotherStorage) {
  ExpectExit("slot_differs", [](const at::Tensor& x, bool odd) {
    const at::Tensor y = at::mul(x, 0.5);
    return at::mul(y, odd ? y : x);
  });
}

TEST(SideExitsTest, AnotherPlace) {
  const at::Tensor all = at::rand({192, 64});
  ExpectExit("place_differs", [&](const at::Tensor& x, bool odd) {
    const at::Tensor y = at::mul(x, all.narrow(0, 0, 64));
    return at::add(y, all.narrow(0, odd ? 128 : 64, 64));
  });
}

TEST(SideExitsTest, AnotherGradMode) {
  ExpectExit("context_differs", [](const at::Tensor& x, bool odd) {
    const at::AutoGradMode mode(!odd);
    return at::mul(x, x);
  });
}

TEST(SideExitsTest, AnInputThatTheProgramHoldsAPointerTo) {
  ExpectExit("input_exposed", [](const at::Tensor& x, bool odd) {
    at::Tensor weight = at::ones({64, 64});
    if (odd) weight.data_ptr<float>()[3] = 2;
    return at::mul(x, weight);
  });
}

TEST(SideExitsTest, MemoryThatTorchDoesNotOwn) {
  // More than is copied for an op that may read it more than once.
  std::vector<float> memory(8 * 64 * 64, 0.75f);
  const at::Tensor foreign = at::from_blob(memory.data(), {8, 64, 64});
  const at::Tensor own = at::rand({8, 64, 64});
  ExpectExit("input_foreign", [&](const at::Tensor& x, bool odd) {
    return at::mul(x, at::sum(odd ? foreign : own, {0}));
  });
}

TEST(SideExitsTest, AnIndexOutOfRange) {
  const at::Tensor in_range = at::arange(64), outside = at::arange(1, 65);
  ExpectExit("values_unchecked", [&](const at::Tensor& x, bool odd) {
    try {
      return at::index_select(x, 0, odd ? outside : in_range);
    } catch (const c10::Error&) {
      EXPECT_TRUE(odd);
      return at::mul(x, 2);
    }
  });
}

// Strides that never come again: entries are let pass, more each time, until
// the trace is left alone.
TEST(SideExitsTest, ATraceThatIsAlwaysLeft) {
  constexpr int kSide = 16;
  int step = 0;
  const Body body = [&](const at::Tensor& x, bool) {
    const int n = step < 20 ? 0 : step;
    ++step;
    return at::sum(x.as_strided({2, 2, 2}, {n % 64, n / 64 % 64, n / 4096}));
  };
  const Stats counted = Compare([&] {
    step = 0;
    return Loop(body, 250000, kSide);
  });
  EXPECT_EQ(counted.side_exit_count("blacklisted"), 1) << counted.to_json();
  EXPECT_LT(counted.side_exit_count("meta_differs"), 64) << counted.to_json();
  Provoked().insert("blacklisted");
}

class Planted {
 public:
  explicit Planted(const char* name) {
    planted_ = testing::SetPlantedDefect(name);
  }
  ~Planted() { testing::SetPlantedDefect(""); }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
  bool planted() const { return planted_; }

 private:
  bool planted_ = false;
};

at::Tensor Plain(const at::Tensor& x, bool) { return at::mul(x, x); }

TEST(SideExitsTest, AStepThatCannotBePrepared) {
  const Planted defect("thunk_fails");
  if (!defect.planted()) GTEST_SKIP() << "built without TJIT_PLANTED_DEFECTS";
  const Stats counted = Compare([] { return Loop(Plain); });
  EXPECT_GT(counted.side_exit_count("thunk_failed"), 0);
  EXPECT_EQ(counted.thunks_direct, 0);
  EXPECT_GT(counted.ops_replayed, counted.ops_seen / 2) << counted.to_json();
  Provoked().insert("thunk_failed");
}

// What it would have written is undefined; that it threw, and which op, is
// said, and the program goes on.
TEST(SideExitsTest, ADeferredKernelThatThrows) {
  Options fast;
  fast.hot_threshold = 2;
  ASSERT_TRUE(enable(fast));
  Loop(Plain);
  const Stats before = stats();
  const at::Tensor x = at::rand({64, 64});
  ::testing::internal::CaptureStderr();
  {
    const Planted defect("step_throws");
    if (!defect.planted()) {
      ::testing::internal::GetCapturedStderr();
      GTEST_SKIP() << "built without TJIT_PLANTED_DEFECTS";
    }
    Loop(Plain, 4);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the deferred kernel of aten::add.Tensor threw: planted"),
            std::string::npos)
      << said;
  const std::int64_t thrown = (stats() - before).side_exit_count("step_threw");
  EXPECT_GT(thrown, 0);
  Loop(Plain, 4);
  EXPECT_EQ((stats() - before).side_exit_count("step_threw"), thrown);
  disable();
  clear();
  Provoked().insert("step_threw");
}

// Last: needs what the others provoked, in one process.
TEST(SideExitsTest, NoReasonIsForgotten) {
  if (::testing::GTEST_FLAG(filter) != "*") GTEST_SKIP() << "not all tests ran";
  const std::set<std::string> elsewhere = {
      "not_repeated",   "trace_too_long", "store_full",  // trace_test
      "out_of_memory",  "call_threw",                    // out_of_memory_test
      "shadow_mismatch"};                                // modes_test
  for (int r = 0; r < static_cast<int>(BailReason::kCount); ++r) {
    const std::string name = BailName(static_cast<BailReason>(r));
    EXPECT_TRUE(Provoked().count(name) + elsewhere.count(name) != 0) << name;
  }
}

}  // namespace
}  // namespace tjit
