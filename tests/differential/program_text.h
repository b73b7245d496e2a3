// Programs as files that can be run again: `differential --program FILE`,
// tests/issues/NAME.program.
//
// A line is a word and what belongs to it; `#` begins a comment:
//
//   program 1                  format
//   seed 42                    of the generator; family 0 is Families()[0]
//   family 0
//   iterations 40
//   vars 4                     v0..v3
//   regs 0                     r0.. (values that the program reads back)
//   scoped 2 3                 variables that die at the end of the body
//   marks scope                mark_step(): none, scope (before they die), end
//   snapshot_every 0           iterations between reads; 0: at the end alone
//   read clone                 clone, pointer, const: how the end reads
//   threads 2 7 6              two of them: shared_vars, shared_setup
//   setup input dst 0 ints 4 6 scalar const 1 0 1
//   body add_alpha dst 2 args 0 1 scalar linear 0.5 0.1 1
//   body mul_scalar_ args 2 scalar cycle 1 0 1 0.5 0.7 guard mod 3 1
//        (on one line) mode no_grad worker 13
//
// A statement is the name of its row in the op table, then in any order `dst`,
// `args`, `ints`, any number of `scalar KIND a b period cycle...` (`iscalar`:
// integers), `guard KIND mod rem`, `mode`, `worker EVERY`. Names are those of
// the enumerations of program.h in lower case. What is left out is as in a
// Program that nobody filled.
// Tested by: tests/differential/harness_test.cpp (round trip, errors)
#pragma once

#include <string>
#include <string_view>

#include "tests/differential/program.h"

namespace tjit::differential {

// The text, which ParseProgram() reads back as an equal program, under the same
// as C++ in comments.
std::string Format(const Program& program);

// THROWS: c10::Error with line and word if `text` is no program.
Program ParseProgram(std::string_view text);

// THROWS: c10::Error if there is no such file, or it is no program.
Program ReadProgram(const std::string& path);

}  // namespace tjit::differential
