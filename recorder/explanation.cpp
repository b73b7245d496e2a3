#include "recorder/explanation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/explanation_parts.h"
#include "support/printed_name.h"

namespace tjit {
namespace {

constexpr std::size_t kMaxSequences = 20;
constexpr std::size_t kMaxOps = 10;

std::string Left(const ExplainedSequence& s) {
  std::int64_t all = 0;
  std::string reasons;
  for (const auto& [name, count] : ByCount(s.left)) {
    all += count;
    if (!reasons.empty()) reasons += "; ";
    reasons += BailTextOf(name);
    if (s.left.size() > 1) absl::StrAppend(&reasons, " (", count, ")");
  }
  return absl::StrCat("left ", TimesText(all), ": ", reasons);
}

std::string Measured(const ExplainedSequence& s) {
  if (s.replays == 0) return {};
  if (s.eager_ns == 0 || s.replay_ns == 0) {
    return "time won is not known: too few runs were measured";
  }
  return absl::StrCat(DurationText(s.replay_ns), " instead of ",
                      DurationText(s.eager_ns), " a run, about ",
                      DurationText(s.won_ns()),
                      s.won_ns() < 0 ? " lost" : " won");
}

// "aten::mul, aten::add (WHY); aten::item (WHY)", what is most first.
std::string AtCall(const ExplainedSequence& s) {
  std::int64_t steps = 0;
  std::vector<std::pair<std::string, std::string>> groups;  // why, ops
  for (const auto& [name, count] : ByCount(s.at_call)) {
    steps += count;
    const auto found = s.why_at_call.find(name);
    const std::string why = found == s.why_at_call.end() ? "" : found->second;
    const auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&](const auto& other) { return other.first == why; });
    if (group == groups.end()) {
      groups.emplace_back(why, name);
    } else {
      absl::StrAppend(&group->second, ", ", name);
    }
  }
  std::string text;
  for (const auto& [why, names] : groups) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", names);
    if (!why.empty()) absl::StrAppend(&text, " (", why, ")");
  }
  return absl::StrCat(steps, steps == 1 ? " op runs" : " ops run",
                      " at the call: ", text);
}

void AppendSequence(std::string* out, const ExplainedSequence& s,
                    const std::string& program) {
  absl::StrAppendFormat(out, "  %-3d %s, %d %s: %s\n", s.id, s.state, s.ops,
                        s.ops == 1 ? "op" : "ops", s.first_ops);
  const auto line = [out](const std::string& text) {
    if (!text.empty()) absl::StrAppend(out, "        ", text, "\n");
  };
  if (!s.region.empty()) line("in region " + s.region);
  line(StoryOf(s));
  line(Measured(s));
  if (!s.at_call.empty()) line(AtCall(s));
  if (!s.left.empty()) line(Left(s));
  line(LookInto(s, program));
}

void AppendSequences(std::string* out, const Explanation& e) {
  if (e.sequences.empty()) {
    *out += WhyNoSequence(e);
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
    AppendSequence(out, *order[i], e.program);
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
  for (const auto& [name, count] : ByCount(counts)) {
    const std::string text = text_of(name);
    absl::StrAppendFormat(out, "  %8d  %s%s\n", count, text,
                          text == name ? "" : " [" + name + "]");
  }
}

// "; ran 400 times for 1600 ops, 80.0 % of those that ran".
std::string FusedText(const Explanation& e) {
  const std::int64_t fused = CountOf(e.counters, "steps_fused");
  const std::int64_t ran =
      CountOf(e.counters, "ops_replayed") - CountOf(e.counters, "steps_dead");
  std::string text =
      absl::StrCat("; ran ", TimesText(CountOf(e.counters, "groups_run")),
                   " for ", fused, " ops");
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
    const std::string commands = CommandsFor(order[i]->sequence, e.program);
    if (order[i]->pays || commands.empty()) continue;
    absl::StrAppend(out, "        ", commands, "\n");
  }
  if (order.size() > kMaxSequences) {
    absl::StrAppend(out, "  and ", order.size() - kMaxSequences,
                    " that won less\n");
  }
}

