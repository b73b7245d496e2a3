// Rows that call an op of the dispatcher by its schema: one line for each op,
// from which its functional, in-place and out= forms become a row each.
//
// How: the letters of a line say what each argument of the schema is:
//   T tensor; U the same, but its sine; Q but its magnitude and one; = of the
//   sizes and the type of the first; M mask; W a tensor of one number
//   V list of two tensors; v another of the same sizes, element by element
//   S scalar; A small scalar; * list of two scalars; 0 to 9 an integer
//   h 0.5, d 1.25, m -0.5, j -1.0; f and y are false and true; N none
//   n "none", t "tanh"; I a dim; D list of one dim; E list of some dims
//   s the sizes of the first tensor; x its type; P no type, layout, device
//   and pinning
// The text is C++: at::lerp($0, $1, $2), $0.lerp_($1, $2), at::lerp_outf(...).
// Tested by: tests/differential/harness_test.cpp (every lowered op has a row)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/differential/op_table.h"

namespace tjit::differential {

// By the name of the functional form, or of the only one.
struct CalledOp {
  std::string_view op;
  std::string_view letters;
};
const std::vector<CalledOp>& CalledOps();

struct Call {
  enum class Form : std::uint8_t {
    kFunctional,
    kInPlace,
    kOut,       // into a variable of the first operand's sizes
    kFreshOut,  // into an empty tensor
  };
  std::string op;  // with overload
  std::string_view letters;
  Form form = Form::kFunctional;
  int results = 1;  // variables that are bound

  bool writes() const { return form == Form::kInPlace || form == Form::kOut; }
};

// As C++, with the placeholders of op_table.h.
std::string TextOf(const Call& call);
// For rows of Call: OpSpec::propose and OpSpec::run.
bool ProposeCall(Generator& g, Statement& st);
void RunCall(Context& c);

}  // namespace tjit::differential
