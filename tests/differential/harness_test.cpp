// The harness itself: it generates what it promises, finds no difference where
// there is none, and sees every kind of wrong execution.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <set>

#include "compiler/lower/op_rules.h"
#include "tests/differential/called_op.h"
#include "tests/differential/driver.h"
#include "tests/differential/generator.h"
#include "tests/differential/machine.h"
#include "tests/differential/program_text.h"
#include "tests/differential/sweep.h"

namespace tjit::differential {
namespace {

using Kind = Mutation::Kind;

TEST(GeneratorTest, SameSeedSameProgram) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    EXPECT_EQ(GenerateProgram(seed).ToString(),
              GenerateProgram(seed).ToString());
  }
}

TEST(GeneratorTest, NeighbouringSeedsDiffer) {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::string text = GenerateProgram(seed).ToString();
    texts.insert(text.substr(text.find('\n')));
  }
  EXPECT_EQ(texts.size(), 60u);
}

TEST(GeneratorTest, EveryRowIsGenerated) {
  std::vector<int> uses(OpTable().size(), 0);
  const auto generate = [&](std::uint64_t seed) {
    Program program = GenerateProgram(seed);
    for (const Statement& st : program.setup) ++uses[st.op];
    for (const Statement& st : program.body) ++uses[st.op];
  };
  for (std::uint64_t seed = 0; seed < 1200; ++seed) generate(seed);
  for (std::uint64_t k = 0; k < 100; ++k) generate(kFirstComplex + k);
  // Those that call an op by its schema: of f32, f64, i64 and bool.
  const std::uint64_t rows = SweepCount() / kSweepVariants;
  for (std::uint64_t k = 0; k < rows; k += kSweepTypes) {
    for (const std::uint64_t type : {0, 1, 5, 6}) {
      generate(kFirstSweep + k + type);
    }
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_GT(uses[i], 0) << OpTable()[i].name;
  }
}

// Loops go round 0 times, once and often, and in each way in which a length
// differs.
TEST(GeneratorTest, LoopsOfAllLengthsAreGenerated) {
  std::set<ScalarExpr::Kind> kinds;
  std::set<double> trips;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Program program = GenerateProgram(seed);
    for (const Statement& st : program.body) {
      if (st.loop < 0) continue;
      const auto k = static_cast<std::size_t>(st.loop);
      ASSERT_LT(k, program.loops.size()) << seed;
      kinds.insert(program.loops[k].kind);
      for (std::int64_t it = 0; it < program.iterations; ++it) {
        trips.insert(program.loops[k].Value(it, {}));
      }
    }
  }
  using Kind = ScalarExpr::Kind;
  EXPECT_EQ(kinds, (std::set<Kind>{Kind::kLinear, Kind::kCycle, Kind::kDrawn}));
  for (double n = 0; n <= 12; ++n) EXPECT_TRUE(trips.contains(n)) << n;
}

// An attempt at this one ends with an exception in a loop.
TEST(GeneratorTest, AnAttemptThatThrewLeavesNoLoop) {
  const Program program = GenerateProgram(15677);
  const auto loops = static_cast<int>(program.loops.size());
  ASSERT_FALSE(program.body.empty());
  for (const Statement& st : program.body) ASSERT_LT(st.loop, loops);
}

TEST(GeneratorTest, EveryLoweredOpHasARow) {
  // Of rows that call what autograd or a composite calls these for.
  std::set<std::string_view> ops = {"aten::glu_backward",
                                    "aten::native_batch_norm",
                                    "aten::native_batch_norm_backward",
                                    "aten::native_group_norm",
                                    "aten::native_group_norm_backward",
                                    "aten::native_layer_norm_backward",
                                    "aten::nll_loss_forward",
                                    "aten::nll_loss_forward.output",
                                    "aten::nll_loss_backward",
                                    "aten::nll_loss_backward.grad_input"};
  for (const OpSpec& spec : OpTable()) {
    if (spec.call != nullptr) ops.insert(spec.call->op);
  }
  for (const std::string_view op : lower::LoweredOps()) {
    EXPECT_TRUE(ops.contains(op)) << op;
  }
}

