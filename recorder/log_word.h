// A text of the user's as one word of a row of the instruction log, whose
// details are split at spaces and "=":
//
//   LogWordOf("one step")         "one%20step"
//   TextOfLogWord("one%20step")   "one step"
//
// Thread: any. Tested by: tests/recorder/log_word_test.cpp
#pragma once

#include <string>
#include <string_view>

namespace tjit {

// Spaces, control characters, "=" and "%" become % and two hexadecimal digits.
std::string LogWordOf(std::string_view text);
// The text again; a % without two such digits behind it stays.
std::string TextOfLogWord(std::string_view word);

}  // namespace tjit
