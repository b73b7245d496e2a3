// The way of an op while a mode is on, see modes.h.
#include "runtime/thread/self_check/modes.h"

#include <chrono>
#include <exception>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/region_table.h"
#include "runtime/call/interpose.h"
#include "runtime/platform/settings.h"
#include "runtime/report/log.h"
#include "runtime/report/strict.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/self_check/mode_state.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

constexpr std::size_t kMaxSaid = 20;
// No value of Settings::modes().
constexpr unsigned kNotOrdinary = ~0u;

// xorshift64*.
std::uint64_t NextRandom(std::uint64_t* state) {
  std::uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * 0x2545F4914F6CDD1Dull;
}

// TJIT_NAN: says what the call made, or, with TJIT_STRICT, returns it.
std::string LookForNan(ModeState* mine, const CallFrame& frame,
                       const ResultList& results, const RegionVisits* regions,
                       Counters* counters) {
  counters->nan_checks.Add();
  const std::string made = mine->nan.After(frame, results);
  if (made.empty()) return {};
  counters->nan_findings.Add();
  const RegionId id = regions != nullptr ? regions->id() : kNoRegion;
  const std::string region =
      id == kNoRegion
          ? ""
          : absl::StrCat(" in region ", RegionTable::Get().NameOf(id));
  const std::string text = absl::StrCat("TJIT_NAN: ", mine->nan.Place(), region,
                                        ", ", frame.entry.name, ", ", made);
  if ((mine->modes & kModeStrict) != 0) return "tjit: " + text;
  if (mine->nan.IsNew(frame, region)) PrintFinding(text);
  return {};
}

// Before an op what is pending runs with this probability.
constexpr std::uint64_t kFlushOneIn = 8;

}  // namespace

void PrintFinding(std::string_view text, std::string_view more) {
  static Mutex mutex;
  static auto* said = new std::set<std::string, std::less<>>;
  const MutexLock lock(mutex);
  if (said->size() > kMaxSaid || !said->emplace(text).second) return;
  LogWarning(said->size() <= kMaxSaid ? std::string(text).append(more)
                                      : "more findings are only counted");
}

std::uint64_t SeedOfShuffle(std::uint64_t given) {
  const std::uint64_t seed =
      given != 0 ? given
                 : static_cast<std::uint64_t>(std::chrono::steady_clock::now()
                                                  .time_since_epoch()
                                                  .count()) |
                       1;
  LogWarning(absl::StrCat("TJIT_STRESS=shuffle:", seed,
                          " flushes at the same points again"));
  return seed;
}

bool ThreadState::FollowModes() {
  const unsigned modes = g_settings.modes();
  if (modes == ordinary_modes_) return false;
  if (modes_ != nullptr && modes_->modes == modes) return true;
  // A thread of a team must wait for no state: at the next op outside.
  if (t_context.held != nullptr || InParallelRegion()) {
    return modes_ != nullptr && !modes_->is_for_run;
  }
  Reset();  // what one mode has begun is not another's to go on with
  if (modes % kModeEpoch == 0) {
    {
      const StateLock lock(this);
      modes_.reset();
    }
    ordinary_modes_ = modes;
    ThrowKeptFailure(&counters_);
    return false;
  }
  ordinary_modes_ = kNotOrdinary;
  if (modes_ == nullptr) modes_ = std::make_unique<ModeState>();
  modes_->modes = modes;
  modes_->is_sample = modes_->is_asked = modes_->is_for_run = false;
  modes_->checking = modes_->checks_nan = false;
  modes_->nan = {};
  modes_->random = (g_settings.shuffle_seed() ^
                    (std::uint64_t{run_.stream} * 0x9E3779B97F4A7C15ull)) |
                   1;
  return true;
}

// REQUIRES: FollowModes().
Decision ThreadState::OnCallInMode(CallFrame& frame) {
  ModeState& mine = *modes_;
  const unsigned modes = mine.modes;
  ThrowKeptFailure(&counters_);
  if ((modes & kModeHide) != 0) RevealArguments(frame);
  if (InParallelRegion() || is_paused_) {
    frame.in_region = true;
    return AtCall(frame);
  }
  if ((modes & kModeShuffle) != 0 &&
      NextRandom(&mine.random) % kFlushOneIn == 0) {
    Flush(FlushReason::kShuffle);
  }
  Decision decision = Decision::kEager;
  if ((modes & kModeLate) != 0 && (modes & kModeNan) == 0) {
    decision = CallLate(frame);
  } else if ((modes & kModesAtCall) != 0) {
    decision = AtCall(frame);
  } else {
    decision = Decide(frame);
  }
  // What has happened already, open or pending, is no error any more: that
  // comes with the next op.
  if (decision == Decision::kEager && !mine.open &&
      HasKeptFailure(&counters_)) {
    OnThrow(frame);
    ThrowKeptFailure(&counters_);
  }
  mine.checking =
      decision == Decision::kEager && (modes & kModeCheck) != 0;
  if (mine.checking) mine.check.Before(frame);
  mine.checks_nan = (modes & kModeNan) != 0;
  if (mine.checks_nan) mine.nan.Before(frame);
  return decision;
}

bool ThreadState::AfterEagerInMode(CallFrame& frame, const ResultList& results,
                                   torch::jit::Stack* boxed) {
  if (modes_ == nullptr) return false;
  ModeState& mine = *modes_;  // the runtime's may have changed meanwhile
  if (mine.checking) {
    mine.checking = false;
    counters_.ops_checked.Add();
    const std::string finding = mine.check.After(frame);
    if (!finding.empty()) {
      counters_.check_failures.Add();
      PrintFinding(
          absl::StrCat("TJIT_STRESS=check: ", frame.entry.name, " ", finding));
    }
  }
  std::string nan;
  if (std::exchange(mine.checks_nan, false)) {
    nan = LookForNan(&mine, frame, results, VisitsOf(*this), &counters_);
  }
  if ((mine.modes & kModeHide) != 0 && g_settings.hiding()) {
    HideResults(frame, results.items());
  }
  TORCH_CHECK(nan.empty(), nan);
  if (mine.open) {
    CloseCall(frame, results, boxed);
    return true;
  }
  return (mine.modes & (kModesAtCall | kModeLate)) != 0;
}

void ThreadState::OnThrowInMode(CallFrame& frame) {
  modes_->checking = false;
  modes_->checks_nan = false;
  if (!modes_->open) return;
  try {
    GiveUpCall(frame, /*threw=*/true);
  } catch (const std::exception& e) {
    // The kernel's own error is on its way.
    LogWarning(absl::StrCat("what was pending before ", frame.entry.name,
                            " cannot run: ", e.what()));
  }
}

}  // namespace tjit::runtime