TEST(GeneratorTest, ProgramsThrowOnlyWhereTheyShould) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Program program = GenerateProgram(seed);
    for (const LogEntry& entry : RunProgram(program)) {
      if (entry.what != "exception") continue;
      ASSERT_GE(entry.statement, 0) << seed << ": " << entry.text;
      EXPECT_TRUE(OpTable()[program.body[entry.statement].op].throws)
          << seed << ": " << entry.text;
    }
  }
}

// Does the row run, of these variables? Its results are one undefined each.
bool Runs(std::string_view row, std::vector<at::Tensor> vars,
          std::vector<std::int64_t> ints, Mode mode, Log* log = nullptr) {
  const Program program;
  Machine machine(program, nullptr, 0);
  Statement st;
  st.op = OpIndex(row);
  for (std::size_t i = 0; i < vars.size(); ++i) {
    const auto id = static_cast<int>(i);
    (vars[i].defined() ? st.args : st.dst).push_back(id);
  }
  st.ints = std::move(ints);
  st.mode = mode;
  machine.state().vars = std::move(vars);
  machine.state().regs = {0};
  const bool runs = machine.RunOne(st, -1, 0);
  if (log != nullptr) *log = machine.state().log;
  return runs;
}

// Eager itself would end the process: see the row.
TEST(GeneratorTest, GroupNormWhoseBackwardCrashesIsRefused) {
  const at::Tensor rows = at::ones({2, 4, 3, 3});
  const at::Tensor pixels = rows.contiguous(at::MemoryFormat::ChannelsLast);
  const auto runs = [&](const at::Tensor& x, bool of_weight, Mode mode) {
    return Runs("group_norm",
                {x.detach().requires_grad_(),
                 at::ones({4}).requires_grad_(of_weight),
                 at::ones({4}),
                 {}},
                {2}, mode);
  };
  EXPECT_FALSE(runs(pixels, true, Mode::kGrad));
  EXPECT_TRUE(runs(pixels, true, Mode::kNoGrad));
  EXPECT_TRUE(runs(pixels, false, Mode::kGrad));
  EXPECT_TRUE(runs(rows, true, Mode::kGrad));
}

// What was cut in two may be smaller in another iteration.
TEST(GeneratorTest, OnePartForTwoIsRefused) {
  for (const std::string_view row : {"split", "chunk"}) {
    EXPECT_TRUE(Runs(row, {at::ones({4, 4}), {}, {}}, {}, Mode::kNoGrad));
    EXPECT_FALSE(Runs(row, {at::ones({1, 1}), {}, {}}, {}, Mode::kNoGrad));
  }
}

TEST(HarnessTest, EagerEqualsEager) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Program program = GenerateProgram(seed);
    EXPECT_EQ(FirstDifference(RunProgram(program), RunProgram(program)), "")
        << program.ToString();
  }
}

// Does `st` use what the statement before it computed?
bool DependsOn(const Statement& st, const Statement& before) {
  if (OpTable()[before.op].group == Group::kView) return false;
  for (int id : before.dst) {
    for (int arg : st.args) {
      if (arg == id) return true;
    }
  }
  return false;
}

// Is what `index` computes still there at the end of the iteration?
bool IsKept(const Program& program, std::size_t index) {
  const Statement& st = program.body[index];
  if (st.dst.empty()) return false;
  for (std::size_t i = index + 1; i < program.body.size(); ++i) {
    const Statement& later = program.body[i];
    for (int id : later.dst) {
      if (id == st.dst[0]) return false;
    }
    bool writes = OpTable()[later.op].writes || later.dst.empty();
    if (writes && !later.args.empty() && later.args[0] == st.dst[0]) {
      return false;
    }
  }
  return true;
}

