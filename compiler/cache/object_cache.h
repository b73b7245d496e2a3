// Compiled code on disk, shared by the processes of a user: a folder with one
// file for each key. Beside it what was found of this machine's eager kernels.
//
// Note [What a key says]. Whoever compiles writes a key text that names all
// that decides the machine code: the program (a loop's signature, with
// functions of libraries by name and kind, never by address), the target with
// its features, the versions of the compiler. An object of another version is
// never asked for; it stays until others need its room.
// Note [What can be wrong on disk]. Nothing there stops a program: an entry
// that is cut, damaged or another's is removed and compiled anew; a folder
// that cannot be written to is only read, one that is not ours is not used.
// Each is said once, by `warn`.
// Invariants: (1) Find() gives the bytes of a Store() of the same key, or of a
// package's; of verdicts those of both, one behind the other. (2) The
// folder holds max_bytes and what other processes have added since the last
// look (kLookEvery writes).
// Thread: one at a time; any number of processes.
// Tested by: tests/compiler/cache/object_cache_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tjit::cache {

inline constexpr std::uint64_t kMaxBytes = std::uint64_t{256} << 20;

enum class EntryKind { kCode, kVerdicts };

class ObjectCache {
 public:
  using Warn = std::function<void(const std::string& text)>;

  // The folder need not be there: the first Store() makes it. "": there is
  // none, and only entries of packages are found (packaged_entries.h).
  ObjectCache(std::string folder, Warn warn,
              std::uint64_t max_bytes = kMaxBytes);

  // The object of the key into *object; false if there is none.
  bool Find(std::string_view key, std::string* object,
            EntryKind kind = EntryKind::kCode);
  void Store(std::string_view key, std::string_view object,
             EntryKind kind = EntryKind::kCode);

  // What is wrong with the folder was said.
  bool has_warned() const { return is_refused_ || cannot_write_; }
  const std::string& folder() const { return folder_; }
  // Of code.
  std::int64_t hits() const { return hits_; }
  std::int64_t misses() const { return misses_; }
  std::int64_t writes() const { return writes_; }

 private:
  static constexpr int kLookEvery = 256;

  // False if the folder must not be used, or is not there.
  bool IsUsable();
  bool Read(std::string_view key, std::string* object, EntryKind kind);
  void WarnOnce(bool* said, const std::string& text);
  void MakeRoom(std::uint64_t bytes);

  const std::string folder_;
  const Warn warn_;
  const std::uint64_t max_bytes_;
  std::uint64_t bytes_ = 0;  // in the folder, as far as is known
  int writes_until_look_ = 0;
  bool is_checked_ = false, is_refused_ = false, cannot_write_ = false;
  bool said_damaged_ = false, said_unreadable_ = false;
  std::int64_t hits_ = 0, misses_ = 0, writes_ = 0;
};

}  // namespace tjit::cache
