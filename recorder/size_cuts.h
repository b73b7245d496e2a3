// Where a sequence is cut whose sizes are several numbers, each drawn anew.
//
// Note [Sizes that vary on their own]
// A router sends each token to two of four experts. Their backward passes lie
// behind one another without a boundary, so they are one sequence, and its
// sizes are four numbers. There are as many paths as ways to combine these, and
// hardly one comes again:
//
//   expert 3, 35 tokens | expert 2, 23 tokens | expert 1, ... | optimizer
//
// But each expert alone has some twenty sizes, and these come back. So where
// kCutPaths paths of a trace are known, which hardly ran again, their sizes are
// compared. A number that does not follow from those of the steps before begins
// a part of its own, and so do steps whose sizes stay, where they are many. The
// trace then ends where its first part does, and each part is a trace with
// sizes of its own.
//
// A number follows from others if it is the same, a linear function of one of
// them, a part of one, or a sum or product of two, in all paths: rows and their
// edges, an image and its windows, a batch and what is joined to it. Chance may
// make that so, and then there is one part less.
//
// Note [Loops in other sizes each time]
// A simulation makes its list of neighbours anew every twenty steps:
//
//   new list | step | step | ... 20 times | new list | step | ...
//
// That is a period of 500 ops, which never comes twice in the same sizes. But a
// step of 24 ops comes twenty times in the same ones. So such a sequence is cut
// wherever an iteration begins, and a step is a sequence.
//
// Thread: none of its own; plain data.
// Tested by: tests/recorder/size_cuts_test.cpp,
// tests/runtime/thread/own_sizes_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "recorder/trace.h"

namespace tjit {

// The steps that begin parts but the first one, in order; none: the sequence is
// one part. `paths`: of one trace, at least two.
std::vector<std::size_t> CutsBySizes(
    const std::vector<std::vector<const TraceNode*>>& paths);

// A loop that makes out most of a path, in sizes that vary.
struct LoopInPath {
  std::size_t steps = 0;  // of an iteration; 0: there is no such loop
  // The steps but the first one of the path that begin iterations, and those
  // behind the last of each run of them, in order.
  std::vector<std::size_t> cuts;

  // Steps [begin, end) are one; of those between two cuts.
  bool IsIteration(std::size_t begin, std::size_t end) const {
    return end - begin == steps &&
           (begin == 0 || std::binary_search(cuts.begin(), cuts.end(), begin));
  }
  // An iteration would be cut there, behind its first step.
  bool IsInside(std::size_t step) const {
    const auto next = std::upper_bound(cuts.begin(), cuts.end(), step);
    if (steps == 0 || next == cuts.end()) return false;
    const std::size_t begin = next == cuts.begin() ? 0 : *std::prev(next);
    return step != begin && IsIteration(begin, *next);
  }
};
// That of the first of `paths`, which are of one trace, at least two.
LoopInPath FindLoop(const std::vector<std::vector<const TraceNode*>>& paths);

// Steps [begin, end) of a path as a sequence of their own: what was there
// before is external. Places of a storage (split_places.h) stay places.
std::vector<NewStep> PartOf(const std::vector<const TraceNode*>& path,
                            std::size_t begin, std::size_t end);

}  // namespace tjit
