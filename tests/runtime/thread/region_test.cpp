// Named regions: each is a sequence of its own, with options of its own, and
// the results stay eager's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/region.h>
#include <tjit/tjit.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tjit {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

at::Tensor Numbers(std::int64_t n = 64, double from = 0.5) {
  return torch::arange(n, torch::kFloat32) / static_cast<double>(n) + from;
}

// Six ops.
at::Tensor Body(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor z = x + y;
  z = z * y;
  z = z - x;
  z = z * 0.5;
  z = z + x;
  return z * y;
}

class RegionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    disable();
    clear();
  }
  void TearDown() override {
    disable();
    clear();
  }

  static Options Of(std::int64_t threshold) {
    Options options;
    options.hot_threshold = threshold;
    return options;
  }

  // The last of `steps` results of step(x, i), which begins with x; eagerly and
  // with tjit, whose bits must be eager's.
  static void ExpectEagerBits(
      int steps, const std::function<at::Tensor(at::Tensor, int)>& step,
      const Options& options = Of(4)) {
    const auto run = [&] {
      const at::NoGradGuard no_grad;
      at::Tensor x = Numbers();
      for (int i = 0; i < steps; ++i) x = step(x, i);
      return x;
    };
    const at::Tensor eager = run();
    ASSERT_TRUE(enable(options));
    const at::Tensor ours = run();
    sync();
    EXPECT_TRUE(SameBits(eager, ours));
    ExpectSums();
  }

  // Every op is in one place, of the process and of each region.
  static void ExpectSums() {
    const Stats s = stats();
    EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
  }
  static void ExpectSums(const RegionStats& s) {
    EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
  }
};

TEST_F(RegionTest, TheSameOpsInTwoRegionsAreTwoTraces) {
  const at::Tensor y = Numbers(64, 0.25);
  const Stats before = stats();
  ExpectEagerBits(20, [&](at::Tensor x, int) {
    {
      const Region a("two/a");
      x = Body(x, y);
    }
    const Region b("two/b");
    return Body(x, y);
  });
  EXPECT_EQ((stats() - before).traces, 2);
  for (const char* name : {"two/a", "two/b"}) {
    const RegionStats s = region_stats(name);
    ExpectSums(s);
    EXPECT_EQ(s.entries, 20) << name;
    EXPECT_EQ(s.ops_seen, 120) << name;
    EXPECT_EQ(s.bodies, 1) << name;
    EXPECT_EQ(s.sequences, 1) << name;
    // Four sightings, then each run.
    EXPECT_EQ(s.ops_replayed, 96) << name;
    EXPECT_EQ(s.ops_drained, 0) << name;
  }
  EXPECT_EQ((stats() - before).side_exit_count("op_differs"), 0);
}

TEST_F(RegionTest, ThresholdsSideBySide) {
  set_region_options("threshold/two", {.threshold = 2});
  set_region_options("threshold/ten", {.threshold = 10});
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(20, [&](at::Tensor x, int) {
    {
      const Region two("threshold/two");
      x = Body(x, y);
    }
    const Region ten("threshold/ten");
    return Body(x, y);
  });
  EXPECT_EQ(region_stats("threshold/two").ops_replayed, 18 * 6);
  EXPECT_EQ(region_stats("threshold/ten").ops_replayed, 10 * 6);
}

TEST_F(RegionTest, NothingOfAnExcludedRegionIsDeferred) {
  set_region_options("excluded/o*", {.exclude = true});
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(30, [&](at::Tensor x, int) {
    {
      const Region out("excluded/out");
      x = Body(x, y);
    }
    const Region in("excluded/in");
    return Body(x, y);
  });
  const RegionStats out = region_stats("excluded/out");
  EXPECT_EQ(out.ops_seen, 180);
  EXPECT_EQ(out.ops_eager, 180);
  EXPECT_EQ(out.bodies, 0);
  EXPECT_EQ(region_stats("excluded/in").ops_replayed, 26 * 6);
  EXPECT_THAT(explain(), HasSubstr("excluded/out: began 30 times, 180 ops: 0 "
                                   "replayed (0.0 %), 180 ran eagerly"));
}

