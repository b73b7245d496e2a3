// Finds stretches of a stream that come again and again at one distance, though
// what lies between them does not: a batch is put together from graphs that are
// drawn, and the step over it is the same each time.
//   draw: add add add cat | forward backward update | draw | forward ...
//
// The detector (hot_detector.h) says of each run that broke where it began and
// ended. By chance it reaches into what is drawn, and equals tokens of several
// steps ago. So what is kept is what the runs of all steps have in common, at
// the least distance that was seen.
// Thread: belongs to one detector. Tested by:
// tests/recorder/hot_detector_test.cpp
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "support/policy.h"

namespace tjit {

class StretchFinder {
 public:
  struct Stretch {
    std::uint64_t begin = 0, end = 0;  // positions, where it came last
    std::uint64_t distance = 0;        // from one begin to the next
    std::uint32_t times = 0;           // that it has come in a row; 0: none
  };

  // The tokens of [begin, end) equalled those `period` before them, and the
  // next one did not. `repeats(begin, end, distance)`: true if they are alike
  // those at that distance. Answers the stretch that has come once more.
  template <class Repeats>
  Stretch Observe(std::uint64_t begin, std::uint64_t end, std::uint64_t period,
                  Repeats repeats) {
    for (Stretch& seen : seen_) {
      if (seen.times == 0) continue;
      const std::uint64_t distance = seen.distance;
      Stretch now = Next(seen);
      // Steps in which nothing broke, as by chance all was alike.
      while (now.end + distance <= end &&
             repeats(now.begin, now.end, distance)) {
        seen = std::exchange(now, Next(now));
      }
      if (now.end + distance <= end) continue;
      if (end < now.end) {
        if (repeats(end, end + 1, distance)) return {};  // it goes on
        now.end = end;
      }
      if (!IsLong(now) || !repeats(now.begin, now.end, distance)) {
        now.begin = std::max(begin, now.begin);
        if (!IsLong(now) || !repeats(now.begin, now.end, distance)) continue;
      }
      // The first steps of a program differ in more than those behind them.
      if (3 * (end - begin) > 4 * (now.end - now.begin) &&
          repeats(begin, end, distance)) {
        now = {begin, end, distance, 2};
      }
      return seen = now;
    }
    Stretch* least = &seen_[0];
    for (Stretch& seen : seen_) {
      if (seen.end + 2 * seen.distance < end) seen.times = 0;  // it is over
      if (std::pair(seen.times, seen.end) < std::pair(least->times, least->end))
        least = &seen;
    }
    return *least = {begin, end, period, 2};
  }

 private:
  static Stretch Next(const Stretch& stretch) {
    return {stretch.begin + stretch.distance, stretch.end + stretch.distance,
            stretch.distance, stretch.times + 1};
  }
  static bool IsLong(const Stretch& stretch) {
    return stretch.begin + policy::kShortestStretch <= stretch.end;
  }

  std::array<Stretch, 4> seen_;
};

}  // namespace tjit
