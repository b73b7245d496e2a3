// Reads an instruction log, finished, cut short, or while it is written.
//
// Rows of all threads are merged by the time of their call and numbered: #n
// counts ops; a row of another event has the number of the op before it.
// Nothing in the file is trusted: what does not fit is left out, and said by
// Damage().
// Thread: one. Tested by: tests/recorder/instruction_log_test.cpp
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/instruction_log_chunks.h"
#include "recorder/instruction_log_format.h"

namespace tjit {

struct LogRow {
  std::uint64_t time_ns = 0;  // since the log began
  std::uint64_t number = 0;
  LogEvent event = LogEvent::kOp;
  std::string source;   // "MAIN", "T2", "WORKER"
  // One thread at a time writes a stream; several are called WORKER.
  std::uint32_t stream = 0;
  std::string command;  // op, or what happened
  std::string details;
  std::uint64_t bytes = 0;  // of an op's results
  double took_ns = 0;
  bool is_compiled = false;  // the op was deferred
  bool is_open = false;      // it had not finished when the log ended
  bool has_thrown = false;
};

const char* LogEventName(LogEvent event);

// "1.500s | #0150 | COMPILE | WORKER | Starting | sequence=abc123def456"; ops
// have a column with bytes before the details. `decimals`: of the seconds.
std::string ToText(const LogRow& row, int decimals);

class InstructionLog {
 public:
  using Opened = LogChunks::Opened;

  // `why`: what is wrong, as the end of a sentence.
  Opened Open(const std::string& path, std::string* why);
  // The next row; false if there is none, or (`is_live`) none that is finished
  // yet: then more may come.
  bool Next(bool is_live, LogRow* row);
  // Looks how the log has grown.
  void Update();

  // The program that writes it has closed it, run out of space, or is gone.
  bool HasEnded() const { return file_.HasEnded(); }
  LogEnd end() const { return static_cast<LogEnd>(file_.header().end); }
  // Of a log of bounded size, from 0; see instruction_log_format.h.
  std::uint32_t part() const { return file_.header().part; }
  std::uint32_t pid() const { return file_.header().pid; }
  // Of the program that wrote it; empty if the log is cut short.
  std::string tjit_version() const { return file_.tjit_version(); }
  std::string program() const { return file_.program(); }
  // Sentences about what is missing or damaged; complete after the last Next().
  std::vector<std::string> Damage() const;

 private:
  struct Definition {
    std::string command, details;
    std::uint64_t bytes = 0;
  };
  struct Raw {
    LogRecord record;
    LogSource source;
  };
  struct Stream {
    std::map<std::uint32_t, std::uint32_t> chunks;  // by ordinal
    std::uint32_t ordinal = 0;                      // being read
    std::uint32_t slot = 1;
    std::deque<Raw> rows;
    // Since the last fresh chunk, and since the one before.
    std::unordered_map<std::uint32_t, Definition> texts, old_texts;
    std::uint32_t texts_from = 0;  // the ordinal of the last one
    bool waits = false;   // for a row that is not finished
    bool is_dry = false;  // until the next Update()
  };

  void FindChunks();
  // Reads on in the stream; false if there is nothing.
  bool Fill(Stream* stream, bool is_live);
  bool ReadChunk(Stream* stream, std::uint32_t chunk, bool is_live);
  void ReadDefinition(Stream* stream, const LogRecord* record);
  // Null if it has not been read.
  static const Definition* Find(const Stream& stream, std::uint32_t id);
  void Resolve(Stream* stream, const Raw& raw, bool is_live, LogRow* row);

  LogChunks file_;
  std::uint32_t chunks_found_ = 0;
  std::map<std::uint32_t, Stream> streams_;
  std::uint64_t ops_ = 0;
  std::uint64_t texts_read_ = 0;
  std::uint64_t damaged_ = 0;  // records and chunks that do not fit
  std::vector<LogRecord> buffer_;
};

}  // namespace tjit
