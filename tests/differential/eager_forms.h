// Which ops eager has, of which types, in which forms: asked by calling them.
// Part of coverage_table_test.cpp.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

namespace tjit::differential {

// Are there rows that call the op (coverage.h: RowOf) in one of these forms?
bool HasRows(std::string_view op, std::uint32_t forms);
// Does one of them run without an exception, all tensors being of this type?
bool RunsInEager(std::string_view op, std::uint32_t forms,
                 c10::ScalarType type);
// Are these forms of it made of other ops, which the CPU has kernels of?
// REQUIRES: tjit, which has kernels of its own, was never enabled.
bool IsComposite(std::string_view op, std::uint32_t forms);

}  // namespace tjit::differential
