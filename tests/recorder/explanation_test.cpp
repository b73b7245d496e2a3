// Checks the text of every state of a sequence, and what is said where there
// is none: "why is this not compiled?" has an answer in each.
#include "recorder/explanation.h"

#include <cstdint>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recorder/run_times.h"
#include "support/bail.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Explanation Of(const ExplainedSequence& s) {
  Explanation e;
  e.counters = {{"ops_seen", 200}, {"ops_replayed", 150}, {"ops_eager", 48},
                {"ops_drained", 2}, {"sequences", 1}};
  e.sequences = {s};
  return e;
}

ExplainedSequence Sequence(const char* state) {
  ExplainedSequence s;
  s.id = 3;
  s.ops = 9;
  s.first_ops = "mm -> relu";
  s.state = state;
  s.sightings = 25;
  s.threshold = 10;
  return s;
}

TEST(ExplanationTest, CompiledCodeAndWhatIsNone) {
  Explanation e = Of(Sequence(kStateReplayed));
  EXPECT_THAT(ToText(e), Not(HasSubstr("compiled code")));
  e.counters["kernels_compiled"] = 2;
  e.counters["compile_ns"] = 3500000;
  e.counters["groups_run"] = 40;
  e.counters["steps_fused"] = 60;
  e.counters["steps_dead"] = 50;
  e.counters["recompiles"] = 1;
  e.counters["tier2_switched_off"] = 1;
  e.not_compiled = {{"step 3, aten::x: odd strides", 2}};
  EXPECT_THAT(
      ToText(e),
      HasSubstr("compiled code: 2 kernels in 3.5 ms; ran 40 times for 60 "
                "ops, 60.0 % of the replayed ones that ran\n"
                "compiled again, as a scalar was not always the same: once\n"
                "switched off, as library calls are as fast: 1 segment\n"
                "groups of ops stay library calls because:\n"
                "         2  step 3, aten::x: odd strides\n"));
  EXPECT_THAT(WithLists("{\n  \"a\": 1\n}\n", e),
              HasSubstr("\"not_compiled\": {\"step 3, aten::x: odd strides\": "
                        "2}"));
}

// The commands that write a file of it and replay it: of what is given up or
// loses, and of no other.
TEST(ExplanationTest, HowToLookIntoWhatIsSlow) {
  const std::string commands =
      "        to look into it: `tjit run --repro=0a12 --repro-dir=repro -- "
      "./a b=c`, then `tjit replay repro/*.tjitseq`\n";
  Explanation e = Of(Sequence(kStateReplayed));
  e.program = "./a b=c";
  ExplainedSequence& s = e.sequences[0];
  s.name = "0a12";
  s.replays = 10;
  s.eager_ns = 2000;
  s.replay_ns = 1000;
  EXPECT_THAT(ToText(e), Not(HasSubstr("look into")));
  s.replay_ns = 3000;
  EXPECT_THAT(ToText(e), HasSubstr(commands));
  s.eager_ns = s.replay_ns = 0;
  for (const char* state : {kStateOff, kStatePaused, kStateBlacklisted}) {
    s.state = state;
    EXPECT_THAT(ToText(e), HasSubstr(commands)) << state;
  }
  // What the shell would take for something else.
  e.program = "python -c print('a b')";
  EXPECT_THAT(ToText(e), HasSubstr("--repro-dir=repro -- PROGRAM`"));
  s.name = "x; rm";
  EXPECT_THAT(ToText(e), Not(HasSubstr("look into")));
}

TEST(ExplanationTest, OpsThatNothingNeedsAreSaid) {
  Explanation e = Of(Sequence(kStateReplayed));
  EXPECT_THAT(ToText(e), Not(HasSubstr("did not run")));
  e.counters["steps_dead"] = 50;
  EXPECT_THAT(ToText(e), HasSubstr("of the replayed ops 50 did not run, as "
                                   "nothing needed their results\n"));
}