TEST_F(RegionTest, ExcludedOpsSplitTheBody) {
  set_region_options("split", {.exclude_ops = {"aten::neg", "aten::ab*"}});
  ExpectEagerBits(20, [&](at::Tensor x, int) {
    const Region region("split");
    x = (x + 1) * 0.5;  // A, B
    x = at::neg(x);     // C
    x = (x + 2) * 0.5;  // D, E
    x = at::abs(x);     // F
    return x + 0.25;    // G
  });
  const RegionStats s = region_stats("split");
  ExpectSums(s);
  EXPECT_EQ(s.sequences, 3);
  EXPECT_EQ(s.ops_at_call, 2);
  EXPECT_THAT(s.at_call, UnorderedElementsAre(Pair("aten::neg", "excluded"),
                                              Pair("aten::abs", "excluded")));
  EXPECT_EQ(s.ops_replayed, 16 * 5);
  EXPECT_EQ(s.ops_eager, 4 * 5 + 20 * 2);
}

TEST_F(RegionTest, OpaqueOpsSplitTheBodyAndItIsSaid) {
  mark_opaque("aten::rsqrt");
  mark_opaque("aten::erf");
  Options options = Of(4);
  options.debug_compile = true;
  ::testing::internal::CaptureStderr();
  ExpectEagerBits(
      20,
      [&](at::Tensor x, int) {
        const Region region("opaque/solve");
        x = (x + 1) * 0.5;
        x = at::rsqrt(x);
        x = (x + 2) * 0.5;
        x = at::erf(x);
        return x + 0.25;
      },
      options);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const RegionStats s = region_stats("opaque/solve");
  EXPECT_EQ(s.sequences, 3);
  EXPECT_EQ(s.ops_at_call, 2);
  EXPECT_EQ(s.ops_replayed, 16 * 5);
  const std::string line =
      "[COMPILE] Region opaque/solve: 3 traced sequences, 2 ops at the call "
      "(aten::erf: opaque; aten::rsqrt: opaque)\n";
  EXPECT_THAT(said, HasSubstr(line));
  EXPECT_EQ(said.find(line), said.rfind(line));
}

TEST_F(RegionTest, RegionsNest) {
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(20, [&](at::Tensor x, int) {
    const Region solve("nest");
    x = Body(x, y);
    for (int i = 0; i < 3; ++i) {
      const Region newton("newton");
      x = Body(x, y);
    }
    return at::tanh(x);
  });
  const RegionStats solve = region_stats("nest");
  const RegionStats newton = region_stats("nest/newton");
  ExpectSums(solve);
  ExpectSums(newton);
  EXPECT_EQ(solve.entries, 20);
  EXPECT_EQ(solve.ops_seen, 20 * 7);
  // Before the loop and behind it.
  EXPECT_EQ(solve.bodies, 2);
  EXPECT_EQ(solve.ops_replayed, 16 * 7);
  EXPECT_EQ(newton.entries, 60);
  EXPECT_EQ(newton.bodies, 1);
  EXPECT_EQ(newton.ops_replayed, 56 * 6);
  EXPECT_EQ(region_stats("newton").entries, 0);
}

TEST_F(RegionTest, ANameWithPartsIsTheNestedRegion) {
  ASSERT_TRUE(enable(Of(4)));
  const at::Tensor y = Numbers();
  {
    const Region whole("parts/inner");
    static_cast<void>(y + 1);
  }
  {
    const Region outer("parts");
    const Region inner("inner");
    static_cast<void>(y + 1);
  }
  EXPECT_EQ(region_stats("parts/inner").entries, 2);
  EXPECT_EQ(region_stats("parts/inner").ops_seen, 2);
}

TEST_F(RegionTest, AnExceptionEndsIt) {
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(40, [&](at::Tensor x, int i) {
    try {
      const Region region("throws");
      x = x + y;
      x = x * 0.5;
      x = x - y;
      if (i % 7 == 6) throw std::runtime_error("in the middle");
      x = x + y;
      x = x * 0.75;
    } catch (const std::runtime_error&) {
    }
    return x + 0.125;
  });
  const RegionStats s = region_stats("throws");
  ExpectSums(s);
  EXPECT_EQ(s.entries, 40);
  EXPECT_GT(s.ops_replayed, 100);
  // An edge is no mismatch.
  EXPECT_EQ(s.ops_drained, 0);
}

