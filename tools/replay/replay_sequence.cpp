#include "tools/replay/replay_sequence.h"

#include <ATen/Parallel.h>
#include <ATen/ops/roll.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/replay/sequence_calls.h"
#include "tools/replay/sequence_text.h"

namespace tjit::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kOrders = 2;     // which run teaches the sequence
constexpr int kTeaching = 16;  // runs of that one alone, first
constexpr int kRunsOfOrder = 48;
constexpr int kRunsBetweenWaits = 4;
constexpr std::int64_t kRotation = 3;  // elements
// Runs of each kind that are timed, behind some that are not.
constexpr int kMostTimed = 100, kFewestTimed = 5, kUntimed = 2;
constexpr int kTimedPart = 10;  // of the time for all runs

// What eager or tjit made of a run.
struct Outcome {
  std::string error;
  std::vector<SequenceValue> outputs;
};

// A run of the sequence with one arrangement of its numbers.
struct Variant {
  SequenceCalls* calls = nullptr;
  const SequenceRun* run = nullptr;
  std::vector<at::Tensor> contents;
  Outcome expected;
};

bool IsFloating(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
         dtype == at::kBFloat16;
}

// The contents, those of floating types in another order if `is_rotated`.
std::vector<at::Tensor> ContentsOf(const SequenceRun& run, bool is_rotated) {
  const std::vector<at::ScalarType> dtypes = DtypesOf(run);
  std::vector<at::Tensor> contents;
  for (std::size_t s = 0; s < run.storages.size(); ++s) {
    at::Tensor content = run.storages[s].content;
    const auto item = static_cast<std::int64_t>(at::elementSize(dtypes[s]));
    if (is_rotated && content.defined() && IsFloating(dtypes[s]) &&
        content.numel() % item == 0) {
      content = at::roll(content, kRotation * item);
    }
    contents.push_back(content);
  }
  return contents;
}

std::string FirstLine(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  const std::string text =
      error != nullptr ? error->what_without_backtrace() : e.what();
  return text.substr(0, text.find('\n'));
}

Outcome RunOf(const Variant& variant, bool keeps_last) {
  Outcome outcome;
  variant.calls->Begin(variant.contents, keeps_last);
  try {
    variant.calls->Run();
    mark_step();
    outcome.outputs = variant.calls->Outputs();
  } catch (const std::exception& e) {
    outcome.error = FirstLine(e);
  }
  return outcome;
}

// From the first call until what is deferred has run.
std::int64_t TimeOf(const Variant& variant) {
  variant.calls->Begin(variant.contents, /*keeps_last=*/false);
  const auto began = Clock::now();
  variant.calls->Run();
  mark_step();
  return std::chrono::nanoseconds(Clock::now() - began).count();
}