bool CanShow(Kind kind, const Program& program, std::size_t index) {
  const Statement& st = program.body[index];
  const OpSpec& spec = OpTable()[st.op];
  if (st.guard.kind != Guard::Kind::kAlways) return false;
  switch (kind) {
    case Kind::kStaleScalar: {
      double change = 0;
      for (const ScalarExpr& e : st.scalars) {
        if (e.kind == ScalarExpr::Kind::kReg) return false;
        std::int64_t last = program.iterations - 1;
        change += e.Value(0, {}) - e.Value(last, {});
      }
      // A clamp hides its bound where no element reaches it.
      return change != 0 && spec.group == Group::kScalar &&
             spec.name.substr(0, 5) != "clamp" && IsKept(program, index);
    }
    case Kind::kLoseAlias:
      return st.args.size() > 1 && (spec.name == "copy_" ||
                                    spec.name == "lerp_");
    case Kind::kSkip:
      return spec.group == Group::kSync || spec.group == Group::kRandom;
    case Kind::kSwap:
      return DependsOn(st, program.body[index - 1]) && IsKept(program, index);
    default:
      return spec.group == Group::kBinary && IsKept(program, index);
  }
}

// The share of mutated programs in which a difference shows. Not all can: what
// is overwritten, clamped or dropped is not seen by the program either.
double CaughtShare(Kind kind) {
  int tried = 0;
  int caught = 0;
  for (std::uint64_t seed = 0; seed < 600 && tried < 60; ++seed) {
    Program program = GenerateProgram(seed);
    if (program.concurrent) continue;
    for (std::size_t i = 1; i < program.body.size(); ++i) {
      if (!CanShow(kind, program, i)) continue;
      Mutation mutation = {kind, static_cast<int>(i), program.iterations / 2};
      Log log = RunProgram(program, 1, {}, mutation);
      ++tried;
      caught += !FirstDifference(RunProgram(program), log).empty();
      break;
    }
  }
  EXPECT_GE(tried, 20);
  return static_cast<double>(caught) / tried;
}

TEST(HarnessTest, SeesASkippedStatement) {
  EXPECT_GT(CaughtShare(Kind::kSkip), 0.9);
}
TEST(HarnessTest, SeesAStaleScalar) {
  EXPECT_GT(CaughtShare(Kind::kStaleScalar), 0.7);
}
TEST(HarnessTest, SeesSwappedStatements) {
  EXPECT_GT(CaughtShare(Kind::kSwap), 0.7);
}
TEST(HarnessTest, SeesAFlippedBit) {
  EXPECT_GT(CaughtShare(Kind::kFlipBit), 0.7);
}
TEST(HarnessTest, SeesALostAlias) {
  EXPECT_GT(CaughtShare(Kind::kLoseAlias), 0.7);
}

TEST(LogTest, ComparesBytesNotValues) {
  Log nan = {{0, 1, "v0 elements", "", std::string("\x01\0\xc0\x7f", 4), 4}};
  Log other = {{0, 1, "v0 elements", "", std::string("\x02\0\xc0\x7f", 4), 4}};
  EXPECT_EQ(FirstDifference(nan, nan), "");
  EXPECT_NE(FirstDifference(nan, other), "");
  nan[0].fraction_bits = other[0].fraction_bits = 23;
  EXPECT_NE(FirstDifference(nan, other), "");
  EXPECT_EQ(FirstDifference(nan, other, Nans::kAreEqual), "");
  other[0].bytes = std::string("\0\0\x80\x7f", 4);  // infinity
  EXPECT_NE(FirstDifference(nan, other, Nans::kAreEqual), "");
}

TEST(LogTest, ValuesThatAreReadMayBeNans) {
  Log nan, other;
  for (Log* log : {&nan, &other}) {
    ASSERT_TRUE(
        Runs("item", {at::full({2}, std::nan(""))}, {0}, Mode::kNoGrad, log));
    ASSERT_EQ(log->size(), 1u);
  }
  other[0].bytes.back() ^= '\x80';  // its sign
  EXPECT_NE(FirstDifference(nan, other), "");
  EXPECT_EQ(FirstDifference(nan, other, Nans::kAreEqual), "");
}

