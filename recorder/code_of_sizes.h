// What is known of compiled code for one part of a trace, in all of its sizes.
//
// A simulation whose list of neighbours is made anew every twenty steps has
// another size each time. No size runs long enough to pay for code, nor to try
// whether it pays; yet the machine code is the same for all of them
// (segment_code.h). So all sizes together pay, and their turns with and without
// the code count together.
//
// Thread: that of the segments. Tested by:
// tests/recorder/code_of_sizes_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "support/policy.h"

namespace tjit {

class CodeOfSizes {
 public:
  // What compiling so many steps takes.
  static std::uint64_t CompileNs(std::size_t steps) {
    return policy::kCompileNs + policy::kCompileNsPerStep * steps;
  }
  // A run without code took `ns`, in any size.
  void AddLibraryTime(std::uint64_t ns) { library_ns_ += ns; }
  // True if that, since code was last asked for, pays for one more size of so
  // many steps. The first one is compiled, of the others most is there; where
  // many have asked and none found out whether it pays, they ask ever less.
  bool HasPaid(std::size_t steps) const {
    const std::uint64_t first = CompileNs(steps);
    const std::uint32_t doublings =
        std::min(asked_ / policy::kSizesPerDoubling, 16u);
    return library_ns_ >
           (asked_ == 0 ? first
                        : (first / policy::kPartOfOtherSizes) << doublings);
  }
  void RecordAsked() {
    library_ns_ = 0;
    ++asked_;
  }
  // Some size has asked before.
  bool has_asked() const { return asked_ != 0; }

  // A run with the code was faster than the one before it without (1), slower
  // (-1), or was not compared (0). True if it is known by that whether the code
  // pays.
  bool AddTurn(int lead) {
    const int before = lead_;
    lead_ = std::clamp(lead_ + lead, -kLead, kLead);
    return lead_ != before && (lead_ == kLead || lead_ == -kLead);
  }
  bool pays() const { return lead_ == kLead; }

  // Runs that one more size, whose code is expected to pay, has it before it is
  // measured. One of some sizes is measured at once, as code that paid for long
  // ones may not for short ones.
  int HeadStart() const {
    if (asked_ % policy::kSizesPerTrial == 0) return 0;
    return policy::kCodeTrialHeadStart *
           static_cast<int>(std::min(asked_, policy::kMostHeadStarts));
  }

  // Runs that a size has before its library calls are tried against others, at
  // most `most`: ever more where sizes that were tried are gone soon after.
  std::uint32_t RunsBeforeTrials(std::uint32_t most) const {
    std::uint32_t runs = policy::kRunsBeforeTrials;
    for (std::uint32_t i = policy::kSizesTriedInVain;
         i <= tried_in_vain_ && runs < most; ++i) {
      runs *= policy::kLookFactor;
    }
    return std::min(runs, most);
  }
  // A size is tried; it has stayed long enough after that.
  void RecordTrialOfSize() { ++tried_in_vain_; }
  void RecordStay() {
    if (tried_in_vain_ != 0) --tried_in_vain_;
  }

  // The worker may be busy with something else: after a wait in vain some sizes
  // do not wait.
  bool MayWait() {
    if (waits_to_skip_ == 0) return true;
    --waits_to_skip_;
    return false;
  }
  void RecordWait(bool has_come) {
    waits_to_skip_ = has_come ? 0 : policy::kSizesAfterVainWait;
  }

 private:
  static constexpr int kLead = policy::kCodeLeadOfSizes;

  std::uint64_t library_ns_ = 0;
  int lead_ = 0;
  std::uint32_t asked_ = 0;          // sizes
  std::uint32_t waits_to_skip_ = 0;  // sizes
  std::uint32_t tried_in_vain_ = 0;  // sizes, or not yet known to have stayed
};

}  // namespace tjit
