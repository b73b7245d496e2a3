// Counts what an instruction log says, as it grows: each record is read once,
// no row is made of it, and no text is made for an op, so that a program that
// writes millions of ops a second is followed at a small share of a core.
//
//   LogTail tail(&file);  // a LogChunks that is open
//   tail.Read();          // all that came since
//   tail.counts().ops
//
// Memory is bounded: of texts only those of events are kept, and of them
// kMaxTexts.
// Thread: one. Tested by: tests/acceptance/top_test.py
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/instruction_log_chunks.h"

namespace tjit::tools {

// Sums since the log began; the difference of two is what was done between.
struct LogCounts {
  std::uint64_t rows = 0;  // that have ended
  std::uint64_t ops = 0, deferred = 0;
  std::uint64_t replayed = 0, drained = 0;  // ops
  std::uint64_t runs = 0, drains = 0, exits = 0;
  std::uint64_t prepared = 0, compiled = 0;  // segments: tier 1, tier 2
  double prepared_ns = 0, compiled_ns = 0;
  std::uint64_t waits = 0;
  double wait_ns = 0;
  std::uint64_t last_ns = 0;  // of the last row, since the log began
};

struct SequenceCounts {
  std::uint64_t runs = 0, ops = 0, exits = 0;
  double replay_ns = 0;
  std::string what;  // its ops, if the log says so
};

class LogTail {
 public:
  explicit LogTail(const LogChunks* file) : file_(file) {}

  // Reads what came since. REQUIRES: the file's Update() before.
  void Read();

  // The file is another one, the next part of the log.
  void BeginPart() {
    open_before_ = open_rows();
    streams_.clear();
    chunks_found_ = 0;
  }

  const LogCounts& counts() const { return counts_; }
  const std::map<std::string, SequenceCounts>& sequences() const {
    return sequences_;
  }
  const std::map<std::string, std::uint64_t>& exit_reasons() const {
    return exit_reasons_;
  }
  std::size_t threads() const { return threads_.size(); }
  // Rows that have not ended.
  std::uint64_t open_rows() const;
  // Records and chunks that do not fit.
  std::uint64_t damaged() const { return damaged_; }

 private:
  struct Text {
    std::string command, sequence, reason, what;
    std::uint64_t ops = 0;
    bool is_tier2 = false;
  };
  // A row that had not finished when it was read.
  struct OpenRow {
    std::uint32_t chunk, slot;
  };
  struct Stream {
    std::deque<std::uint32_t> chunks;  // the one being read, and later ones
    std::uint32_t ordinal = 0;         // of the next chunk
    std::uint32_t slot = 1;
    std::vector<OpenRow> open;
    absl::flat_hash_map<std::uint32_t, Text> texts;
  };
  static constexpr std::size_t kMaxTexts = 1 << 15;  // of a stream
  static constexpr std::size_t kMaxOpen = 1 << 12;   // of a stream

  void FindChunks();
  void ReadOpen(Stream* stream);
  void ReadStream(Stream* stream);
  // False if the chunk goes on later.
  bool ReadChunk(Stream* stream);
  void Define(Stream* stream, const LogRecord* record);
  void Count(Stream* stream, const LogRecord& record);
  void CountEvent(LogEvent event, const Text& text, double took_ns);

  const LogChunks* const file_;
  std::uint32_t chunks_found_ = 0;
  std::map<std::uint32_t, Stream> streams_;
  std::set<std::uint32_t> threads_;
  LogCounts counts_;
  std::map<std::string, SequenceCounts> sequences_;
  std::map<std::string, std::uint64_t> exit_reasons_;
  std::uint64_t damaged_ = 0;
  std::uint64_t open_before_ = 0;  // in earlier parts
  std::vector<LogRecord> buffer_;
};

}  // namespace tjit::tools