TEST(LogTest, PrintedNansMayHaveAnotherSign) {
  Log nan = {{0, 1, "printed", "   -nan    -nan\n  0.8344 -0.3597\n", ""}};
  Log other = {{0, 1, "printed", "    nan     nan\n  0.8344 -0.3597\n", ""}};
  EXPECT_NE(FirstDifference(nan, other), "");
  EXPECT_EQ(FirstDifference(nan, other, Nans::kAreEqual), "");
  other[0].text = "    nan     nan\n  0.8344  0.3597\n";
  EXPECT_NE(FirstDifference(nan, other, Nans::kAreEqual), "");
  other[0].text = "    nan  0.1000\n  0.8344 -0.3597\n";
  EXPECT_NE(FirstDifference(nan, other, Nans::kAreEqual), "");
}

TEST(LogTest, SeesMissingAndLateEntries) {
  LogEntry a = {0, 1, "exception", "one", "", 1};
  LogEntry b = {0, 2, "exception", "one", "", 1};
  EXPECT_NE(FirstDifference({a}, {}), "");
  EXPECT_NE(FirstDifference({}, {a}), "");
  EXPECT_NE(FirstDifference({a}, {b}), "");
}

TEST(ProgramTextTest, RoundTrips) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Program program = GenerateProgram(seed);
    const Program again = ParseProgram(Format(program));
    ASSERT_EQ(Format(again), Format(program)) << seed;
    ASSERT_EQ(FirstDifference(RunProgram(program), RunProgram(again)), "");
  }
}

std::string ErrorOf(const std::string& text) {
  try {
    ParseProgram(text);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  }
  return "";
}

TEST(ProgramTextTest, SaysWhatIsWrong) {
  const std::string head = "program 1\niterations 3\nvars 1\n";
  EXPECT_EQ(ErrorOf(head + "setup zeros dst 0 ints 2  # two of them\n"), "");
  EXPECT_NE(ErrorOf("").find("no program"), std::string::npos);
  EXPECT_NE(ErrorOf(head + "body nonsense dst 0").find("nonsense"),
            std::string::npos);
  const std::string bad_mode = ErrorOf(head + "body clone dst 0 mode on");
  EXPECT_NE(bad_mode.find("on is none of grad no_grad inference"),
            std::string::npos)
      << bad_mode;
  EXPECT_NE(bad_mode.find("line 4"), std::string::npos) << bad_mode;
  EXPECT_NE(ErrorOf(head + "body clone dst 3").find("v3 is not below 1"),
            std::string::npos);
  EXPECT_NE(ErrorOf(head + "body clone args 0").find("clone binds 1"),
            std::string::npos);
  EXPECT_NE(ErrorOf(head + "seed 1 2").find("too many"), std::string::npos);
}

TEST(ShrinkTest, KeepsWhatMatters) {
  Program program = GenerateProgram(0);
  int op = program.body[program.body.size() / 2].op;
  auto has_op = [&](const Program& p) {
    for (const Statement& st : p.body) {
      if (st.op == op) return true;
    }
    return false;
  };
  Program small = Shrink(program, has_op);
  EXPECT_EQ(small.body.size(), 1u);
  EXPECT_TRUE(small.setup.empty());
}

// A loop of two statements that goes round 0 to 4 times.
Program WithALoop() {
  return ParseProgram(
      "program 1\niterations 12\nvars 3\nscoped 2\n"
      "loop drawn 0 5 7\nsetup input dst 0 ints 3 4 scalar const 1 0 1\n"
      "setup zeros dst 1 ints 3 4\nbody tanh dst 2 args 0\n"
      "body carry_ args 1 0 loop 0\nbody carry_ args 1 2 loop 0\n"
      "body square dst 2 args 1\n");
}

