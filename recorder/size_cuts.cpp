#include "recorder/size_cuts.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "recorder/step_shape.h"
#include "support/policy.h"

namespace tjit {
namespace {

// A size of a step, by path.
using Sizes = std::vector<std::int64_t>;
// A bit for each number that varies on its own.
using Numbers = std::uint32_t;

bool AreEqual(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(),
                     [&](std::int64_t size) { return size == sizes[0]; });
}

// True if `y` is a linear function of `x`.
bool IsLinearIn(const Sizes& x, const Sizes& y) {
  const auto other = std::find_if(
      x.begin(), x.end(), [&](std::int64_t size) { return size != x[0]; });
  const auto i = static_cast<std::size_t>(other - x.begin());
  for (std::size_t p = 0; p < x.size(); ++p) {
    if (absl::int128(y[i] - y[0]) * (x[p] - x[0]) !=
        absl::int128(y[p] - y[0]) * (x[i] - x[0])) {
      return false;
    }
  }
  return true;
}

// True if `y` is (x + c) / k without its remainder: of windows, strides, and
// lengths that are padded.
bool IsPartOf(const Sizes& x, const Sizes& y) {
  for (const std::int64_t k : {2, 3, 4, 5, 6, 7, 8, 16, 32}) {
    std::int64_t least = INT64_MAX, most = INT64_MIN;
    for (std::size_t p = 0; p < x.size(); ++p) {
      least = std::min(least, k * y[p] - x[p]);
      most = std::max(most, k * y[p] - x[p]);
    }
    if (most - least < k) return true;
  }
  return false;
}

// True if `z` is x + y, or a multiple of x * y.
bool IsMadeOf(const Sizes& x, const Sizes& y, const Sizes& z) {
  bool is_sum = true, is_product = true;
  for (std::size_t p = 0; p < x.size(); ++p) {
    is_sum &= z[p] == x[p] + y[p];
    is_product &=
        absl::int128(z[p]) * x[0] * y[0] == absl::int128(z[0]) * x[p] * y[p];
  }
  return is_sum || is_product;
}

// The numbers that the sizes of steps are made of.
class NumberFinder {
 public:
  Numbers Find(const Sizes& sizes) {
    if (AreEqual(sizes)) return 0;
    const auto found = known_.find(sizes);
    if (found != known_.end()) return found->second;
    const Numbers numbers = FindNew(sizes);
    known_.emplace(sizes, numbers);
    return numbers;
  }
  std::size_t count() const { return own_.size(); }
  bool has_too_many() const { return own_.size() > kMost; }

 private:
  static constexpr std::size_t kMost = 16;

  Numbers FindNew(const Sizes& sizes) {
    for (std::size_t i = 0; i < own_.size(); ++i) {
      if (IsLinearIn(own_[i], sizes) || IsPartOf(own_[i], sizes)) {
        return Numbers{1} << i;
      }
    }
    for (std::size_t i = 0; i < own_.size(); ++i) {
      for (std::size_t j = i; j < own_.size(); ++j) {
        if (IsMadeOf(own_[i], own_[j], sizes)) {
          return Numbers{1} << i | Numbers{1} << j;
        }
      }
    }
    if (own_.size() <= kMost) own_.push_back(sizes);
    return Numbers{1} << (own_.size() - 1);
  }

  std::vector<Sizes> own_;
  absl::flat_hash_map<Sizes, Numbers> known_;
};

void AddNumbers(const std::vector<const TensorGeometry*>& tensor,
                NumberFinder* finder, Numbers* numbers) {
  Sizes sizes(tensor.size());
  for (int d = 0; d < tensor[0]->ndim; ++d) {
    for (std::size_t p = 0; p < tensor.size(); ++p) {
      sizes[p] = tensor[p]->sizes[d];
    }
    *numbers |= finder->Find(sizes);
  }
}

// Of step `i`. REQUIRES: the paths are of one trace.
Numbers NumbersOf(const std::vector<std::vector<const TraceNode*>>& paths,
                  std::size_t i, NumberFinder* finder) {
  const StepRecord& first = paths[0][i]->step;
  Numbers numbers = 0;
  std::vector<const TensorGeometry*> tensor(paths.size());
  for (std::size_t a = 0; a < first.args.size(); ++a) {
    if (first.args[a].slot == kNoSlot) continue;
    for (std::size_t p = 0; p < paths.size(); ++p) {
      tensor[p] = &*paths[p][i]->step.args[a].geometry;
    }
    AddNumbers(tensor, finder, &numbers);
  }
  for (std::size_t r = 0; r < first.results.size(); ++r) {
    if (first.results[r].kind != ResultRecord::Kind::kFresh) continue;
    for (std::size_t p = 0; p < paths.size(); ++p) {
      tensor[p] = &*paths[p][i]->step.results[r].geometry;
    }
    AddNumbers(tensor, finder, &numbers);
  }
  return numbers;
}

// Steps from `i` on whose sizes stay.
std::size_t CountFixed(const std::vector<Numbers>& steps, std::size_t i) {
  const auto from = steps.begin() + static_cast<std::ptrdiff_t>(i);
  const auto to = std::find_if(from, steps.end(),
                               [](Numbers numbers) { return numbers != 0; });
  return static_cast<std::size_t>(to - from);
}

}  // namespace

