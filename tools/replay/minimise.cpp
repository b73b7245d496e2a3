#include "tools/replay/minimise.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "tools/replay/sequence_calls.h"

namespace tjit::tools {
namespace {

// Writes down a run with fewer calls, while the run with all of them goes on.
class Rewriter {
 public:
  Rewriter(const SequenceRun& run, std::vector<bool> removed, bool keeps_inputs)
      : run_(run),
        removed_(std::move(removed)),
        calls_(run),
        now_(run.storages.size(), -1),
        is_compared_(run.storages.size()) {
    if (keeps_inputs) FindCompared();
  }

  SequenceRun Rewrite() {
    std::vector<at::Tensor> contents;
    for (const SequenceStorage& s : run_.storages) {
      contents.push_back(s.content);
    }
    calls_.Begin(contents, /*keeps_last=*/false);
    calls_.Run([this](std::size_t c) {
      if (removed_[c]) {
        Replace(c);
      } else {
        Keep(c);
      }
    });
    return std::move(made_);
  }

 private:
  void FindCompared() {
    for (std::size_t c = 0; c < run_.calls.size(); ++c) {
      if (!removed_[c]) continue;
      for (const SequenceTensor& t : run_.calls[c].tensors) {
        if (t.storage >= 0) {
          is_compared_[static_cast<std::size_t>(t.storage)] = true;
        }
      }
    }
  }

  bool IsUsedBehind(std::size_t call, std::int64_t storage) const {
    const auto uses = [storage](const SequenceTensor& t) {
      return t.storage == storage;
    };
    for (std::size_t c = call + 1; c < run_.calls.size(); ++c) {
      const auto& tensors = run_.calls[c].tensors;
      if (!removed_[c] && std::any_of(tensors.begin(), tensors.end(), uses)) {
        return true;
      }
    }
    return false;
  }

  std::int64_t NewStorage(std::size_t old, at::Tensor content) {
    SequenceStorage& storage = made_.storages.emplace_back(run_.storages[old]);
    if (content.defined()) storage.bytes = content.numel();
    storage.content = std::move(content);
    storage.is_live |= is_compared_[old];
    return static_cast<std::int64_t>(made_.storages.size()) - 1;
  }

  SequenceTensor Renumbered(SequenceTensor t, bool is_result) {
    if (t.storage < 0) return t;
    const auto old = static_cast<std::size_t>(t.storage);
    if (is_result) {
      now_[old] = NewStorage(old, at::Tensor());
    } else if (now_[old] < 0) {
      now_[old] = NewStorage(old, run_.storages[old].content);
    }
    t.storage = now_[old];
    return t;
  }

  void Keep(std::size_t c) {
    SequenceCall call = run_.calls[c];
    for (SequenceTensor& t : call.tensors) t = Renumbered(t, false);
    for (SequenceTensor& t : call.results) t = Renumbered(t, true);
    made_.calls.push_back(std::move(call));
  }

  // Eager's bytes for who comes behind. What kept calls have made of the
  // storage so far is compared, as nothing else shows it.
  void Replace(std::size_t c) {
    const auto replace = [&](std::int64_t storage) {
      const auto old = static_cast<std::size_t>(storage);
      if (now_[old] >= 0) {
        made_.storages[static_cast<std::size_t>(now_[old])].is_live = true;
      }
      if (!IsUsedBehind(c, storage)) return;
      now_[old] = NewStorage(old, calls_.ContentOf(storage));
    };
    for (const SequenceTensor& t : run_.calls[c].tensors) {
      if (t.storage >= 0 && t.is_written) replace(t.storage);
    }
    for (const SequenceTensor& t : run_.calls[c].results) {
      if (t.storage >= 0) replace(t.storage);
    }
  }

  const SequenceRun& run_;
  const std::vector<bool> removed_;
  SequenceCalls calls_;
  std::vector<std::int64_t> now_;  // storages of made_, by that of run_
  std::vector<bool> is_compared_;  // by storage of run_
  SequenceRun made_;
};

class Minimiser {
 public:
  Minimiser(const Sequence& sequence, const ReplayAnswer& answer,
            const ReplaySettings& settings)
      : settings_(settings), best_{sequence, answer, 0} {}

  Minimised Run() {
    TakeRunOut();
    std::size_t part = std::max<std::size_t>(Calls() / 2, 1);
    for (;;) {
      const bool has_shrunk = TakePartsOut(part);
      if (part > 1) {
        part /= 2;
      } else if (!has_shrunk) {
        return std::move(best_);
      }
    }
  }

 private:
  std::size_t Calls() const { return best_.sequence.runs.back().calls.size(); }

  // From the end, as what is last feeds nobody.
  bool TakePartsOut(std::size_t part) {
    bool has_shrunk = false;
    std::size_t end = Calls();
    while (end > 0 && Calls() > 1) {
      const std::size_t begin = end - std::min(part, end);
      std::vector<bool> removed(Calls());
      std::fill(removed.begin() + static_cast<std::ptrdiff_t>(begin),
                removed.begin() + static_cast<std::ptrdiff_t>(end), true);
      const bool is_all = begin == 0 && end == Calls();
      if (!is_all &&
          (TryWithout(removed, false) || TryWithout(removed, true))) {
        has_shrunk = true;
      }
      end = begin;
    }
    return has_shrunk;
  }

  bool TryWithout(const std::vector<bool>& removed, bool keeps_inputs) {
    Sequence candidate = best_.sequence;
    try {
      for (SequenceRun& run : candidate.runs) {
        run = WithoutCalls(run, removed, keeps_inputs);
      }
    } catch (const c10::Error&) {
      return false;  // eager throws in one of the runs: it stays whole
    }
    return Try(std::move(candidate));
  }

  // The run by which it was recorded, if the other one does alone.
  void TakeRunOut() {
    if (best_.sequence.runs.size() < 2) return;
    Sequence candidate = best_.sequence;
    candidate.runs.erase(candidate.runs.begin());
    Try(std::move(candidate));
  }

  bool Try(Sequence candidate) {
    ++best_.candidates;
    ReplayAnswer answer = ReplayInProcess(candidate, settings_);
    if (answer.status != best_.answer.status) return false;
    best_.sequence = std::move(candidate);
    best_.answer = std::move(answer);
    return true;
  }

  const ReplaySettings settings_;
  Minimised best_;
};

}  // namespace

SequenceRun WithoutCalls(const SequenceRun& run,
                         const std::vector<bool>& removed, bool keeps_inputs) {
  return Rewriter(run, removed, keeps_inputs).Rewrite();
}

Minimised Minimise(const Sequence& sequence, const ReplayAnswer& answer,
                   const ReplaySettings& settings) {
  const c10::AutoGradMode no_grad(false);
  return Minimiser(sequence, answer, settings).Run();
}

}  // namespace tjit::tools
