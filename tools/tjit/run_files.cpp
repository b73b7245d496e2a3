#include "tools/tjit/run_files.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "recorder/no_stats.h"
#include "support/env.h"
#include "support/output_file.h"

namespace tjit::tools {
namespace {

struct File {
  const char* variable;
  std::string_view no_file;  // a value that names none
  const FileKind* kind;      // null: it is read, or a folder
  const char* lost;          // what comes of it if it cannot be written
};

constexpr File kFiles[] = {
    {"TJIT_CONFIG", "", nullptr, nullptr},
    {"TJIT_CACHE_DIR", kCacheOff, nullptr, nullptr},
    {"TJIT_REPRO_DIR", "", nullptr, nullptr},
    {"TJIT_STATS", "-", &kStatsFile, "the counters of this run are lost"},
    {"TJIT_INSTRUCTION_LOG", "", &kLogFile, "this run is not logged"},
    {"TJIT_DUMP_FILE", "", &kDumpFile, "the dump is lost"},
    {"TJIT_PROFILE", kCacheOff, &kProfileFile, "no profile is kept"},
};

// The program shall not try what was found impossible, and say it again.
void GiveUp(const File& file) {
  const std::string_view variable = file.variable;
  if (variable == "TJIT_PROFILE") {
    setenv(file.variable, std::string(kCacheOff).c_str(), 1);
    return;
  }
  unsetenv(file.variable);
  // Without a file a dump would go to stderr.
  if (variable == "TJIT_DUMP_FILE") unsetenv("TJIT_DUMP");
}

std::string WhyNot(const File& file, const std::string& path) {
  std::string why = WhyNotReplaced(path, *file.kind);
  if (!why.empty()) return why;
  why = IsStream(path) ? "" : WhyNotWritable(path);
  return why.empty() ? "" : "cannot write \"" + path + "\": " + why;
}

void Say(const File& file, const std::string& what) {
  absl::FPrintF(stderr, "tjit: %s: %s; %s\n", file.variable, what, file.lost);
}

// What stands there if nobody who sees an op comes to write it. "" or why not.
std::string WriteStats(const std::string& path, const std::string& why) {
  struct stat info {};
  const bool is_there = stat(path.c_str(), &info) == 0;
  if ((is_there && !S_ISREG(info.st_mode)) || IsStream(path)) return "";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return std::strerror(errno);
  std::string error;
  // A process that runs and has seen ops holds the lock: the file is its own.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    const std::string json = StatsWithoutOps(why);
    if (ftruncate(fd, 0) != 0 ||
        write(fd, json.data(), json.size()) !=
            static_cast<ssize_t>(json.size())) {
      error = std::strerror(errno);
    }
  }
  close(fd);
  return error;
}

std::string Absolute(const std::string& path) {
  char here[PATH_MAX];
  if (path[0] == '/' || getcwd(here, sizeof(here)) == nullptr) return path;
  return absl::StrCat(here, "/", path);
}

void Prepare(const File& file, const std::string& why_no_ops) {
  const char* const value = std::getenv(file.variable);
  if (value == nullptr || *value == '\0' || file.no_file == value) return;
  const std::string path = Absolute(value);
  setenv(file.variable, path.c_str(), 1);
  if (file.kind == nullptr) return;
  std::string why = WhyNot(file, path);
  if (why.empty() && file.kind == &kStatsFile) {
    why = WriteStats(path, why_no_ops.empty()
                               ? "no process of the program loaded a libtorch "
                                 "that tjit serves, or it was killed before"
                               : why_no_ops);
    if (!why.empty()) why = absl::StrCat("cannot write \"", path, "\": ", why);
  }
  if (why.empty()) return;
  Say(file, why);
  GiveUp(file);
}

}  // namespace

void PrepareFiles(const std::string& why_no_ops) {
  for (const File& file : kFiles) Prepare(file, why_no_ops);
}

}  // namespace tjit::tools
