#include "recorder/no_stats.h"

#include "absl/strings/str_cat.h"
#include "recorder/explanation.h"

namespace tjit {
namespace {

constexpr int kBins = 20;  // of Stats::segment_length and segment_ops

std::string EmptyBins() {
  std::string bins = "[0";
  for (int i = 1; i < kBins; ++i) bins += ", 0";
  return bins + "]";
}

}  // namespace

std::string StatsWithoutOps(const std::string& why) {
  std::string json = "{";
  const char* separator = "\n";
#define TJIT_COUNTER(name, what)                      \
  json += std::string(separator) + "  \"" #name "\": 0"; \
  separator = ",\n";
#include "support/counters.def"
#undef TJIT_COUNTER
  absl::StrAppend(&json,
                  ",\n  \"flushes\": {},\n  \"side_exits\": {},\n  "
                  "\"backwards_left\": {},\n  "
                  "\"segment_length\": ",
                  EmptyBins(), ",\n  \"segment_ops\": ", EmptyBins(),
                  ",\n  \"median_segment_length\": 0,\n  \"queue_length\": "
                  "0.000000\n}\n");
  Explanation explanation;
  explanation.why = why;
  return WithLists(json, explanation);
}

}  // namespace tjit
