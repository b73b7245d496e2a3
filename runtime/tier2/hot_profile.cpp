#include "runtime/tier2/hot_profile.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "recorder/profile_text.h"
#include "runtime/call/kernel_state.h"
#include "runtime/report/log.h"
#include "runtime/report/options_resolution.h"
#include "runtime/tier2/tier2.h"
#include "support/env.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// It has been replayed, and not because of an error given up since.
bool IsWorthKeeping(const Trace& trace) {
  return trace.hot.load(std::memory_order_acquire) &&
         !trace.blacklisted.load(std::memory_order_relaxed) &&
         !trace.trial.is_off() &&
         trace.completions.load(std::memory_order_relaxed) >
             trace.eager_completions.load(std::memory_order_relaxed);
}

using Nodes = std::vector<const TraceNode*>;
using CodeByNode =
    absl::flat_hash_map<std::uint32_t, std::vector<ProfileSegment>>;

// True if `known` has the sequence and its compiled parts.
bool IsKnown(const Profile& known, const Nodes& nodes, const CodeByNode& code) {
  std::vector<const StepRecord*> steps;
  for (const TraceNode* node : nodes) steps.push_back(&node->step);
  const KnownNode* end = known.Find(steps);
  if (end == nullptr || !end->ends) return false;
  for (std::size_t i = nodes.size(); i-- > 0; end = end->parent) {
    const auto found = code.find(nodes[i]->id);
    if (found == code.end() ||
        end->segments.size() >= Profile::kMaxSegmentsPerNode) {
      continue;
    }
    for (const ProfileSegment& segment : found->second) {
      if (std::find(end->segments.begin(), end->segments.end(), segment) ==
          end->segments.end()) {
        return false;
      }
    }
  }
  return true;
}

KnownPath PathOf(const Trace& trace, const Nodes& nodes,
                 const CodeByNode& code) {
  KnownPath path;
  path.at_boundary = trace.starts_at_boundary;
  for (const TraceNode* node : nodes) {
    path.steps.push_back(CopyOf(node->step));
    path.slots.insert(path.slots.end(), node->new_slots.begin(),
                      node->new_slots.end());
    const auto found = code.find(node->id);
    path.segments.emplace_back();
    if (found != code.end()) path.segments.back() = found->second;
  }
  return path;
}

// The steps of a compiled part of `path` that ends with step `end`, as the
// segment itself would give them to the compiler.
SegmentInput InputOf(const KnownPath& path, std::size_t end,
                     const ProfileSegment& segment) {
  SegmentInput input;
  input.threads = at::get_num_threads();  // as long as the program sets none
  std::uint32_t scalar_begin = 0, index = 0;
  std::size_t slots = 0;
  for (std::size_t i = 0; i <= end; ++i) {
    const StepRecord& step = path.steps[i];
    for (const ArgRecord& a : step.args) {
      slots = std::max(slots, static_cast<std::size_t>(a.slot + 1));
    }
    for (const ResultRecord& r : step.results) {
      slots = std::max(slots, static_cast<std::size_t>(r.slot + 1));
    }
    if (i >= segment.begin && step.kind == StepKind::kDeferred) {
      if (!std::binary_search(segment.dropped.begin(), segment.dropped.end(),
                              index)) {
        input.steps.push_back(
            {step, OpName(step.op), nullptr, index, scalar_begin});
      }
      ++index;
    }
    scalar_begin += static_cast<std::uint32_t>(step.scalars.size());
  }
  for (std::size_t s = 0; s < slots; ++s) {
    input.slots.push_back(
        {path.slots[s].bytes,
         std::binary_search(segment.live.begin(), segment.live.end(), s)});
  }
  return input;
}

// Has all segments of the profile compiled, each once.
void Compile(const Profile& profile, Tier2* tier2) {
  absl::flat_hash_set<const KnownNode*> seen;
  for (const KnownNode* end : profile.ends()) {
    const KnownPath path = Profile::PathTo(end);
    const KnownNode* node = end;
    for (std::size_t i = path.steps.size(); i-- > 0; node = node->parent) {
      if (!seen.insert(node).second) continue;
      const RegionId region = RegionOfContext(path.steps[i].context);
      Engine* const engine = tier2->EngineIn(region).load();
      if (engine == nullptr) continue;
      for (const ProfileSegment& segment : node->segments) {
        SegmentInput input = InputOf(path, i, segment);
        if (tier2->Ask(input, engine, /*is_again=*/false) != nullptr) continue;
        tier2->worker().WaitUntilIdle();  // the queue was full
        tier2->Ask(std::move(input), engine, /*is_again=*/false);
      }
    }
  }
  tier2->worker().WaitUntilIdle();
}

bool IsThere(const ProfilePlace& place) {
  struct stat info;
  return !place.name.empty() && stat(place.path().c_str(), &info) == 0;
}

}  // namespace

HotProfile::HotProfile() : pid_(getpid()) {}

void HotProfile::Configure(const std::string& cache_dir) {
  const MutexLock lock(mutex_);
  const std::string& file = ProfilePath();
  if (file == kCacheOff) {
    place_ = ProfilePlace();
  } else if (!file.empty()) {
    place_ = PlaceOf(file);
  } else if (IsOnAtLoad() && cache_dir != kCacheOff) {
    place_ = PlaceInCache(cache_dir);
  } else {
    place_ = ProfilePlace();
  }
}

