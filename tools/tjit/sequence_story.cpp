#include "tools/tjit/sequence_story.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/log_word.h"
#include "tools/tjit/log_details.h"

namespace tjit::tools {
namespace {

// When what the row tells was over.
std::uint64_t EndNs(const LogRow& row) {
  // A damaged row may say anything.
  constexpr double kLongestNs = 1e18;
  return row.took_ns > 0 && row.took_ns < kLongestNs
             ? row.time_ns +
                   static_cast<std::uint64_t>(std::llround(row.took_ns))
             : row.time_ns;
}

bool IsMilestone(StoryStep step) {
  switch (step) {
    case StoryStep::kFound:
    case StoryStep::kHot:
    case StoryStep::kBlacklisted:
    case StoryStep::kOff:
    case StoryStep::kAlone:
    case StoryStep::kForgotten:
      return true;
    case StoryStep::kSeen:
    case StoryStep::kPrepared:
    case StoryStep::kReplay:
    case StoryStep::kFinished:
    case StoryStep::kTimed:
    case StoryStep::kAsked:
    case StoryStep::kCompiled:
    case StoryStep::kMeasured:
    case StoryStep::kLeft:
    case StoryStep::kPaused:
    case StoryStep::kLetPass:
      break;
  }
  return false;
}

// Adds the row to the event of the same kind in the last group, if there is
// one.
void AddEvent(const LogRow& row, StoryStep step, const std::string& key,
              SequenceStory* story) {
  std::vector<StoryEvent>& events = story->events;
  const int last_group = events.empty() ? 0 : events.back().group;
  const bool is_milestone = IsMilestone(step);
  for (auto e = events.rbegin();
       !is_milestone && e != events.rend() && e->group == last_group; ++e) {
    if (e->step != step || e->key != key) continue;
    e->last_ns = EndNs(row);
    e->took_ns += row.took_ns;
    e->details = row.details;
    ++e->times;
    return;
  }
  events.push_back({step, key, row.details, EndNs(row), EndNs(row), 1,
                    row.took_ns, last_group + (is_milestone ? 1 : 0)});
}

// The details from that word on; "" without it.
std::string From(const std::string& details, const std::string& word) {
  const std::size_t begin = details.find(word);
  return begin == std::string::npos ? "" : details.substr(begin);
}

// A run of it was deferred: whatever stood against that is over.
void SetRunning(SequenceStory* story) {
  // What was pending then, and runs of other threads.
  if (story->state == SequenceStory::kForgotten) return;
  story->skip = 0;
  story->resting_for.clear();
  story->is_last_run = false;
  story->state = story->finished == 0 ? kStateHot : kStateReplayed;
}

void SetResting(const LogRow& row, const char* state, StoryStep step,
                SequenceStory* story) {
  story->skip = NumberOf(row.details, "skip");
  story->passed = 0;
  story->state = state;
  AddEvent(row, step, "", story);
}

}  // namespace

void SequenceStories::AddDetect(const LogRow& row, SequenceStory* story) {
  const std::string& what = row.command;
  story->won.Add(WonRow(what, row.details), row.time_ns);
  if (what == "Found" || what == "Promoted") {
    story->ops = NumberOf(row.details, "ops");
    if (std::string ops = OpsOf(row.details); !ops.empty()) {
      story->first_ops = std::move(ops);
    }
  }
  if (what == "Found") {
    story->region = TextOfLogWord(ValueOf(row.details, "region"));
    if (const std::int64_t id = NumberOf(row.details, "id"); id != 0) {
      std::erase(story->ids, id);
      story->ids.push_back(id);
    }
    story->sightings = 0;
    story->state = kStateSeen;
    AddEvent(row, StoryStep::kFound, "", story);
  } else if (what == "Seen") {
    story->sightings = NumberOf(row.details, "sightings");
    story->threshold = NumberOf(row.details, "threshold");
    AddEvent(row, StoryStep::kSeen, "", story);
  } else if (what == "Promoted") {
    story->sightings = NumberOf(row.details, "executed");
    story->state = kStateHot;
    AddEvent(row, StoryStep::kHot, "", story);
  } else if (what == "Finished") {
    ++story->finished;
    if (!std::exchange(story->is_last_run, false)) SetRunning(story);
    AddEvent(row, StoryStep::kFinished, "", story);
  } else if (what == "Timed") {
    AddEvent(row, StoryStep::kTimed, "", story);
  } else if (what == "Let pass") {
    AddLetPass(row, story);
  } else if (what == "Switched off") {
    story->state = kStateOff;
    story->ran_off = 0;
    AddEvent(row, StoryStep::kOff, "", story);
  } else if (what == "Blacklisted") {
    story->resting_for = ValueOf(row.details, "reason");
    story->is_last_run = true;
    SetResting(row, kStateBlacklisted, StoryStep::kBlacklisted, story);
  } else if (what == "Differs") {
    const auto text = [&row](const char* name) {
      return TextOfLogWord(ValueOf(row.details, name));
    };
    ExplainedExit exit;
    exit.after_ops = NumberOf(row.details, "after");
    exit.reason = text("reason");
    exit.op = text("op");
    exit.expected = text("expected");
    exit.actual = text("actual");
    exit.place = text("place");
    story->first_exits.try_emplace(exit.reason, exit);
  } else if (what == "Forgotten" && story->state != SequenceStory::kForgotten) {
    story->state = SequenceStory::kForgotten;  // of several threads the first
    AddEvent(row, StoryStep::kForgotten, "", story);
  }
}

void SequenceStories::AddLetPass(const LogRow& row, SequenceStory* story) {
  const std::string why = ValueOf(row.details, "why");
  if (why == "left") ++story->passed;
  if (why == "off") ++story->ran_off;
  AddEvent(row, StoryStep::kLetPass, why, story);
}

void SequenceStories::AddCompile(const LogRow& row, SequenceStory* story) {
  const bool is_code = ValueOf(row.details, "tier") == "2";
  const std::string ops = ValueOf(row.details, "ops");
  if (row.command == "Measured") {
    return AddEvent(row, StoryStep::kMeasured, ValueOf(row.details, "pays"),
                    story);
  }
  if (row.command == "Starting") {
    if (is_code) {
      ++story->waits_for_code;
      AddEvent(row, StoryStep::kAsked, ops, story);
    } else {
      // A thread prepares one at a time, and begins anew where that failed.
      story->prepared_by.insert(row.source);
    }
  } else if (row.command == "Complete") {
    if (is_code) {
      story->waits_for_code =
          std::max<std::int64_t>(story->waits_for_code - 1, 0);
    } else {
      story->prepared_by.erase(row.source);
    }
    AddEvent(row, is_code ? StoryStep::kCompiled : StoryStep::kPrepared,
             is_code ? From(row.details, "groups=") : ops, story);
  }
}

void SequenceStories::AddExit(const LogRow& row, SequenceStory* story) {
  const std::string reason = ValueOf(row.details, "reason");
  ++story->left[reason];
  // "after=5 aten::add.Tensor reason=op_differs", without what is behind.
  const std::string where = From(row.details, "after=");
  AddEvent(row, StoryStep::kLeft,
           where.substr(0, where.find(' ', where.find("reason="))), story);
  if (NumberOf(row.details, "skip") == 0) return;
  const bool is_blacklisted = NumberOf(row.details, "blacklisted") != 0;
  SetResting(row, is_blacklisted ? kStateBlacklisted : kStatePaused,
             is_blacklisted ? StoryStep::kBlacklisted : StoryStep::kPaused,
             story);
}

void SequenceStories::AddReplay(const LogRow& row, SequenceStory* story) {
  if (story->segments++ == 0) AddEvent(row, StoryStep::kReplay, "", story);
  story->replayed_ops += NumberOf(row.details, "ops");
  if (!story->is_last_run) SetRunning(story);
}

// Of the thread, so of each sequence that has run there.
void SequenceStories::AddLeftAlone(const LogRow& row) {
  for (auto& [name, story] : stories_) {
    if (!story.sources.contains(row.source)) continue;
    if (story.state != SequenceStory::kForgotten) {
      story.state = SequenceStory::kLeftAlone;
    }
    AddEvent(row, StoryStep::kAlone, "", &story);
  }
}

void SequenceStories::Add(const LogRow& row) {
  last_ns_ = std::max(last_ns_, EndNs(row));
  if (row.event == LogEvent::kOp) {
    ++ops_;
    return;
  }
  if (row.command == "Left alone") return AddLeftAlone(row);
  const std::string name = ValueOf(row.details, "sequence");
  if (name.empty() || name == "none") return;
  SequenceStory* const story = &stories_[name];
  story->name = name;
  // The last one is written by who ends the log.
  if (row.command != "Timed") story->sources.insert(row.source);
  switch (row.event) {
    case LogEvent::kDetect:
      return AddDetect(row, story);
    case LogEvent::kCompile:
      return AddCompile(row, story);
    case LogEvent::kExit:
      return AddExit(row, story);
    case LogEvent::kReplay:
      return AddReplay(row, story);
    case LogEvent::kDrain:
      ++story->drains;
      story->drained_ops += NumberOf(row.details, "ops");
      return;
    case LogEvent::kOp:
    case LogEvent::kWait:
    case LogEvent::kCount:
      break;
  }
}

std::vector<std::string> SequenceStories::Find(
    const std::string& number_or_name) const {
  std::vector<std::string> found;
  std::int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(number_or_name, &number);
  for (const auto& [name, story] : stories_) {
    if (name == number_or_name) return {name};
    const std::vector<std::int64_t>& ids = story.ids;
    if (is_number && std::find(ids.begin(), ids.end(), number) != ids.end()) {
      found.push_back(name);
    }
  }
  return found;
}

}  // namespace tjit::tools
