#include "tools/tjit/timeline_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tools/tjit/json.h"

namespace tjit::tools {
namespace {

constexpr double kNsPerMs = 1e6;
// In pixels.
constexpr int kLeft = 110, kRight = 30, kTop = 20;
constexpr int kWidth = kLeft + kTimelineColumns + kRight;
constexpr int kLine = 20, kBar = 44, kBarGap = 8, kCharacter = 8;
constexpr std::array<int, 2> kColumns = {640, 780};  // of the legend, by run
constexpr std::size_t kMaxLanes = 8, kMaxTitle = 140;

// Of the picture alone, as it may stand in a page.
constexpr char kStyle[] =
    "<style>\n"
    ".tjit-timeline text { font: 13px sans-serif; fill: #222; }\n"
    ".tjit-timeline .title { font-size: 18px; font-weight: bold; }\n"
    ".tjit-timeline .head { font-weight: bold; }\n"
    ".tjit-timeline .number { text-anchor: end; font-variant-numeric: "
    "tabular-nums; }\n"
    ".tjit-timeline .label { font-size: 11px; fill: #fff; pointer-events: "
    "none; }\n"
    ".tjit-timeline .dark { fill: #222; }\n"
    ".tjit-timeline .lane { fill: #f2f2f2; }\n"
    ".tjit-timeline .grid { stroke: #bbb; stroke-dasharray: 2 3; }\n"
    ".tjit-timeline .end { stroke: #222; stroke-width: 2; }\n"
    "</style>\n";

// Of a control character, of which XML has none, a space.
std::string Escaped(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Bytes that are no UTF-8 become U+FFFD, as in JSON.
std::string Utf8(const std::string& text) {
  return Json::parse(JsonText(Json(text))).get<std::string>();
}

// At most `size` bytes, cut between characters.
std::string Shortened(std::string text, std::size_t size) {
  if (text.size() <= size) return text;
  std::size_t end = size - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return text.substr(0, end) + "...";
}

std::string Ms(std::uint64_t ns) {
  return absl::StrFormat("%.3f ms", static_cast<double>(ns) / kNsPerMs);
}

class Picture {
 public:
  // What a run is called, and the run.
  using Run = std::pair<const char*, const TimelineData*>;
  Picture(std::vector<Run> runs, std::uint64_t column_ns)
      : runs_(std::move(runs)), column_ns_(column_ns) {}

  std::string Draw();

 private:
  double X(std::uint64_t ns) const {
    return kLeft + static_cast<double>(ns) / static_cast<double>(column_ns_);
  }
  void Text(double x, double y, const char* style, const std::string& text);
  void Rect(double x, double y, double width, double height, SliceKind kind,
            const std::string& title);
  void AddTitle();
  void AddRun(const char* word, const TimelineData& run);
  void AddLane(const TimelineLane& lane);
  void AddColumns(const std::vector<TimesNs>& columns, double top,
                  double height);
  void AddWide(const WideSlice& slice);
  void AddAxis(double top);
  void AddLegend();

  const std::vector<Run> runs_;
  const std::uint64_t column_ns_;
  std::string body_;
  double y_ = kTop;
};

void Picture::Text(double x, double y, const char* style,
                   const std::string& text) {
  absl::StrAppendFormat(&body_, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x,
                        y, style);
  absl::StrAppend(&body_, Escaped(text), "</text>\n");
}

void Picture::Rect(double x, double y, double width, double height,
                   SliceKind kind, const std::string& title) {
  absl::StrAppendFormat(&body_,
                        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                        "height=\"%.2f\" fill=\"%s\">",
                        x, y, width, height, KindColour(kind));
  absl::StrAppend(&body_, "<title>", Escaped(title), "</title></rect>\n");
}

void Picture::AddTitle() {
  const std::uint64_t before_ns = runs_.front().second->wall_ns();
  const std::uint64_t after_ns = runs_.back().second->wall_ns();
  const auto before = static_cast<double>(before_ns);
  const auto after = static_cast<double>(after_ns);
  y_ += kLine;
  std::string title =
      absl::StrCat("Before ", Ms(before_ns), ", after ", Ms(after_ns));
  if (after > 0 && before > 0) {
    absl::StrAppendFormat(&title, ": %.2f times as fast", before / after);
  }
  Text(kLeft, y_, "title", title);
  y_ += kLine;
}

// Of each column the shares of the kinds, from below.
void Picture::AddColumns(const std::vector<TimesNs>& columns, double top,
                         double height) {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    double bottom = top + height;
    for (std::size_t k = 0; k < kSliceKinds; ++k) {
      if (columns[c][k] == 0) continue;
      const double share = std::min(1.0, static_cast<double>(columns[c][k]) /
                                             static_cast<double>(column_ns_));
      const double part = std::min(share * height, bottom - top);
      bottom -= part;
      const auto kind = static_cast<SliceKind>(k);
      Rect(kLeft + static_cast<double>(c), bottom, 1, part, kind,
           absl::StrCat(Ms(columns[c][k]), " of ", KindName(kind)));
    }
  }
}

void Picture::AddWide(const WideSlice& slice) {
  const bool is_inner = slice.depth > 0;
  const double height = is_inner ? kBar / 2.0 : kBar;
  const double top = y_ + kBar - height;
  const double width = X(slice.end_ns) - X(slice.begin_ns);
  Rect(X(slice.begin_ns), top, width, height, slice.kind,
       absl::StrCat(slice.details, ", ", Ms(slice.end_ns - slice.begin_ns)));
  constexpr double kIndent = 3, kBaseline = 14;
  const double label_width =
      2 * kIndent + kCharacter * static_cast<double>(slice.label.size());
  if (label_width > width) return;
  const bool is_light = slice.kind == SliceKind::kRandom ||
                        slice.kind == SliceKind::kReduction ||
                        slice.kind == SliceKind::kMemory;
  Text(X(slice.begin_ns) + kIndent, top + kBaseline,
       is_light ? "label dark" : "label", slice.label);
}

void Picture::AddLane(const TimelineLane& lane) {
  constexpr double kIndent = 10;
  Text(kIndent, y_ + kBar / 2.0, "name", lane.name);
  absl::StrAppendFormat(&body_,
                        "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" "
                        "height=\"%d\" class=\"lane\"/>\n",
                        kLeft, y_, kTimelineColumns, kBar);
  AddColumns(lane.columns, y_, kBar);
  for (const WideSlice& slice : lane.wide) {
    if (slice.depth == 0) AddWide(slice);
  }
  AddColumns(lane.inner_columns, y_ + kBar / 2.0, kBar / 2.0);
  for (const WideSlice& slice : lane.wide) {
    if (slice.depth > 0) AddWide(slice);
  }
  y_ += kBar + kBarGap;
}

void Picture::AddRun(const char* word, const TimelineData& run) {
  y_ += 2 * kLine;
  constexpr double kIndent = 10;
  Text(kIndent, y_, "head", word);
  Text(kLeft, y_, "head", Shortened(Utf8(run.program()), kMaxTitle));
  y_ += kLine;
  Text(kLeft, y_, "sums",
       absl::StrFormat("%s, %d ops, %d of them deferred, %d exits",
                       Ms(run.wall_ns()), run.ops(), run.deferred(),
                       run.exits()));
  y_ += kBarGap;
  const double top = y_;
  const std::vector<const TimelineLane*> lanes = run.lanes();
  for (std::size_t i = 0; i < std::min(lanes.size(), kMaxLanes); ++i) {
    AddLane(*lanes[i]);
  }
  if (lanes.size() > kMaxLanes) {
    Text(kLeft, y_ + kBarGap, "more",
         absl::StrCat(lanes.size() - kMaxLanes,
                      " more threads are in the sums and not drawn"));
    y_ += kLine;
  }
  absl::StrAppendFormat(&body_,
                        "<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" "
                        "y2=\"%.1f\" class=\"end\"/>\n",
                        X(run.wall_ns()), top, X(run.wall_ns()), y_ - kBarGap);
}

// At round numbers, six to twelve of them.
void Picture::AddAxis(double top) {
  constexpr double kTicks = 12;
  const double all_ms =
      static_cast<double>(column_ns_) * kTimelineColumns / kNsPerMs;
  double step_ms = std::pow(10, std::floor(std::log10(all_ms / kTicks)));
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (all_ms / step_ms <= kTicks) break;
    step_ms = std::pow(10, std::floor(std::log10(all_ms / kTicks))) * factor;
  }
  y_ += kLine;
  for (int i = 0; i * step_ms <= all_ms; ++i) {
    const double x = kLeft + kTimelineColumns * (i * step_ms / all_ms);
    absl::StrAppendFormat(&body_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                          "y2=\"%.1f\" class=\"grid\"/>\n",
                          x, top, x, y_ - kLine / 2.0);
    Text(x, y_ + 2, "tick", absl::StrFormat("%g ms", i * step_ms));
  }
  y_ += kLine;
}

void Picture::AddLegend() {
  constexpr double kSwatch = 14, kIndent = 22;
  y_ += kLine;
  Text(kLeft, y_, "head", "time of all threads");
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    Text(kLeft + kColumns[i], y_, "head number", runs_[i].first);
  }
  for (std::size_t k = 0; k < kSliceKinds; ++k) {
    const auto has_time = [k](const Run& run) {
      return run.second->times()[k] != 0;
    };
    if (std::none_of(runs_.begin(), runs_.end(), has_time)) continue;
    const auto kind = static_cast<SliceKind>(k);
    y_ += kLine;
    Rect(kLeft, y_ - kSwatch + 2, kSwatch, kSwatch, kind, KindName(kind));
    Text(kLeft + kIndent, y_, "kind", KindName(kind));
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      Text(kLeft + kColumns[i], y_, "number", Ms(runs_[i].second->times()[k]));
    }
  }
  y_ += kLine;
  Text(kLeft + kIndent, y_, "note",
       "empty: outside of ops and segments, in the program, libtorch's "
       "autograd or tjit; COMPILE within REPLAY counts for both");
  y_ += kLine;
}

