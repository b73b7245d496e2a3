// tjit cache list|verify|clear [DIR]
//
// Looks into the folder of compiled code (TJIT_CACHE_DIR) or empties it.
// Tested by: tests/acceptance/cache_test.py
#pragma once

#include <string>

namespace tjit::tools {

// The folder that programs use, "" if there is none.
std::string CacheFolder();

// `arguments` are those after the word "cache". Returns the exit status: 0,
// kBadEntriesStatus where `verify` finds entries that would not be used, or
// run_command.h's kUsageStatus where the folder cannot be read.
inline constexpr int kBadEntriesStatus = 1;
int CacheCommand(int count, char** arguments);

}  // namespace tjit::tools
