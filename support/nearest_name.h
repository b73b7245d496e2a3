// What a mistyped name was probably meant to be.
// Tested by: tests/support/env_test.cpp, tests/support/config_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tjit {

// ", did you mean b? (known: a, b, c)"; the question only where one of `known`
// is near.
std::string DidYouMean(std::string_view name,
                       const std::vector<std::string_view>& known);

}  // namespace tjit
