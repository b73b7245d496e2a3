// Counters of tjit: what was seen, deferred, replayed, flushed, and why.
//
// ops_seen = ops_eager + ops_replayed + ops_drained + ops pending, always.
// Views, `empty` and calls made inside a kernel are not ops.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tjit/export.h"

namespace tjit {

struct TJIT_API Stats {
#define TJIT_COUNTER(name, what) std::int64_t name = 0;
#include "tjit/counters.def"
#undef TJIT_COUNTER

  // Histograms and reasons, indexed by the enums of the .def tables. Empty in
  // a Stats{} that stats() did not fill, which stands for zeros everywhere.
  std::vector<std::int64_t> flushes;     // by flush reason
  std::vector<std::int64_t> side_exits;  // by bail reason
  // Backward passes left to libtorch's engine, by reason.
  std::vector<std::int64_t> backwards_left;
  // segment_length[i]: executed segments of [2^i, 2^(i+1)) ops.
  std::array<std::int64_t, 20> segment_length{};
  // segment_ops[i]: ops executed in those segments.
  std::array<std::int64_t, 20> segment_ops{};

  // Sum over all flush reasons, or of the one called `name` ("item", ...).
  // Returns 0 for an unknown name.
  std::int64_t flush_count() const;
  std::int64_t flush_count(const std::string& name) const;
  std::int64_t side_exit_count(const std::string& name) const;
  std::int64_t backward_left_count(const std::string& name) const;

  // Lower bound of the histogram bin of the segment in which the median
  // replayed op ran: 64 means "64 ops or more". 0 if none ran.
  std::int64_t median_segment_length() const;

  // Ops that were pending in the mean when pending ops ran.
  double mean_queue_length() const;

  // What happened between `earlier` and this. memory_peak_bytes is this one's.
  // Either may be a Stats{}.
  Stats operator-(const Stats& earlier) const;

  // One JSON object, keys in the order of the tables.
  std::string to_json() const;
};

// The counters of the whole process, all threads together. Does not flush.
TJIT_API Stats stats();

}  // namespace tjit