std::vector<std::size_t> CutsBySizes(
    const std::vector<std::vector<const TraceNode*>>& paths) {
  NumberFinder finder;
  std::vector<Numbers> steps;
  for (std::size_t i = 0; i < paths[0].size(); ++i) {
    steps.push_back(NumbersOf(paths, i, &finder));
    if (finder.has_too_many()) return {};
  }
  std::vector<std::size_t> cuts;
  if (finder.count() < 2) return cuts;
  std::size_t begin = 0;
  Numbers part = 0;  // numbers of the present one
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t length = i - begin;
    bool is_cut = false;
    if (steps[i] == 0) {
      is_cut = part != 0 && length >= policy::kShortestRegion &&
               CountFixed(steps, i) >= policy::kShortestReturn;
    } else if ((steps[i] & ~part) != 0) {
      is_cut = length >=
               (part == 0 ? policy::kShortestReturn : policy::kShortestRegion);
    }
    // A step that runs at the call says too little to begin a sequence.
    if (is_cut && paths[0][i]->step.kind == StepKind::kDeferred) {
      cuts.push_back(i);
      begin = i;
      part = 0;
    }
    part |= steps[i];
  }
  if (!cuts.empty() && steps.size() - begin < policy::kShortestRegion) {
    cuts.pop_back();
  }
  return cuts;
}

namespace {

// Where steps are the ones `period` behind them, in order: [begin, end).
using Runs = std::vector<std::pair<std::size_t, std::size_t>>;

Runs RunsOf(const std::vector<std::uint64_t>& steps, std::size_t period) {
  Runs runs;
  std::size_t begin = 0;
  for (std::size_t i = 0; i + period <= steps.size(); ++i) {
    const bool goes_on =
        i + period < steps.size() && steps[i] == steps[i + period];
    if (goes_on) continue;
    // As many iterations as there are at least.
    const bool is_behind = runs.empty() || begin >= runs.back().second;
    if (is_behind && i - begin >= (policy::kShortestLoop - 1) * period) {
      runs.emplace_back(begin, i + period);
    }
    begin = i + 1;
  }
  return runs;
}

}  // namespace

LoopInPath FindLoop(const std::vector<std::vector<const TraceNode*>>& paths) {
  const std::vector<const TraceNode*>& path = paths[0];
  std::vector<std::uint64_t> steps;
  std::vector<bool> varies;
  for (std::size_t i = 0; i < path.size(); ++i) {
    steps.push_back(ShapeOf(path[i]->step));
    varies.push_back(ShapeOf(paths[1][i]->step) != steps.back());
  }
  const std::size_t longest =
      std::min(policy::kLongestInLoop, path.size() / policy::kShortestLoop);
  for (std::size_t period = policy::kShortestRegion; period <= longest;
       ++period) {
    Runs runs = RunsOf(steps, period);
    // An optimizer's loop over parameters has the same sizes each time.
    std::erase_if(runs, [&](const auto& run) {
      const auto begin =
          varies.begin() + static_cast<std::ptrdiff_t>(run.first);
      return std::none_of(begin, begin + static_cast<std::ptrdiff_t>(period),
                          [](bool does) { return does; });
    });
    std::size_t covered = 0;
    for (const auto& [begin, end] : runs) covered += end - begin;
    if (covered < path.size() / 2) continue;
    LoopInPath loop{period, {}};
    for (const auto& [begin, end] : runs) {
      std::size_t at = begin;
      for (; at + period <= end; at += period) {
        if (at != 0) loop.cuts.push_back(at);
      }
      if (at < path.size()) loop.cuts.push_back(at);
    }
    return loop;
  }
  return {};
}

std::vector<NewStep> PartOf(const std::vector<const TraceNode*>& path,
                            std::size_t begin, std::size_t end) {
  const auto record_of = [&](std::int32_t slot) {
    const auto s = static_cast<std::uint32_t>(slot);
    const auto node =
        std::upper_bound(path.begin(), path.end(), s,
                         [](std::uint32_t wanted, const TraceNode* n) {
                           return wanted < n->slot_end();
                         });
    return (*node)->new_slots[s - (*node)->slot_begin];
  };
  absl::flat_hash_map<std::int32_t, std::int32_t> numbers;  // old -> new
  // By old number of the first place of a storage: the new one of the first
  // that the part uses.
  absl::flat_hash_map<std::int32_t, std::int32_t> places;
  std::vector<NewStep> steps;
  for (std::size_t i = begin; i < end; ++i) {
    NewStep& step = steps.emplace_back();
    step.step = CopyOf(path[i]->step);
    step.payload = path[i]->payload;
    const auto renumber = [&](std::int32_t* slot, bool is_born) {
      if (*slot == kNoSlot) return;
      const auto next = static_cast<std::int32_t>(numbers.size());
      const auto [at, is_new] = numbers.emplace(*slot, next);
      if (is_new) {
        SlotRecord record = record_of(*slot);
        const std::int32_t first = record.is_place() ? record.place_of : *slot;
        if (record.is_place()) {
          const auto whole = numbers.find(first);
          places.emplace(first, whole == numbers.end() ? next : whole->second);
        }
        const auto place = places.find(first);
        record.place_of = place == places.end() ? -1 : place->second;
        record.born_step = is_born ? static_cast<std::int32_t>(i - begin) : -1;
        step.new_slots.push_back(record);
      }
      *slot = at->second;
    };
    for (ArgRecord& arg : step.step.args) renumber(&arg.slot, false);
    for (ResultRecord& result : step.step.results) {
      renumber(&result.slot, result.kind == ResultRecord::Kind::kFresh);
    }
  }
  return steps;
}

}  // namespace tjit
