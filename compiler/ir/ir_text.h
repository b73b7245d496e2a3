// Prints functions and parses them back.
//
//   func f(n0) {                                  ; n0, n1, ... in order
//     external %0: f32[n0*8]                      ; externals, then scalars
//     scalar $0: f64
//     %1 = add f32[n0,8] %0[n0,8], %0[n0,8](0,1)+8, $0
//     %2 = sum f32[n0] %1 dims=[1]                ; `keepdim` may follow
//     %3, %4 = call f32[n0], f32[n0*8] "aten::x" step=3 %2, !%0, 1.5
//     write %0[n0,8] = %1
//     return %2
//   }
//
// A type is dtype[sizes], with (strides) if it is not row-major. An operand is
// a value, with [sizes](strides)+offset if it is accessed otherwise than it
// lies (strides if not row-major, offset if not 0); `!` marks what a call
// writes. Sizes, strides and offsets are polynomials: n0*n1*4+n0-1. Scalars:
// 2 i64, 2.0 f64 (nan:7ff8000000000001 for other NaNs than the usual one),
// true bool, $0 an argument. `;` begins a comment.
// Print(Parse(text)) is the canonical form of text, and a fixed point.
// Tested by: tests/compiler/ir/ir_text_test.cpp
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/ir.h"

namespace tjit::ir {

// REQUIRES: operands name values of the function.
std::string Print(const Function& function);
// One instruction of it, without the end of line.
std::string Print(const Function& function, const Instruction& instruction);

// Parts of it: "f32[n0,8](1,n0)", "[n0,8](0,1)+8", "$0".
std::string ToText(const Value& type);
std::string ToText(const Geometry& geometry);
std::string ToText(const Scalar& scalar);

// Parses one function; says "line:column: what" in *error and returns false if
// the text is none. Syntax only: Verify() knows the rest, but a parsed
// operand always names an earlier value.
bool Parse(std::string_view text, Function* function, std::string* error);

}  // namespace tjit::ir
