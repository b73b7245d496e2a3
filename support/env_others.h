// The environment's settings of other libraries, as text.
// Thread: while no other one changes the environment.
// Tested by: tests/runtime/bit_exact/verdict_store_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tjit {

// "NAME=value\n" of all variables whose names begin so, in their order.
std::string SettingsOf(const std::vector<std::string_view>& prefixes);

}  // namespace tjit
