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
#include "tools/tjit/story_event_text.h"

namespace tjit::tools {
namespace {

constexpr std::size_t kMaxListed = 20;
// Of a story that is longer the first and the last lines are printed.
constexpr std::size_t kFirstLines = 40, kLastLines = 20;

std::string IdsText(const SequenceStory& story) {
  return story.ids.empty() ? Printable(story.name)
                           : absl::StrCat(story.ids.back());
}

std::string MsText(std::uint64_t ns) {
  return absl::StrFormat("%.3f", static_cast<double>(ns) / 1e6);
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
  if (s.won.is_known()) {
    const double won_ns = std::clamp(s.won.won_ns(), -9e18, 9e18);
    absl::StrAppend(
        &text, "  about ", DurationText(static_cast<std::int64_t>(won_ns)),
        won_ns < 0 ? " lost: " : " won: ", TimesOfRunText(s.won), " a run\n");
  }
  if (s.skip != 0) {
    absl::StrAppend(&text, "  when it was left last, ", s.skip,
                    " entries were to be let pass: ", s.passed, " have been, ",
                    std::max<std::int64_t>(s.skip - s.passed, 0),
                    " are left\n");
  }
  if (s.state == kStateOff) {
    absl::StrAppend(&text, "  since it was switched off it ran eagerly ",
                    TimesText(s.ran_off), "\n");
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
