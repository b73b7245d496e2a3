#include "tools/tjit/report_page.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/explanation_parts.h"
#include "tools/tjit/report_assets.h"
#include "tools/tjit/report_html.h"
#include "tools/tjit/report_tables.h"
#include "tools/tjit/version.h"

namespace tjit::tools {
namespace {

// The time, or why it is not known.
Cell WonCell(const Gains& gains) {
  if (gains.replayed == 0) return Text("nothing replayed");
  if (!gains.is_known()) return Text("not measured");
  Cell cell = Duration(gains.won_ns);
  cell.html += gains.won_ns < 0 ? " (lost)" : "";
  return cell;
}

std::string HowMeasured(const Gains& gains) {
  std::string text = Paragraph(
      "How this is measured: of each sequence tjit times some runs eagerly and "
      "some replayed, from the first op to the end, the program's own work "
      "between the ops included. The time won is the difference of the medians "
      "times the replays. The factor compares these runs, not the whole "
      "program.");
  if (gains.unknown > 0) {
    text += Paragraph(absl::StrCat("Of ", gains.unknown, " of ", gains.replayed,
                                   " replayed sequences too few runs were "
                                   "measured, so their time is in no "
                                   "figure here."));
  }
  return text;
}

std::string WonSection(const Explanation& e) {
  const Gains gains = GainsOf(e);
  const std::int64_t seen = CountOf(e.counters, "ops_seen");
  const std::int64_t replayed = CountOf(e.counters, "ops_replayed");
  std::string html = Heading("won", "What was won");
  html += "<dl class=\"tiles\">\n";
  html += Tile("won_ns", "Time won by replaying", WonCell(gains));
  html += Tile("factor", "Factor for these runs",
               gains.is_known() ? Text(absl::StrFormat("%.2fx", gains.factor()))
                                : Text("not measured"));
  html += Tile("ops_replayed", "Ops replayed", Share(replayed, seen));
  html += Tile("ops_seen", "Ops called", Count(seen));
  html += Tile("wall_ns", "The process ran for",
               e.wall_ns == 0 ? Text("not known") : Duration(e.wall_ns));
  html += Tile("sequences", "Repeating sequences",
               Count(static_cast<std::int64_t>(e.sequences.size())));
  html += "</dl>\n";
  if (seen == 0) {
    return html + "<p id=\"empty\"><strong>" + Escaped(WhyNoSequence(e)) +
           "</strong></p>\n";
  }
  return html + HowMeasured(gains);
}

std::string TimeBar(const Explanation& e) {
  const auto [runs, executed] = TimeInReplaysOf(e);
  const std::int64_t start = CountOf(e.counters, "start_ns");
  const std::int64_t known = runs + start;
  std::string html =
      Bar("time",
          "Time of the process. Times in sequences are medians times replays",
          {{"executed_ns",
            "Running what was deferred: compiled code and library "
            "calls",
            executed, 0},
           {"between_ns",
            "Between the ops of replayed sequences: the program, "
            "libtorch's dispatcher and autograd",
            runs - executed, 1},
           {"start_ns", "Starting tjit", start, 2},
           {"rest_ns", "The rest: eager ops, the program, loading libtorch",
            std::max<std::int64_t>(0, e.wall_ns - known)}},
          &Duration);
  if (e.wall_ns != 0 && known > e.wall_ns) {
    html += Paragraph(
        "The parts add up to more than the process took, as several threads "
        "replayed at once or single runs were shorter than the median.");
  }
  return html;
}

std::string OpsBar(const Explanation& e) {
  const std::int64_t fused = CountOf(e.counters, "steps_fused");
  const std::int64_t dead = CountOf(e.counters, "steps_dead");
  const std::int64_t library = std::max<std::int64_t>(
      0, CountOf(e.counters, "ops_replayed") - dead - fused);
  return Bar("ops", "Ops by what ran them",
             {{"steps_fused", "Replayed in compiled code", fused, 0},
              {"library", "Replayed as library calls", library, 1},
              {"steps_dead", "Not run, as nothing needed the results", dead, 2},
              {"ops_drained", "Deferred, then run eagerly after all",
               CountOf(e.counters, "ops_drained"), 3},
              {"ops_eager", "Run eagerly at the call",
               CountOf(e.counters, "ops_eager")}},
             &Count);
}

std::string TimeSection(const Explanation& e) {
  const std::string bars = TimeBar(e) + OpsBar(e);
  if (bars.empty()) return "";
  return absl::StrCat(
      Heading("where", "Where the time goes"), bars,
      Paragraph(absl::StrCat(
          "Compiling took ", DurationText(CountOf(e.counters, "compile_ns")),
          " on a thread of its own, beside the program; the bar of times "
          "leaves it out. Compiled code and library calls are told apart by "
          "ops alone, as their times are not measured one by one.")));
}

// What each section is called in the list at the top.
std::string Links(const std::vector<std::pair<std::string, std::string>>& all,
                  const std::string& page) {
  std::string html = "<nav aria-label=\"Sections\">\n";
  for (const auto& [id, name] : all) {
    if (page.find("<h2 id=\"" + id + "\"") == std::string::npos) continue;
    absl::StrAppend(&html, "<a href=\"#", id, "\">", name, "</a>\n");
  }
  return html + "</nav>\n";
}

std::string Head(const std::string& title) {
  return absl::StrCat(
      kReportBeginning,
      "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; img-src data:; style-src 'unsafe-inline'; script-src '",
      kReportScriptHash, "'\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
      Escaped(title), "</title>\n<style>", kReportStyle, "</style>\n</head>\n");
}

// Counters and words may differ between versions of one schema.
std::string OtherVersion(const Explanation& e) {
  if (e.version == TJIT_VERSION) return "";
  return Paragraph(absl::StrCat(
      "The run was made by tjit ", e.version.empty() ? "?" : e.version,
      ", this page by ", TJIT_VERSION,
      ": counters that this version does not know have no explanation."));
}

}  // namespace

std::string ReportPage(const StatsFile& stats, const ReportPictures& pictures) {
  const Explanation& e = stats.explanation;
  const std::string program = e.program.empty() ? "a program" : e.program;
  std::string page =
      absl::StrCat(WonSection(e), TimeSection(e), pictures.timeline,
                   ReasonsSection(e), SequencesSection(e));
  absl::StrAppend(&page, CompiledSection(stats), pictures.graphs,
                  RegionsSection(e), JitSection(e));
  absl::StrAppend(&page, EagerOpsSection(e), MemorySection(e),
                  FunctionsSection(e), CountersSection(e));
  return absl::StrCat(
      Head("tjit report: " + program), "<body>\n<h1>tjit report</h1>\n<p>",
      "<code id=\"program\">", Escaped(program), "</code></p>\n",
      OtherVersion(e),
      Links({{"won", "Won"},
             {"where", "Time"},
             {"timeline", "Timeline"},
             {"why", "Why not more"},
             {"sequences", "Sequences"},
             {"compiled", "Compiled code"},
             {"graphs", "Graphs"},
             {"regions", "Regions"},
             {"jit", "Functions of tjit::jit()"},
             {"eager", "Eager ops"},
             {"memory", "Memory"},
             {"functions", "Numeric functions"},
             {"counters", "Counters"}},
            page),
      page, "<p class=\"soft\">Written by tjit ", TJIT_VERSION,
      ".</p>\n<script>", kReportScript, "</script>\n</body>\n</html>\n");
}

}  // namespace tjit::tools
