#include "compiler/cache/entry.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tjit::cache {
namespace {

constexpr char kMagic[8] = {'t', 'j', 'i', 't', 'o', 'b', 'j', '\n'};
constexpr std::uint64_t kFormat = 1;
constexpr std::size_t kDigits = 32;

struct EntryHeader {
  char magic[8];
  std::uint64_t checksum[2];  // of all that follows
  std::uint64_t format;
  std::uint64_t key_bytes;
  std::uint64_t object_bytes;
};
constexpr std::size_t kSummed = offsetof(EntryHeader, format);

}  // namespace

std::string FileNameOf(std::string_view key, std::string_view suffix) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64) +
         std::string(suffix);
}

bool IsFileName(std::string_view name) {
  if (name.size() < kDigits) return false;
  const std::string_view suffix = name.substr(kDigits);
  return (suffix == kSuffix || suffix == kProfileSuffix ||
          suffix == kVerdictsSuffix) &&
         std::all_of(name.begin(), name.begin() + kDigits, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string Encode(const Entry& entry) {
  EntryHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.format = kFormat;
  header.key_bytes = entry.key.size();
  header.object_bytes = entry.object.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += entry.key;
  bytes += entry.object;
  const XXH128_hash_t sum =
      XXH3_128bits(bytes.data() + kSummed, bytes.size() - kSummed);
  const std::uint64_t words[2] = {sum.high64, sum.low64};
  std::memcpy(bytes.data() + offsetof(EntryHeader, checksum), words,
              sizeof(words));
  return bytes;
}

std::string Decode(std::string_view bytes, Entry* entry) {
  EntryHeader header;
  if (bytes.size() < sizeof(header)) return "it is cut short";
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return "it is no entry of tjit's cache";
  }
  if (header.format != kFormat) {
    return absl::StrCat("it has format ", header.format, ", not ", kFormat);
  }
  const std::size_t rest = bytes.size() - sizeof(header);
  if (header.key_bytes > rest || header.object_bytes > rest - header.key_bytes) {
    return "it is cut short";
  }
  const XXH128_hash_t sum =
      XXH3_128bits(bytes.data() + kSummed, bytes.size() - kSummed);
  if (header.key_bytes + header.object_bytes != rest ||
      sum.high64 != header.checksum[0] || sum.low64 != header.checksum[1]) {
    return "its checksum is wrong";
  }
  entry->key = bytes.substr(sizeof(header), header.key_bytes);
  entry->object = bytes.substr(sizeof(header) + header.key_bytes);
  return "";
}

}  // namespace tjit::cache
