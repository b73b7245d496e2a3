// What an op mostly does, by its name: the colours of a timeline.
// Tested by: tests/acceptance/timeline_test.py
#pragma once

#include <cstddef>
#include <string_view>

namespace tjit::tools {

// What a slice of a timeline is: KIND(suffix, what the legend says, colour).
// Colours are those of Okabe and Ito, which colour-blind people tell apart.
#define TJIT_TIMELINE_KINDS(KIND)                                      \
  KIND(Product, "products: mm, addmm, convolution", "#0072b2")         \
  KIND(Reduction, "reductions: sum, mean, softmax, losses", "#e69f00") \
  KIND(Memory, "copies: fill, cat, index, gather", "#56b4e9")          \
  KIND(Random, "random numbers", "#f0e442")                            \
  KIND(Other, "elementwise and other ops", "#cc79a7")                  \
  KIND(Replay, "segments that tjit runs (REPLAY)", "#009e73")          \
  KIND(Drain, "pending ops that ran eagerly (DRAIN)", "#a65628")       \
  KIND(Compile, "preparing and compiling (COMPILE)", "#d55e00")        \
  KIND(Wait, "waits for other threads and for code (WAIT)", "#7f7f7f")

enum class SliceKind {
#define TJIT_TIMELINE_KIND(suffix, name, colour) k##suffix,
  TJIT_TIMELINE_KINDS(TJIT_TIMELINE_KIND)
#undef TJIT_TIMELINE_KIND
      kCount,
};
inline constexpr std::size_t kSliceKinds =
    static_cast<std::size_t>(SliceKind::kCount);

const char* KindName(SliceKind kind);
const char* KindColour(SliceKind kind);

// `op`: "aten::sum.dim_IntList".
SliceKind KindOfOp(std::string_view op);

}  // namespace tjit::tools
