#include "tools/tjit/story_event_text.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "recorder/explanation_parts.h"
#include "support/bail.h"
#include "tools/tjit/log_details.h"

namespace tjit::tools {

std::string Counted(std::int64_t n, const std::string& one) {
  return absl::StrCat(n, " ", one, n == 1 ? "" : "s");
}

std::string ReasonText(const std::string& name) {
  const std::string text = BailTextOf(name);
  return text == name ? text : absl::StrCat(text, " [", name, "]");
}

std::string TimesOfRunText(const WonTime& won) {
  return absl::StrCat(DurationText(won.replay_ns()), " instead of ",
                      DurationText(won.eager_ns()));
}

namespace {

// The part behind "name=" to the end, which may have spaces.
std::string RestOf(const std::string& details, const std::string& name) {
  const std::size_t at = details.find(name + "=");
  return at == std::string::npos ? "" : details.substr(at + name.size() + 1);
}

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

std::string LetPassText(const StoryEvent& event) {
  const std::string why = ValueOf(event.details, "why");
  const std::string times = TimesText(event.times);
  if (why == "left") {
    return absl::StrCat("let pass ", times, ", as it was left so often");
  }
  if (why == "off") {
    return absl::StrCat("run eagerly ", times, ", as eager is faster");
  }
  return absl::StrCat("run eagerly ", times, ", to be compared with replays");
}

std::string TimedText(const StoryEvent& event) {
  WonTime won;
  won.Add(WonRow("Timed", event.details), 0);
  return absl::StrCat("a run takes ", TimesOfRunText(won), " eagerly",
                      event.times == 1 ? "" : ", by the last measurement");
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

}  // namespace

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
    case StoryStep::kTimed:
      return TimedText(event);
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
    case StoryStep::kLetPass:
      return LetPassText(event);
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

}  // namespace tjit::tools
