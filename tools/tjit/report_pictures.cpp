#include "tools/tjit/report_pictures.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/inspect/dump_reader.h"
#include "compiler/inspect/graph.h"
#include "recorder/explanation_parts.h"
#include "recorder/instruction_log_reader.h"
#include "tools/tjit/dump_file.h"
#include "tools/tjit/log_file.h"
#include "tools/tjit/op_kinds.h"
#include "tools/tjit/report_html.h"
#include "tools/tjit/timeline_data.h"
#include "tools/tjit/timeline_picture.h"

namespace tjit::tools {
namespace {

// More would be a page that nobody reads, nor a browser lays out at once.
constexpr std::size_t kMostGraphs = 60;
constexpr std::size_t kMostOpsOfGraph = 150;

std::string SumsTable(const TimelineData& run) {
  Table table("timeline-table", "Time of all threads by what ran",
              {{"kind", "What ran"}, {"time_ns", "Time", true}});
  for (std::size_t k = 0; k < kSliceKinds; ++k) {
    if (run.times()[k] == 0) continue;
    table.AddRow({Text(KindName(static_cast<SliceKind>(k))),
                  Duration(static_cast<std::int64_t>(run.times()[k]))});
  }
  return table.Html();
}

// The log may be of another run, or have its end alone. It has ops that the
// counters have not: those called while tjit is off.
std::string WhatDiffers(const TimelineData& run, const Explanation& e) {
  const std::int64_t seen = CountOf(e.counters, "ops_seen");
  if (run.program() != e.program) {
    return Paragraph(
        absl::StrCat("The log is of another program: ", run.program()));
  }
  if (static_cast<std::int64_t>(run.ops()) >= seen) return "";
  return Paragraph(
      absl::StrCat("The log has ", run.ops(), " ops, the counters ", seen,
                   ": the log is of another run, or of a part of this one."));
}

// `final`: what the engine got; without such there are functions of a file of
// IR, which have no titles.
bool IsShown(const DumpedFunction& f) {
  return f.title.empty() || f.title.ends_with(" final");
}

std::string GraphHtml(const DumpedFunction& f) {
  const std::size_t ops = f.function.body.size();
  const std::string title = f.title.empty() ? f.function.name : f.title;
  std::string html =
      absl::StrCat("<details class=\"graph\"><summary>", Escaped(title), ", ",
                   ops, " ops</summary>\n");
  if (ops > kMostOpsOfGraph) {
    return html +
           Paragraph(absl::StrCat("More than ", kMostOpsOfGraph,
                                  " ops are not drawn: tjit graph --svg.")) +
           "</details>\n";
  }
  // A picture: the styles of inline SVG would be those of the page.
  absl::StrAppend(
      &html, "<div class=\"scroll\"><img class=\"graph\" alt=\"graph of ",
      Escaped(title), "\" src=\"data:image/svg+xml;base64,",
      absl::Base64Escape(ToSvg(GraphOf(f))), "\"></div>\n</details>\n");
  return html;
}

}  // namespace

std::string AddTimeline(const std::string& log_path, const Explanation& e,
                        ReportPictures* pictures) {
  TimelineData run((Last()));
  InstructionLog log;
  std::string why = OpenLog(log_path, "drawn", &log);
  if (!why.empty()) return why;
  run.Measure(log_path, &log);
  if (run.ops() == 0) {
    return log_path + " cannot be drawn: it has no rows of ops";
  }
  std::string missing;
  bool is_damaged = false;
  for (const std::string& sentence :
       WhatIsMissing(log_path, log, &is_damaged)) {
    missing += Paragraph(sentence);
  }
  InstructionLog again;
  why = OpenLog(log_path, "drawn", &again);
  if (!why.empty()) return why;
  const std::uint64_t column_ns = TimelineColumnNs(run);
  run.Fill(&again, column_ns, kTimelineColumns);
  pictures->timeline = absl::StrCat(
      Heading("timeline", "When what ran"),
      Paragraph("Each bar is a thread, from the first row of the instruction "
                "log to the last. Where slices are narrower than a column, the "
                "column shows their shares."),
      WhatDiffers(run, e), missing, "<div class=\"scroll\">\n",
      TimelineSvg(run, column_ns), "</div>\n", SumsTable(run));
  return "";
}

std::string AddGraphs(const std::string& dump_path, ReportPictures* pictures) {
  std::vector<DumpedFunction> functions;
  std::string why = ReadDumpedFunctions(dump_path, &functions);
  if (!why.empty()) return why;
  std::erase_if(functions, [](const auto& f) { return !IsShown(f); });
  std::string html = absl::StrCat(
      Heading("graphs", "What was compiled"),
      Paragraph(absl::StrCat(
          "The functions that machine code was made of, behind all passes: ",
          functions.size(),
          ". Each value is a box; an arrow goes to who reads "
          "it.")));
  for (std::size_t i = 0; i < std::min(functions.size(), kMostGraphs); ++i) {
    html += GraphHtml(functions[i]);
  }
  if (functions.size() > kMostGraphs) {
    html += Paragraph(absl::StrCat(functions.size() - kMostGraphs,
                                   " more are not shown: tjit graph."));
  }
  pictures->graphs = std::move(html);
  return "";
}

}  // namespace tjit::tools