TEST(ExplanationTest, ACompiledSegmentSaysWhenItHasPaid) {
  ExplainedCode code;
  code.ops = 9;
  code.first_op = "aten::mul";
  code.pays = true;
  code.compile_ns = 30'000'000;
  code.library_ns = 5600;
  code.compiled_ns = 1700;
  EXPECT_EQ(code.break_even_runs(), 7693);
  EXPECT_EQ(ToText(code),
            "9 ops from aten::mul: 1.7 us a run instead of 5.6 us, compiled in "
            "30 ms, which 7693 runs win back");
  Explanation e = Of(Sequence(kStateReplayed));
  e.compiled_segments = {code};
  const std::string lines = ToText(code);
  EXPECT_THAT(ToText(e), HasSubstr("library calls:\n  " + lines + "\n"));
  EXPECT_THAT(WithLists("{\n  \"a\": 1\n}\n", e),
              HasSubstr("\"compiled_ns\": 1700, \"break_even_runs\": 7693}"));
  code.compiled_ns = 5600;  // one that is not there for speed
  EXPECT_EQ(code.break_even_runs(), 0);
  EXPECT_THAT(ToText(code), HasSubstr("no number of runs wins back"));
  code.pays = false;
  EXPECT_EQ(code.break_even_runs(), 0);
  EXPECT_THAT(ToText(code), HasSubstr("30 ms: switched off"));
  EXPECT_THAT(ToText(e), Not(HasSubstr("look into")));
  code.sequence = "0a12";
  e.compiled_segments = {code};
  EXPECT_THAT(ToText(e), HasSubstr(ToText(code) + "\n        to look into it: "
                                                  "`tjit run --repro=0a12 "));
  EXPECT_THAT(WithLists("{\n  \"a\": 1\n}\n", e),
              HasSubstr("\"sequence\": \"0a12\", \"pays\": false"));
}

TEST(ExplanationTest, AReplayedSequenceSaysWhatItWon) {
  ExplainedSequence s = Sequence(kStateReplayed);
  s.replays = 15;
  s.eager_ns = 53000;
  s.replay_ns = 41500;
  s.at_call = {{"aten::item", 2}, {"aten::rand", 1}};
  s.left = {{"scalar_differs", 2}, {"op_differs", 1}};
  EXPECT_EQ(ToText(Of(s)),
            "tjit: replaying won about 172.5 us of the 795 us that the same "
            "runs take eagerly (1.28x)\n"
            "200 ops were called: 150 replayed (75.0 %), 48 ran eagerly, "
            "2 were deferred and run eagerly after all\n"
            "1 sequence:\n"
            "  3   replayed, 9 ops: mm -> relu\n"
            "        seen 25 times, replayed 15 times\n"
            "        41.5 us instead of 53 us a run, about 172.5 us won\n"
            "        3 ops run at the call: aten::item, aten::rand\n"
            "        left 3 times: a guarded scalar differs (2); another op was "
            "called (1)\n");
  s.at_call["aten::randn"] = 1;
  s.why_at_call = {{"aten::item", "reads values"},
                   {"aten::rand", "draws \"numbers\""},
                   {"aten::randn", "draws \"numbers\""}};
  EXPECT_THAT(ToText(Of(s)),
              HasSubstr("        4 ops run at the call: aten::item (reads "
                        "values); aten::rand, aten::randn (draws "
                        "\"numbers\")\n"));
  EXPECT_THAT(WithLists("{\n  \"a\": 1\n}\n", Of(s)),
              HasSubstr("\"why_at_call\": {\"aten::item\": \"reads values\", "
                        "\"aten::rand\": \"draws \\\"numbers\\\"\", "));
  s.replay_ns = 0;
  EXPECT_EQ(s.won_ns(), 0);
  EXPECT_THAT(ToText(Of(s)), HasSubstr("time won is not known"));
  EXPECT_THAT(ToText(Of(s)),
              StartsWith("tjit: what replaying won is not known: too few runs "
                         "were measured\n"));
  s.replay_ns = 63000;
  EXPECT_THAT(ToText(Of(s)), HasSubstr("about 150 us lost"));
  EXPECT_THAT(ToText(Of(s)), StartsWith("tjit: replaying lost about 150 us of "
                                        "the 795 us that the same runs take "
                                        "eagerly (0.84x)\n"));
}

