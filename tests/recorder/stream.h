// Op streams for the detector's tests: tokens with flags.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "recorder/hot_detector.h"

namespace tjit {

struct Op {
  std::uint64_t token = 0;
  std::uint8_t flags = HotDetector::kPlain;
};
using Stream = std::vector<Op>;

inline Stream operator+(Stream a, const Stream& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Stream operator*(int times, const Stream& a) {
  Stream all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), a.begin(), a.end());
  return all;
}

// `length` random ops, drawn from `kinds` different ones.
inline Stream RandomOps(std::mt19937_64& rng, std::size_t length,
                        std::uint64_t kinds) {
  Stream ops(length);
  for (Op& op : ops) op.token = (rng() % kinds + 1) * 0x9E3779B97F4A7C15ull;
  return ops;
}

inline Stream SyncPoint() { return {{0x5EED, HotDetector::kSync}}; }

inline Stream AfterMarkStep(Stream ops) {
  ops.front().flags |= HotDetector::kAfterMarkStep;
  return ops;
}

// What the detector said, and when.
struct Found {
  std::uint64_t after = 0;  // tokens fed
  HotDetector::Candidate candidate;
};

inline std::vector<Found> Feed(HotDetector* detector, const Stream& ops) {
  std::vector<Found> found;
  for (const Op& op : ops) {
    const auto candidate = detector->Observe(op.token, op.flags);
    if (candidate.period == 0) continue;
    found.push_back({detector->position(), candidate});
  }
  return found;
}

}  // namespace tjit
