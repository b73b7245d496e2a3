// The files of a cache folder: read, written as a whole, listed, thrown out.
//
// A file is written under another name and renamed, so that readers see all of
// it or nothing, whoever else writes the same one. What fails is a text.
// Thread: any, and any process.
// Tested by: tests/compiler/cache/object_cache_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tjit::cache {

struct FileInfo {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t used = 0;  // seconds since the epoch
};

// "" if entries of this folder may be used: it is a folder of ours that not
// everybody may write to, for there is code in it. *is_there: false if there
// is nothing of that name.
std::string CheckFolder(const std::string& folder, bool* is_there);
// Makes the folder and those above it, for the user alone.
std::string MakeFolder(const std::string& folder);

// Files that are named like entries, in the order of their names.
std::string List(const std::string& folder, std::vector<FileInfo>* files);

// Reads a file and notes that it was used. *is_there: false if there is none.
std::string Read(const std::string& path, std::string* bytes, bool* is_there);
std::string Write(const std::string& folder, const std::string& name,
                  std::string_view bytes);

// If there is more than this, removes the files that were not used for longest
// until the rest fits well; and what killed writers have left. Returns the
// bytes that remain, in blocks of the disk.
std::uint64_t Trim(const std::string& folder, std::uint64_t max_bytes);

}  // namespace tjit::cache
