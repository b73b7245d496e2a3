// The lines of `tjit doctor`: what was looked at, and what to do.
// Tested by: tests/acceptance/doctor_test.py
#pragma once

#include <string>

#include "absl/strings/str_format.h"

namespace tjit::tools {

class DoctorReport {
 public:
  void Ok(const std::string& text) { Line("ok", text, ""); }
  // Something that costs speed, or may: tjit serves all the same.
  void Record(const std::string& text, const std::string& remedy = "") {
    Line("note", text, remedy);
  }
  // tjit does not serve.
  void No(const std::string& text, const std::string& remedy) {
    Line("NO", text, remedy);
    serves_ = false;
  }
  bool serves() const { return serves_; }

 private:
  static void Line(const char* kind, const std::string& text,
                   const std::string& remedy) {
    absl::PrintF("%-5s %s\n", kind, text);
    if (!remedy.empty()) absl::PrintF("      do: %s\n", remedy);
  }

  bool serves_ = true;
};

}  // namespace tjit::tools
