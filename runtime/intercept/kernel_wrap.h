// Wraps the kernels of aten at the CPU key: typed wrappers for the ops of
// typed_ops.def, a boxed wrapper for every other one, the closed table
// (foreign_kernels.h) for the rest of the world. The only place, with the closed
// table, that registers with torch::Library.
//
// Tested by: tests/runtime/intercept/kernel_wrap_test.cpp
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/call/op_entry.h"

namespace tjit::runtime {

// Wraps everything; once. Entries and registrations live for ever.
void WrapKernels();

// The entry of a wrapped op ("aten::add.Tensor"); null if it is not wrapped.
const OpEntry* FindEntry(std::string_view name);

// Makes matching ops run at the call; returns how many matched. `pattern` is
// "ns::op.overload", "ns::op" (all overloads) or "ns::" (all of a namespace).
std::size_t MarkOpaque(std::string_view pattern);

// Another library replaces the CPU kernel of `op`: composites that we wrap as
// one op, and that call it, run at the call from now on.
void RecordReplaced(std::string_view op);

struct WrapCounts {
  std::size_t listed = 0;  // in typed_ops.def
  std::size_t typed = 0;
  std::size_t boxed = 0;
  std::size_t left_alone = 0;
};
WrapCounts CountWrapped();

}  // namespace tjit::runtime
