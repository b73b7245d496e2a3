// JSON as the subcommands read and print it, by nlohmann-json.
//
// Names keep the order in which they are added. A text may hold bytes that are
// no UTF-8, as the path of a program may: they become U+FFFD.
// Tested by: tests/acceptance/explain_test.py, log_test.py, cache_test.py
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tjit::tools {

using Json = nlohmann::ordered_json;

// What each object that is printed begins with: "schema", "tjit" (the version)
// and "program" (a command line).
Json JsonHead(const std::string& version, const std::string& program);

// On one line, without a newline.
std::string JsonText(const Json& json);

// THROWS: Json::parse_error.
Json ParseJson(std::string_view text);

}  // namespace tjit::tools
