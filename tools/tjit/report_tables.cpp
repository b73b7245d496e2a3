#include "tools/tjit/report_tables.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "recorder/explanation_parts.h"
#include "support/printed_name.h"
#include "tools/tjit/report_html.h"

namespace tjit::tools {
namespace {

std::string WithHeading(const char* id, const char* heading,
                        const std::string& html) {
  return html.empty() ? "" : Heading(id, heading) + html;
}

std::string HtmlUnlessEmpty(const Table& table) {
  return table.is_empty() ? "" : table.Html();
}

std::string NoText(const std::string&) { return ""; }
std::string NameItself(const std::string& name) { return name; }

std::string ReasonsTable(const char* id, const char* caption,
                         const CountsByName& counts,
                         std::string (*text_of)(const std::string&),
                         std::string (*remedy_of)(const std::string&)) {
  const bool has_remedies = remedy_of != &NoText;
  const bool has_texts = text_of != &NameItself;
  std::vector<Column> columns = {{"times", "Times", true}, {"name", "Name"}};
  if (has_texts) columns.insert(columns.begin() + 1, {"reason", "Reason"});
  if (has_remedies) columns.push_back({"remedy", "What to do"});
  Table table(id, caption, columns);
  for (const auto& [name, count] : ByCount(counts)) {
    std::vector<Cell> row = {Count(count)};
    if (has_texts) row.push_back(Text(text_of(name)));
    row.push_back(Code(name));
    if (has_remedies) row.push_back(Text(remedy_of(name)));
    table.AddRow(std::move(row));
  }
  return HtmlUnlessEmpty(table);
}

std::string ExitsTable(const std::string& id, const Explanation& e,
                       std::int64_t sequence) {
  Table table(id, "Where it was left for the first time, for each reason",
              {{"after_ops", "After op", true},
               {"op", "At"},
               {"reason", "Reason"},
               {"expected", "Expected"},
               {"actual", "Came"},
               {"place", "Called by"}});
  for (const ExplainedExit& exit : e.exits) {
    if (exit.sequence != sequence) continue;
    table.AddRow({Count(exit.after_ops), Code(exit.op),
                  Text(BailTextOf(exit.reason)), Code(exit.expected),
                  Code(exit.actual), Code(exit.place)});
  }
  return HtmlUnlessEmpty(table);
}

std::string SequenceDetails(const Explanation& e, const ExplainedSequence& s,
                            bool is_open) {
  const std::string id = absl::StrCat("sequence-", s.id);
  std::string html =
      absl::StrCat("<details id=\"", id, "\"", is_open ? " open" : "",
                   "><summary>Sequence ", s.id, ", ", Escaped(s.state),
                   ": <code>", Escaped(s.first_ops), "</code></summary>\n");
  html += Paragraph(absl::StrCat("It was ", StoryOf(s), "."));
  if (s.is_measured()) {
    html += Paragraph(absl::StrCat("A run took ", DurationText(s.replay_ns),
                                   " instead of ", DurationText(s.eager_ns),
                                   "; ", DurationText(s.executed_ns),
                                   " of it ran what was deferred."));
  }
  const std::string commands = LookInto(s, e.program);
  if (!commands.empty()) html += Paragraph(commands);
  html += ReasonsTable((id + "-call").c_str(),
                       "Ops that run at the call and cut it into segments",
                       s.at_call, &NameItself, &NoText);
  html +=
      ReasonsTable((id + "-left").c_str(), "Why runs with deferred ops left it",
                   s.left, &BailTextOf, &BailRemedyOf);
  return html + ExitsTable(id + "-exits", e, s.id) + "</details>\n";
}

// Those that replayed most ops first.
std::vector<const ExplainedSequence*> InOrder(const Explanation& e) {
  std::vector<const ExplainedSequence*> order;
  for (const ExplainedSequence& s : e.sequences) order.push_back(&s);
  std::stable_sort(
      order.begin(), order.end(), [](const auto* a, const auto* b) {
        return std::pair(a->replays * a->ops, a->sightings * a->ops) >
               std::pair(b->replays * b->ops, b->sightings * b->ops);
      });
  return order;
}

Table SequencesTable(bool has_regions) {
  std::vector<Column> columns = {{"id", "Sequence", true},
                                 {"state", "State"},
                                 {"ops", "Ops", true},
                                 {"sightings", "Seen", true},
                                 {"replays", "Replayed", true},
                                 {"eager_ns", "A run eagerly", true},
                                 {"replay_ns", "Replayed run", true},
                                 {"won_ns", "Won in all", true}};
  if (has_regions) columns.push_back({"region", "Region"});
  columns.push_back({"first_ops", "First ops"});
  return {"sequence-table",
          "Each repeating sequence; times are medians of measured runs",
          std::move(columns)};
}

// "64 to 127".
std::string BinText(std::size_t bin) {
  const std::int64_t first = std::int64_t{1} << bin;
  return bin == 0 ? "1" : absl::StrCat(first, " to ", 2 * first - 1);
}

std::string LengthsTable(const StatsFile& stats) {
  Table table("segments", "Segments that ran, by their number of ops",
              {{"length", "Ops in a segment"},
               {"segments", "Segments", true},
               {"ops", "Ops in them", true}});
  const std::size_t bins =
      std::min(stats.segment_length.size(), stats.segment_ops.size());
  for (std::size_t i = 0; i < bins; ++i) {
    if (stats.segment_length[i] == 0) continue;
    table.AddRow({Text(BinText(i)), Count(stats.segment_length[i]),
                  Count(stats.segment_ops[i])});
  }
  return HtmlUnlessEmpty(table);
}

std::string CodeTable(const Explanation& e) {
  Table table("code",
              "Segments measured with compiled code and with library calls",
              {{"first_op", "From"},
               {"ops", "Ops", true},
               {"library_ns", "By library calls", true},
               {"compiled_ns", "Compiled", true},
               {"compile_ns", "Compiling took", true},
               {"break_even_runs", "Paid after runs", true},
               {"pays", "State"}});
  for (const ExplainedCode& code : e.compiled_segments) {
    const std::int64_t runs = code.break_even_runs();
    table.AddRow({Code(code.first_op), Count(code.ops),
                  Duration(code.library_ns), Duration(code.compiled_ns),
                  Duration(code.compile_ns),
                  runs == 0 ? Cell{"never", 0} : Count(runs),
                  Text(code.pays ? "in use" : "switched off")});
  }
  return HtmlUnlessEmpty(table);
}

// A counter with what it counts.
struct CounterDoc {
  const char* name;
  const char* doc;
};
constexpr CounterDoc kCounters[] = {
#define TJIT_COUNTER(name, doc) {#name, doc},
#include "support/counters.def"
#undef TJIT_COUNTER
};

void AddCounter(const Explanation& e, const CounterDoc& counter, Table* table) {
  const auto found = e.counters.find(counter.name);
  table->AddRow({Code(counter.name),
                 found == e.counters.end() ? Text("not in the file")
                                           : Count(found->second),
                 Text(counter.doc)});
}

// Those of `names`, in the order of counters.def.
std::string SomeCounters(const char* id, const char* caption,
                         const Explanation& e,
                         const std::vector<std::string>& names) {
  Table table(id, caption,
              {{"name", "Counter"},
               {"count", "Value", true},
               {"doc", "What it counts"}});
  for (const CounterDoc& counter : kCounters) {
    if (std::find(names.begin(), names.end(), counter.name) == names.end()) {
      continue;
    }
    AddCounter(e, counter, &table);
  }
  return table.Html();
}

std::string ObstaclesTable(const Explanation& e) {
  Table table("obstacles", "What stood against more",
              {{"what", "What"}, {"remedy", "What to do"}});
  for (const Obstacle& obstacle : ObstaclesOf(e)) {
    table.AddRow(
        {Text(obstacle.what),
         Text(obstacle.remedy.empty() ? "nothing is known" : obstacle.remedy)});
  }
  return HtmlUnlessEmpty(table);
}

std::string ExposuresTable(const Explanation& e) {
  const bool has_names =
      std::any_of(e.exposures.begin(), e.exposures.end(),
                  [](const auto& taken) { return !taken.tensor.empty(); });
  std::vector<Column> columns = {{"place", "Place"},
                                 {"times", "Times", true},
                                 {"bytes", "Largest storage", true}};
  if (has_names) columns.push_back({"tensor", "Tensor"});
  Table table("exposures", "Where the program took raw pointers to tensors",
              columns);
  for (const ExplainedExposure& taken : e.exposures) {
    std::vector<Cell> row = {
        taken.place.empty() ? Text("a call from Python") : Code(taken.place),
        Count(taken.times), Bytes(taken.bytes)};
    if (!taken.tensor.empty()) {
      row.push_back(Code(PrintedName(taken.tensor)));
    } else if (has_names) {
      row.push_back(Text("no name"));
    }
    table.AddRow(std::move(row));
  }
  return HtmlUnlessEmpty(table);
}

}  // namespace

std::string ReasonsSection(const Explanation& e) {
  return WithHeading(
      "why", "Why not more",
      absl::StrCat(
          ObstaclesTable(e),
          ReasonsTable("left", "Side exits: why tjit did not go on", e.left,
                       &BailTextOf, &BailRemedyOf),
          ReasonsTable("flushes", "Why deferred ops were run", e.flushes,
                       &FlushTextOf, &NoText),
          ReasonsTable("backwards",
                       "Why backward passes were left to libtorch's engine",
                       e.backwards_left, &BackwardTextOf, &NoText)));
}

std::string SequencesSection(const Explanation& e) {
  constexpr std::size_t kOpen = 3;
  if (CountOf(e.counters, "ops_seen") == 0) return "";
  std::string html = Heading("sequences", "Sequences");
  if (e.sequences.empty()) return html + Paragraph(WhyNoSequence(e));
  const bool has_regions =
      std::any_of(e.sequences.begin(), e.sequences.end(),
                  [](const ExplainedSequence& s) { return !s.region.empty(); });
  Table table = SequencesTable(has_regions);
  std::string details;
  std::size_t rank = 0;
  for (const ExplainedSequence* s : InOrder(e)) {
    std::vector<Cell> row = {
        {absl::StrCat("<a href=\"#sequence-", s->id, "\">", s->id, "</a>"),
         s->id},
        Text(s->state),
        Count(s->ops),
        Count(s->sightings),
        Count(s->replays),
        MeasuredTime(s->eager_ns),
        MeasuredTime(s->replay_ns),
        s->is_measured() ? Duration(s->won_ns()) : Cell{"not measured", 0}};
    if (has_regions) row.push_back(Text(s->region));
    row.push_back(Code(s->first_ops));
    table.AddRow(std::move(row));
    details += SequenceDetails(e, *s, rank++ < kOpen);
  }
  return html + table.Html() + details;
}

std::string CompiledSection(const StatsFile& stats) {
  const Explanation& e = stats.explanation;
  if (CountOf(e.counters, "ops_seen") == 0) return "";
  return absl::StrCat(
      Heading("compiled", "Segments and compiled code"), LengthsTable(stats),
      CodeTable(e),
      Paragraph("A segment is listed once both ways were measured. The file "
                "does not say which sequence a segment belongs to."),
      ReasonsTable("not-compiled", "Why groups of ops stay library calls",
                   e.not_compiled, &NameItself, &NoText),
      SomeCounters("compiling", "Compiling, and compiling again", e,
                   {"kernels_compiled", "kernels_reused", "compiles_failed",
                    "recompiles", "compiles_refused", "tier2_switched_off",
                    "groups_run", "steps_fused", "cache_hits", "cache_misses",
                    "cache_writes", "compile_ns"}));
}

std::string RegionsSection(const Explanation& e) {
  Table table("region-table", "Regions, each without the regions inside it",
              {{"name", "Region"},
               {"entries", "Entered", true},
               {"ops_seen", "Ops", true},
               {"ops_replayed", "Replayed", true},
               {"ops_eager", "Eager", true},
               {"ops_drained", "Drained", true},
               {"sequences", "What became of it"}});
  for (const ExplainedRegion& r : e.regions) {
    table.AddRow({Text(r.name), Count(r.entries), Count(r.ops_seen),
                  Count(r.ops_replayed), Count(r.ops_eager),
                  Count(r.ops_drained),
                  Text(r.is_excluded ? "excluded" : SequencesText(r))});
  }
  return WithHeading("regions", "Regions", HtmlUnlessEmpty(table));
}

std::string JitSection(const Explanation& e) {
  Table table("jit-table", "Functions of tjit::jit()",
              {{"name", "Function"},
               {"calls", "Calls", true},
               {"replays", "Replayed", true},
               {"ways", "Ways", true},
               {"why", "Why the last call was not replayed"}});
  for (const ExplainedJit& f : e.jit_functions) {
    table.AddRow({Text(f.name), Count(f.calls), Count(f.replays), Count(f.ways),
                  Text(f.why)});
  }
  return WithHeading("jit", "Functions of tjit::jit()", HtmlUnlessEmpty(table));
}

std::string EagerOpsSection(const Explanation& e) {
  Table table("eager-table", "Ops that ran eagerly at the call",
              {{"op", "Op"}, {"calls", "Calls", true}, {"why", "Why"}});
  for (const ExplainedOp& op : e.eager_ops) {
    table.AddRow({Code(op.name), Count(op.calls), Text(op.why)});
  }
  return WithHeading("eager", "Eager ops", HtmlUnlessEmpty(table));
}

std::string MemorySection(const Explanation& e) {
  const std::int64_t peak = CountOf(e.counters, "memory_peak_bytes");
  const std::int64_t records = CountOf(e.counters, "trace_bytes");
  return absl::StrCat(
      Heading("memory", "Memory"), "<dl class=\"tiles\">\n",
      Tile("memory_peak_bytes", "Peak of tjit's tensor memory", Bytes(peak)),
      Tile("trace_bytes", "Records of traces, about", Bytes(records)),
      Tile("plan_bytes", "Plans of all threads, about",
           Bytes(CountOf(e.counters, "plan_bytes"))),
      Tile("code_bytes", "Machine code and compiler, about",
           Bytes(CountOf(e.counters, "code_bytes"))),
      "</dl>\n",
      SomeCounters("memory-counters", "Pointers and copies", e,
                   {"memory_plans", "evictions", "trims", "blocks_exposed",
                    "inputs_copied", "hooks_fired"}),
      ExposuresTable(e));
}

std::string FunctionsSection(const Explanation& e) {
  Table table("function-table",
              "Where the numbers of functions in compiled code come from",
              {{"name", "Function"}, {"dtype", "Type"}, {"from", "From"}});
  for (const ExplainedFunction& f : e.functions) {
    table.AddRow({Text(f.name), Text(f.dtype), Text(f.from)});
  }
  return WithHeading("functions", "Numeric functions", HtmlUnlessEmpty(table));
}

std::string CountersSection(const Explanation& e) {
  Table table("counter-table", "All counters",
              {{"name", "Counter"},
               {"count", "Value", true},
               {"doc", "What it counts"}});
  CountsByName others = e.counters;
  others.erase("median_segment_length");
  for (const CounterDoc& counter : kCounters) {
    AddCounter(e, counter, &table);
    others.erase(counter.name);
  }
  for (const auto& [name, count] : others) {
    table.AddRow(
        {Code(name), Count(count), Text("not known to this version of tjit")});
  }
  return Heading("counters", "Counters") + table.Html();
}

}  // namespace tjit::tools