TEST(ExplanationTest, TheFirstLinesSayWhatWasWon) {
  ExplainedSequence s = Sequence(kStateReplayed);
  s.replays = 1000;
  s.eager_ns = 50'000;
  s.replay_ns = 20'000;
  s.executed_ns = 15'000;
  Explanation e = Of(s);
  s.eager_ns = 0;
  e.sequences.push_back(s);
  e.program = "./train --fast";
  e.wall_ns = 100'000'000;
  EXPECT_THAT(
      ToText(e),
      StartsWith("tjit: ./train --fast ran for 100 ms; replaying won about 30 "
                 "ms of the 50 ms that the same runs take eagerly (2.50x); of "
                 "1 of 2 sequences it is not known\n"
                 "200 ops were called: 150 replayed (75.0 %), 48 ran eagerly, "
                 "2 were deferred and run eagerly after all\n"
                 "about 40.0 % of the time lies in replayed sequences: 30.0 % "
                 "runs what was deferred, 10.0 % is the program, libtorch's "
                 "dispatcher and autograd between the ops\n"
                 "2 sequences:\n"));
  e.program = std::string(70, 'x');
  EXPECT_THAT(ToText(e), StartsWith("tjit: " + std::string(60, 'x') +
                                    "... ran for 100 ms; "));
  // The start, where it is a hundredth of the time.
  e.counters["start_ns"] = 999'999;
  EXPECT_THAT(ToText(e), HasSubstr("... ran for 100 ms; "));
  e.counters["start_ns"] = 1'000'000;
  EXPECT_THAT(ToText(e),
              HasSubstr("... ran for 100 ms, of which tjit's start took 1 ms; "));
}

TEST(ExplanationTest, AThreadThatWasLeftAloneIsSaid) {
  Explanation e = Of(Sequence(kStateReplayed));
  e.counters["threads_left_alone"] = 2;
  EXPECT_THAT(ToText(e),
              HasSubstr("\n  - a thread ran eagerly for a while, as tjit cost "
                        "more than it won there (2 times)\n"));
}

TEST(ExplanationTest, WhatWasForgottenIsSaid) {
  Explanation e = Of(Sequence(kStateReplayed));
  EXPECT_THAT(ToText(e), Not(HasSubstr("forgotten")));
  e.counters["evictions"] = 3;
  e.counters["trace_steps"] = 20000;
  e.counters["trace_bytes"] = 17 << 20;
  EXPECT_THAT(ToText(e),
              HasSubstr("sequences that were run least were forgotten 3 times, "
                        "as records came near their bound; 17 MB of 20000 ops "
                        "are kept"));
  EXPECT_THAT(ToText(e), HasSubstr("TJIT_MAX_TRACE_MB"));
}

TEST(ExplanationTest, ThenComesWhyNotMoreAndWhatToDo) {
  Explanation e = Of(Sequence(kStateReplayed));
  EXPECT_THAT(ToText(e), Not(HasSubstr("why not more")));
  e.eager_ops = {{"aten::_local_scalar_dense", 40, "reads values"},
                 {"aten::mm", 8, ""}};
  e.left = {{"scalar_differs", 3}, {"op_differs", 1}};
  e.exits = {{3, 4, "scalar_differs", "aten::mul", "0.5", "number 1 0.25",
              "Train(int)+0x21 in train"}};
  e.not_compiled = {{"aten::x: odd strides", 2}};
  EXPECT_THAT(
      ToText(e),
      HasSubstr("run eagerly after all\n"
                "why not more:\n"
                "  - 48 ops ran eagerly (24.0 %), most of all "
                "aten::_local_scalar_dense (40 times: reads values)\n"
                "  - 3 times: a guarded scalar differs [scalar_differs]; first "
                "after op 4 of sequence 3, at aten::mul: number 1 0.25 instead "
                "of 0.5, called by Train(int)+0x21 in train\n"
                "  - once: another op was called [op_differs]\n"
                "  - 2 groups of ops stayed library calls: aten::x: odd "
                "strides\n"
                "what to do:\n"
                "  - read values (item(), prints, comparisons) less often\n"
                "  - " + std::string(BailRemedy(BailReason::kScalarDiffers)) +
                "\n  - " + BailRemedy(BailReason::kOpDiffers) +
                "\n1 sequence:\n"));
}

