#include "runtime/bit_exact/product_probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_format.h"
#include "runtime/bit_exact/same_bits.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

enum class Numbers {
  kOrdinary,
  kSpecial,
  kZeros,
  kTiny,
  kVanishing,
  kVanished
};
constexpr int kNumbersCount = 6;
// A prime, so that no row of an operand has the numbers of another.
constexpr std::size_t kPool = 8191;

// Magnitudes differ, so each sum rounds. Of special numbers there are so few
// that most sums have at most one of them. Sums of vanishing ones are a few
// units of the smallest number there is; those of vanished ones are zeros of
// both signs.
template <class T>
T Number(Numbers kind, std::int64_t terms, std::mt19937* random) {
  using Limits = std::numeric_limits<T>;
  constexpr T kSpecial[] = {Limits::infinity(), -Limits::infinity(),
                            Limits::quiet_NaN(), Limits::max(),
                            Limits::denorm_min()};
  const std::uint32_t bits = (*random)();
  const std::uint32_t low = (*random)();
  const T root = static_cast<T>(static_cast<std::int32_t>(bits)) / T(1 << 30) +
                 static_cast<T>(low) * T(0x1p-62);
  const T x = root * root * root;
  switch (kind) {
    case Numbers::kOrdinary:
      return x;
    case Numbers::kSpecial:
      return low % static_cast<std::uint32_t>(4 * terms + 4) == 0
                 ? kSpecial[bits % 5]
                 : x;
    case Numbers::kZeros:
      return low % 4 == 0 ? x : std::copysign(T(0), x);
    case Numbers::kTiny:
      return std::ldexp(x, sizeof(T) == 4 ? -70 : -530);
    case Numbers::kVanishing:
      return low % 4 == 0 ? std::copysign(T(0), x)
                          : std::ldexp(x, sizeof(T) == 4 ? -75 : -538);
    case Numbers::kVanished:
      return std::ldexp(x, sizeof(T) == 4 ? -80 : -543);
  }
  return x;
}

// A refusal that says nothing of the next process.
constexpr char kTookTooLong[] = "the trial took too long";

template <class T>
class Probe {
 public:
  Probe(const ProductQuestion& question, ProductTrial* trial)
      : question_(question), trial_(trial) {}

  // Those that differ are taken out of *alive.
  void Compare(Numbers kind, std::vector<std::size_t>* alive,
               std::string* difference);
  // The same with ordinary numbers, the first time. Those that take far longer
  // than the library or the fastest one go, too.
  void CompareFirst(double library_ns, std::vector<std::size_t>* alive,
                    std::string* difference);
  // Compares sums of which every term, and the addend, is -0.
  void CompareNegativeZeros(std::vector<std::size_t>* alive,
                            std::string* difference);
  // Whether `candidate` has the bits in all.
  bool HasAllBits(std::size_t candidate, std::string* difference);
  bool HasBitsOfSome(std::size_t candidate, std::string* difference);

  // From here on there is time for so many runs of the library.
  void Begin(double library_ns) {
    constexpr std::chrono::milliseconds kLeast{40};
    constexpr double kRuns = 60;
    deadline_ =
        std::chrono::steady_clock::now() + kLeast +
        std::chrono::nanoseconds(static_cast<std::int64_t>(kRuns * library_ns));
  }
  // The least of some runs, as the first one is cold.
  double TimeOfLibrary() {
    Fill(Numbers::kOrdinary, trial_->Place());
    double least = Time(std::nullopt, 1);
    if (least > 4.0 * static_cast<double>(policy::kMostProductTrialNs)) {
      return least;
    }
    for (int i = 0; i < 2; ++i) least = std::min(least, Time(std::nullopt, 1));
    return least;
  }
  // Nanoseconds of one run. `candidate`: none is the library.
  double Time(std::optional<std::size_t> candidate, std::int64_t times);
  // The fastest two, roughly.
  void KeepFastest(std::vector<std::size_t>* alive);
  bool IsFaster(std::size_t candidate, std::string* why);

