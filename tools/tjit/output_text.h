// A text file that a subcommand writes, piece by piece: a trace may be larger
// than the memory.
//
//   OutputText out;
//   if (const std::string why = out.Open("a.json", kTraceFile); !why.empty())
//     ...              // "cannot write a.json: No such file or directory"
//   out.Write("{");
//   why = out.Close();  // what went wrong since, or ""
//
// A file of the user's that holds something else is left alone
// (support/output_file.h).
// Tested by: tests/acceptance/timeline_test.py
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "support/output_file.h"

namespace tjit::tools {

class OutputText {
 public:
  // Empties the file. Returns "" or what is wrong, as a sentence.
  std::string Open(const std::string& path, const FileKind& kind);
  void Write(std::string_view text);
  // False once something could not be written.
  bool IsGood() const { return error_ == 0; }
  // Returns "" or what is wrong, as a sentence.
  std::string Close();

 private:
  void KeepError();

  std::string path_;
  std::ofstream file_;
  int error_ = 0;  // the first errno
};

}  // namespace tjit::tools
