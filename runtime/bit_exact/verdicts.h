// What probes found out: of each question ("math exp f32") which candidate has
// eager's bits, by a name that holds in every process of the same kind. What an
// earlier process found is checked against eager once more, with a few numbers
// (Check::kSpot), and then taken.
// Thread: one at a time.
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp,
// tests/runtime/bit_exact/verdict_store_test.cpp
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tjit::runtime {

// How much a candidate is compared with eager.
enum class Check { kAll, kSpot };

class Verdicts {
 public:
  virtual ~Verdicts() = default;
  // The name of the candidate that was found, or kNoCandidate.
  virtual std::optional<std::string> Find(const std::string& question) = 0;
  // Questions and answers are of one line, questions without '='.
  virtual void Add(const std::string& question, const std::string& answer) = 0;
  // What is taken now, known or found; for tjit::explain().
  virtual void Record(const std::string& /*question*/,
                      const std::string& /*answer*/) {}
};

// Behind it, after kBecause, may stand where the first candidate differs.
inline constexpr char kNoCandidate[] = "none";
inline constexpr char kBecause[] = ": ";
inline bool IsNoCandidate(const std::string& answer) {
  return answer == kNoCandidate ||
         answer.starts_with(std::string(kNoCandidate) + kBecause);
}

// The first candidate that `has_bits(i, check, &difference)`; nothing if there
// is none. One that has not may say where, in one line. With `verdicts` (or
// null) the question is looked up there, and the answer is added.
template <class HasBits>
std::optional<std::size_t> FirstWithBits(Verdicts* verdicts,
                                         const std::string& question,
                                         const std::vector<std::string>& names,
                                         const HasBits& has_bits) {
  std::optional<std::string> known;
  if (verdicts != nullptr) known = verdicts->Find(question);
  if (known && IsNoCandidate(*known)) {
    verdicts->Record(question, *known);
    return std::nullopt;
  }
  std::string difference, first_difference;
  for (std::size_t i = 0; known && i < names.size(); ++i) {
    if (names[i] == *known && has_bits(i, Check::kSpot, &difference)) {
      verdicts->Record(question, *known);
      return i;
    }
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; !found && i < names.size(); ++i) {
    difference.clear();
    if (has_bits(i, Check::kAll, &difference)) found = i;
    if (first_difference.empty()) first_difference = difference;
  }
  if (verdicts == nullptr) return found;
  std::string answer = found ? names[*found] : kNoCandidate;
  if (!found && !first_difference.empty()) {
    answer += kBecause + first_difference;
  }
  verdicts->Add(question, answer);
  verdicts->Record(question, answer);
  return found;
}

}  // namespace tjit::runtime
