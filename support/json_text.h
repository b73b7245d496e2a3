// What all JSON that tjit writes has in common.
// Tested by: tests/acceptance/log_test.py, cache_test.py
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tjit {

// "schema" in the file of TJIT_STATS and in what tjit prints as JSON. Raised
// where a name changes its meaning or goes.
inline constexpr int kJsonSchema = 1;

// A text as a string of JSON, with its quotes.
std::string Quoted(std::string_view text);
// Texts by name as an object of JSON.
std::string JsonObject(const std::map<std::string, std::string>& texts);

}  // namespace tjit