TEST_F(RegionTest, AShorterBodyEndsTheTraceThere) {
  const at::Tensor y = Numbers(64, 0.25);
  const Stats before = stats();
  ExpectEagerBits(60, [&](at::Tensor x, int i) {
    const Region region("shorter");
    x = x + y;
    x = x * 0.5;
    if (i % 2 == 1) return x;
    x = x - y;
    return x * 0.75;
  });
  const RegionStats s = region_stats("shorter");
  EXPECT_EQ(s.bodies, 2);
  EXPECT_GE(s.ops_replayed, 60 * 3 - 6 * 4);
  EXPECT_EQ(s.ops_drained, 0);
  EXPECT_EQ((stats() - before).side_exit_count("op_differs"), 0);
}

TEST_F(RegionTest, ARegionMayBeginInTheMiddleOfATrace) {
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(80, [&](at::Tensor x, int i) {
    x = x + y;
    x = x * 0.5;
    std::optional<Region> region;
    if (i >= 40 && i % 3 == 0) region.emplace("middle");
    x = x - y;
    x = x * 0.75;
    region.reset();
    mark_step();
    return x;
  });
  EXPECT_GT(stats().ops_replayed, 100);
  EXPECT_EQ(region_stats("middle").entries, 13);
  EXPECT_GT(region_stats("middle").ops_replayed, 0);
}

TEST_F(RegionTest, IrregularCallsOfARegionAreReplayed) {
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(60, [&](at::Tensor x, int i) {
    // Around it nothing repeats.
    for (int k = 0; k < (i * i * 7 + i) % 5; ++k) x = x + 0.001 * i;
    const Region region("irregular");
    return Body(x, y);
  });
  const RegionStats s = region_stats("irregular");
  EXPECT_EQ(s.bodies, 1);
  EXPECT_EQ(s.ops_replayed, 56 * 6);
}

TEST_F(RegionTest, TwoThreadsInOneRegion) {
  const at::Tensor y = Numbers(64, 0.25);
  const auto work = [&y](at::Tensor* x) {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < 50; ++i) {
      const Region region("threads");
      *x = Body(*x, y);
    }
  };
  at::Tensor eager = Numbers();
  work(&eager);
  ASSERT_TRUE(enable(Of(4)));
  at::Tensor a = Numbers(), b = Numbers();
  std::thread first(work, &a), second(work, &b);
  first.join();
  second.join();
  sync();
  EXPECT_TRUE(SameBits(a, eager));
  EXPECT_TRUE(SameBits(b, eager));
  const RegionStats s = region_stats("threads");
  ExpectSums(s);
  EXPECT_EQ(s.entries, 100);
  EXPECT_EQ(s.ops_seen, 600);
  EXPECT_GE(s.ops_replayed, 540);
  ExpectSums();
}

TEST_F(RegionTest, AThreadThatIsStartedInARegionIsOutside) {
  ASSERT_TRUE(enable(Of(4)));
  const Region region("starts");
  const at::Tensor y = Numbers();
  std::thread([&] { static_cast<void>(y + 1); }).join();
  EXPECT_EQ(region_stats("starts").ops_eager, 3);  // those of Numbers()
}

TEST_F(RegionTest, BackwardPassesRunInTheRegionAroundThem) {
  const auto train = [](int steps) {
    torch::manual_seed(3);
    at::Tensor w = torch::rand({8, 8}), x = torch::rand({4, 8});
    w.requires_grad_();
    for (int i = 0; i < steps; ++i) {
      at::Tensor loss;
      {
        const Region forward("train/forward");
        loss = torch::relu(torch::mm(x, w)).sum();
      }
      {
        const Region backward("train/backward");
        loss.backward();
      }
      const Region step("train/step");
      const at::NoGradGuard no_grad;
      w.add_(w.grad(), -0.01);
      w.mutable_grad().reset();
    }
    return w.detach().clone();
  };
  const at::Tensor eager = train(40);
  ASSERT_TRUE(enable(Of(4)));
  const at::Tensor ours = train(40);
  sync();
  EXPECT_TRUE(SameBits(eager, ours));
  for (const char* name : {"train/forward", "train/backward", "train/step"}) {
    const RegionStats s = region_stats(name);
    ExpectSums(s);
    EXPECT_EQ(s.bodies, 1) << name;
    EXPECT_GE(10 * s.ops_replayed, 8 * s.ops_seen) << name;
  }
}

