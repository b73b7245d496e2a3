#include "recorder/explanation.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "support/bail.h"

namespace tjit {
namespace {

constexpr std::size_t kMaxSequences = 20;
constexpr std::size_t kMaxOps = 10;

std::string Times(std::int64_t n) {
  return n == 1 ? "once" : absl::StrCat(n, " times");
}

std::string Duration(std::int64_t ns) {
  const double size = std::abs(static_cast<double>(ns));
  if (size < 1e6) return absl::StrFormat("%.4g us", 1e-3 * size);
  if (size < 1e9) return absl::StrFormat("%.4g ms", 1e-6 * size);
  return absl::StrFormat("%.4g s", 1e-9 * size);
}

std::int64_t Get(const CountsByName& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

using Reasons = std::vector<std::pair<std::string, std::int64_t>>;

// The largest first, equal ones by name.
Reasons Sorted(const CountsByName& counts) {
  Reasons reasons(counts.begin(), counts.end());
  std::stable_sort(
      reasons.begin(), reasons.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  return reasons;
}

template <class Reason>
std::string TextOf(const std::string& name, const char* (*name_of)(Reason),
                   const char* (*text_of)(Reason)) {
  for (int i = 0; i < static_cast<int>(Reason::kCount); ++i) {
    const auto reason = static_cast<Reason>(i);
    if (name == name_of(reason)) return text_of(reason);
  }
  return name;
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

std::string Left(const ExplainedSequence& s) {
  std::int64_t all = 0;
  std::string reasons;
  for (const auto& [name, count] : Sorted(s.left)) {
    all += count;
    if (!reasons.empty()) reasons += "; ";
    reasons += BailTextOf(name);
    if (s.left.size() > 1) absl::StrAppend(&reasons, " (", count, ")");
  }
  return absl::StrCat("left ", Times(all), ": ", reasons);
}

// What happened to a sequence, or what is missing until something does.
std::string Story(const ExplainedSequence& s) {
  std::string text = "seen " + Times(s.sightings);
  if (s.state == kStateSeen) {
    return absl::StrCat("seen ", s.sightings, " of ", s.threshold,
                        " times, then its ops are deferred");
  }
  if (s.state == kStateHot) {
    text += "; since then it has not run to its end";
  } else if (s.state == kStatePaused) {
    text += "; left so often lately that it is not tried the next " +
            Times(s.skip);
  } else if (s.state == kStateBlacklisted) {
    text += "; left more often than it ran to its end: not tried the next " +
            Times(s.skip);
  } else if (s.state == kStateOff) {
    text += "; replaying it was slower than eager: only followed for now";
  }
  return absl::StrCat(text, ", replayed ", Times(s.replays));
}

std::string Measured(const ExplainedSequence& s) {
  if (s.replays == 0) return {};
  if (s.eager_ns == 0 || s.replay_ns == 0) {
    return "time won is not known: too few runs were measured";
  }
  return absl::StrCat(Duration(s.replay_ns), " instead of ",
                      Duration(s.eager_ns), " a run, about ",
                      Duration(s.won_ns()), s.won_ns() < 0 ? " lost" : " won");
}

std::string AtCall(const ExplainedSequence& s) {
  std::int64_t steps = 0;
  std::string names;
  for (const auto& [name, count] : Sorted(s.at_call)) {
    steps += count;
    if (!names.empty()) names += ", ";
    names += name;
  }
  return absl::StrCat(steps, steps == 1 ? " op runs" : " ops run",
                      " at the call: ", names);
}

void AppendSequence(std::string* out, const ExplainedSequence& s) {
  absl::StrAppendFormat(out, "  %-3d %s, %d %s: %s\n", s.id, s.state, s.ops,
                        s.ops == 1 ? "op" : "ops", s.first_ops);
  const auto line = [out](const std::string& text) {
    if (!text.empty()) absl::StrAppend(out, "        ", text, "\n");
  };
  if (!s.region.empty()) line("in region " + s.region);
  line(Story(s));
  line(Measured(s));
  if (!s.at_call.empty()) line(AtCall(s));
  if (!s.left.empty()) line(Left(s));
}

// No sequence is there: why.
std::string WhyNone(const Explanation& e) {
  if (Get(e.counters, "ops_seen") == 0) {
    if (!e.why.empty()) return absl::StrCat("tjit saw no op: ", e.why, "\n");
    return "tjit saw no op: is it switched on (tjit run, TJIT_AUTO_COMPILE=1), "
           "and does this process compute with libtorch on the CPU?\n";
  }
  const std::int64_t found = Get(e.counters, "sequences");
  if (found == 0) {
    return "no sequence: no stretch of ops repeated for long enough (one in "
           "which no value is read\n  and no tjit::mark_step() comes must "
           "repeat for 4096 ops)\n";
  }
  return absl::StrCat(
      "no sequence: ", found,
      " began to repeat, and none went on while it was recorded\n");
}

void AppendSequences(std::string* out, const Explanation& e) {
  if (e.sequences.empty()) {
    *out += WhyNone(e);
    return;
  }
  std::vector<const ExplainedSequence*> order;
  for (const ExplainedSequence& s : e.sequences) order.push_back(&s);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->replays * a->ops, a->sightings * a->ops) >
           std::pair(b->replays * b->ops, b->sightings * b->ops);
  });
  absl::StrAppend(out, order.size(),
                  order.size() == 1 ? " sequence:\n" : " sequences:\n");
  for (std::size_t i = 0; i < std::min(order.size(), kMaxSequences); ++i) {
    AppendSequence(out, *order[i]);
  }
  if (order.size() > kMaxSequences) {
    absl::StrAppend(out, "  and ", order.size() - kMaxSequences,
                    " that replayed less\n");
  }
}

void AppendReasons(std::string* out, const char* title,
                   const CountsByName& counts,
                   std::string (*text_of)(const std::string&)) {
  if (counts.empty()) return;
  *out += title;
  for (const auto& [name, count] : Sorted(counts)) {
    const std::string text = text_of(name);
    absl::StrAppendFormat(out, "  %8d  %s%s\n", count, text,
                          text == name ? "" : " [" + name + "]");
  }
}

// "; ran 400 times for 1600 ops, 80.0 % of those that ran".
std::string FusedText(const Explanation& e) {
  const std::int64_t fused = Get(e.counters, "steps_fused");
  const std::int64_t ran =
      Get(e.counters, "ops_replayed") - Get(e.counters, "steps_dead");
  std::string text = absl::StrCat(
      "; ran ", Times(Get(e.counters, "groups_run")), " for ", fused, " ops");
  if (ran <= 0) return text;
  return text + absl::StrFormat(", %.1f %% of the replayed ones that ran",
                                100.0 * static_cast<double>(fused) /
                                    static_cast<double>(ran));
}

void AppendSegments(std::string* out, const Explanation& e) {
  if (e.compiled_segments.empty()) return;
  std::vector<const ExplainedCode*> order;
  for (const ExplainedCode& code : e.compiled_segments) {
    order.push_back(&code);
  }
  std::stable_sort(
      order.begin(), order.end(), [](const auto* a, const auto* b) {
        return a->library_ns - a->compiled_ns > b->library_ns - b->compiled_ns;
      });
  *out += "segments measured with compiled code and with library calls:\n";
  for (std::size_t i = 0; i < std::min(order.size(), kMaxSequences); ++i) {
    absl::StrAppend(out, "  ", ToText(*order[i]), "\n");
  }
  if (order.size() > kMaxSequences) {
    absl::StrAppend(out, "  and ", order.size() - kMaxSequences,
                    " that won less\n");
  }
}

// What tier 2 did, and why not more.
void AppendKernels(std::string* out, const Explanation& e) {
  const std::int64_t compiled = Get(e.counters, "kernels_compiled");
  const std::int64_t groups = Get(e.counters, "groups_run");
  if (compiled != 0 || groups != 0) {
    absl::StrAppend(out, "compiled code: ", compiled,
                    compiled == 1 ? " kernel in " : " kernels in ",
                    Duration(Get(e.counters, "compile_ns")), FusedText(e),
                    "\n");
  }
  AppendSegments(out, e);
  const std::int64_t hits = Get(e.counters, "cache_hits");
  const std::int64_t misses = Get(e.counters, "cache_misses");
  if (hits + misses != 0) {
    absl::StrAppend(out, "code on disk: ", hits, " of ", hits + misses,
                    " loops found, ", Get(e.counters, "cache_writes"),
                    " written\n");
  }
  const std::int64_t again = Get(e.counters, "recompiles");
  if (again != 0) {
    absl::StrAppend(out,
                    "compiled again, as a scalar was not always the same: ",
                    Times(again), "\n");
  }
  const std::int64_t off = Get(e.counters, "tier2_switched_off");
  if (off != 0) {
    absl::StrAppend(out, "switched off, as library calls are as fast: ", off,
                    off == 1 ? " segment\n" : " segments\n");
  }
  AppendReasons(out, "groups of ops stay library calls because:\n",
                e.not_compiled, [](const std::string& text) { return text; });
}

// Those that are products, or the others.
void AppendFunctions(std::string* out, const Explanation& e,
                     const char* heading, bool are_products) {
  bool is_first = true;
  for (const ExplainedFunction& f : e.functions) {
    if (f.name.starts_with("product ") != are_products) continue;
    if (std::exchange(is_first, false)) *out += heading;
    absl::StrAppend(out, "  ", f.name, " ", f.dtype, ": ", f.from, "\n");
  }
}

void AppendOps(std::string* out, const Explanation& e) {
  if (e.eager_ops.empty()) return;
  *out += "ops that ran eagerly most:\n";
  for (std::size_t i = 0; i < std::min(e.eager_ops.size(), kMaxOps); ++i) {
    const ExplainedOp& op = e.eager_ops[i];
    absl::StrAppendFormat(out, "  %8d  %s", op.calls, op.name);
    if (!op.why.empty()) *out += ": " + op.why;
    *out += "\n";
  }
}

std::string Percent(std::int64_t part, std::int64_t whole) {
  return absl::StrFormat("%.1f %%", whole == 0
                                        ? 0
                                        : 100.0 * static_cast<double>(part) /
                                              static_cast<double>(whole));
}

// "./program ran for 3.2 s; ", what of it is known.
std::string Ran(const Explanation& e) {
  constexpr std::size_t kMaxProgram = 60;
  if (e.wall_ns == 0) return "";
  std::string program = e.program.substr(0, kMaxProgram);
  if (program.empty()) program = "the program";
  if (e.program.size() > kMaxProgram) program += "...";
  std::string text = absl::StrCat(program, " ran for ", Duration(e.wall_ns));
  const std::int64_t start = Get(e.counters, "start_ns");
  if (100 * start >= e.wall_ns) {
    text += ", of which tjit's start took " + Duration(start);
  }
  return text + "; ";
}

// What replaying won, as far as it was measured.
std::string Won(const Explanation& e) {
  std::int64_t won = 0, eager = 0, replayed = 0, unknown = 0;
  for (const ExplainedSequence& s : e.sequences) {
    if (s.replays == 0) continue;
    ++replayed;
    if (!s.is_measured()) {
      ++unknown;
      continue;
    }
    won += s.won_ns();
    eager += s.eager_ns * s.replays;
  }
  if (replayed == 0) return "nothing was replayed";
  if (unknown == replayed) {
    return "what replaying won is not known: too few runs were measured";
  }
  std::string text = "replaying ";
  text += won < 0 ? "lost about " + Duration(-won)
                  : "won about " + Duration(won);
  absl::StrAppend(
      &text, " of the ", Duration(eager), " that the same runs take eagerly",
      absl::StrFormat(" (%.2fx)", static_cast<double>(eager) /
                                      static_cast<double>(eager - won)));
  if (unknown == 0) return text;
  return absl::StrCat(text, "; of ", unknown, " of ", replayed,
                      " sequences it is not known");
}

// Where the time went, by medians of measured runs.
std::string Shares(const Explanation& e) {
  std::int64_t runs = 0, executed = 0;
  for (const ExplainedSequence& s : e.sequences) {
    if (s.replay_ns == 0) continue;
    runs += s.replay_ns * s.replays;
    executed += s.executed_ns * s.replays;
  }
  if (runs == 0 || e.wall_ns == 0) return "";
  return absl::StrCat(
      "about ", Percent(runs, e.wall_ns),
      " of the time lies in replayed sequences: ", Percent(executed, e.wall_ns),
      " runs what was deferred, ", Percent(runs - executed, e.wall_ns),
      " is the program, libtorch's dispatcher and autograd between the "
      "ops\n");
}

void AppendRegions(std::string* out, const Explanation& e) {
  if (e.regions.empty()) return;
  absl::StrAppend(out, e.regions.size(),
                  e.regions.size() == 1 ? " region:\n" : " regions:\n");
  for (const ExplainedRegion& r : e.regions) {
    absl::StrAppend(out, "  ", r.name, ": began ", Times(r.entries), ", ",
                    r.ops_seen, " ops: ", r.ops_replayed, " replayed (",
                    Percent(r.ops_replayed, r.ops_seen), "), ", r.ops_eager,
                    " ran eagerly, ", r.ops_drained, " drained\n");
    absl::StrAppend(out, "        ",
                    r.is_excluded ? "excluded"
                    : r.sequences == 0
                        ? absl::StrCat(r.bodies,
                                       r.bodies == 1 ? " sequence recorded"
                                                     : " sequences recorded",
                                       ", none replayed so far")
                        : SequencesText(r),
                    "\n");
  }
}

// What did I get?
void AppendGains(std::string* out, const Explanation& e) {
  const std::int64_t seen = Get(e.counters, "ops_seen");
  const std::int64_t replayed = Get(e.counters, "ops_replayed");
  absl::StrAppend(out, "tjit: ", Ran(e), Won(e), "\n", seen,
                  " ops were called: ", replayed, " replayed (",
                  Percent(replayed, seen), "), ", Get(e.counters, "ops_eager"),
                  " ran eagerly, ", Get(e.counters, "ops_drained"),
                  " were deferred and run eagerly after all\n");
  const std::int64_t dead = Get(e.counters, "steps_dead");
  if (dead != 0) {
    absl::StrAppend(out, "of the replayed ops ", dead,
                    " did not run, as nothing needed their results\n");
  }
  *out += Shares(e);
}

// Something that stood against more, and what to do about it ("" for nothing).
struct Obstacle {
  std::string what;
  std::string remedy;
};

// "first after op 7 of sequence 3, at aten::mul: 0.25 instead of 0.5, in f()".
std::string FirstTime(const Explanation& e, const std::string& reason) {
  for (const ExplainedExit& exit : e.exits) {
    if (exit.reason != reason) continue;
    std::string text =
        absl::StrCat("; first after op ", exit.after_ops, " of sequence ",
                     exit.sequence, ", at ", exit.op);
    if (!exit.actual.empty()) text += ": " + exit.actual;
    if (!exit.expected.empty()) text += " instead of " + exit.expected;
    if (!exit.place.empty()) text += ", called by " + exit.place;
    return text;
  }
  return "";
}

std::string BailRemedyOf(const std::string& name) {
  for (int i = 0; i < static_cast<int>(BailReason::kCount); ++i) {
    const auto reason = static_cast<BailReason>(i);
    if (name == BailName(reason)) return BailRemedy(reason);
  }
  return "";
}

void AddEagerOps(const Explanation& e, std::vector<Obstacle>* obstacles) {
  constexpr std::int64_t kOneIn = 20;  // ops; fewer are not worth a line
  const std::int64_t seen = Get(e.counters, "ops_seen");
  const std::int64_t eager = Get(e.counters, "ops_eager");
  if (e.eager_ops.empty() || kOneIn * eager < seen) return;
  const ExplainedOp& most = e.eager_ops.front();
  std::string what =
      absl::StrCat(eager, " ops ran eagerly (", Percent(eager, seen),
                   "), most of all ", most.name, " (", Times(most.calls));
  if (!most.why.empty()) what += ": " + most.why;
  obstacles->push_back(
      {what + ")", most.why == "reads values"
                       ? "read values (item(), prints, comparisons) less often"
                       : ""});
}

void AddStates(const Explanation& e, std::vector<Obstacle>* obstacles) {
  std::int64_t seen = 0, off = 0, ops = 0;
  for (const ExplainedSequence& s : e.sequences) {
    if (s.state == kStateSeen) {
      ++seen;
      ops += s.sightings * s.ops;
    }
    if (s.state == kStateOff) ++off;
  }
  const auto sequences = [](std::int64_t n) {
    return absl::StrCat(n, n == 1 ? " sequence was " : " sequences were ");
  };
  if (seen != 0 && 20 * ops >= Get(e.counters, "ops_seen")) {
    obstacles->push_back({sequences(seen) + "not seen often enough",
                          "run for longer, or lower TJIT_HOT_THRESHOLD"});
  }
  if (off != 0) {
    obstacles->push_back({sequences(off) + "as fast eagerly, and left alone",
                          ""});
  }
}

void AddLeftAlone(const Explanation& e, std::vector<Obstacle>* obstacles) {
  const std::int64_t times = Get(e.counters, "threads_left_alone");
  if (times == 0) return;
  obstacles->push_back({"a thread ran eagerly for a while, as tjit cost more "
                        "than it won there (" + Times(times) + ")",
                        ""});
}

void AddForgotten(const Explanation& e, std::vector<Obstacle>* obstacles) {
  const std::int64_t times = Get(e.counters, "evictions");
  if (times == 0) return;
  obstacles->push_back(
      {absl::StrCat("sequences that were run least were forgotten ",
                    Times(times), ", as records came near their bound; ",
                    Get(e.counters, "trace_bytes") >> 20, " MB of ",
                    Get(e.counters, "trace_steps"), " ops are kept"),
       BailRemedy(BailReason::kStoreFull)});
}

std::vector<Obstacle> Obstacles(const Explanation& e) {
  constexpr std::size_t kMaxReasons = 3;
  std::vector<Obstacle> obstacles;
  if (e.sequences.empty() && Get(e.counters, "ops_seen") != 0) {
    obstacles.push_back({"nothing was found that repeats for long enough",
                         BailRemedy(BailReason::kNotRepeated)});
  }
  AddEagerOps(e, &obstacles);
  std::size_t listed = 0;
  for (const auto& [name, count] : Sorted(e.left)) {
    if (++listed > kMaxReasons) break;
    obstacles.push_back({absl::StrCat(Times(count), ": ", BailTextOf(name),
                                      " [", name, "]", FirstTime(e, name)),
                         BailRemedyOf(name)});
  }
  AddStates(e, &obstacles);
  AddLeftAlone(e, &obstacles);
  AddForgotten(e, &obstacles);
  if (!e.not_compiled.empty()) {
    const auto [why, count] = Sorted(e.not_compiled).front();
    obstacles.push_back({absl::StrCat(count, count == 1 ? " group" : " groups",
                                      " of ops stayed library calls: ", why),
                         ""});
  }
  return obstacles;
}

// Why not more, and what can I do?
void AppendAdvice(std::string* out, const Explanation& e) {
  const std::vector<Obstacle> obstacles = Obstacles(e);
  if (obstacles.empty()) return;
  *out += "why not more:\n";
  for (const Obstacle& o : obstacles) {
    absl::StrAppend(out, "  - ", o.what, "\n");
  }
  std::string remedies;
  for (const Obstacle& o : obstacles) {
    const std::string line = absl::StrCat("  - ", o.remedy, "\n");
    if (o.remedy.empty() || remedies.find(line) != std::string::npos) continue;
    remedies += line;
  }
  if (!remedies.empty()) *out += "what to do:\n" + remedies;
}

}  // namespace

std::string ToText(const ExplainedCode& code) {
  const std::string text = absl::StrCat(
      code.ops, code.ops == 1 ? " op" : " ops", " from ", code.first_op, ": ",
      Duration(code.compiled_ns), " a run instead of ",
      Duration(code.library_ns), ", compiled in ", Duration(code.compile_ns));
  if (!code.pays) return text + ": switched off";
  const std::int64_t runs = code.break_even_runs();
  if (runs == 0) return text + ", which no number of runs wins back";
  return absl::StrCat(text, ", which ", runs,
                      runs == 1 ? " run wins back" : " runs win back");
}

std::string SequencesText(const ExplainedRegion& r) {
  std::string text = absl::StrCat(
      r.sequences,
      r.sequences == 1 ? " traced sequence, " : " traced sequences, ",
      r.ops_at_call, r.ops_at_call == 1 ? " op" : " ops", " at the call");
  if (r.at_call.empty()) return text;
  const char* separator = " (";
  for (const auto& [op, why] : r.at_call) {
    absl::StrAppend(&text, separator, op, ": ", why);
    separator = "; ";
  }
  return text + ")";
}

std::string ToText(const Explanation& e, bool verbose) {
  std::string text;
  AppendGains(&text, e);
  AppendAdvice(&text, e);
  AppendRegions(&text, e);
  AppendSequences(&text, e);
  AppendKernels(&text, e);
  if (verbose) {
    AppendFunctions(&text, e, "functions of compiled code:\n", false);
    AppendFunctions(&text, e, "matrix products:\n", true);
  }
  for (const ExplainedJit& f : e.jit_functions) {
    absl::StrAppend(&text, "jit ", f.name, ": replayed ", f.replays, " of ",
                    f.calls, f.calls == 1 ? " call" : " calls", " in ", f.ways,
                    f.ways == 1 ? " way" : " ways",
                    f.why.empty() ? "" : "; not replayed: ", f.why, "\n");
  }
  AppendOps(&text, e);
  AppendReasons(&text, "tjit did not go on because:\n", e.left, &BailTextOf);
  AppendReasons(&text, "deferred ops were run because:\n", e.flushes,
                &FlushTextOf);
  AppendReasons(&text, "backward passes left to libtorch's engine because:\n",
                e.backwards_left, &BackwardTextOf);
  const std::int64_t exposed = Get(e.counters, "blocks_exposed");
  if (exposed != 0) {
    absl::StrAppend(&text, "the program took raw pointers to ", exposed,
                    exposed == 1 ? " tensor" : " tensors",
                    ": an op on one runs at the call, or on a copy (",
                    Get(e.counters, "inputs_copied"), " copies)\n");
  }
  for (const ExplainedExposure& taken : e.exposures) {
    absl::StrAppend(&text, "  ", Times(taken.times), " at ",
                    taken.place.empty() ? "a call from Python" : taken.place,
                    ", up to ", taken.bytes, " bytes\n");
  }
  return text;
}

}  // namespace tjit
