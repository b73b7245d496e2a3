#include "recorder/explanation_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/bail.h"
#include "support/policy.h"

namespace tjit {
namespace {

template <class Reason>
std::string TextOf(const std::string& name, const char* (*name_of)(Reason),
                   const char* (*text_of)(Reason)) {
  for (int i = 0; i < static_cast<int>(Reason::kCount); ++i) {
    const auto reason = static_cast<Reason>(i);
    if (name == name_of(reason)) return text_of(reason);
  }
  return name;
}

// "first after op 7 of sequence 3, at aten::mul: 0.25 instead of 0.5, in f()".
std::string FirstTime(const Explanation& e, const std::string& reason) {
  for (const ExplainedExit& exit : e.exits) {
    if (exit.reason != reason) continue;
    return absl::StrCat("; first after op ", exit.after_ops, " of sequence ",
                        exit.sequence, ", ", WhatDiffers(exit));
  }
  return "";
}

void AddEagerOps(const Explanation& e, std::vector<Obstacle>* obstacles) {
  constexpr std::int64_t kOneIn = 20;  // ops; fewer are not worth a line
  const std::int64_t seen = CountOf(e.counters, "ops_seen");
  const std::int64_t eager = CountOf(e.counters, "ops_eager");
  if (e.eager_ops.empty() || kOneIn * eager < seen) return;
  const ExplainedOp& most = e.eager_ops.front();
  std::string what =
      absl::StrCat(eager, " ops ran eagerly (", PercentText(eager, seen),
                   "), most of all ", most.name, " (", TimesText(most.calls));
  if (!most.why.empty()) what += ": " + most.why;
  obstacles->push_back(
      {what + ")", most.why == "reads values"
                       ? "read values (item(), prints, comparisons) less often"
                       : ""});
}

// How many of the ops that ran eagerly are in none of the sequences that are
// kept. 0 where it is not known, as some were forgotten, or where another line
// says why.
std::int64_t InNoSequence(const Explanation& e) {
  for (const char* counter : {"threads_left_alone", "evictions"}) {
    if (CountOf(e.counters, counter) != 0) return 0;
  }
  std::int64_t ops = CountOf(e.counters, "ops_eager");
  for (const ExplainedSequence& s : e.sequences) {
    ops -= std::max<std::int64_t>(s.sightings - s.replays, 0) * s.ops;
    for (const auto& [op, count] : s.at_call) ops -= count * s.replays;
  }
  return ops;
}

void AddInNoSequence(const Explanation& e, std::vector<Obstacle>* obstacles) {
  constexpr std::int64_t kOneIn = 20, kFew = 1000;  // not worth a line
  constexpr std::int64_t kMostBefore = 2 * policy::kStarvingOps;
  const std::int64_t seen = CountOf(e.counters, "ops_seen");
  const std::int64_t ops = InNoSequence(e);
  if (ops < kFew || kOneIn * ops < seen) return;
  if (CountOf(e.counters, "ops_replayed") == 0) return;  // is said otherwise
  const std::string what = absl::StrCat(ops, " ops (", PercentText(ops, seen),
                                        ") are in no sequence: ");
  if (ops <= kMostBefore) {
    obstacles->push_back({what + "they came before one was found, or lie "
                                 "between those that repeat",
                          "run for longer, or mark the end of an iteration "
                          "with tjit::mark_step()"});
    return;
  }
  obstacles->push_back(
      {what + "most lie between those that repeat, in an order that changes",
       "where they put a batch together use ops that take all of it (cat, "
       "stack, an index) instead of some for each sample"});
}

// Whether `s` was recorded and did not come again, although twice as many ops
// were called as a hot sequence of its length needs.
bool CameNoMore(const Explanation& e, const ExplainedSequence& s) {
  constexpr std::int64_t kMostSightings = 2;
  return s.state == kStateSeen && s.sightings <= kMostSightings &&
         2 * s.threshold * s.ops <= CountOf(e.counters, "ops_seen");
}

// How many sequences came no more. It is 0 where that is not the obstacle:
// they are few, or at least half of the ops are replayed all the same.
std::int64_t CountNoMore(const Explanation& e) {
  constexpr std::int64_t kFewSequences = 3;
  const std::int64_t n = std::count_if(
      e.sequences.begin(), e.sequences.end(),
      [&e](const ExplainedSequence& s) { return CameNoMore(e, s); });
  const bool mostly_eager =
      2 * CountOf(e.counters, "ops_eager") > CountOf(e.counters, "ops_seen");
  return n >= kFewSequences && mostly_eager ? n : 0;
}

void AddNoMore(const Explanation& e, std::vector<Obstacle>* obstacles) {
  const std::int64_t n = CountNoMore(e);
  if (n == 0) return;
  obstacles->push_back(
      {absl::StrCat(n,
                    " sequences were recorded and came no more: each time "
                    "other tensors, sizes or ops"),
       "take rows of one tensor by an index, instead of tensors picked anew; "
       "keep sizes and the order of ops"});
}

void AddStates(const Explanation& e, std::vector<Obstacle>* obstacles) {
  std::int64_t seen = 0, off = 0, ops = 0;
  const bool said = CountNoMore(e) != 0;  // by AddNoMore()
  for (const ExplainedSequence& s : e.sequences) {
    if (s.state == kStateSeen && !(said && CameNoMore(e, s))) {
      ++seen;
      ops += s.sightings * s.ops;
    }
    if (s.state == kStateOff) ++off;
  }
  const auto sequences = [](std::int64_t n) {
    return absl::StrCat(n, n == 1 ? " sequence was " : " sequences were ");
  };
  if (seen != 0 && 20 * ops >= CountOf(e.counters, "ops_seen")) {
    obstacles->push_back(
        {sequences(seen) + "not seen often enough", StateRemedyOf(kStateSeen)});
  }
  if (off != 0) {
    obstacles->push_back(
        {sequences(off) + "as fast eagerly, and left alone", ""});
  }
}

// What is replayed ran eagerly until it had been seen often enough: in a short
// program that may be much of it.
void AddWaited(const Explanation& e, std::vector<Obstacle>* obstacles) {
  std::int64_t waited = 0;
  for (const ExplainedSequence& s : e.sequences) {
    if (s.state != kStateReplayed || s.replays == 0) continue;
    waited += std::min(s.threshold, s.sightings - s.replays) * s.ops;
  }
  const std::int64_t seen = CountOf(e.counters, "ops_seen");
  if (5 * waited < seen || waited > CountOf(e.counters, "ops_eager")) return;
  obstacles->push_back(
      {absl::StrCat(waited, " ops (", PercentText(waited, seen),
                    ") ran eagerly before their sequences had been seen often "
                    "enough"),
       StateRemedyOf(kStateSeen)});
}

void AddLeftAlone(const Explanation& e, std::vector<Obstacle>* obstacles) {
  const std::int64_t times = CountOf(e.counters, "threads_left_alone");
  if (times == 0) return;
  obstacles->push_back(
      {"a thread ran eagerly for a while, as tjit cost more "
       "than it won there (" +
           TimesText(times) + ")",
       ""});
}

void AddForgotten(const Explanation& e, std::vector<Obstacle>* obstacles) {
  const std::int64_t times = CountOf(e.counters, "evictions");
  if (times == 0) return;
  obstacles->push_back(
      {absl::StrCat("sequences that were run least were forgotten ",
                    TimesText(times), ", as records came near their bound; ",
                    CountOf(e.counters, "trace_bytes") >> 20, " MB of ",
                    CountOf(e.counters, "trace_steps"), " ops are kept"),
       BailRemedy(BailReason::kStoreFull)});
}

}  // namespace

std::string DurationText(std::int64_t ns) {
  // Divided: a product with a rounded factor is another number at times.
  const double size = std::abs(static_cast<double>(ns));
  if (size < 1e6) return absl::StrFormat("%.4g us", size / 1e3);
  if (size < 1e9) return absl::StrFormat("%.4g ms", size / 1e6);
  return absl::StrFormat("%.4g s", size / 1e9);
}

std::string PercentText(std::int64_t part, std::int64_t whole) {
  return absl::StrFormat("%.1f %%", whole == 0
                                        ? 0
                                        : 100.0 * static_cast<double>(part) /
                                              static_cast<double>(whole));
}

std::string TimesText(std::int64_t n) {
  return n == 1 ? "once" : absl::StrCat(n, " times");
}

std::int64_t CountOf(const CountsByName& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

// The largest first, equal ones by name.
CountsInOrder ByCount(const CountsByName& counts) {
  CountsInOrder reasons(counts.begin(), counts.end());
  std::stable_sort(
      reasons.begin(), reasons.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  return reasons;
}

std::string BailTextOf(const std::string& name) {
  return TextOf<BailReason>(name, &BailName, &BailText);
}

std::string BackwardTextOf(const std::string& name) {
  return TextOf<BackwardReason>(name, &BackwardName, &BackwardText);
}

std::string FlushTextOf(const std::string& name) {
  return TextOf<FlushReason>(name, &FlushName, &FlushText);
}

std::string BailRemedyOf(const std::string& name) {
  for (int i = 0; i < static_cast<int>(BailReason::kCount); ++i) {
    const auto reason = static_cast<BailReason>(i);
    if (name == BailName(reason)) return BailRemedy(reason);
  }
  return "";
}

std::string StateRemedyOf(const std::string& state) {
  if (state == kStateSeen) return "run for longer, or lower TJIT_HOT_THRESHOLD";
  return "";
}

std::string WhatDiffers(const ExplainedExit& exit) {
  std::string text = absl::StrCat("at ", exit.op);
  if (!exit.actual.empty()) text += ": " + exit.actual;
  if (!exit.expected.empty()) text += " instead of " + exit.expected;
  if (!exit.place.empty()) text += ", called by " + exit.place;
  return text;
}

// What happened to a sequence, or what is missing until something does.
std::string StoryOf(const ExplainedSequence& s) {
  std::string text = "seen " + TimesText(s.sightings);
  if (s.state == kStateSeen) {
    return absl::StrCat("seen ", s.sightings, " of ", s.threshold,
                        " times, then its ops are deferred");
  }
  if (s.state == kStateHot) {
    text += "; since then it has not run to its end";
  } else if (s.state == kStatePaused) {
    text += "; left so often lately that it is not tried the next " +
            TimesText(s.skip);
  } else if (s.state == kStateBlacklisted) {
    text += "; left more often than it ran to its end: not tried the next " +
            TimesText(s.skip);
  } else if (s.state == kStateOff) {
    text += "; replaying it was slower than eager: only followed for now";
  }
  return absl::StrCat(text, ", replayed ", TimesText(s.replays));
}

std::string CommandsFor(const std::string& name, const std::string& program) {
  // A word with a blank or another sign of the shell cannot be told any more.
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      " _-./=,:+@%";
  const bool is_plain = !program.empty() &&
                        program.find_first_not_of(kPlain) == std::string::npos;
  // Of a file that somebody else wrote.
  if (name.empty() ||
      name.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return "";
  }
  return absl::StrCat("to look into it: `tjit run --repro=", name,
                      " --repro-dir=repro -- ", is_plain ? program : "PROGRAM",
                      "`, then `tjit replay repro/*.tjitseq`");
}

std::string LookInto(const ExplainedSequence& s, const std::string& program) {
  const bool is_given_up = s.state == kStateOff || s.state == kStatePaused ||
                           s.state == kStateBlacklisted;
  return is_given_up || s.won_ns() < 0 ? CommandsFor(s.name, program) : "";
}

// No sequence is there: why.
std::string WhyNoSequence(const Explanation& e) {
  if (CountOf(e.counters, "ops_seen") == 0) {
    if (!e.why.empty()) return absl::StrCat("tjit saw no op: ", e.why, "\n");
    return "tjit saw no op: is it switched on (tjit run, TJIT_AUTO_COMPILE=1), "
           "and does this process compute with libtorch on the CPU?\n";
  }
  const std::int64_t found = CountOf(e.counters, "sequences");
  if (found == 0) {
    return "no sequence: no stretch of ops repeated for long enough (one in "
           "which no value is read\n  and no tjit::mark_step() comes must "
           "repeat for 4096 ops)\n";
  }
  return absl::StrCat(
      "no sequence: ", found,
      " began to repeat, and none went on while it was recorded\n");
}

Gains GainsOf(const Explanation& e) {
  Gains gains;
  for (const ExplainedSequence& s : e.sequences) {
    if (s.replays == 0) continue;
    ++gains.replayed;
    if (!s.is_measured()) {
      ++gains.unknown;
      continue;
    }
    gains.won_ns += s.won_ns();
    gains.eager_ns += s.eager_ns * s.replays;
  }
  return gains;
}

TimeInReplays TimeInReplaysOf(const Explanation& e) {
  TimeInReplays time;
  for (const ExplainedSequence& s : e.sequences) {
    if (s.replay_ns == 0) continue;
    time.runs_ns += s.replay_ns * s.replays;
    time.executed_ns += s.executed_ns * s.replays;
  }
  return time;
}

std::vector<Obstacle> ObstaclesOf(const Explanation& e) {
  constexpr std::size_t kMaxReasons = 3;
  std::vector<Obstacle> obstacles;
  if (e.sequences.empty() && CountOf(e.counters, "ops_seen") != 0) {
    obstacles.push_back({"nothing was found that repeats for long enough",
                         BailRemedy(BailReason::kNotRepeated)});
  }
  AddEagerOps(e, &obstacles);
  AddInNoSequence(e, &obstacles);
  std::size_t listed = 0;
  for (const auto& [name, count] : ByCount(e.left)) {
    if (++listed > kMaxReasons) break;
    obstacles.push_back({absl::StrCat(TimesText(count), ": ", BailTextOf(name),
                                      " [", name, "]", FirstTime(e, name)),
                         BailRemedyOf(name)});
  }
  AddNoMore(e, &obstacles);
  AddStates(e, &obstacles);
  AddWaited(e, &obstacles);
  AddLeftAlone(e, &obstacles);
  AddForgotten(e, &obstacles);
  if (!e.not_compiled.empty()) {
    const auto [why, count] = ByCount(e.not_compiled).front();
    obstacles.push_back({absl::StrCat(count, count == 1 ? " group" : " groups",
                                      " of ops stayed library calls: ", why),
                         ""});
  }
  return obstacles;
}

}  // namespace tjit
