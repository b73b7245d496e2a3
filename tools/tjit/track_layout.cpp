#include "tools/tjit/track_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/tjit/log_details.h"

namespace tjit::tools {
namespace {

constexpr std::size_t kKeptSlices = 256;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

bool IsOfCompiler(const LogRow& row) {
  return row.event == LogEvent::kCompile && row.command != "Starting" &&
         ValueOf(row.details, "tier") == "2";
}

// Of a float that was rounded, for what took that long.
std::uint64_t RoundingNs(std::uint64_t took_ns) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 60;
  return took_ns > kLongest ? 1 : (took_ns >> 22) + 1;
}

}  // namespace

Shape ShapeOf(const LogRow& row) {
  switch (row.event) {
    case LogEvent::kOp:
    case LogEvent::kReplay:
    case LogEvent::kDrain:
    case LogEvent::kWait:
      return Shape::kSlice;
    case LogEvent::kCompile:
      return row.command == "Complete" ? Shape::kSlice : Shape::kInstant;
    case LogEvent::kDetect:
    case LogEvent::kExit:
    case LogEvent::kCount:
      break;
  }
  return Shape::kInstant;
}

int TrackLayout::NewTrack(const std::string& name, bool is_compiler) {
  tracks_.push_back({name, is_compiler});
  lanes_.emplace_back();
  return static_cast<int>(tracks_.size()) - 1;
}

int TrackLayout::TrackOf(const LogRow& row) {
  const auto [at, is_new] = track_of_.try_emplace({row.stream, row.source}, 0);
  if (is_new) at->second = NewTrack(row.source, /*is_compiler=*/false);
  return at->second;
}

int TrackLayout::CompilerTrack(std::uint64_t begin_ns) {
  for (const int track : compilers_) {
    if (lanes_[track].last_ns <= begin_ns) return track;
  }
  compilers_.push_back(NewTrack("COMPILER", /*is_compiler=*/true));
  return compilers_.back();
}

void TrackLayout::Pop(Lane* lane) {
  lane->finished_ns = std::max(lane->finished_ns, lane->open.back().end_ns);
  lane->finished.push_back(lane->open.back());
  lane->open.pop_back();
  if (lane->finished.size() > kKeptSlices) lane->finished.pop_front();
}

void TrackLayout::Push(Lane* lane, Placed* placed) {
  placed->end_ns = std::max(placed->end_ns, placed->begin_ns + kMinSliceNs);
  if (!lane->open.empty()) {
    const Slice& parent = lane->open.back();
    placed->begin_ns =
        std::clamp(placed->begin_ns, parent.begin_ns, parent.end_ns);
    placed->end_ns = std::min(placed->end_ns, parent.end_ns);
  }
  placed->depth = static_cast<int>(lane->open.size());
  placed->is_open = placed->end_ns == kNever;
  lane->open.push_back({placed->begin_ns, placed->end_ns});
}

void TrackLayout::Append(Lane* lane, Placed* placed) {
  while (!lane->open.empty()) {
    const Slice& top = lane->open.back();
    const std::uint64_t moment_ns = top.end_ns - top.begin_ns;
    const std::uint64_t rounding_ns = std::max(
        RoundingNs(moment_ns), RoundingNs(placed->end_ns - placed->begin_ns));
    const bool has_ended = top.end_ns <= placed->begin_ns + rounding_ns;
    if (!has_ended && moment_ns > kMinSliceNs) break;
    Pop(lane);
  }
  placed->begin_ns = std::max(placed->begin_ns, lane->finished_ns);
  Push(lane, placed);
}

bool TrackLayout::Insert(Lane* lane, Placed* placed) {
  if (lane->finished.size() == kKeptSlices &&
      placed->begin_ns < lane->finished.front().end_ns) {
    return false;
  }
  const std::uint64_t rounding_ns =
      RoundingNs(placed->end_ns - placed->begin_ns);
  while (!lane->open.empty()) {
    const Slice& top = lane->open.back();
    const bool has_ended = top.end_ns <= placed->begin_ns;
    const bool is_within = top.begin_ns >= placed->begin_ns &&
                           top.end_ns <= placed->end_ns + rounding_ns;
    if (!has_ended && !is_within) break;
    Pop(lane);
  }
  for (const Slice& slice : lane->finished) {
    if (slice.end_ns <= placed->begin_ns || slice.begin_ns >= placed->end_ns) {
      continue;
    }
    if (slice.begin_ns < placed->begin_ns) {
      placed->begin_ns = slice.end_ns;
    } else {
      placed->end_ns = std::max(placed->end_ns, slice.end_ns);
    }
  }
  Push(lane, placed);
  return true;
}

Placed TrackLayout::Place(const LogRow& row) {
  Placed placed;
  placed.track = TrackOf(row);
  placed.begin_ns = placed.end_ns = row.time_ns;
  if (ShapeOf(row) == Shape::kSlice) {
    // A damaged row may say anything.
    constexpr double kLongestNs = 1e18;
    const double took_ns =
        row.took_ns > 0 ? std::min<double>(row.took_ns, kLongestNs) : 0;
    placed.end_ns += std::max(static_cast<std::uint64_t>(std::llround(took_ns)),
                              kMinSliceNs);
    Lane* const lane = &lanes_[placed.track];
    if (row.event != LogEvent::kCompile) {
      if (row.is_open) placed.end_ns = kNever;
      Append(lane, &placed);
    } else if (IsOfCompiler(row) || !Insert(lane, &placed)) {
      placed.track = CompilerTrack(placed.begin_ns);
    }
  }
  Lane& lane = lanes_[placed.track];
  const std::uint64_t known_ns =
      placed.is_open ? placed.begin_ns + kMinSliceNs : placed.end_ns;
  lane.last_ns = std::max(lane.last_ns, known_ns);
  last_ns_ = std::max(last_ns_, known_ns);
  return placed;
}

}  // namespace tjit::tools