// What tier 2 did, and why not more.
void AppendKernels(std::string* out, const Explanation& e) {
  const std::int64_t compiled = CountOf(e.counters, "kernels_compiled");
  const std::int64_t groups = CountOf(e.counters, "groups_run");
  if (compiled != 0 || groups != 0) {
    absl::StrAppend(out, "compiled code: ", compiled,
                    compiled == 1 ? " kernel in " : " kernels in ",
                    DurationText(CountOf(e.counters, "compile_ns")),
                    FusedText(e), "\n");
  }
  AppendSegments(out, e);
  const std::int64_t hits = CountOf(e.counters, "cache_hits");
  const std::int64_t misses = CountOf(e.counters, "cache_misses");
  if (hits + misses != 0) {
    absl::StrAppend(out, "code on disk: ", hits, " of ", hits + misses,
                    " loops found, ", CountOf(e.counters, "cache_writes"),
                    " written\n");
  }
  const std::int64_t again = CountOf(e.counters, "recompiles");
  if (again != 0) {
    absl::StrAppend(out,
                    "compiled again, as a scalar was not always the same: ",
                    TimesText(again), "\n");
  }
  const std::int64_t off = CountOf(e.counters, "tier2_switched_off");
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

// "./program ran for 3.2 s; ", what of it is known.
std::string Ran(const Explanation& e) {
  constexpr std::size_t kMaxProgram = 60;
  if (e.wall_ns == 0) return "";
  std::string program = e.program.substr(0, kMaxProgram);
  if (program.empty()) program = "the program";
  if (e.program.size() > kMaxProgram) program += "...";
  std::string text =
      absl::StrCat(program, " ran for ", DurationText(e.wall_ns));
  const std::int64_t start = CountOf(e.counters, "start_ns");
  if (100 * start >= e.wall_ns) {
    text += ", of which tjit's start took " + DurationText(start);
  }
  return text + "; ";
}

// What replaying won, as far as it was measured.
std::string Won(const Explanation& e) {
  const Gains gains = GainsOf(e);
  if (gains.replayed == 0) return "nothing was replayed";
  if (gains.unknown == gains.replayed) {
    return "what replaying won is not known: too few runs were measured";
  }
  std::string text = "replaying ";
  absl::StrAppend(&text, gains.won_ns < 0 ? "lost about " : "won about ",
                  DurationText(gains.won_ns), " of the ",
                  DurationText(gains.eager_ns),
                  " that the same runs take eagerly",
                  absl::StrFormat(" (%.2fx)", gains.factor()));
  if (gains.unknown == 0) return text;
  return absl::StrCat(text, "; of ", gains.unknown, " of ", gains.replayed,
                      " sequences it is not known");
}

// Where the time went, by medians of measured runs.
std::string Shares(const Explanation& e) {
  const auto [runs, executed] = TimeInReplaysOf(e);
  if (runs == 0 || e.wall_ns == 0) return "";
  return absl::StrCat(
      "about ", PercentText(runs, e.wall_ns),
      " of the time lies in replayed sequences: ",
      PercentText(executed, e.wall_ns), " runs what was deferred, ",
      PercentText(runs - executed, e.wall_ns),
      " is the program, libtorch's dispatcher and autograd between the "
      "ops\n");
}

void AppendRegions(std::string* out, const Explanation& e) {
  if (e.regions.empty()) return;
  absl::StrAppend(out, e.regions.size(),
                  e.regions.size() == 1 ? " region:\n" : " regions:\n");
  for (const ExplainedRegion& r : e.regions) {
    absl::StrAppend(out, "  ", r.name, ": began ", TimesText(r.entries), ", ",
                    r.ops_seen, " ops: ", r.ops_replayed, " replayed (",
                    PercentText(r.ops_replayed, r.ops_seen), "), ", r.ops_eager,
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
  const std::int64_t seen = CountOf(e.counters, "ops_seen");
  const std::int64_t replayed = CountOf(e.counters, "ops_replayed");
  absl::StrAppend(out, "tjit: ", Ran(e), Won(e), "\n", seen,
                  " ops were called: ", replayed, " replayed (",
                  PercentText(replayed, seen), "), ",
                  CountOf(e.counters, "ops_eager"), " ran eagerly, ",
                  CountOf(e.counters, "ops_drained"),
                  " were deferred and run eagerly after all\n");
  const std::int64_t dead = CountOf(e.counters, "steps_dead");
  if (dead != 0) {
    absl::StrAppend(out, "of the replayed ops ", dead,
                    " did not run, as nothing needed their results\n");
  }
  *out += Shares(e);
}

// Why not more, and what can I do?
void AppendAdvice(std::string* out, const Explanation& e) {
  const std::vector<Obstacle> obstacles = ObstaclesOf(e);
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
  const std::string text =
      absl::StrCat(code.ops, code.ops == 1 ? " op" : " ops", " from ",
                   code.first_op, ": ", DurationText(code.compiled_ns),
                   " a run instead of ", DurationText(code.library_ns),
                   ", compiled in ", DurationText(code.compile_ns));
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
                    f.ways == 1 ? " way" : " ways", f.parts.empty() ? "" : ": ",
                    f.parts, f.why.empty() ? "" : "; not replayed: ", f.why,
                    "\n");
  }
  AppendOps(&text, e);
  AppendReasons(&text, "tjit did not go on because:\n", e.left, &BailTextOf);
  AppendReasons(&text, "deferred ops were run because:\n", e.flushes,
                &FlushTextOf);
  AppendReasons(&text, "backward passes left to libtorch's engine because:\n",
                e.backwards_left, &BackwardTextOf);
  const std::int64_t exposed = CountOf(e.counters, "blocks_exposed");
  if (exposed != 0) {
    absl::StrAppend(&text, "the program took raw pointers to ", exposed,
                    exposed == 1 ? " tensor" : " tensors",
                    ": an op on one runs at the call, or on a copy (",
                    CountOf(e.counters, "inputs_copied"),
                    " copies); where it only reads, tjit::Reading says so\n");
  }
  for (const ExplainedExposure& taken : e.exposures) {
    absl::StrAppend(
        &text, "  ", TimesText(taken.times), " at ",
        taken.place.empty() ? "a call from Python" : taken.place, ", up to ",
        taken.bytes, " bytes", taken.tensor.empty() ? "" : ", of ",
        taken.tensor.empty() ? "" : PrintedName(taken.tensor), "\n");
  }
  return text;
}

}  // namespace tjit
