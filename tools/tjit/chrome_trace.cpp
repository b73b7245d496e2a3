#include "tools/tjit/chrome_trace.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/tjit/log_details.h"

namespace tjit::tools {
namespace {

// Printed with three decimals at most, as the quotient is the double next to
// it.
Json Micros(std::uint64_t ns) {
  constexpr double kNsPerMicro = 1000;
  return static_cast<double>(ns) / kNsPerMicro;
}

std::string MicrosText(std::uint64_t ns) {
  constexpr std::uint64_t kNsPerMicro = 1000;
  return absl::StrCat(ns / kNsPerMicro, ".",
                      absl::Dec(ns % kNsPerMicro, absl::kZeroPad3));
}

int Tid(int track) { return track + 1; }

// What viewers filter by.
const char* Category(const LogRow& row) {
  switch (row.event) {
    case LogEvent::kOp:
      return row.is_compiled ? "deferred" : "op";
    case LogEvent::kReplay:
      return "replay";
    case LogEvent::kDrain:
      return "drain";
    case LogEvent::kCompile:
      return "compile";
    case LogEvent::kDetect:
      return "detect";
    case LogEvent::kExit:
      return "exit";
    case LogEvent::kWait:
      return "wait";
    case LogEvent::kCount:
      break;
  }
  return "?";
}

std::string Name(const LogRow& row) {
  if (row.event == LogEvent::kOp) return row.command;
  if (row.event == LogEvent::kWait) {
    return absl::StrCat("WAIT for ", ValueOf(row.details, "for"));
  }
  return absl::StrCat(LogEventName(row.event), " ", row.command);
}

Json Args(const LogRow& row) {
  Json args = {{"number", row.number}};
  if (row.event == LogEvent::kOp) {
    args["bytes"] = row.bytes;
    args["deferred"] = row.is_compiled;
  } else {
    for (const auto word : absl::StrSplit(row.details, ' ')) {
      const std::pair<std::string, std::string> value =
          absl::StrSplit(word, absl::MaxSplits('=', 1));
      if (!value.second.empty()) args[value.first] = value.second;
    }
  }
  args["details"] = row.details;
  if (row.has_thrown) args["threw"] = true;
  if (row.is_open) args["unfinished"] = true;
  return args;
}

}  // namespace

ChromeTrace::ChromeTrace(const InstructionLog& log, OutputText* out)
    : out_(out), pid_(log.pid()) {
  const Json head = JsonHead(log.tjit_version(), log.program());
  out_->Write(absl::StrCat(std::string(kChromeFile.beginning), "\"otherData\":",
                           JsonText(head), ",\"traceEvents\":["));
  Write({{"ph", "M"},
         {"name", "process_name"},
         {"pid", pid_},
         {"args", {{"name", log.program()}}}});
}

void ChromeTrace::WriteText(const std::string& event) {
  out_->Write(has_events_ ? ",\n" : "\n");
  out_->Write(event);
  has_events_ = true;
}

const std::string& ChromeTrace::Quoted(const std::string& text) {
  constexpr std::size_t kMaxTexts = 1 << 16;
  const auto at = quoted_.find(text);
  if (at != quoted_.end()) return at->second;
  if (quoted_.size() == kMaxTexts) quoted_.clear();
  return quoted_.emplace(text, JsonText(Json(text))).first->second;
}

void ChromeTrace::WriteOp(const LogRow& row, const Placed& at) {
  std::string text = absl::StrCat(
      "{\"ph\":\"X\",\"name\":", Quoted(row.command), ",\"cat\":\"",
      Category(row), "\",\"pid\":", pid_, ",\"tid\":", Tid(at.track));
  absl::StrAppend(&text, ",\"ts\":", MicrosText(at.begin_ns),
                  ",\"dur\":", MicrosText(at.end_ns - at.begin_ns),
                  ",\"args\":{\"number\":", row.number,
                  ",\"bytes\":", row.bytes,
                  ",\"deferred\":", row.is_compiled ? "true" : "false",
                  ",\"details\":", Quoted(row.details),
                  row.has_thrown ? ",\"threw\":true}}" : "}}");
  WriteText(text);
}

void ChromeTrace::WriteArrow(const char* end, int track, std::uint64_t at_ns) {
  const bool is_head = *end == 'f';
  WriteText(absl::StrCat(
      "{\"ph\":\"", end,
      "\",\"name\":\"runs\",\"cat\":\"deferral\",\"id\":", arrows_,
      ",\"pid\":", pid_, ",\"tid\":", Tid(track), ",\"ts\":", MicrosText(at_ns),
      // It ends at the slice around it.
      is_head ? ",\"bp\":\"e\"}" : "}"));
}

void ChromeTrace::NameTracks() {
  for (; named_tracks_ < layout_.tracks().size(); ++named_tracks_) {
    const int tid = Tid(static_cast<int>(named_tracks_));
    const Track& track = layout_.tracks()[named_tracks_];
    Write({{"ph", "M"},
           {"name", "thread_name"},
           {"pid", pid_},
           {"tid", tid},
           {"args", {{"name", track.name}}}});
    constexpr int kBelow = 1000;  // the compiler, below the threads
    Write({{"ph", "M"},
           {"name", "thread_sort_index"},
           {"pid", pid_},
           {"tid", tid},
           {"args", {{"sort_index", track.is_compiler ? kBelow + tid : tid}}}});
  }
}

void ChromeTrace::Add(const LogRow& row, bool is_drawn) {
  const Placed at = layout_.Place(row);
  NameTracks();
  const bool is_slice = ShapeOf(row) == Shape::kSlice;
  if (is_drawn && row.event == LogEvent::kOp && !at.is_open) {
    WriteOp(row, at);
  } else if (is_drawn) {
    Json event;
    event = {{"ph", is_slice ? "X" : "i"}, {"name", Name(row)},
             {"cat", Category(row)},       {"pid", pid_},
             {"tid", Tid(at.track)},       {"ts", Micros(at.begin_ns)}};
    if (!is_slice) event["s"] = "t";  // of its thread
    event["args"] = Args(row);
    if (at.is_open) {
      unfinished_.push_back({std::move(event), at.begin_ns});
    } else {
      if (is_slice) event["dur"] = Micros(at.end_ns - at.begin_ns);
      Write(event);
    }
  }
  if (row.event == LogEvent::kOp && row.is_compiled) {
    pending_[at.track].push_back({at.track, at.begin_ns, is_drawn});
  } else if (row.event == LogEvent::kReplay || row.event == LogEvent::kDrain) {
    AddArrows(row, at, is_drawn);
  }
}

// Null if it is not clear whose.
std::vector<ChromeTrace::Pending>* ChromeTrace::PendingOf(int track,
                                                          std::uint64_t count) {
  const auto own = pending_.find(track);
  if (own != pending_.end() && own->second.size() >= count) {
    return &own->second;
  }
  std::vector<Pending>* found = nullptr;
  for (auto& [other, ops] : pending_) {
    if (ops.size() != count) continue;
    if (found != nullptr) return nullptr;
    found = &ops;
  }
  return found;
}

void ChromeTrace::AddArrows(const LogRow& row, const Placed& at,
                            bool is_drawn) {
  const std::uint64_t count =
      std::strtoull(ValueOf(row.details, "ops").c_str(), nullptr, 10);
  std::vector<Pending>* const ops = PendingOf(at.track, count);
  if (ops == nullptr || count == 0) return;
  for (std::size_t i = ops->size() - count; is_drawn && i < ops->size(); ++i) {
    if (!(*ops)[i].is_drawn) continue;
    ++arrows_;
    WriteArrow("s", (*ops)[i].track, (*ops)[i].at_ns);
    WriteArrow("f", at.track, at.begin_ns);
  }
  ops->clear();
}

void ChromeTrace::Finish() {
  for (Unfinished& open : unfinished_) {
    const std::uint64_t end_ns =
        std::max(layout_.last_ns(), open.begin_ns + kMinSliceNs);
    open.event["dur"] = Micros(end_ns - open.begin_ns);
    Write(open.event);
  }
  out_->Write("\n]}\n");
}

}  // namespace tjit::tools