 private:
  // Compares over `ranges` as they are filled; `run` runs a candidate and may
  // take it out. With run(candidate, restore); restore() makes the operands as
  // they were.
  template <class F>
  void CompareBy(const std::vector<ProductTrial::Range>& ranges,
                 std::vector<std::size_t>* alive, std::string* difference,
                 F&& run);
  void CompareAll(const std::vector<ProductTrial::Range>& ranges,
                  std::vector<std::size_t>* alive, std::string* difference) {
    CompareBy(ranges, alive, difference,
              [&](std::size_t candidate, const auto& /*restore*/) {
                trial_->Run(candidate);
                return true;
              });
  }
  // The program waits: none is tried any more.
  bool IsLate() const { return std::chrono::steady_clock::now() > deadline_; }
  void Fill(Numbers kind, const std::vector<ProductTrial::Range>& ranges);
  void RunOne(std::optional<std::size_t> candidate) {
    candidate ? trial_->Run(*candidate) : trial_->RunLibrary();
  }

  const ProductQuestion& question_;
  ProductTrial* const trial_;
  std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::time_point::max();
  std::mt19937 random_{29};
  std::vector<T> pools_[kNumbersCount];
};

template <class T>
void Probe<T>::Fill(Numbers kind,
                    const std::vector<ProductTrial::Range>& ranges) {
  std::vector<T>& pool = pools_[static_cast<int>(kind)];
  while (pool.size() < kPool) {
    pool.push_back(Number<T>(kind, question_.terms, &random_));
  }
  for (const ProductTrial::Range& range : ranges) {
    std::size_t at = random_() % kPool;
    for (std::uint64_t done = 0; done < range.bytes;) {
      const std::uint64_t bytes =
          std::min<std::uint64_t>(range.bytes - done, (kPool - at) * sizeof(T));
      std::memcpy(range.data + done, pool.data() + at, bytes);
      done += bytes;
      at = 0;
    }
  }
}

template <class T>
template <class F>
void Probe<T>::CompareBy(const std::vector<ProductTrial::Range>& ranges,
                         std::vector<std::size_t>* alive,
                         std::string* difference, F&& run) {
  const ProductTrial::Range result = ranges[0];
  const std::size_t count = result.bytes / sizeof(T);
  auto* const numbers = reinterpret_cast<T*>(result.data);
  const std::vector<T> before(numbers, numbers + count);
  trial_->RunLibrary();
  const std::vector<T> expected(numbers, numbers + count);
  std::erase_if(*alive, [&](std::size_t candidate) {
    const auto restore = [&] {
      std::copy(before.begin(), before.end(), numbers);
    };
    restore();
    if (IsLate()) {
      *difference = kTookTooLong;
      return true;
    }
    if (!run(candidate, restore)) return true;
    const std::size_t i = FirstDifference(numbers, expected.data(), count);
    if (i != count && difference->empty()) {
      constexpr int kDigits = std::numeric_limits<T>::max_digits10;
      *difference = absl::StrFormat(
          "element %d is %.*g, and %.*g by the library", i, kDigits,
          static_cast<double>(numbers[i]), kDigits,
          static_cast<double>(expected[i]));
    }
    return i != count;
  });
}

template <class T>
void Probe<T>::Compare(Numbers kind, std::vector<std::size_t>* alive,
                       std::string* difference) {
  const std::vector<ProductTrial::Range> ranges = trial_->Place();
  Fill(kind, ranges);
  CompareAll(ranges, alive, difference);
}

// A sum of zeros is -0 only if all of them are, the number that it starts with
// too, which random zeros of few results hardly ever show.
template <class T>
void Probe<T>::CompareNegativeZeros(std::vector<std::size_t>* alive,
                                    std::string* difference) {
  for (const int turn : {0, 1}) {
    if (alive->empty()) return;
    const std::vector<ProductTrial::Range> ranges = trial_->Place();
    for (const ProductTrial::Range& range : ranges) {
      auto* const first = reinterpret_cast<T*>(range.data);
      std::fill(first, first + range.bytes / sizeof(T), T(-0.0));
    }
    trial_->FillFactors(turn);
    CompareAll(ranges, alive, difference);
  }
}

