#include "runtime/tier2/profile_file.h"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/cache/entry.h"
#include "compiler/cache/folder.h"
#include "recorder/profile_text.h"
#include "recorder/script.h"
#include "runtime/call/kernel_state_words.h"
#include "runtime/platform/build_check.h"
#include "runtime/platform/build_id.h"
#include "runtime/platform/wait_row.h"
#include "support/output_file.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// What a writer waits for another one, at most.
constexpr int kLockTries = policy::kProfileLockTries;
constexpr std::chrono::milliseconds kLockPause{policy::kProfileLockPauseMs};

struct ObjectIds {
  std::string program, tjit;
  bool is_first = true;
};

// The program comes first; this code lies in libtjit or in the program.
int Visit(dl_phdr_info* info, std::size_t, void* data) {
  auto* ids = static_cast<ObjectIds*>(data);
  if (std::exchange(ids->is_first, false)) ids->program = BuildIdOf(info).hex;
  const auto here = reinterpret_cast<ElfW(Addr)>(&Visit);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && here >= begin &&
        here - begin < part.p_memsz) {
      ids->tjit = BuildIdOf(info).hex;
    }
  }
  return 0;
}

struct Key {
  std::string builds;   // libtorch and tjit
  std::string program;  // and what it runs, if it is an interpreter
  std::string text() const { return builds + program; }
};

const Key& KeyOfProcess() {
  static const auto& key = *new Key([] {
    ObjectIds ids;
    dl_iterate_phdr(&Visit, &ids);
    std::error_code none;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", none);
    return Key{absl::StrCat("tjit profile 1\nlibtorch ",
                            LoadedBuildId("/libtorch_cpu.so"), "\ntjit ",
                            ids.tjit, "\n"),
               absl::StrCat("program ", path.string(), " ", ids.program, "\n",
                            ScriptOfProcess(path.string()), "\n")};
  }());
  return key;
}

// "" or whose the profile is.
std::string WhyForeign(std::string_view key, bool any_program) {
  const Key& mine = KeyOfProcess();
  if (any_program ? key.starts_with(mine.builds) : key == mine.text()) {
    return "";
  }
  if (!key.starts_with("tjit profile ")) return "it is no profile of tjit";
  return key.starts_with(mine.builds)
             ? "it is that of another program"
             : "it was written with another build of tjit or libtorch";
}

// Holds the folder against other writers, for as long as it lives; after a
// while without it, as a program must not wait for ever when it ends.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : fd_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    WaitRow row;
    for (int i = 0; fd_ >= 0 && i < kLockTries; ++i) {
      if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
      row.Begin(WaitFor::kProfile);
      std::this_thread::sleep_for(kLockPause);
    }
  }
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int fd_;
};

// A file larger than the process may write is an error like any other, not the
// program's end.
class FileSizeSignalBlocked {
 public:
  FileSizeSignalBlocked() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) != 0;
    pthread_sigmask(SIG_BLOCK, &signal_, &saved_);
  }
  ~FileSizeSignalBlocked() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &saved_, nullptr);
  }
  FileSizeSignalBlocked(const FileSizeSignalBlocked&) = delete;
  FileSizeSignalBlocked& operator=(const FileSizeSignalBlocked&) = delete;

 private:
  sigset_t signal_, saved_;
  bool was_pending_ = false;
};

std::string CheckCacheFolder(const ProfilePlace& place) {
  bool is_there = false;
  std::string error = cache::MakeFolder(place.folder);
  if (error.empty()) error = cache::CheckFolder(place.folder, &is_there);
  return error;
}

}  // namespace

ProfilePlace PlaceInCache(const std::string& folder) {
  ProfilePlace place = PlaceOf(folder + "/x");
  place.name = cache::FileNameOf(KeyOfProcess().text(), cache::kProfileSuffix);
  place.is_cache = true;
  return place;
}

ProfilePlace PlaceOf(const std::string& file) {
  std::error_code none;  // then as it was given
  std::filesystem::path path = std::filesystem::absolute(file, none);
  if (none) path = file;
  if (IsStream(path.string())) {
    return {path.parent_path().string(), path.filename().string(), false, true};
  }
  // A link stays one: what it leads to is replaced.
  const auto target = std::filesystem::weakly_canonical(path, none);
  if (!none) path = target;
  return {path.parent_path().string(), path.filename().string(), false, false};
}

std::string WhyNotOurs(const ProfilePlace& place) {
  // Names in the cache folder are tjit's own.
  return place.is_cache ? "" : WhyNotReplaced(place.path(), kProfileFile);
}

std::string ReadProfile(const ProfilePlace& place, bool any_program,
                        Profile* profile, bool* is_there,
                        const std::atomic<bool>* stop) {
  *is_there = false;
  if (place.is_stream) return "it is no file";
  if (place.is_cache &&
      (!cache::CheckFolder(place.folder, is_there).empty() || !*is_there)) {
    *is_there = false;
    return "";  // what is wrong with the folder is said by who writes to it
  }
  std::string bytes;
  std::string error = cache::Read(place.path(), &bytes, is_there);
  if (!error.empty() || !*is_there) return error;
  cache::Entry entry;
  error = cache::Decode(bytes, &entry);
  if (error.empty()) error = WhyForeign(entry.key, any_program);
  if (!error.empty()) return error;
  return ParseProfile(entry.object, &ContextOfWords, profile, stop);
}

std::string WriteProfile(const ProfilePlace& place, bool merges,
                         Profile* profile) {
  std::string error;
  if (place.is_cache) error = CheckCacheFolder(place);
  if (!error.empty()) return error;
  if (place.is_stream) return "it is no file";
  // A rename would put a file in the place of a device or a pipe.
  std::error_code code;
  const auto there = std::filesystem::symlink_status(place.path(), code);
  if (std::filesystem::exists(there) &&
      !std::filesystem::is_regular_file(there)) {
    return "it is no file";
  }
  error = WhyNotOurs(place);
  if (!error.empty()) return error;
  const FolderLock lock(place.folder);
  Profile old;
  bool is_there = false;
  // One that cannot be used is replaced.
  if (merges &&
      ReadProfile(place, /*any_program=*/false, &old, &is_there).empty()) {
    for (const KnownNode* end : old.ends()) {
      if (!profile->Add(Profile::PathTo(end)).empty()) break;  // it is full
    }
  }
  const std::string text = ToText(*profile, &WordsOfContext);
  const FileSizeSignalBlocked blocked;
  return cache::Write(place.folder, place.name,
                      cache::Encode({KeyOfProcess().text(), text}));
}

}  // namespace tjit::runtime
