// What an instruction log tells of each sequence, in the order in which it
// happened, from the row that found it to the last one.
//
//   SequenceStories stories;
//   while (log.Next(false, &row)) stories.Add(row);
//   stories.Find("3", &name)     // the number that `tjit explain` gives it
//
// What repeats is one event with a count and two times, so that the memory
// for a log of any length is that of its sequences. A milestone (found, hot,
// switched off, ...) begins a new group of events: what comes again behind it
// is an event of its own.
// Thread: one. Tested by: tests/acceptance/why_test.py
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "recorder/explanation.h"
#include "recorder/instruction_log_reader.h"
#include "tools/tjit/won_time.h"

namespace tjit::tools {

// What may happen to a sequence.
enum class StoryStep {
  kFound,
  kSeen,
  kHot,
  kPrepared,     // the calls of a segment, tier 1
  kReplay,       // the first segment that ran
  kFinished,     // a run with deferred ops came to the end
  kTimed,        // what a run takes, replayed and eagerly
  kAsked,        // for machine code, tier 2
  kCompiled,     // or not: no group is in the code
  kMeasured,     // machine code against library calls
  kLeft,         // with deferred ops
  kPaused,       // as it was left too often
  kLetPass,      // an entry was not taken, for one of several reasons
  kBlacklisted,  // for very long
  kOff,          // as eager is faster
  kAlone,        // the thread is left alone
  kForgotten,
};

struct StoryEvent {
  StoryStep step = StoryStep::kFound;
  std::string key;      // events of one step and key are one
  std::string details;  // of the last row
  std::uint64_t first_ns = 0, last_ns = 0;
  std::int64_t times = 1;
  double took_ns = 0;  // all of them
  int group = 0;       // milestones before it
};

struct SequenceStory {
  std::string name;                // "566f0d7d4c59"
  std::vector<std::int64_t> ids;   // the last one holds; several after clear()
  std::int64_t ops = 0;            // 0: the log does not say
  std::string first_ops, region;   // "" where the log does not say
  std::set<std::string> sources;   // threads that have rows of it
  std::vector<StoryEvent> events;  // by time

  // Up to the end of the log.
  std::int64_t finished = 0;
  std::int64_t segments = 0, replayed_ops = 0;
  std::int64_t drains = 0, drained_ops = 0;
  std::set<std::string> prepared_by;  // threads that prepare a segment now
  std::int64_t waits_for_code = 0;  // segments
  std::int64_t sightings = 0, threshold = 0;
  std::int64_t skip = 0;     // entries to let pass, when it was left last
  std::int64_t passed = 0;   // of them, since
  std::int64_t ran_off = 0;  // eagerly, since it was switched off
  WonTime won;
  std::string resting_for;   // the reason, where it was not that it was left
  bool is_last_run = false;  // one that goes on to its end, and then it rests
  CountsByName left;      // by the name of a BailReason
  std::map<std::string, ExplainedExit> first_exits;  // by the same
  std::string state = kStateSeen;  // of explanation.h, or one of these two:

  static constexpr char kForgotten[] = "forgotten";
  static constexpr char kLeftAlone[] = "left alone";
};

class SequenceStories {
 public:
  void Add(const LogRow& row);

  // By name.
  const std::map<std::string, SequenceStory>& all() const { return stories_; }
  // Names of those that have, or had, this number, or this name.
  std::vector<std::string> Find(const std::string& number_or_name) const;
  // Of all rows; the time is when the last one was over.
  std::uint64_t ops() const { return ops_; }
  std::uint64_t last_ns() const { return last_ns_; }

 private:
  void AddDetect(const LogRow& row, SequenceStory* story);
  void AddLetPass(const LogRow& row, SequenceStory* story);
  void AddCompile(const LogRow& row, SequenceStory* story);
  void AddExit(const LogRow& row, SequenceStory* story);
  void AddReplay(const LogRow& row, SequenceStory* story);
  void AddLeftAlone(const LogRow& row);

  std::map<std::string, SequenceStory> stories_;
  std::uint64_t ops_ = 0, last_ns_ = 0;
};

}  // namespace tjit::tools
