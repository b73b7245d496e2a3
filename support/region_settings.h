// What may be said of named regions (tjit::Region), by name, and which of
// several rules holds for one.
//
//   regions:                       # in the file of TJIT_CONFIG
//     solve: {threshold: 2}        # solve, and all that is inside of it
//     "solve/fft*": {exclude: true}
//
// A rule is for the region of its name and for those inside of it. A * stands
// for any text, a ? for one character. Each option is settled by itself: what
// the program says wins over the file; of rules from one place the one with
// more characters beside * and ? wins, of equally long ones the one without
// them, then the later one.
// Tested by: tests/support/region_settings_test.cpp
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/env.h"

namespace tjit {

// Ops that run at the call in a region: all, or those of a list.
struct RegionExclusion {
  bool is_all = false;
  std::vector<std::string> ops;  // patterns of NamesOp()
  bool operator==(const RegionExclusion&) const = default;
};

// An option that is not set is as outside of the region.
struct RegionSettings {
  std::optional<BackendName> backend;
  std::optional<bool> compile;
  std::optional<RegionExclusion> exclude;
  std::optional<bool> is_exact;  // shapes: exact
  std::optional<bool> strict;
  std::optional<std::int64_t> threshold;
  bool operator==(const RegionSettings&) const = default;

  // Takes what `over` sets.
  void TakeFrom(const RegionSettings& over);
  bool excludes_all() const { return exclude.has_value() && exclude->is_all; }
  // True if that op runs at the call.
  bool Excludes(std::string_view op) const;
};

struct RegionRule {
  std::string pattern;
  RegionSettings settings;
  bool is_from_program = false;
};

// "ns::op.overload", "ns::op" for all overloads, "ns::" for all of it, or the
// beginning of a name and a *.
bool NamesOp(std::string_view pattern, std::string_view op);

// True if the rule is for the region of that name.
bool IsForRegion(std::string_view pattern, std::string_view name);

// What holds for the region of that name. `rules`: in the order in which they
// came.
RegionSettings SettleRegion(std::string_view name,
                            const std::vector<RegionRule>& rules);

inline constexpr std::int64_t kLeastThreshold = 2;
inline constexpr std::int64_t kMostThreshold = 1'000'000;

// The names of the options, sorted.
std::vector<std::string_view> RegionOptionNames();

// Sets the option from its text in a file; "exclude" takes a list by
// RegionExclusion::ops instead. *accepted gets what it accepts.
SetResult SetRegionOption(std::string_view option, std::string_view value,
                          RegionSettings* settings, std::string* accepted);

}  // namespace tjit
