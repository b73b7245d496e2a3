// Where TJIT_DUMP writes: a file, or stderr.
//
// The file belongs to the first process that dumps something, which empties
// it, unless it holds what is no dump (output_file.h); another one that runs
// meanwhile writes PATH.PID. A forked child appends
// to its parent's. A text is written at once, so texts of threads do not mix.
// What cannot be written is said once, and the program goes on.
// Thread: any.
// Tested by: tests/support/dump_file_test.cpp, tests/acceptance/dump_test.py
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

namespace tjit {

class DumpFile {
 public:
  // `parts`: DumpPart bits (env.h). An empty path is stderr.
  DumpFile(unsigned parts, std::string path)
      : parts_(parts), path_(std::move(path)) {}
  ~DumpFile();
  DumpFile(const DumpFile&) = delete;
  DumpFile& operator=(const DumpFile&) = delete;

  bool Wants(unsigned part) const { return (parts_ & part) != 0; }
  // Numbers of what is dumped: 1, 2, ...
  int NextNumber() { return ++number_; }
  void Write(std::string_view text);

 private:
  void Open();
  int OpenFile(const std::string& path);
  std::string CannotWrite() const;
  void PrintLost(const std::string& why);

  const unsigned parts_;
  const std::string path_;
  std::once_flag is_open_;
  int fd_ = -1;
  std::atomic<int> number_{0};
  std::atomic<bool> is_lost_{false};
};

}  // namespace tjit