TEST_F(RegionTest, WithoutTjitItIsNone) {
  {
    const Region region("off");
    ASSERT_TRUE(enable(Of(4)));
    static_cast<void>(Numbers());
    const Region inner("inner");
    static_cast<void>(Numbers());
  }
  EXPECT_EQ(region_stats("off").entries, 0);
  EXPECT_EQ(region_stats("off/inner").entries, 0);
  EXPECT_EQ(region_stats("inner").entries, 1);
  disable();
  const Region region("a//b");  // nobody looks
}

TEST_F(RegionTest, WhatIsNoNameIsSaid) {
  ASSERT_TRUE(enable(Of(4)));
  for (const char* name : {"", "/a", "a/", "a//b", "a*", "?"}) {
    EXPECT_THROW(Region{name}, c10::Error) << name;
  }
  EXPECT_THROW(Region{std::string(201, 'a')}, c10::Error);
  try {
    const Region region("a//b");
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("\"a//b\" is no name of a region: a part "
                                    "between two / is empty; give words"));
  }
}

TEST_F(RegionTest, BadOptionsAreSaid) {
  EXPECT_THROW(set_region_options("", {}), c10::Error);
  EXPECT_THROW(set_region_options("bad", {.threshold = 1}), c10::Error);
  EXPECT_THROW(
      set_region_options("bad", {.exclude = true, .exclude_ops = {"a"}}),
      c10::Error);
  EXPECT_THROW(set_region_options("bad", {.exclude_ops = {""}}), c10::Error);
}

// A body that is longer than what may be kept of all sequences.
TEST_F(RegionTest, AStrictRegionThrows) {
  set_region_options("strict/yes", {.strict = true});
  Options options = Of(2);
  options.max_trace_steps = 100;
  ASSERT_TRUE(enable(options));
  const at::NoGradGuard no_grad;
  const auto visit = [](const char* name) {
    const Region region(name);
    at::Tensor x = Numbers();
    for (int i = 0; i < 150; ++i) x = x + i;
  };
  const Stats before = stats();
  EXPECT_NO_THROW(visit("strict/no"));
  EXPECT_NO_THROW(visit("strict/no"));
  EXPECT_GE((stats() - before).side_exit_count("store_full"), 1);
  clear();
  EXPECT_NO_THROW(visit("strict/yes"));  // at its end it is too late to throw
  EXPECT_NO_THROW(visit("strict/no"));   // outside nobody asks
  try {
    visit("strict/yes");
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("the trace store is full"));
  }
  sync();
  ExpectSums();
  ExpectSums(region_stats("strict/yes"));
  ASSERT_TRUE(enable(Of(2)));  // the limits of others
}

TEST_F(RegionTest, ExactShapesAreReplayedInTheFirstSizesAlone) {
  set_region_options("shapes/exact", {.shapes = Shapes::kExact});
  ASSERT_TRUE(enable(Of(2)));
  const at::NoGradGuard no_grad;
  const auto run = [&](const char* name, std::int64_t n) {
    const at::Tensor a = Numbers(n), b = Numbers(n, 0.25);
    for (int i = 0; i < 20; ++i) {
      const Region region(name);
      static_cast<void>(Body(a, b));
    }
    sync();
    return region_stats(name).ops_replayed;
  };
  const std::int64_t any_first = run("shapes/any", 64);
  EXPECT_EQ(any_first, 18 * 6);
  EXPECT_GT(run("shapes/any", 128), any_first + 60);
  const std::int64_t exact_first = run("shapes/exact", 64);
  EXPECT_EQ(exact_first, 18 * 6);
  EXPECT_EQ(run("shapes/exact", 128), exact_first);
  EXPECT_EQ(run("shapes/exact", 64), exact_first + 20 * 6);
}

