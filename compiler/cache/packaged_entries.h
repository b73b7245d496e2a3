// Entries of the cache that the process was given by files of
// tjit::save_package(): an ObjectCache finds them behind those of its folder.
//
// They stay for the life of the process. An entry of another compiler, target
// or libtorch has a key that nobody asks for.
// Thread: any.
// Tested by: tests/compiler/cache/packaged_entries_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "compiler/cache/object_cache.h"

namespace tjit::cache {

// Entries by the names of their files (entry.h).
using Entries = std::map<std::string, std::string>;

// As one text, and back. ParseEntries() checks each of them; it returns "" or
// what is wrong.
std::string JoinEntries(const Entries& entries);
std::string ParseEntries(std::string_view text, Entries* entries);

// The code and verdicts that a folder has, and nothing else of it. "" or what
// is wrong.
std::string ReadEntries(const std::string& folder, Entries* entries);

// What the key of machine code says of compiler and processor; "" for verdicts.
std::string TargetOf(const std::string& name, const std::string& bytes);

// REQUIRES: ParseEntries() has given them.
void AddPackaged(const Entries& entries);
// How often some were added.
std::int64_t PackagedVersion();
// Appends to *object what the entries of this key have: code of one, verdicts
// of all. False if there is none.
bool FindPackaged(std::string_view key, std::string* object, EntryKind kind);

}  // namespace tjit::cache
