#include "tools/tjit/timeline_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tjit::tools {
namespace {

// "mm" of "aten::mm.out"; of other events their name.
std::string LabelOf(const LogRow& row) {
  if (row.event != LogEvent::kOp) return LogEventName(row.event);
  const std::size_t colons = row.command.find("::");
  const std::string name =
      row.command.substr(colons == std::string::npos ? 0 : colons + 2);
  return name.substr(0, name.find('.'));
}

// A deferred op's own time is that of the segment that runs it.
bool HasTime(const LogRow& row) {
  return ShapeOf(row) == Shape::kSlice && !row.is_compiled;
}

void AddTo(std::vector<TimesNs>* columns, SliceKind kind,
           std::uint64_t column_ns, std::uint64_t begin_ns,
           std::uint64_t end_ns) {
  const std::size_t last = columns->size() - 1;
  while (begin_ns < end_ns) {
    const std::size_t column =
        std::min<std::size_t>(begin_ns / column_ns, last);
    const std::uint64_t until_ns =
        column == last ? end_ns : std::min(end_ns, (column + 1) * column_ns);
    (*columns)[column][static_cast<std::size_t>(kind)] += until_ns - begin_ns;
    begin_ns = until_ns;
  }
}

bool IsOp(const LogRow& row) { return row.event == LogEvent::kOp; }

}  // namespace

SliceKind TimelineData::KindOf(const LogRow& row) {
  switch (row.event) {
    case LogEvent::kReplay:
      return SliceKind::kReplay;
    case LogEvent::kDrain:
      return SliceKind::kDrain;
    case LogEvent::kCompile:
      return SliceKind::kCompile;
    case LogEvent::kWait:
      return SliceKind::kWait;
    case LogEvent::kOp:
    case LogEvent::kDetect:
    case LogEvent::kExit:
    case LogEvent::kCount:
      break;
  }
  const auto [at, is_new] = kinds_.try_emplace(row.command, SliceKind::kOther);
  if (is_new) at->second = KindOfOp(row.command);
  return at->second;
}

void TimelineData::ForEachDrawn(
    InstructionLog* log,
    const std::function<void(const LogRow&, const Placed&)>& draw) {
  layout_ = TrackLayout();
  LogRow row;
  std::uint64_t ops = 0;
  std::vector<std::pair<LogRow, Placed>> open;
  while (log->Next(/*is_live=*/false, &row)) {
    const Placed at = layout_.Place(row);
    if (IsOp(row)) ++ops;
    if (ops <= start_.row && start_.row != 0) continue;
    if (row.time_ns < start_.time_ns) continue;
    if (at.is_open) {
      open.emplace_back(row, at);
    } else {
      draw(row, at);
    }
  }
  for (auto& [unfinished, at] : open) {
    at.end_ns = std::max(layout_.last_ns(), at.begin_ns + kMinSliceNs);
    draw(unfinished, at);
  }
}

void TimelineData::Measure(const std::string& path, InstructionLog* log) {
  program_ = log->program().empty() ? path : log->program();
  if (last_.is_given()) {
    InstructionLog all;
    if (OpenLog(path, "drawn", &all).empty()) {
      start_ = FindStart(last_, &all, IsOp);
    }
  }
  ForEachDrawn(log, [this](const LogRow& row, const Placed& at) {
    begin_ns_ = has_rows_ ? std::min(begin_ns_, row.time_ns) : row.time_ns;
    has_rows_ = true;
    end_ns_ = std::max({end_ns_, at.end_ns, begin_ns_});
    if (IsOp(row)) ++ops_;
    if (row.is_compiled) ++deferred_;
    if (row.event == LogEvent::kExit) ++exits_;
    if (HasTime(row)) {
      times_[static_cast<std::size_t>(KindOf(row))] += at.end_ns - at.begin_ns;
    }
  });
}

void TimelineData::AddSlice(const LogRow& row, const Placed& at,
                            std::uint64_t column_ns, int columns) {
  TimelineLane& lane = lanes_[at.track];
  if (lane.columns.empty()) {
    lane.columns.resize(static_cast<std::size_t>(columns));
    lane.inner_columns = lane.columns;
    lane.name = layout_.tracks()[static_cast<std::size_t>(at.track)].name;
  }
  if (!HasTime(row)) return;
  // A program that runs has gone on since Measure().
  const std::uint64_t begin_ns =
      std::clamp(at.begin_ns, begin_ns_, end_ns_) - begin_ns_;
  const std::uint64_t end_ns =
      std::clamp(at.end_ns, begin_ns_, end_ns_) - begin_ns_;
  const SliceKind kind = KindOf(row);
  if (end_ns - begin_ns >= column_ns) {
    lane.wide.push_back(
        {kind, begin_ns, end_ns, at.depth, LabelOf(row),
         absl::StrCat(row.command, " #", row.number, ": ", row.details)});
    return;
  }
  AddTo(at.depth == 0 ? &lane.columns : &lane.inner_columns, kind, column_ns,
        begin_ns, end_ns);
}

void TimelineData::Fill(InstructionLog* log, std::uint64_t column_ns,
                        int columns) {
  ForEachDrawn(log, [&](const LogRow& row, const Placed& at) {
    AddSlice(row, at, column_ns, columns);
  });
}

std::vector<const TimelineLane*> TimelineData::lanes() const {
  std::vector<const TimelineLane*> lanes, compilers;
  for (const auto& [track, lane] : lanes_) {
    const bool is_compiler =
        layout_.tracks()[static_cast<std::size_t>(track)].is_compiler;
    (is_compiler ? compilers : lanes).push_back(&lane);
  }
  lanes.insert(lanes.end(), compilers.begin(), compilers.end());
  return lanes;
}

}  // namespace tjit::tools
