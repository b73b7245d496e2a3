// The file of an instruction log as a reader sees it: its header, its chunks
// and the records in them. instruction_log_reader.h makes rows of them, in the
// order of their calls; `tjit top` counts them.
//
//   LogChunks file;
//   std::string why;
//   if (file.Open("a.log", &why) != LogChunks::Opened::kYes) ...
//   for (std::uint32_t i = 0; i < file.count(); ++i) {
//     const std::size_t n = file.Read(i, 0, records, kLogRecordsPerChunk);
//   }
//   file.Update();  // what the program has written since
//
// The file is read and never locked, mapped or written. Nothing in it is
// trusted.
// Thread: one. Tested by: tests/recorder/instruction_log_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "recorder/instruction_log_format.h"

namespace tjit {

inline constexpr std::uint32_t kLogRecordsPerChunk =
    kLogChunkBytes / sizeof(LogRecord);

inline std::uint64_t LogKindOf(const LogRecord& record) {
  return record.word >> 4 & 0xf;
}
inline bool IsLogRow(const LogRecord& record) {
  return LogKindOf(record) >= kLogFirstRow &&
         LogKindOf(record) <
             kLogFirstRow + static_cast<std::uint64_t>(LogEvent::kCount);
}
// REQUIRES: IsLogRow().
inline LogEvent LogEventOf(const LogRecord& record) {
  return static_cast<LogEvent>(LogKindOf(record) - kLogFirstRow);
}
// How many records it takes, a definition's text included.
inline std::size_t LogSlotsOf(const LogRecord& record) {
  if (LogKindOf(record) != kLogDefinition) return 1;
  return 1 + (record.extra + sizeof(LogRecord) - 1) / sizeof(LogRecord);
}

// The text of a definition, which lies in the records behind it.
struct LogTextView {
  std::uint32_t parent = 0;  // 0, or the id whose text comes before this
  std::uint64_t bytes = 0;   // of an op's results
  std::string_view command, details;
};
// False if it does not fit. REQUIRES: `record` is a definition, and
// LogSlotsOf() records are there.
bool ParseLogText(const LogRecord* record, LogTextView* text);

class LogChunks {
 public:
  enum class Opened { kYes, kUnreadable, kNotALog };

  LogChunks() = default;
  ~LogChunks();
  LogChunks(const LogChunks&) = delete;
  LogChunks& operator=(const LogChunks&) = delete;

  // Lets go of a file that was open. `why`: what is wrong, as the end of a
  // sentence.
  Opened Open(const std::string& path, std::string* why);
  // Reads the header again and looks how the file has grown.
  void Update();

  // All zeros but for what is there, if the log is cut short within it.
  const LogFileHeader& header() const { return header_; }
  std::string tjit_version() const;
  std::string program() const;
  // The program that writes it has closed it, run out of space, or is gone.
  bool HasEnded() const;
  // "", or a sentence about what is cut off.
  std::string Missing() const;

  // Of the chunks, those that begin within the file.
  std::uint32_t count() const { return count_; }
  // False if it is cut off.
  bool ReadHead(std::uint32_t chunk, LogChunkHeader* head) const;
  // Reads up to `count` records from `slot` on (0 is the chunk's header).
  // Returns how many there are.
  std::size_t Read(std::uint32_t chunk, std::uint32_t slot, LogRecord* records,
                   std::size_t count) const;
  // Of the file that is open; for fstat().
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  LogFileHeader header_{};
  std::uint64_t file_bytes_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace tjit