// 10 of 1,010 sightings of 100 ops and 4 ops at the call of each replay are
// accounted for; of the ops that ran eagerly 70,000 are not.
TEST(ExplanationTest, WhatIsInNoSequenceIsSaid) {
  ExplainedSequence s = Sequence(kStateReplayed);
  s.ops = 100;
  s.sightings = 1'010;
  s.replays = 1'000;
  s.at_call = {{"aten::mm", 3}, {"aten::sum", 1}};
  Explanation e = Of(s);
  e.counters["ops_seen"] = 200'000;
  e.counters["ops_replayed"] = 96'000;
  e.counters["ops_eager"] = 75'000;
  EXPECT_THAT(ToText(e),
              HasSubstr("\n  - 70000 ops (35.0 %) are in no sequence: most lie "
                        "between those that repeat, in an order that "
                        "changes\n"));
  EXPECT_THAT(ToText(e), HasSubstr("\n  - where they put a batch together"));
  const auto text_with = [&](const char* counter, std::int64_t value) {
    Explanation other = e;
    other.counters[counter] = value;
    return ToText(other);
  };
  // So few may all be those before it was found.
  EXPECT_THAT(
      text_with("ops_eager", 70'000),
      HasSubstr("\n  - 65000 ops (32.5 %) are in no sequence: they came "
                "before one was found, or lie between those that "
                "repeat\n"));
  for (const auto& [counter, value] :
       {std::pair{"ops_eager", 5'000}, std::pair{"ops_seen", 1'400'001},
        std::pair{"ops_replayed", 0}, std::pair{"threads_left_alone", 1},
        std::pair{"evictions", 1}}) {
    EXPECT_THAT(text_with(counter, value), Not(HasSubstr("are in no sequence")))
        << counter;
  }
}

TEST(ExplanationTest, AnExitIsPartOfTheJson) {
  Explanation e;
  e.version = "1.2.3";
  e.program = "a \"b\"\n";
  e.wall_ns = 7;
  e.exits = {{3, 4, "scalar_differs", "aten::mul", "0.5", "0.25", "f()"}};
  EXPECT_THAT(WithLists("{\n  \"a\": 1\n}\n", e),
              HasSubstr("\"schema\": 1,\n  \"tjit\": \"1.2.3\",\n  "
                        "\"program\": \"a \\\"b\\\"\\u000a\",\n  "
                        "\"wall_ns\": 7,"));
  EXPECT_THAT(WithLists("{\n  \"a\": 1\n}\n", e),
              HasSubstr("\"exits\": [\n    {\"sequence\": 3, \"after_ops\": "
                        "4, \"reason\": \"scalar_differs\", \"op\": "
                        "\"aten::mul\", \"expected\": \"0.5\", \"actual\": "
                        "\"0.25\", \"place\": \"f()\"}\n  ]"));
}

TEST(ExplanationTest, EachOtherStateSaysWhatIsMissing) {
  ExplainedSequence s = Sequence(kStateSeen);
  s.sightings = 7;
  EXPECT_THAT(ToText(Of(s)), HasSubstr("seen, 9 ops: mm -> relu\n        "
                                       "seen 7 of 10 times, then its ops are "
                                       "deferred\n"));
  EXPECT_THAT(ToText(Of(Sequence(kStateHot))),
              HasSubstr("since then it has not run to its end"));
  s = Sequence(kStatePaused);
  s.skip = 12;
  s.left = {{"slot_differs", 4}};
  EXPECT_THAT(ToText(Of(s)), HasSubstr("it is not tried the next 12 times"));
  EXPECT_THAT(ToText(Of(s)),
              HasSubstr("left 4 times: another storage was passed\n"));
  s.state = kStateBlacklisted;
  EXPECT_THAT(ToText(Of(s)), HasSubstr("left more often than it ran"));
}

TEST(ExplanationTest, WithoutASequenceItSaysWhy) {
  Explanation e;
  EXPECT_THAT(ToText(e), HasSubstr("tjit saw no op: is it switched on"));
  e.counters["ops_seen"] = 5;
  EXPECT_THAT(ToText(e), HasSubstr("no stretch of ops repeated for long enough"));
  e.counters["sequences"] = 2;
  EXPECT_THAT(ToText(e), HasSubstr("2 began to repeat, and none went on"));
}

TEST(ExplanationTest, ReasonsComeInTheirOrderAndOpsAsTheyAre) {
  Explanation e;
  e.eager_ops = {{"aten::item", 30, "reads values"}, {"aten::mm", 8, ""}};
  e.flushes = {{"item", 3}, {"mark_step", 40}};
  e.left = {{"made_up", 1}};
  e.counters["blocks_exposed"] = 2;
  EXPECT_THAT(
      ToText(e),
      HasSubstr("ops that ran eagerly most:\n"
                "        30  aten::item: reads values\n"
                "         8  aten::mm\n"
                "tjit did not go on because:\n"
                "         1  made_up\n"
                "deferred ops were run because:\n"
                "        40  tjit::mark_step() [mark_step]\n"
                "         3  item(), equal, nonzero: a value was read [item]\n"
                "the program took raw pointers to 2 tensors"));
}

TEST(ExplanationTest, FunctionsSayWhereTheyComeFrom) {
  Explanation e = Of(Sequence(kStateReplayed));
  EXPECT_THAT(ToText(e), Not(HasSubstr("functions")));
  e.functions = {{"tanh", "f32", "MKL's vmsTanh"},
                 {"product 2x3x4 a 3,1", "f32", "own code"}};
  EXPECT_THAT(ToText(e), Not(HasSubstr("functions")));
  EXPECT_THAT(ToText(e, /*verbose=*/true),
              HasSubstr("functions of compiled code:\n"
                        "  tanh f32: MKL's vmsTanh\n"
                        "matrix products:\n"
                        "  product 2x3x4 a 3,1 f32: own code\n"));
  EXPECT_THAT(WithLists("{\n  \"a\": 1\n}\n", e),
              HasSubstr("\"functions\": [\n    {\"name\": \"tanh\", "
                        "\"dtype\": \"f32\", \"from\": \"MKL's vmsTanh\"}"));
}

TEST(ExplanationTest, ManySequencesAreCutOffWhatReplayedMostFirst) {
  Explanation e = Of(Sequence(kStateReplayed));
  for (int i = 0; i < 30; ++i) {
    e.sequences.push_back(Sequence(kStateReplayed));
    e.sequences.back().replays = i;
    e.sequences.back().first_ops = "op" + std::to_string(i);
  }
  const std::string text = ToText(e);
  EXPECT_THAT(text, HasSubstr("31 sequences:\n  3   replayed, 9 ops: op29\n"));
  EXPECT_THAT(text, HasSubstr("  and 11 that replayed less\n"));
  EXPECT_THAT(text, Not(HasSubstr("op9\n")));
}

TEST(ExplanationTest, ListsJoinTheObjectOfTheCounters) {
  Explanation e = Of(Sequence(kStateSeen));
  e.sequences[0].first_ops = "a\"b\\c";
  e.sequences[0].left = {{"op_differs", 1}};
  const std::string json = WithLists("{\n  \"ops_seen\": 3\n}\n", e);
  EXPECT_THAT(json, StartsWith("{\n  \"ops_seen\": 3,\n  \"schema\": 1,"));
  EXPECT_THAT(json, HasSubstr("\"sequence_details\": [\n    {\"id\": 3, "));
  EXPECT_THAT(json, HasSubstr("\"first_ops\": \"a\\\"b\\\\c\""));
  EXPECT_THAT(json, HasSubstr("\"left\": {\"op_differs\": 1}"));
  EXPECT_THAT(json, HasSubstr("\"eager_ops\": [],\n  \"exposures\": [],\n  \"jit_functions\": []\n}\n"));
}

// Tensors that are picked anew make each recording another.
Explanation OfSequencesThatCameNoMore(int n) {
  ExplainedSequence once = Sequence(kStateSeen);
  once.sightings = 1;
  once.ops = 80;
  Explanation e = Of(once);
  e.sequences.assign(n, once);
  e.counters = {{"ops_seen", 8000}, {"ops_eager", 8000}, {"sequences", n}};
  return e;
}

TEST(ExplanationTest, SequencesThatCameNoMore) {
  const std::string text = ToText(OfSequencesThatCameNoMore(11));
  EXPECT_THAT(text, HasSubstr("  - 11 sequences were recorded and came no "
                              "more: each time other tensors, sizes or ops\n"));
  EXPECT_THAT(text, HasSubstr("  - take rows of one tensor by an index"));
  // To run for longer would not help.
  EXPECT_THAT(text, Not(HasSubstr("not seen often enough")));
  EXPECT_THAT(text, Not(HasSubstr("run for longer")));
}

TEST(ExplanationTest, FewOrShortProgramsAreNotSaidToComeNoMore) {
  EXPECT_THAT(ToText(OfSequencesThatCameNoMore(2)),
              Not(HasSubstr("came no more")));
  Explanation is_short = OfSequencesThatCameNoMore(11);
  is_short.counters["ops_seen"] = is_short.counters["ops_eager"] = 1599;
  EXPECT_THAT(ToText(is_short), Not(HasSubstr("came no more")));
  EXPECT_THAT(ToText(is_short), HasSubstr("not seen often enough"));
  Explanation replays = OfSequencesThatCameNoMore(11);
  replays.counters["ops_eager"] = 4000;
  replays.counters["ops_replayed"] = 4000;
  EXPECT_THAT(ToText(replays), Not(HasSubstr("came no more")));
}

TEST(ExplanationTest, WhatAShortProgramRanBeforeItWasReplayed) {
  ExplainedSequence s = Sequence(kStateReplayed);
  s.ops = 1000;
  s.threshold = 10;
  s.sightings = 15;
  s.replays = 5;
  Explanation e = Of(s);
  e.counters = {{"ops_seen", 16000},
                {"ops_eager", 11000},
                {"ops_replayed", 5000},
                {"sequences", 1}};
  const std::string text = ToText(e);
  EXPECT_THAT(text, HasSubstr("  - 10000 ops (62.5 %) ran eagerly before their "
                              "sequences had been seen often enough\n"));
  EXPECT_THAT(text, HasSubstr("  - run for longer, or lower "
                              "TJIT_HOT_THRESHOLD\n"));
  // Eager runs of a trial are no wait.
  e.sequences[0].sightings = 100;
  EXPECT_THAT(ToText(e), HasSubstr("  - 10000 ops (62.5 %)"));
  e.counters["ops_eager"] = 9999;  // of another program
  EXPECT_THAT(ToText(e), Not(HasSubstr("seen often enough")));
  e.counters["ops_eager"] = 45001;
  e.counters["ops_seen"] = 50001;
  EXPECT_THAT(ToText(e), Not(HasSubstr("seen often enough")));
}

TEST(RunTimesTest, TheMedianOfTheLastOnes) {
  RunTimes times;
  EXPECT_EQ(times.Median(), 0u);
  times.Add(1000000);
  EXPECT_EQ(times.Median(), 1000000u);
  for (int i = 0; i < 6; ++i) times.Add(10);
  EXPECT_EQ(times.Median(), 10u);
  for (int i = 0; i < 15; ++i) times.Add(20);
  EXPECT_EQ(times.Median(), 20u);
}

}  // namespace
}  // namespace tjit
