#include "tjit/stats.h"

#include "absl/strings/str_cat.h"
#include "runtime/report/stats_sum.h"
#include "support/json_text.h"
#include "tjit/region.h"

namespace tjit {
namespace {

constexpr std::size_t kFlushReasons =
    static_cast<std::size_t>(FlushReason::kCount);
constexpr std::size_t kBailReasons =
    static_cast<std::size_t>(BailReason::kCount);
constexpr std::size_t kBackwardReasons =
    static_cast<std::size_t>(BackwardReason::kCount);

// A Stats that was not collected has no reasons at all.
void Subtract(const std::vector<std::int64_t>& from,
              std::vector<std::int64_t>* counts) {
  if (counts->size() < from.size()) counts->resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) (*counts)[i] -= from[i];
}

// The count of the reason called `name`; 0 if there is none.
template <class Reason>
std::int64_t CountOf(const std::string& name,
                     const std::vector<std::int64_t>& counts,
                     const char* (*name_of)(Reason)) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (name == name_of(static_cast<Reason>(i))) return counts[i];
  }
  return 0;
}

// "name": {"reason": n, ...} with the reasons that are not 0.
template <class NameOf>
void AppendReasons(std::string* out, const char* name,
                   const std::vector<std::int64_t>& values, NameOf name_of) {
  *out += std::string(",\n  \"") + name + "\": {";
  const char* separator = "";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    *out += std::string(separator) + "\"" + name_of(i) +
            "\": " + std::to_string(values[i]);
    separator = ", ";
  }
  *out += "}";
}

void AppendBins(std::string* out, const char* name,
                const std::array<std::int64_t, 20>& bins) {
  *out += std::string(",\n  \"") + name + "\": [";
  for (std::size_t i = 0; i < bins.size(); ++i) {
    *out += (i != 0 ? ", " : "") + std::to_string(bins[i]);
  }
  *out += "]";
}

}  // namespace

std::int64_t Stats::flush_count() const {
  std::int64_t sum = 0;
  for (std::int64_t n : flushes) sum += n;
  return sum;
}

std::int64_t Stats::flush_count(const std::string& name) const {
  return CountOf(name, flushes, &FlushName);
}

std::int64_t Stats::side_exit_count(const std::string& name) const {
  return CountOf(name, side_exits, &BailName);
}

std::int64_t Stats::backward_left_count(const std::string& name) const {
  return CountOf(name, backwards_left, &BackwardName);
}

std::int64_t Stats::median_segment_length() const {
  std::int64_t total = 0;
  for (std::int64_t n : segment_ops) total += n;
  if (total == 0) return 0;
  std::int64_t below = 0;
  for (std::size_t i = 0; i < segment_ops.size(); ++i) {
    below += segment_ops[i];
    if (2 * below >= total) return std::int64_t{1} << i;
  }
  return 0;
}

double Stats::mean_queue_length() const {
  const std::int64_t flushed = flush_count();
  return flushed == 0 ? 0
                      : static_cast<double>(ops_replayed + ops_drained) /
                            static_cast<double>(flushed);
}

Stats Stats::operator-(const Stats& earlier) const {
  Stats d = *this;
#define TJIT_COUNTER(name, what) d.name -= earlier.name;
#include "support/counters.def"
#undef TJIT_COUNTER
  d.memory_peak_bytes = memory_peak_bytes;
  Subtract(earlier.flushes, &d.flushes);
  Subtract(earlier.side_exits, &d.side_exits);
  Subtract(earlier.backwards_left, &d.backwards_left);
  for (std::size_t i = 0; i < segment_length.size(); ++i) {
    d.segment_length[i] -= earlier.segment_length[i];
    d.segment_ops[i] -= earlier.segment_ops[i];
  }
  return d;
}

std::string Stats::to_json() const {
  std::string out = "{";
  const char* separator = "\n";
#define TJIT_COUNTER(name, what)                                  \
  out += std::string(separator) + "  \"" #name "\": " +           \
         std::to_string(name);                                    \
  separator = ",\n";
#include "support/counters.def"
#undef TJIT_COUNTER
  AppendReasons(&out, "flushes", flushes, [](std::size_t i) {
    return FlushName(static_cast<FlushReason>(i));
  });
  AppendReasons(&out, "side_exits", side_exits, [](std::size_t i) {
    return BailName(static_cast<BailReason>(i));
  });
  AppendReasons(&out, "backwards_left", backwards_left, [](std::size_t i) {
    return BackwardName(static_cast<BackwardReason>(i));
  });
  AppendBins(&out, "segment_length", segment_length);
  AppendBins(&out, "segment_ops", segment_ops);
  out += ",\n  \"median_segment_length\": " +
         std::to_string(median_segment_length()) +
         ",\n  \"queue_length\": " + std::to_string(mean_queue_length()) +
         "\n}\n";
  return out;
}

std::string RegionStats::to_json() const {
  return absl::StrCat(
      "{\"entries\": ", entries, ", \"ops_seen\": ", ops_seen,
      ", \"ops_eager\": ", ops_eager, ", \"ops_replayed\": ", ops_replayed,
      ", \"ops_drained\": ", ops_drained, ", \"bodies\": ", bodies,
      ", \"sequences\": ", sequences, ", \"ops_at_call\": ", ops_at_call,
      ", \"at_call\": ", JsonObject(at_call), "}");
}

namespace runtime {

void Add(Stats* sum, const Counters& c) {
#define TJIT_COUNTER(name, what) sum->name += c.name.value();
#include "support/counters.def"
#undef TJIT_COUNTER
  for (std::size_t i = 0; i < kFlushReasons; ++i) {
    sum->flushes[i] += c.flushes[i].value();
  }
  for (std::size_t i = 0; i < kBailReasons; ++i) {
    sum->side_exits[i] += c.side_exits[i].value();
  }
  for (std::size_t i = 0; i < kBackwardReasons; ++i) {
    sum->backwards_left[i] += c.backwards_left[i].value();
  }
  for (std::size_t i = 0; i < sum->segment_length.size(); ++i) {
    sum->segment_length[i] += c.segment_length[i].value();
    sum->segment_ops[i] += c.segment_ops[i].value();
  }
}

}  // namespace runtime
}  // namespace tjit