TEST_F(RegionTest, BackendsByRegion) {
  set_region_options("backend/plain", {.compile = false});
  set_region_options("backend/checked", {.backend = Backend::kInterpreter});
  Options options = Of(2);
  options.backend = Backend::kReplay;
  ASSERT_TRUE(enable(options));
  const at::NoGradGuard no_grad;
  const auto run = [&](const char* name) {
    const Stats before = stats();
    at::Tensor x = Numbers();
    const at::Tensor y = Numbers(64, 0.25);
    for (int i = 0; i < 200; ++i) {
      const Region region(name);
      x = Body(x, y);
      if (i % 20 == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    sync();
    return (stats() - before).replays_tier2;
  };
  EXPECT_EQ(run("backend/plain"), 0);
  EXPECT_EQ(run("backend/usual"), 0);
  EXPECT_GT(run("backend/checked"), 0);
  EXPECT_GT(region_stats("backend/plain").ops_replayed, 1000);
}

TEST_F(RegionTest, TheMoreSpecificNameWins) {
  set_region_options("rank/*", {.threshold = 3});
  set_region_options("rank/a*", {.exclude = true});
  set_region_options("rank/ab", {.threshold = 5, .exclude = false});
  ASSERT_TRUE(enable(Of(2)));
  const at::NoGradGuard no_grad;
  const at::Tensor y = Numbers(64, 0.25);
  const auto run = [&](const char* name) {
    at::Tensor x = Numbers();
    for (int i = 0; i < 20; ++i) {
      const Region region(name);
      x = Body(x, y);
    }
    return region_stats(name).ops_replayed;
  };
  EXPECT_EQ(run("rank/x"), 17 * 6);
  EXPECT_EQ(run("rank/a"), 0);
  EXPECT_EQ(run("rank/ac"), 0);
  EXPECT_EQ(run("rank/ab"), 15 * 6);
  EXPECT_EQ(run("rank/ab/in"), 15 * 6);
}

TEST_F(RegionTest, OptionsMayChangeBetweenVisits) {
  const at::Tensor y = Numbers(64, 0.25);
  int step_count = 0;
  ExpectEagerBits(60, [&](at::Tensor x, int i) {
    ++step_count;
    if (i == 30 && step_count > 60) {
      set_region_options("change", {.exclude = true});
    }
    const Region region("change");
    return Body(x, y);
  });
  EXPECT_EQ(region_stats("change").ops_replayed, 26 * 6);
}

TEST_F(RegionTest, AProfileKnowsRegionsByTheirNames) {
  const std::string file =
      ::testing::TempDir() + "regions" + std::to_string(getpid()) + ".profile";
  const at::Tensor y = Numbers(64, 0.25);
  const at::NoGradGuard no_grad;
  const auto run = [&](const char* name, int visits) {
    at::Tensor x = Numbers();
    for (int i = 0; i < visits; ++i) {
      const Region region(name);
      x = Body(x, y);
    }
    sync();
    return region_stats(name).ops_replayed;
  };
  ASSERT_TRUE(enable(Of(10)));
  EXPECT_EQ(run("profile/a", 20), 10 * 6);
  EXPECT_EQ(save_profile(file), 1);
  clear();
  const std::int64_t before = run("profile/a", 5);
  EXPECT_EQ(before, 10 * 6);  // nothing is known any more
  clear();
  EXPECT_EQ(prewarm(file), 1);
  EXPECT_EQ(run("profile/b", 5), 0);
  EXPECT_EQ(run("profile/a", 5), before + 4 * 6);
  EXPECT_GE(stats().traces_known, 1);
  unlink(file.c_str());
}

// Names that are made anew at each step fill the table of regions, and their
// states that of contexts. In a process of its own, as both stay full.
TEST_F(RegionTest, TooManyRegionsHurtNobodyElse) {
  const auto fill_both = [] {
    const at::Tensor y = Numbers(64, 0.25);
    at::Tensor eager = Numbers(), x = eager;
    const auto step = [&](at::Tensor* z, int i, bool in_region) {
      for (const bool grad : {false, true}) {
        for (const bool inference : {false, true}) {
          std::optional<Region> region;
          if (in_region) region.emplace("many" + std::to_string(i));
          const c10::InferenceMode mode(inference);
          const at::AutoGradMode grad_mode(grad);
          *z = (*z * 0.5 + y).clone();
        }
      }
    };
    for (int i = 0; i < 1300; ++i) step(&eager, i, false);
    if (!enable(Of(4))) std::exit(1);
    for (int i = 0; i < 1300; ++i) step(&x, i, true);
    sync();
    if (!SameBits(x, eager)) std::exit(2);
    const Stats before = stats();
    for (int i = 0; i < 40; ++i) {
      x = Body(x, y);
      mark_step();
    }
    if ((stats() - before).ops_replayed < 120) std::exit(3);
    const Region known("many7");
    if (region_stats("many7").entries != 5) std::exit(4);
    if (region_stats("many1299").entries != 0) std::exit(5);
    std::exit(0);
  };
  EXPECT_EXIT(fill_both(), ::testing::ExitedWithCode(0),
              "as many regions as there can be \\(1023\\)");
}

TEST_F(RegionTest, TheReportHasARowForEachRegion) {
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(20, [&](at::Tensor x, int) {
    const Region region("report/one");
    x = Body(x, y);
    return x + x.sum().item<float>() * 0.001;
  });
  EXPECT_THAT(explain(),
              HasSubstr("  report/one: began 20 times, 180 ops: 128 replayed "
                        "(71.1 %), 52 ran eagerly, 0 drained\n        2 traced "
                        "sequences, 1 op at the call "
                        "(aten::_local_scalar_dense: reads values)\n"));
}

// What holds in every mode of tests, too: region_late_test and others run
// these.
using RegionBitsTest = RegionTest;

TEST_F(RegionBitsTest, OfAllKindsOfRegionsAtOnce) {
  set_region_options("bits/out", {.exclude = true});
  set_region_options("bits/some", {.exclude_ops = {"aten::mul"}});
  set_region_options("bits/strict", {.strict = true});
  set_region_options("bits/plain",
                     {.compile = false, .shapes = Shapes::kExact});
  const at::Tensor y = Numbers(64, 0.25);
  ExpectEagerBits(60, [&](at::Tensor x, int i) {
    const Region whole("bits");
    for (const char* name : {"out", "some", "strict", "plain"}) {
      const at::Tensor before = x;
      try {
        const Region region(name);
        x = Body(x, y);
        if (i % 11 == 10) throw std::runtime_error("between");
        x = Body(x, y) * 0.125;
        if (i % 5 == 4) x = x + before;
      } catch (const std::runtime_error&) {
        x = x - before;
      }
      if (i % 7 == 6) x = x + before.sum().item<float>() * 0.001;
    }
    std::optional<Region> late;
    if (i % 3 == 0) late.emplace("late");
    return x * 0.5;
  });
  for (const char* name : {"bits", "bits/out", "bits/some", "bits/strict",
                           "bits/plain", "bits/late"}) {
    ExpectSums(region_stats(name));
  }
  EXPECT_EQ(region_stats("bits/out").ops_replayed, 0);
}

TEST_F(RegionBitsTest, OfThreadsThatShareTensors) {
  const auto run = [] {
    const at::NoGradGuard no_grad;
    at::Tensor x = Numbers(), shared = Numbers(64, 0.25);
    for (int i = 0; i < 40; ++i) {
      at::Tensor made;
      {
        const Region region("shared/maker");
        made = Body(shared, shared);
      }
      std::thread other([&] {
        const at::NoGradGuard none;
        const Region region("shared/user");
        made = made + 1;
        x = x * 0.5 + made;
      });
      other.join();
      const Region region("shared/user");
      shared = shared * 0.99 + x * 0.01;
    }
    return x + shared;
  };
  const at::Tensor eager = run();
  ASSERT_TRUE(enable(Of(4)));
  const at::Tensor ours = run();
  sync();
  EXPECT_TRUE(SameBits(eager, ours));
  ExpectSums();
  EXPECT_EQ(region_stats("shared/user").entries, 80);
}

TEST(RegionStatsTest, AsJson) {
  RegionStats stats;
  stats.entries = 3;
  stats.ops_at_call = 2;
  stats.at_call = {{"aten::item", "a \"value\""}, {"aten::other", "why"}};
  EXPECT_EQ(stats.to_json(),
            "{\"entries\": 3, \"ops_seen\": 0, \"ops_eager\": 0, "
            "\"ops_replayed\": 0, \"ops_drained\": 0, \"bodies\": 0, "
            "\"sequences\": 0, \"ops_at_call\": 2, \"at_call\": "
            "{\"aten::item\": \"a \\\"value\\\"\", "
            "\"aten::other\": \"why\"}}");
}

}  // namespace
}  // namespace tjit