void HotProfile::OnFirstOp(Tier2* tier2) {
  int clears = 0;
  {
    const MutexLock lock(mutex_);
    if (was_read_ || !IsThere(place_)) return;
    was_read_ = true;
    const std::string why = WhyNotOurs(place_);
    if (!why.empty()) {
      LogWarning(absl::StrCat("TJIT_PROFILE: ", why, "; no profile is kept"));
      place_ = ProfilePlace();
      return;
    }
    clears = clears_;
  }
  tier2->worker().Post([this, clears](const std::atomic<bool>& hurry) {
    return Load(clears, hurry);
  });
}

bool HotProfile::Load(int clears, const std::atomic<bool>& stop) {
  ProfilePlace place;
  {
    const MutexLock lock(mutex_);
    if (clears != clears_) return true;
    place = place_;
  }
  auto profile = std::make_unique<Profile>();
  bool is_there = false;
  const std::string error = ReadProfile(place, /*any_program=*/false,
                                        profile.get(), &is_there, &stop);
  if (!error.empty() && stop.load()) return false;
  if (!error.empty()) {
    LogWarning(absl::StrCat("the profile ", place.path(),
                            " is not used: ", error,
                            "; it is written anew when the program ends"));
    return true;
  }
  const MutexLock lock(mutex_);
  if (clears == clears_) in_file_ = Publish(std::move(profile));
  return true;
}

const Profile* HotProfile::Publish(std::unique_ptr<Profile> profile) {
  if (const Profile* known = known_.load(std::memory_order_relaxed)) {
    for (const KnownNode* end : known->ends()) {
      if (!profile->Add(Profile::PathTo(end)).empty()) break;  // it is full
    }
  }
  if (profile->empty()) return nullptr;
  profiles_.push_back(std::move(profile));
  known_.store(profiles_.back().get(), std::memory_order_release);
  return profiles_.back().get();
}

void HotProfile::RecordCode(const TraceNode* last, ProfileSegment segment) {
  const MutexLock lock(mutex_);
  if (code_.size() >= policy::kMaxKnownCode) return;
  for (const auto& [id, known] : code_) {
    if (id == last->id && known == segment) return;
  }
  code_.emplace_back(last->id, std::move(segment));
}

void HotProfile::KeepCodeOf(const TraceStore& store) {
  const MutexLock lock(mutex_);
  std::erase_if(code_, [&](const auto& noted) {
    return store.NodeOf(noted.first) == nullptr;
  });
}

void HotProfile::Forget() {
  const MutexLock lock(mutex_);
  ++clears_;
  known_.store(nullptr, std::memory_order_release);
  code_.clear();
}

void HotProfile::Collect(const TraceStore& store, const Profile* known,
                         Profile* profile) {
  CodeByNode code;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, segment] : code_) code[id].push_back(segment);
  }
  std::size_t steps = 0;
  for (const Trace* trace : store.traces()) {
    if (!IsWorthKeeping(*trace)) continue;
    for (const Nodes& nodes : store.PathsOf(trace)) {
      steps += nodes.size();
      if (steps > Profile::kMaxSteps) return;
      if (known != nullptr && IsKnown(*known, nodes, code)) continue;
      KnownPath path = PathOf(*trace, nodes, code);
      // What the text cannot show is left out, and what has no room.
      if (ParsesBack(path)) profile->Add(std::move(path));
    }
  }
}

std::int64_t HotProfile::Prewarm(const std::string& file, Tier2* tier2) {
  const ProfilePlace place = PlaceOf(file);
  auto profile = std::make_unique<Profile>();
  bool is_there = false;
  std::string error =
      ReadProfile(place, /*any_program=*/true, profile.get(), &is_there);
  if (error.empty() && !is_there) error = "there is no such file";
  TORCH_CHECK(error.empty(), "tjit::prewarm: cannot use \"", file,
              "\": ", error,
              "; tjit::save_profile and TJIT_PROFILE write such files");
  const auto count = static_cast<std::int64_t>(profile->ends().size());
  Compile(*profile, tier2);
  const MutexLock lock(mutex_);
  Publish(std::move(profile));
  return count;
}

std::int64_t HotProfile::Save(const std::string& file,
                              const TraceStore& store) {
  Profile profile;
  Collect(store, /*known=*/nullptr, &profile);
  const auto count = static_cast<std::int64_t>(profile.ends().size());
  const std::string error =
      WriteProfile(PlaceOf(file), /*merges=*/false, &profile);
  TORCH_CHECK(error.empty(), "tjit::save_profile: cannot write \"", file,
              "\": ", error);
  return count;
}

void HotProfile::SaveAtExit(const TraceStore& store, bool has_warned) {
  if (getpid() != pid_) return;
  try {
    SaveNews(store, has_warned);
  } catch (const std::exception& e) {  // no memory; the program ends as it does
    LogWarning(absl::StrCat("no profile is written: ", e.what()));
  }
}

void HotProfile::SaveNews(const TraceStore& store, bool has_warned) {
  ProfilePlace place;
  const Profile* in_file = nullptr;
  {
    const MutexLock lock(mutex_);
    place = place_;
    in_file = in_file_;
  }
  if (place.name.empty()) return;
  Profile profile;
  Collect(store, IsThere(place) ? in_file : nullptr, &profile);
  if (profile.empty()) return;
  const std::string error = WriteProfile(place, /*merges=*/true, &profile);
  if (error.empty() || (place.is_cache && has_warned)) return;
  LogWarning(absl::StrCat("cannot write the profile ", place.path(), ": ",
                          error,
                          "; the next run learns anew. TJIT_PROFILE "
                          "names another file, or is off"));
}

}  // namespace tjit::runtime
