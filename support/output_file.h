// What lies where tjit is about to write: a file of the user's is not lost to a
// path that was mistyped (`--log=train.py`).
//
//   const std::string why = WhyNotReplaced(path, kStatsFile);
//   if (!why.empty()) ...   // TJIT_STATS: will not replace "train.py": ...
//
// A file is replaced if it is empty or begins as tjit begins files of that
// kind, whole or cut short. What is no file (a device, a pipe), or one that an
// open descriptor of the process leads to (/dev/stdout), is appended to.
// Thread: any. Tested by: tests/support/output_file_test.cpp,
// tests/error/output_files_test.py
#pragma once

#include <string>
#include <string_view>

namespace tjit {

struct FileKind {
  const char* what;            // "file of counters"
  std::string_view beginning;  // of each such file
};
inline constexpr FileKind kStatsFile{"file of counters",
                                     "{\n  \"ops_seen\": "};
inline constexpr FileKind kDumpFile{"dump", "; ==== segment "};
inline constexpr FileKind kLogFile{"instruction log", "tjitlog\n"};
inline constexpr FileKind kSequenceFile{"recorded sequence", "tjit sequence "};
inline constexpr FileKind kProfileFile{"profile", "tjitobj\n"};

// "" if the path may be written to as far as its contents go; else what stands
// against it and what to do: `will not replace "train.py": it is no file of
// counters of tjit, but 120 bytes that begin with "import torch"; name another
// file, or remove this one`.
std::string WhyNotReplaced(const std::string& path, const FileKind& kind);

// "" if a file can be made or written there, by this user and as far as is
// known without doing it; else the system's reason.
std::string WhyNotWritable(const std::string& path);

// True for what an open descriptor of the process is named by (/dev/stdout,
// /dev/fd/3), by links too: a file behind it is the program's own.
bool IsStream(const std::string& path);

}  // namespace tjit
