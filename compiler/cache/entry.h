// The bytes of one entry of the cache: a key text and an object.
//
//   EntryHeader | key | object      (in the byte order of the machine)
//
// The file is named after the 128-bit hash of the key text; the text is in it
// and is compared, so that two keys with one hash do not share an object. The
// checksum is over everything else.
// Tested by: tests/compiler/cache/object_cache_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tjit::cache {

inline constexpr std::string_view kSuffix = ".tjitobj";
// An entry whose object is a hot profile (recorder/profile_text.h).
inline constexpr std::string_view kProfileSuffix = ".tjitprofile";
// An entry whose object is what probes found (runtime/bit_exact/verdict_store.h).
inline constexpr std::string_view kVerdictsSuffix = ".tjitverdicts";

struct Entry {
  std::string_view key, object;
};

// "0123...ef.tjitobj", 32 digits.
std::string FileNameOf(std::string_view key,
                       std::string_view suffix = kSuffix);
bool IsFileName(std::string_view name);

std::string Encode(const Entry& entry);
// Views into `bytes`. Returns "" or what is wrong with them.
std::string Decode(std::string_view bytes, Entry* entry);

}  // namespace tjit::cache