template <class T>
void Probe<T>::CompareFirst(double library_ns, std::vector<std::size_t>* alive,
                            std::string* difference) {
  constexpr int kMostSlow = 2;  // after these the others are not run
  // The first run of either is cold, and a small one is not worth an answer.
  const double most_ns = 4 * library_ns + 1e5;
  int slow = 0;
  double fastest = most_ns;
  std::vector<double> took(alive->size());  // by candidate
  const auto time = [&](std::size_t candidate, const auto& restore) {
    if (slow >= kMostSlow) return false;
    double ns = Time(candidate, 1);
    if (ns > most_ns) {  // the processor may have been another's meanwhile
      restore();
      ns = std::min(ns, Time(candidate, 1));
    }
    took[candidate] = ns;
    fastest = std::min(fastest, ns);
    slow += ns > most_ns ? 1 : 0;
    return ns <= most_ns;
  };
  const std::vector<ProductTrial::Range> ranges = trial_->Place();
  Fill(Numbers::kOrdinary, ranges);
  CompareBy(ranges, alive, difference, time);
  if (slow >= kMostSlow) *difference = "own code takes far longer";
  // A run of few microseconds says nothing of the next one.
  std::erase_if(*alive, [&](std::size_t candidate) {
    return took[candidate] > 2 * fastest + 1e5;
  });
}

// Two sums of few terms often have the same bits in two orders, so small
// results are compared more often.
template <class T>
bool Probe<T>::HasAllBits(std::size_t candidate, std::string* difference) {
  constexpr std::int64_t kResults = 2048, kMostTimes = 256;
  const std::int64_t times =
      std::clamp<std::int64_t>(kResults / question_.results, 2, kMostTimes);
  std::vector<std::size_t> alive = {candidate};
  for (std::int64_t i = 0; i < times && !alive.empty(); ++i) {
    Compare(Numbers::kOrdinary, &alive, difference);
  }
  for (const Numbers kind : {Numbers::kSpecial, Numbers::kZeros, Numbers::kTiny,
                             Numbers::kVanishing, Numbers::kVanished}) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(times, 16); ++i) {
      if (!alive.empty()) Compare(kind, &alive, difference);
    }
  }
  CompareNegativeZeros(&alive, difference);
  return !alive.empty();
}

template <class T>
bool Probe<T>::HasBitsOfSome(std::size_t candidate, std::string* difference) {
  std::vector<std::size_t> alive = {candidate};
  for (const Numbers kind :
       {Numbers::kOrdinary, Numbers::kSpecial, Numbers::kVanished}) {
    Compare(kind, &alive, difference);
  }
  CompareNegativeZeros(&alive, difference);
  return !alive.empty();
}

template <class T>
double Probe<T>::Time(std::optional<std::size_t> candidate,
                      std::int64_t times) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < times; ++i) RunOne(candidate);
  const std::chrono::duration<double, std::nano> took =
      std::chrono::steady_clock::now() - start;
  return took.count() / static_cast<double>(times);
}

std::int64_t TimesFor(double ns) {
  return std::clamp<std::int64_t>(
      static_cast<std::int64_t>(static_cast<double>(policy::kProductTrialNs) /
                                std::max(ns, 1.0)),
      1, 1000);
}

template <class T>
void Probe<T>::KeepFastest(std::vector<std::size_t>* alive) {
  constexpr std::size_t kKept = 2;
  Fill(Numbers::kOrdinary, trial_->Place());
  std::vector<std::pair<double, std::size_t>> by_time;
  for (const std::size_t candidate : *alive) {
    double least = Time(candidate, 1);
    const std::int64_t times = TimesFor(least);
    for (int i = 0; i < 2; ++i) least = std::min(least, Time(candidate, times));
    by_time.emplace_back(least, candidate);
  }
  std::sort(by_time.begin(), by_time.end());
  alive->clear();
  for (std::size_t i = 0; i < std::min(kKept, by_time.size()); ++i) {
    alive->push_back(by_time[i].second);
  }
}

