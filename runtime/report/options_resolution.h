// Where each option's value comes from: the environment wins over the program,
// that over the file of TJIT_CONFIG, that over the built-in default.
//
// The file is read once, when the first Options is made: its values are the
// initial values of the fields (tjit/options.h), which is how a program's own
// win over them. YAML is read by libtjit_yaml.so, which lies beside libtjit.so
// and is loaded for that alone (support/yaml_text.h).
//
// Thread: any.
// Tested by: tests/error/config_test.py, tests/support/config_test.cpp
#pragma once

#include <string>

#include "support/config.h"
#include "tjit/options.h"

namespace tjit::runtime {

// The file of TJIT_CONFIG; empty if there is none.
const ConfigFile& Configured();

// Says what is wrong with environment and file, once.
void Complain();

// Has the rules for named regions of the file hold. What the first call does is
// all.
void UseRegionRules();

// TJIT_DISABLE: tjit stays off, whatever else is said.
bool IsDisabled();

// True if environment or file switch tjit on when it is loaded.
bool IsOnAtLoad();

// TJIT_STATS, by environment or file; empty: nowhere.
const std::string& StatsPath();

// Where the instruction log goes, by environment or file; empty: nowhere.
const std::string& InstructionLogPath();
// MB that it and the part before it may take; 0: any number.
long long InstructionLogMb();

// TJIT_DUMP, TJIT_DUMP_FILE and TJIT_PERF_MAP, by environment or file.
unsigned DumpParts();
const std::string& DumpPath();
bool WritesPerfMap();

// TJIT_PROFILE, by environment or file; empty: the cache folder.
const std::string& ProfilePath();

// The program's options with what the environment says over them. With
// TJIT_PRINT_CONFIG=1 it writes them to stderr, unless they are as before:
//   [CONFIG] hot_threshold = 5 (tjit.yaml:3:16)
Options Resolve(Options options);

}  // namespace tjit::runtime
