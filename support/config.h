// The file of options that TJIT_CONFIG names: YAML, one `key: value` a line.
//
//   hot_threshold: 5      # keys are the fields of tjit::Options
//   debug_compile: true
//
// What is said of named regions (region_settings.h) stands under `regions`:
//
//   regions:
//     solve: {threshold: 2, exclude: ["aten::_fft_*"]}
//
// A key stands for the environment variable of the same option and takes the
// same values (config_keys.def); what is wrong is said with file:line:column
// and is not used.
//
// Tested by: tests/support/config_test.cpp
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/env.h"
#include "support/region_settings.h"
#include "support/yaml_text.h"

namespace tjit {

// One option of a region that is used.
struct RegionLine {
  std::string pattern, option;
  std::string value;  // "[aten::tanh, myops::]"
  std::string where;  // "tjit.yaml:3:16"
};

struct ConfigFile {
  std::string path;    // empty: TJIT_CONFIG is not set
  EnvOptions options;  // and the complaints about the file
  // Where each option that is used stands, by key: "tjit.yaml:3:16".
  std::map<std::string, std::string, std::less<>> where;
  // Under `regions`, in the order of the file; and the same as lines for
  // people.
  std::vector<RegionRule> region_rules;
  std::vector<RegionLine> region_lines;
};

// The variable of a key, "" for an unknown one: "TJIT_COMPILE" of
// "compile_all".
std::string_view VariableOfKey(std::string_view key);

// What one text says; `path` is its name in complaints.
ConfigFile ParseConfig(const std::string& path, const std::string& text,
                       decltype(&tjit_read_yaml) reader);

// Reads the file into *text. Returns why it cannot be had, else "".
std::string ReadConfig(const std::string& path, std::string* text);

}  // namespace tjit