std::int64_t MedianOf(std::vector<std::int64_t> times) {
  const auto middle =
      times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

template <class T>
bool AreBothNan(const char* a, const char* b) {
  T x, y;
  std::memcpy(&x, a, sizeof(T));
  std::memcpy(&y, b, sizeof(T));
  return std::isnan(static_cast<double>(x)) &&
         std::isnan(static_cast<double>(y));
}

// Which NaN it is may differ where code was compiled.
bool IsSame(const char* a, const char* b, at::ScalarType dtype) {
  const std::size_t item = at::elementSize(dtype);
  if (std::memcmp(a, b, item) == 0) return true;
  switch (dtype) {
    case at::kFloat:
      return AreBothNan<float>(a, b);
    case at::kDouble:
      return AreBothNan<double>(a, b);
    case at::kHalf:
      return AreBothNan<at::Half>(a, b);
    case at::kBFloat16:
      return AreBothNan<at::BFloat16>(a, b);
    case at::kComplexFloat:
      return IsSame(a, b, at::kFloat) && IsSame(a + 4, b + 4, at::kFloat);
    case at::kComplexDouble:
      return IsSame(a, b, at::kDouble) && IsSame(a + 8, b + 8, at::kDouble);
    default:
      return false;
  }
}

// "0x3fc0", or "1.5 (0x3fc00000)".
std::string ValueText(const char* bytes, at::ScalarType dtype) {
  std::string hex = "0x";
  for (std::size_t i = at::elementSize(dtype); i-- > 0;) {
    absl::StrAppend(
        &hex, absl::Hex(static_cast<unsigned char>(bytes[i]), absl::kZeroPad2));
  }
  const auto with = [&](auto value) {
    std::memcpy(&value, bytes, sizeof value);
    return absl::StrCat(value, " (", hex, ")");
  };
  if (dtype == at::kFloat) return with(float{});
  if (dtype == at::kDouble) return with(double{});
  if (dtype == at::kLong) return with(std::int64_t{});
  return hex;
}

std::string IndexText(std::int64_t element,
                      const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> index(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    index[d] = element % sizes[d];
    element /= sizes[d];
  }
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

// "" or the first difference.
std::string Difference(const SequenceValue& expected,
                       const SequenceValue& actual) {
  const SequenceTensor& form = expected.form;
  if (actual.form.sizes != form.sizes || actual.form.strides != form.strides ||
      actual.form.dtype != form.dtype || actual.form.offset != form.offset) {
    return absl::StrCat(" is ", TextOf(actual.form), ", eager's is ",
                        TextOf(form));
  }
  const std::string &have = actual.bytes, &want = expected.bytes;
  if (have == want) return "";
  const std::size_t item = at::elementSize(form.dtype);
  for (std::size_t at = 0; at + item <= want.size(); at += item) {
    if (IsSame(have.data() + at, want.data() + at, form.dtype)) continue;
    return absl::StrCat(
        " at ", IndexText(static_cast<std::int64_t>(at / item), form.sizes),
        ": ", ValueText(have.data() + at, form.dtype), ", eager has ",
        ValueText(want.data() + at, form.dtype));
  }
  return "";
}

std::string Difference(const Outcome& expected, const Outcome& actual,
                       const std::vector<SequenceOutput>& outputs) {
  if (expected.error.empty() != actual.error.empty()) {
    return expected.error.empty()
               ? absl::StrCat("throws, and eager does not: ", actual.error)
               : absl::StrCat("does not throw, and eager does: ",
                              expected.error);
  }
  for (std::size_t o = 0; o < expected.outputs.size(); ++o) {
    const std::string text = Difference(expected.outputs[o], actual.outputs[o]);
    if (!text.empty()) return absl::StrCat(outputs[o].what, text);
  }
  return "";
}

class Replay {
 public:
  explicit Replay(const Sequence& sequence) {
    for (const SequenceRun& run : sequence.runs) {
      calls_.push_back(std::make_unique<SequenceCalls>(run));
      for (const bool is_rotated : {false, true}) {
        Variant v{calls_.back().get(), &run, ContentsOf(run, is_rotated), {}};
        v.expected = RunOf(v, /*keeps_last=*/false);
        const std::string again =
            Difference(v.expected, RunOf(v, true), v.calls->outputs());
        TORCH_CHECK(again.empty(),
                    "eager does not give the same bits twice: ", again);
        variants_.push_back(std::move(v));
      }
    }
    // What throws with its numbers in another order is not asked that way.
    for (std::size_t v = 1; v < variants_.size(); v += 2) {
      if (variants_[v].expected.error.empty()) continue;
      variants_[v].contents = variants_[v - 1].contents;
      variants_[v].expected = variants_[v - 1].expected;
    }
  }

  ReplayResult Run(std::chrono::seconds most) {
    ReplayResult result;
    const Stats before = stats();
    // The second half of the runs has its share of the time.
    for (int order = 0; order < kOrders && result.difference.empty(); ++order) {
      const auto end = Clock::now() + most / kOrders;
      clear();
      for (int i = 0; i < kRunsOfOrder && result.difference.empty(); ++i) {
        if (Clock::now() > end) break;
        if (i % kRunsBetweenWaits == 0) wait_until_compiled();
        const Variant& v = variants_[Choose(order, i)];
        const Outcome outcome = RunOf(v, i % 2 != 0);
        ++result.runs;
        result.difference = Difference(v.expected, outcome, v.calls->outputs());
      }
    }
    const Stats then = stats() - before;
    result.ops_replayed = then.ops_replayed;
    result.ops_fused = then.steps_fused;
    if (result.difference.empty() && then.shadow_mismatches != 0) {
      result.difference = "TJIT_SHADOW found that a run differs";
    }
    return result;
  }

  // Eager runs and replays of what Run() has taught. 0 runs where eager throws,
  // or not all of the others were replayed.
  ReplayTimes Time(std::chrono::nanoseconds most) {
    const Variant& v = variants_[variants_.size() - 2];
    if (!v.expected.error.empty()) return {};
    wait_until_compiled();
    for (int i = 0; i < kUntimed; ++i) TimeOf(v);
    const std::int64_t replayed_before = stats().ops_replayed;
    const auto end = Clock::now() + most;
    std::vector<std::int64_t> eager, replays;
    for (int i = 0; i < kMostTimed; ++i) {
      if (i >= kFewestTimed && Clock::now() > end) break;
      const bool is_eager_first = i % 2 == 0;
      if (!is_eager_first) replays.push_back(TimeOf(v));
      {
        const Pause pause;
        eager.push_back(TimeOf(v));
      }
      if (is_eager_first) replays.push_back(TimeOf(v));
    }
    const auto runs = static_cast<std::int64_t>(replays.size());
    const auto ops = static_cast<std::int64_t>(v.run->calls.size());
    if (stats().ops_replayed - replayed_before != runs * ops) return {};
    return {runs, MedianOf(std::move(eager)), MedianOf(std::move(replays))};
  }

 private:
  // Of the variants: of each run of the sequence its two arrangements.
  std::size_t Choose(int order, int run) const {
    const std::size_t runs = variants_.size() / 2;
    const std::size_t teaching = order == 0 ? 0 : runs - 1;
    const auto arrangement = static_cast<std::size_t>(run % 2);
    if (run < kTeaching) return 2 * teaching + arrangement;
    const std::size_t which = run % 4 < 2 ? runs - 1 : 0;
    return 2 * which + arrangement;
  }

  std::vector<std::unique_ptr<SequenceCalls>> calls_;
  std::vector<Variant> variants_;
};

}  // namespace

ReplayResult ReplaySequence(const Sequence& sequence, Backend backend,
                            int seconds, bool is_timed) {
  const c10::AutoGradMode no_grad(false);
  at::set_num_threads(static_cast<int>(sequence.threads));
  Replay replay(sequence);
  Options options;
  options.backend = backend;
  options.hot_threshold = 2;
  options.compile_all = true;
  options.cache_dir = "off";
  // Some runs are compared by tjit as well; what counts is that it does not
  // leave a sequence alone which is faster without it.
  options.shadow_sample = 999;
  TORCH_CHECK(enable(options), "tjit cannot be switched on");
  const std::chrono::seconds most(seconds);
  ReplayResult result = replay.Run(most);
  if (is_timed && result.difference.empty()) {
    result.times = replay.Time(std::chrono::nanoseconds(most) / kTimedPart);
  }
  return result;
}

}  // namespace tjit::tools