double MedianOf(std::vector<double> numbers) {
  const auto middle =
      numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

template <class T>
bool Probe<T>::IsFaster(std::size_t candidate, std::string* why) {
  Fill(Numbers::kOrdinary, trial_->Place());
  const double once = std::min(Time(candidate, 1), Time(candidate, 1));
  const std::int64_t times = TimesFor(once);
  std::vector<double> ours, theirs;
  for (int i = 0; i < policy::kProductTrialTurns; ++i) {
    theirs.push_back(Time(std::nullopt, times));
    ours.push_back(Time(candidate, times));
  }
  const double own = MedianOf(ours), library = MedianOf(theirs);
  if (own < policy::kProductGain * library) return true;
  if (why->empty()) {
    *why = absl::StrFormat("own code takes %.2f of the library's time",
                           own / library);
  }
  return false;
}

// The answer in words, and the candidate if there is one.
template <class T>
std::optional<std::size_t> FindNew(const ProductQuestion& question,
                                   std::size_t count, ProductTrial* trial,
                                   std::string* why) {
  Probe<T> probe(question, trial);
  std::vector<std::size_t> alive(count);
  for (std::size_t i = 0; i < count; ++i) alive[i] = i;
  const double library_ns = probe.TimeOfLibrary();
  if (library_ns > static_cast<double>(policy::kMostProductTrialNs)) {
    *why = "a run takes too long to be tried";
    return std::nullopt;
  }
  probe.Begin(library_ns);
  probe.CompareFirst(library_ns, &alive, why);
  // Two ways to store a sum differ in these alone.
  if (!alive.empty()) {
    why->clear();
    probe.Compare(Numbers::kVanished, &alive, why);
  }
  if (!alive.empty()) why->clear();  // it was another's
  probe.KeepFastest(&alive);
  for (const std::size_t candidate : alive) {
    if (!probe.HasAllBits(candidate, why)) continue;
    if (probe.IsFaster(candidate, why)) return candidate;
  }
  return std::nullopt;
}

template <class T>
std::optional<std::size_t> FindOf(const ProductQuestion& question,
                                  const std::vector<std::string>& names,
                                  Verdicts* verdicts, ProductTrial* trial,
                                  bool* was_tried) {
  *was_tried = false;
  const std::optional<std::string> known = verdicts->Find(question.text);
  if (known && IsNoCandidate(*known)) {
    verdicts->Record(question.text, *known);
    return std::nullopt;
  }
  std::string why;
  const auto name =
      known ? std::find(names.begin(), names.end(), *known) : names.end();
  if (name != names.end()) {
    const auto candidate = static_cast<std::size_t>(name - names.begin());
    Probe<T> probe(question, trial);
    if (probe.HasBitsOfSome(candidate, &why)) {
      verdicts->Record(question.text, *known);
      return candidate;
    }
    why.clear();
  }
  *was_tried = true;
  const std::optional<std::size_t> found =
      FindNew<T>(question, names.size(), trial, &why);
  std::string answer = found ? names[*found] : kNoCandidate;
  if (!found && !why.empty()) answer += kBecause + why;
  if (why != kTookTooLong) verdicts->Add(question.text, answer);
  verdicts->Record(question.text, answer);
  return found;
}

}  // namespace

std::optional<std::size_t> FindProduct(const ProductQuestion& question,
                                       const std::vector<std::string>& names,
                                       Verdicts* verdicts, ProductTrial* trial,
                                       bool* was_tried) {
  return question.is_double
             ? FindOf<double>(question, names, verdicts, trial, was_tried)
             : FindOf<float>(question, names, verdicts, trial, was_tried);
}

}  // namespace tjit::runtime
