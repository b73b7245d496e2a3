// A name that the user gave to a tensor, as it stands in texts that tjit writes
// and reads:
//
//   layer1.weight        as it is: letters, digits and _ . : / -
//   "two words\n"        anything else: quoted, as a string of C
//
// So a name never ends a line, and a reader knows where it ends.
// Thread: any. Tested by: tests/support/printed_name_test.cpp
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "support/text_cursor.h"

namespace tjit {

inline constexpr std::size_t kLongestName = 200;  // bytes

// What is wrong with a name, as the end of a sentence about it; "" if nothing
// is: it is UTF-8 of 1 to kLongestName bytes.
std::string WhatIsWrongWithName(std::string_view name);

std::string PrintedName(std::string_view name);
// Takes one that is next, after blanks. Errors if there is none.
bool ConsumePrintedName(TextCursor* cursor, std::string* name);

// With a _ in the place of all that may not stand in a name of a variable:
// "eq::state/a" becomes "eq__state_a".
std::string IdentifierOf(std::string_view name);

}  // namespace tjit
