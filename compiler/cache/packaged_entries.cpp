#include "compiler/cache/packaged_entries.h"

#include <atomic>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/cache/entry.h"
#include "compiler/cache/folder.h"
#include "support/mutex.h"

namespace tjit::cache {
namespace {

bool IsOfKind(std::string_view name, EntryKind kind) {
  return name.ends_with(kind == EntryKind::kCode ? kSuffix : kVerdictsSuffix);
}

// By key; of code at most one.
using Objects = std::multimap<std::string, std::string, std::less<>>;

struct Packaged {
  Mutex mutex;
  Objects code ABSL_GUARDED_BY(mutex);
  Objects verdicts ABSL_GUARDED_BY(mutex);
  std::atomic<std::int64_t> version{0};
};

Packaged& All() {
  static auto& all = *new Packaged;  // never destroyed
  return all;
}

}  // namespace

std::string JoinEntries(const Entries& entries) {
  std::string text;
  for (const auto& [name, bytes] : entries) {
    absl::StrAppend(&text, name, " ", bytes.size(), "\n", bytes);
  }
  return text;
}

std::string ParseEntries(std::string_view text, Entries* entries) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::pair<std::string, std::string> words =
        absl::StrSplit(std::string(text.substr(0, end)), ' ');
    std::size_t bytes = 0;
    if (end == std::string_view::npos || !IsFileName(words.first) ||
        !absl::SimpleAtoi(words.second, &bytes)) {
      return "its list of compiled code is damaged";
    }
    text.remove_prefix(end + 1);
    if (bytes > text.size()) return "its compiled code is cut short";
    Entry entry;
    const std::string error = Decode(text.substr(0, bytes), &entry);
    if (!error.empty()) {
      return absl::StrCat("compiled code ", words.first, ": ", error);
    }
    entries->emplace(words.first, text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return "";
}

std::string ReadEntries(const std::string& folder, Entries* entries) {
  std::vector<FileInfo> files;
  std::string error = List(folder, &files);
  if (!error.empty()) return error;
  for (const FileInfo& file : files) {
    if (!IsOfKind(file.name, EntryKind::kCode) &&
        !IsOfKind(file.name, EntryKind::kVerdicts)) {
      continue;
    }
    std::string bytes;
    bool is_there = false;
    error = Read(absl::StrCat(folder, "/", file.name), &bytes, &is_there);
    if (!error.empty()) return absl::StrCat(file.name, ": ", error);
    if (is_there) entries->emplace(file.name, std::move(bytes));
  }
  return "";
}

std::string TargetOf(const std::string& name, const std::string& bytes) {
  Entry entry;
  if (!IsOfKind(name, EntryKind::kCode) || !Decode(bytes, &entry).empty()) {
    return "";
  }
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(entry.key), '\n');
  if (lines.size() < 3) return "";
  // A list of what the processor has and has not follows.
  const std::string target = lines[2].substr(0, lines[2].find(" bits"));
  const bool is_cut = target.size() < lines[2].size();
  return absl::StrCat(lines[1], ", ", target, is_cut ? " bits" : "");
}

void AddPackaged(const Entries& entries) {
  Packaged& all = All();
  const MutexLock lock(all.mutex);
  for (const auto& [name, bytes] : entries) {
    Entry entry;
    if (!Decode(bytes, &entry).empty()) continue;
    const bool is_code = IsOfKind(name, EntryKind::kCode);
    if (!is_code && !IsOfKind(name, EntryKind::kVerdicts)) continue;
    Objects& objects = is_code ? all.code : all.verdicts;
    if (is_code && objects.contains(entry.key)) continue;
    objects.emplace(entry.key, entry.object);
  }
  all.version.fetch_add(1);
}

std::int64_t PackagedVersion() { return All().version.load(); }

bool FindPackaged(std::string_view key, std::string* object, EntryKind kind) {
  Packaged& all = All();
  if (all.version.load(std::memory_order_relaxed) == 0) return false;
  const MutexLock lock(all.mutex);
  const auto [begin, end] =
      (kind == EntryKind::kCode ? all.code : all.verdicts).equal_range(key);
  for (auto at = begin; at != end; ++at) *object += at->second;
  return begin != end;
}

}  // namespace tjit::cache
