#include "compiler/cache/object_cache.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/cache/entry.h"
#include "compiler/cache/folder.h"
#include "compiler/cache/packaged_entries.h"

namespace tjit::cache {
namespace {

std::string_view SuffixOf(EntryKind kind) {
  return kind == EntryKind::kCode ? kSuffix : kVerdictsSuffix;
}

// What comes of an entry that is not used.
const char* ConsequenceOf(EntryKind kind) {
  return kind == EntryKind::kCode ? "its code is compiled anew"
                                  : "kernels are compared with eager anew";
}

}  // namespace

ObjectCache::ObjectCache(std::string folder, Warn warn,
                         std::uint64_t max_bytes)
    : folder_(std::move(folder)),
      warn_(std::move(warn)),
      max_bytes_(max_bytes) {}

void ObjectCache::WarnOnce(bool* said, const std::string& text) {
  if (!std::exchange(*said, true)) warn_(text);
}

bool ObjectCache::IsUsable() {
  if (folder_.empty()) return false;
  if (is_checked_ || is_refused_) return !is_refused_;
  bool is_there = false;
  const std::string error = CheckFolder(folder_, &is_there);
  if (!error.empty()) {
    WarnOnce(&is_refused_,
             absl::StrCat("the cache folder \"", folder_, "\" is not used: ",
                          error, "; compiled code is not kept. TJIT_CACHE_DIR "
                          "names another folder, or is off"));
  }
  is_checked_ = is_there;
  return is_there && !is_refused_;
}

bool ObjectCache::Read(std::string_view key, std::string* object,
                       EntryKind kind) {
  if (!IsUsable()) return false;
  const std::string path =
      absl::StrCat(folder_, "/", FileNameOf(key, SuffixOf(kind)));
  std::string bytes;
  bool is_there = false;
  std::string error = cache::Read(path, &bytes, &is_there);
  if (!error.empty()) {
    WarnOnce(&said_unreadable_, absl::StrCat("cannot read ", path, ": ", error,
                                             "; ", ConsequenceOf(kind)));
  }
  if (!is_there || !error.empty()) return false;
  Entry entry;
  error = Decode(bytes, &entry);
  if (error.empty() && entry.key != key) error = "it is that of another key";
  if (!error.empty()) {
    WarnOnce(&said_damaged_, absl::StrCat(path, " is not used and removed: ",
                                          error, "; ", ConsequenceOf(kind)));
    unlink(path.c_str());
    return false;
  }
  object->assign(entry.object);
  return true;
}

bool ObjectCache::Find(std::string_view key, std::string* object,
                       EntryKind kind) {
  bool is_there = Read(key, object, kind);
  if (!is_there) object->clear();
  if (!is_there || kind == EntryKind::kVerdicts) {
    is_there = FindPackaged(key, object, kind) || is_there;
  }
  if (kind == EntryKind::kCode) ++(is_there ? hits_ : misses_);
  return is_there;
}

void ObjectCache::MakeRoom(std::uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ <= max_bytes_ && --writes_until_look_ > 0) return;
  writes_until_look_ = kLookEvery;
  bytes_ = Trim(folder_, max_bytes_);
}

void ObjectCache::Store(std::string_view key, std::string_view object,
                        EntryKind kind) {
  if (folder_.empty() || cannot_write_ || is_refused_) return;
  std::string error;
  if (!is_checked_) error = MakeFolder(folder_);
  if (error.empty() && !IsUsable()) return;
  const std::string bytes = Encode({key, object});
  if (error.empty())
    error = Write(folder_, FileNameOf(key, SuffixOf(kind)), bytes);
  if (!error.empty()) {
    WarnOnce(&cannot_write_,
             absl::StrCat("cannot write to the cache folder \"", folder_,
                          "\": ", error, "; code that is compiled is not kept. "
                          "TJIT_CACHE_DIR names another folder, or is off"));
    return;
  }
  if (kind == EntryKind::kCode) ++writes_;
  MakeRoom(bytes.size());
}

}  // namespace tjit::cache
