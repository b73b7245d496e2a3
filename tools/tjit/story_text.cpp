#include "tools/tjit/story_text.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "recorder/explanation_parts.h"
#include "support/bail.h"
#include "tools/tjit/log_details.h"

namespace tjit::tools {
namespace {

constexpr std::size_t kMaxListed = 20;
// Of a story that is longer the first and the last lines are printed.
constexpr std::size_t kFirstLines = 40, kLastLines = 20;

std::string Counted(std::int64_t n, const std::string& one) {
  return absl::StrCat(n, " ", one, n == 1 ? "" : "s");
}

// The part behind "name=" to the end, which may have spaces.
std::string RestOf(const std::string& details, const std::string& name) {
  const std::size_t at = details.find(name + "=");
  return at == std::string::npos ? "" : details.substr(at + name.size() + 1);
}

std::string IdsText(const SequenceStory& story) {
  return story.ids.empty() ? Printable(story.name)
                           : absl::StrCat(story.ids.back());
}

// "a guarded scalar differs [scalar_differs]".
std::string ReasonText(const std::string& name) {
  const std::string text = BailTextOf(name);
  return text == name ? text : absl::StrCat(text, " [", name, "]");
}

// --------------------------------------------------------------- one event

// The log began when the sequence was hot already.
bool WasThereBefore(const StoryEvent& event) {
  return ValueOf(event.details, "known") == "attach";
}

std::string FoundText(const StoryEvent& event, const SequenceStory& story) {
  const std::int64_t id = NumberOf(event.details, "id");
  const std::string ops = Counted(NumberOf(event.details, "ops"), "op");
  std::string text =
      WasThereBefore(event)
          ? absl::StrCat(
                "found before the log began, by `tjit "
                "attach`: ",
                ops, " that repeat")
          : absl::StrCat("found: ", ops, " that repeat were recorded");
  if (story.ids.size() > 1 && id != 0) {
    absl::StrAppend(&text, ", as sequence ", id);
  }
  return text;
}

std::string HotText(const StoryEvent& event, const SequenceStory& story) {
  if (ValueOf(event.details, "known") == "profile") {
    return "hot at once, as the profile of an earlier run knows it: its ops "
           "are deferred from the next run on";
  }
  const std::int64_t executed = NumberOf(event.details, "executed");
  if (WasThereBefore(event)) {
    return absl::StrCat("hot by then, after ", Counted(executed, "sighting"),
                        ": its ops are deferred");
  }
  return absl::StrCat(
      "hot at sighting ", executed,
      story.threshold == 0 ? "" : absl::StrCat(" of ", story.threshold),
      ": its ops are deferred from the next run on");
}

std::string PreparedText(const StoryEvent& event) {
  const std::int64_t ops = NumberOf(event.details, "ops");
  const std::int64_t direct = NumberOf(event.details, "direct");
  return absl::StrCat("prepared: a segment of ", Counted(ops, "op"), ", ",
                      direct == ops ? "" : absl::StrCat(direct, " of them "),
                      "called without libtorch's dispatcher, in ",
                      DurationText(static_cast<std::int64_t>(event.took_ns)),
                      event.times == 1
                          ? ""
                          : absl::StrCat(" in all, ", TimesText(event.times)));
}

std::string CompiledText(const StoryEvent& event) {
  const std::int64_t groups = NumberOf(event.details, "groups");
  const std::int64_t failed = NumberOf(event.details, "failed");
  const std::string why = RestOf(event.details, "why");
  const std::string took =
      DurationText(static_cast<std::int64_t>(event.took_ns));
  std::string text =
      groups == 0 ? absl::StrCat("not compiled, after ", took,
                                 ": its ops stay library calls")
                  : absl::StrCat(
                        "compiled in ", took, ": ", Counted(groups, "group"),
                        " of ", Counted(NumberOf(event.details, "fused"), "op"),
                        " became machine code");
  if (failed != 0) {
    absl::StrAppend(&text, "; ", Counted(failed, "group"),
                    " could not, the first because: ", why);
  } else if (groups == 0) {
    text += ", as machine code would win nothing for them";
  }
  if (event.times > 1)
    absl::StrAppend(&text, " (", TimesText(event.times), ")");
  return text;
}

std::string MeasuredText(const StoryEvent& event) {
  return absl::StrCat(
      "measured: ", DurationText(NumberOf(event.details, "compiled_ns")),
      " a run with machine code, ",
      DurationText(NumberOf(event.details, "library_ns")),
      " with library calls: ",
      NumberOf(event.details, "pays") != 0 ? "the code is used"
                                           : "the code is switched off");
}

std::string LeftText(const StoryEvent& event, const SequenceStory& story) {
  const std::string& details = event.details;
  const std::string after = ValueOf(details, "after");
  // "after=32 aten::pow.Tensor_Scalar reason=...".
  const std::size_t begin = details.find(' ', details.find("after=")) + 1;
  const std::string op =
      details.substr(begin, details.find(' ', begin) - begin);
  return absl::StrCat(
      "left ",
      event.times == 1 ? "" : absl::StrCat(TimesText(event.times), " "),
      "behind op ", after,
      story.ops == 0 ? "" : absl::StrCat(" of ", story.ops), " (", op,
      "): ", ReasonText(ValueOf(details, "reason")));
}

std::string PausedText(const StoryEvent& event, const char* what) {
  return absl::StrCat(
      what, event.times == 1 ? "" : absl::StrCat(" ", TimesText(event.times)),
      ", as it was left so often: ", event.times == 1 ? "the" : "at last the",
      " next ", NumberOf(event.details, "skip"), " entries are let pass");
}

std::string BlacklistedText(const StoryEvent& event) {
  const std::string reason = ValueOf(event.details, "reason");
  return absl::StrCat(
      reason == BailName(BailReason::kShadowMismatch)
          ? absl::StrCat("blacklisted: ", ReasonText(reason))
          : std::string("blacklisted, as it was left more often than it came "
                        "to its end"),
      ": the next ", NumberOf(event.details, "skip"), " entries are let pass");
}

std::string OffText(const StoryEvent& event) {
  return absl::StrCat("switched off, as eager is faster: ",
                      DurationText(NumberOf(event.details, "eager_ns")),
                      " instead of ",
                      DurationText(NumberOf(event.details, "replay_ns")),
                      " from run to run; replaying it is tried again after ",
                      NumberOf(event.details, "runs"), " runs");
}

std::string AloneText(const StoryEvent& event) {
  return absl::StrCat("its thread is left alone for ",
                      DurationText(NumberOf(event.details, "rest_ns")),
                      ", as tjit made all of its ops ",
                      ValueOf(event.details, "slower_percent"), " % slower");
}

std::string TextOf(const StoryEvent& event, const SequenceStory& story) {
  switch (event.step) {
    case StoryStep::kFound:
      return FoundText(event, story);
    case StoryStep::kSeen:
      return absl::StrCat("seen ", NumberOf(event.details, "sightings"),
                          " of the ", NumberOf(event.details, "threshold"),
                          " times that make it hot");
    case StoryStep::kHot:
      return HotText(event, story);
    case StoryStep::kPrepared:
      return PreparedText(event);
    case StoryStep::kReplay:
      return absl::StrCat(
          "first replay: ", Counted(NumberOf(event.details, "ops"), "op"),
          " ran because: ", FlushTextOf(ValueOf(event.details, "reason")));
    case StoryStep::kFinished:
      return absl::StrCat("replayed to its end ", TimesText(event.times));
    case StoryStep::kAsked:
      return absl::StrCat(
          "machine code was asked for, for a segment of ",
          Counted(NumberOf(event.details, "ops"), "op"),
          event.times == 1 ? "" : absl::StrCat(", ", TimesText(event.times)));
    case StoryStep::kCompiled:
      return CompiledText(event);
    case StoryStep::kMeasured:
      return MeasuredText(event);
    case StoryStep::kLeft:
      return LeftText(event, story);
    case StoryStep::kPaused:
      return PausedText(event, "paused");
    case StoryStep::kBlacklisted:
      return BlacklistedText(event);
    case StoryStep::kOff:
      return OffText(event);
    case StoryStep::kAlone:
      return AloneText(event);
    case StoryStep::kForgotten:
      return ValueOf(event.details, "why") == "room"
                 ? "forgotten, as records came near their bound and it was run "
                   "least"
                 : "forgotten, as the program called tjit::clear()";
  }
  return "?";
}

// ------------------------------------------------------------------- parts

std::string MsText(std::uint64_t ns) {
  return absl::StrFormat("%.3f", 1e-6 * static_cast<double>(ns));
}

std::string EventLine(const StoryEvent& event, const SequenceStory& story) {
  const std::string until =
      event.last_ns == event.first_ns ? "" : ".. " + MsText(event.last_ns);
  return absl::StrFormat("  %10s %-13s  %s\n", MsText(event.first_ns), until,
                         Printable(TextOf(event, story)));
}

std::vector<std::string> EventLines(const SequenceStory& story) {
  std::vector<const StoryEvent*> events;
  for (const StoryEvent& event : story.events) events.push_back(&event);
  std::stable_sort(
      events.begin(), events.end(),
      [](const auto* a, const auto* b) { return a->first_ns < b->first_ns; });
  std::vector<std::string> lines;
  std::set<std::string> told;  // reasons
  for (const StoryEvent* event : events) {
    std::string line = EventLine(*event, story);
    const std::string reason = ValueOf(event->details, "reason");
    if (event->step == StoryStep::kLeft && told.insert(reason).second) {
      const auto first = story.first_exits.find(reason);
      if (first != story.first_exits.end()) {
        absl::StrAppendFormat(&line, "  %26sthe first time %s\n", "",
                              Printable(WhatDiffers(first->second)));
      }
      const std::string remedy = BailRemedyOf(reason);
      if (!remedy.empty()) {
        absl::StrAppendFormat(&line, "  %26swhat to do: %s\n", "", remedy);
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// Why it is not replayed, and what can be done: one sentence.
std::string Advice(const SequenceStory& s) {
  const std::string& state = s.state;
  if (state == kStateReplayed) return "nothing: it is replayed";
  if (state == SequenceStory::kForgotten) {
    const auto last = std::find_if(
        s.events.rbegin(), s.events.rend(),
        [](const auto& e) { return e.step == StoryStep::kForgotten; });
    return ValueOf(last->details, "why") == "room"
               ? BailRemedyOf(BailName(BailReason::kStoreFull))
               : "do not call tjit::clear() where the same ops come again";
  }
  if (state == kStateOff) {
    return "nothing: it runs as eager libtorch runs it, which was faster";
  }
  if (state == SequenceStory::kLeftAlone) {
    return "nothing at this sequence: the other ops of its thread do not "
           "repeat enough for tjit to pay";
  }
  if (!s.resting_for.empty()) return BailRemedyOf(s.resting_for);
  if (!s.left.empty()) return BailRemedyOf(ByCount(s.left).front().first);
  const std::string remedy = StateRemedyOf(state);
  return remedy.empty() ? "run for longer: it has not come again since it was "
                          "hot"
                        : remedy;
}

std::string HeadText(const SequenceStory& s, const StoryLog& log) {
  std::string text = absl::StrCat("sequence ", IdsText(s));
  if (!s.ids.empty()) absl::StrAppend(&text, " (", Printable(s.name), ")");
  if (s.ops != 0) absl::StrAppend(&text, ", ", Counted(s.ops, "op"));
  absl::StrAppend(&text, ": ",
                  s.first_ops.empty() ? "the log does not say which ops"
                                      : Printable(s.first_ops),
                  "\n");
  if (!log.program.empty()) {
    absl::StrAppend(&text, "  program: ", Printable(log.program),
                    ", with tjit ", Printable(log.tjit_version), "\n");
  }
  absl::StrAppend(&text, s.sources.size() == 1 ? "  thread: " : "  threads: ",
                  absl::StrJoin(s.sources, ", "), "\n");
  if (!s.region.empty())
    absl::StrAppend(&text, "  region: ", Printable(s.region), "\n");
  return text;
}

// It is not replayed any more, or the machine code of a segment lost.
bool IsWorthALook(const SequenceStory& s) {
  return s.state == kStateOff || s.state == kStatePaused ||
         s.state == kStateBlacklisted ||
         std::any_of(s.events.begin(), s.events.end(), [](const auto& e) {
           return e.step == StoryStep::kMeasured &&
                  NumberOf(e.details, "pays") == 0;
         });
}

std::string NowText(const SequenceStory& s, const StoryLog& log) {
  std::string text =
      absl::StrCat("now, at ", MsText(log.last_ns), " ms, where the log ends (",
                   log.end, "): ", s.state, "\n");
  std::int64_t left = 0;
  for (const auto& [reason, times] : s.left) left += times;
  absl::StrAppend(&text, "  replayed to its end ", TimesText(s.finished),
                  ", left with deferred ops ", TimesText(left), "\n");
  absl::StrAppend(&text, "  ", Counted(s.replayed_ops, "op"), " replayed in ",
                  Counted(s.segments, "segment"), "; ",
                  Counted(s.drained_ops, "op"),
                  " deferred and run eagerly after all\n");
  for (const auto& [reason, times] : ByCount(s.left)) {
    absl::StrAppend(&text, "  left ", TimesText(times), ": ",
                    Printable(ReasonText(reason)), "\n");
  }
  if (s.state == kStateSeen && s.threshold != 0) {
    absl::StrAppend(&text, "  seen ", s.sightings, " of the ", s.threshold,
                    " times that make it hot\n");
  }
  if (!s.prepared_by.empty()) {
    absl::StrAppend(&text,
                    "  a segment was being prepared when the log ended\n");
  }
  if (s.waits_for_code != 0) {
    absl::StrAppend(&text, "  machine code for ",
                    Counted(s.waits_for_code, "segment"),
                    s.waits_for_code == 1 ? " was" : " were",
                    " asked for and had not come\n");
  }
  if (s.skip != 0) {
    absl::StrAppend(&text, "  when it was left last, ", s.skip,
                    " entries were to be let pass; the log does not say how "
                    "many have been since\n");
  }
  const std::string commands =
      IsWorthALook(s) ? CommandsFor(s.name, log.program) : "";
  if (!commands.empty()) absl::StrAppend(&text, "  ", commands, "\n");
  return text + "  what to do: " + Advice(s) + "\n";
}

}  // namespace

std::string ToText(const SequenceStory& story, const StoryLog& log) {
  std::string text = HeadText(story, log) + "\n";
  const std::vector<std::string> lines = EventLines(story);
  text += absl::StrFormat("  %10s\n", "time, ms");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines.size() > kFirstLines + kLastLines && i == kFirstLines) {
      const std::size_t left_out = lines.size() - kFirstLines - kLastLines;
      absl::StrAppendFormat(&text, "  %26s... %d more lines ...\n", "",
                            left_out);
      i += left_out;
    }
    text += lines[i];
  }
  return text + "\n" + NowText(story, log);
}

std::string ListText(const SequenceStories& stories) {
  std::vector<const SequenceStory*> order;
  for (const auto& [name, story] : stories.all()) order.push_back(&story);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) {
                     constexpr std::int64_t kLast = std::int64_t{1} << 62;
                     return (a->ids.empty() ? kLast : a->ids.back()) <
                            (b->ids.empty() ? kLast : b->ids.back());
                   });
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kMaxListed); ++i) {
    const SequenceStory& s = *order[i];
    absl::StrAppendFormat(&text, "  %-3s %5d %-4s %s, %s\n", IdsText(s), s.ops,
                          s.ops == 1 ? "op:" : "ops:", Printable(s.first_ops),
                          s.state);
  }
  if (order.size() > kMaxListed) {
    absl::StrAppend(&text, "  and ", order.size() - kMaxListed,
                    " more, which `tjit log --summary` lists by name\n");
  }
  return text;
}

}  // namespace tjit::tools