TEST(ProgramTextTest, LoopsAreWrittenAndRun) {
  const Program program = WithALoop();
  EXPECT_NE(program.ToString().find("n = (0 + draw(it, 7) % 5); j < n; ++j) {"),
            std::string::npos)
      << program.ToString();
  EXPECT_EQ(Format(ParseProgram(Format(program))), Format(program));
  EXPECT_NE(ErrorOf("program 1\nvars 1\nbody clone dst 0 args 0 loop 0")
                .find("there is no loop 0"),
            std::string::npos);
  // As if somebody had unrolled it.
  at::Tensor h = at::zeros({3, 4});
  at::manual_seed(program.seed);
  const at::Tensor x = at::randn({3, 4});
  std::int64_t trips = 0;
  for (std::int64_t it = 0; it < program.iterations; ++it) {
    for (std::uint64_t j = 0; j < Draw(it, 7) % 5; ++j, ++trips) {
      h.mul_(0.5).add_(x, 0.25);
      h.mul_(0.5).add_(at::tanh(x), 0.25);
    }
  }
  EXPECT_GT(trips, 0);
  at::manual_seed(program.seed);
  Machine machine(program, nullptr, 0);
  machine.Setup(0, program.setup.size());
  for (std::int64_t it = 0; it < program.iterations; ++it) machine.Iterate(it);
  EXPECT_TRUE(at::equal(machine.state().vars[1], h));
}

TEST(ShrinkTest, LoopsStayAndBecomeSimpler) {
  const Program small = Shrink(WithALoop(), [](const Program& p) {
    if (p.loops.empty()) return false;
    std::set<double> trips;
    for (std::int64_t it = 0; it < p.iterations; ++it) {
      trips.insert(p.loops[0].Value(it, {}));
    }
    for (const Statement& st : p.body) {
      if (st.loop == 0) return trips.size() > 1;
    }
    return false;
  });
  ASSERT_EQ(small.body.size(), 1u);
  EXPECT_EQ(small.body[0].loop, 0);
  EXPECT_EQ(small.loops[0].kind, ScalarExpr::Kind::kCycle);
  EXPECT_EQ(small.loops[0].cycle.size(), 2u);
}

// --- The engines ---

// The mistake is one of a pass, which the engine `plain` does not run.
TEST(EngineTest, PlainRunsNoPass) {
  DriverConfig config;
  config.last = 200;
  config.engine = Engine::kLlvm;
  config.defect = "wrong_common";
  SeedResult found;
  RunSeeds(config, [&](const SeedResult& result) {
    if (found.status == SeedResult::Status::kSame) found = result;
    return found.status == SeedResult::Status::kSame;
  });
  ASSERT_EQ(found.status, SeedResult::Status::kDiffers);
  config.engine = Engine::kPlain;
  const SeedResult plain = RunAlone(config, GenerateProgram(found.seed));
  EXPECT_EQ(plain.status, SeedResult::Status::kSame) << plain.detail;
  EXPECT_TRUE(plain.is_counted);
}

// --- The driver ---

DriverConfig Seeds(std::uint64_t last,
                   std::function<Verdict(const Program&)> compare) {
  DriverConfig config;
  config.last = last;
  config.seeds_per_child = 4;
  config.compare = std::move(compare);
  return config;
}

TEST(DriverTest, ReportsDifferences) {
  Summary summary = RunSeeds(Seeds(6, [](const Program& program) {
    Verdict verdict;
    verdict.is_counted = program.seed != 1;
    if (program.seed == 3) verdict.difference = "two\nlines";
    return verdict;
  }));
  EXPECT_EQ(summary.programs, 6);
  EXPECT_EQ(summary.counted, 5);
  ASSERT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.failures[0].seed, 3u);
  EXPECT_EQ(summary.failures[0].detail, "two\nlines");
}

TEST(DriverTest, GoesOnAfterACrash) {
  Summary summary = RunSeeds(Seeds(8, [](const Program& program) {
    if (program.seed == 2) std::raise(SIGKILL);
    return Verdict{};
  }));
  EXPECT_EQ(summary.programs, 8);
  ASSERT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.failures[0].seed, 2u);
  EXPECT_EQ(summary.failures[0].status, SeedResult::Status::kCrashed);
}

TEST(DriverTest, EndsWhatHangs) {
  DriverConfig config = Seeds(3, [](const Program& program) {
    if (program.seed == 1) pause();
    return Verdict{};
  });
  config.timeout_seconds = 2;
  Summary summary = RunSeeds(config);
  EXPECT_EQ(summary.programs, 3);
  ASSERT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.failures[0].seed, 1u);
  EXPECT_EQ(summary.failures[0].status, SeedResult::Status::kTimedOut);
}

}  // namespace
}  // namespace tjit::differential
