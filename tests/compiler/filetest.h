// Tests that are files: tests/filetests/ir/*.ir and trace/*.trace.
//
//   ; test run                 what is done with the program: see below
//   ; n0 = 2                   `run`: symbols, externals, scalars; an external
//   ; %0 = 1 2.5 3 nan         without a line holds 0, 1, 2, ...
//   ; $0 = 0.5
//   func f(n0) { ... }
//   ; ==== output
//   ; return %1: f32[2] = 1 2  exactly what it gives, a comment each line
//
// *.ir     parse   the error, or the canonical text
//          verify  the violations, or "verified"
//          run     (verified first) returned values and externals written
//          pass [NAME...]  (verified first) the function behind these passes,
//                  without names behind all of them; "(unchanged)" if it is
//          loops   (verified first) the plan of loops, verified; or why none
// *.trace  parse   the error, or the canonical text
//          verify  the violations, or "verified"
//          lower   the steps as one group: the function, or the refusal;
//                  `; dropped = s1 s3` names slots that nobody reads then
// With TJIT_BLESS=1 the output is rewritten; the diff is the review.
// Tested by: tests/compiler/filetest_test.cpp
#pragma once

#include <string>
#include <vector>

namespace tjit {

struct FileTest {
  std::string action;
  std::vector<std::string> arguments;  // words behind the action
  std::string head;                    // lines before the output
  std::string output;                  // as the file has it
};

// Splits the text of a file.
FileTest SplitFileTest(const std::string& text);

// What the program of the head gives, with "; " before each line. `is_trace`:
// the head is a trace, else a function.
std::string RunFileTest(const FileTest& test, bool is_trace);

// The file with this output.
std::string JoinFileTest(const FileTest& test, const std::string& output);

}  // namespace tjit