std::string Picture::Draw() {
  if (runs_.size() > 1) AddTitle();
  const double top = y_;
  for (const auto& [word, run] : runs_) AddRun(word, *run);
  AddAxis(top);
  AddLegend();
  std::string svg = absl::StrFormat(
      "%swidth=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n",
      kSvgBeginning, kWidth, y_ + kTop, kWidth, y_ + kTop);
  absl::StrAppend(&svg, "<title>tjit timeline</title>\n", kStyle,
                  "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                  body_, "</svg>\n");
  return svg;
}

}  // namespace

std::uint64_t TimelineColumnNs(const TimelineData& before,
                               const TimelineData& after) {
  const std::uint64_t wall_ns = std::max(before.wall_ns(), after.wall_ns());
  return wall_ns / kTimelineColumns + 1;
}

std::string TimelineSvg(const TimelineData& before, const TimelineData& after,
                        std::uint64_t column_ns) {
  return Picture({{"before", &before}, {"after", &after}}, column_ns).Draw();
}

std::uint64_t TimelineColumnNs(const TimelineData& run) {
  return TimelineColumnNs(run, run);
}

std::string TimelineSvg(const TimelineData& run, std::uint64_t column_ns) {
  return Picture({{"run", &run}}, column_ns).Draw();
}

std::string TimelinePage(const std::string& svg) {
  return absl::StrCat(
      kPageBeginning,
      "<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>tjit timeline</title>\n<style>body { margin: 0; } "
      "svg { width: 100%; height: auto; }</style></head>\n<body>\n",
      svg, "</body></html>\n");
}

}  // namespace tjit::tools
