// Counts what an instruction log says, as it grows: each record is read once,
// no row is made of it, and no text is made for an op, so that a program that
// writes millions of ops a second is followed at a small share of a core.
//
//   LogTail tail(&file);  // a LogChunks that is open
//   tail.Read();          // all that came since
//   tail.counts().ops
//
// A long log is read in two pieces: its end, from the last fresh chunk of each
// thread on (instruction_log_format.h), and what comes before, bit by bit:
//
//   const LogEnds ends = FindEnds(file);
//   LogTail tail(&file, &ends), earlier(&file, &ends, /*is_earlier=*/true);
//
// Memory is bounded: of texts only those of events are kept, and of them
// kMaxTexts.
// Thread: one. Tested by: tests/recorder/long_log_test.cpp,
// tests/acceptance/top_test.py
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/instruction_log_chunks.h"
#include "tools/tjit/won_time.h"

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

  void Add(const LogCounts& other);
};

struct SequenceCounts {
  std::uint64_t runs = 0, ops = 0, exits = 0;
  double replay_ns = 0;
  WonTime won;
  std::string what;  // its ops, if the log says so

  void Add(const SequenceCounts& other);
};

// Of each stream the ordinal of a chunk that a reader may begin with.
using LogEnds = std::map<std::uint32_t, std::uint32_t>;
LogEnds FindEnds(const LogChunks& file);

class LogTail {
 public:
  // All of the file; with `ends` what comes from there on, or `is_earlier`.
  // Both outlive this.
  explicit LogTail(const LogChunks* file, const LogEnds* ends = nullptr,
                   bool is_earlier = false)
      : file_(file), ends_(ends), is_earlier_(is_earlier) {}

  // Reads what came since, of so many chunks at most. True if that was all.
  // REQUIRES: the file's Update() before.
  bool Read(std::size_t most_chunks = std::numeric_limits<std::size_t>::max());

  // The file is another one, the next part of the log. REQUIRES: this is not
  // of what is earlier.
  void BeginPart() {
    open_before_ = open_rows();
    streams_.clear();
    chunks_found_ = 0;
    ends_ = nullptr;
  }

  const LogCounts& counts() const { return counts_; }
  const std::map<std::string, SequenceCounts>& sequences() const {
    return sequences_;
  }
  const std::map<std::string, std::uint64_t>& exit_reasons() const {
    return exit_reasons_;
  }
  // Threads that have written.
  const std::set<std::uint32_t>& threads() const { return threads_; }
  // Rows that have not ended.
  std::uint64_t open_rows() const;
  // Records and chunks that do not fit.
  std::uint64_t damaged() const { return damaged_; }
  // Chunks that were found, and those that are read, but for the last ones.
  std::uint64_t chunks() const { return chunks_; }
  std::uint64_t chunks_read() const { return chunks_read_; }

 private:
  struct Text {
    std::string command, sequence, reason, what;
    std::uint64_t ops = 0;
    bool is_tier2 = false;
    WonRow won;
  };
  // A row that had not finished when it was read, and what it means.
  struct OpenRow {
    std::uint32_t chunk, slot;
    std::optional<Text> text;
  };
  struct Chunk {
    std::uint32_t number;
    bool is_fresh;
  };
  struct Stream {
    std::deque<Chunk> chunks;          // the one being read, and later ones
    std::uint32_t ordinal = 0;         // of the next chunk
    std::uint32_t slot = 1;
    std::vector<OpenRow> open;
    // Since the last fresh chunk, and since the one before.
    absl::flat_hash_map<std::uint32_t, Text> texts, old_texts;
  };
  static constexpr std::size_t kMaxTexts = 1 << 15;  // of a stream
  static constexpr std::size_t kMaxOpen = 1 << 12;   // of a stream

  void FindChunks();
  void ReadOpen(Stream* stream);
  // Reads on, and takes the chunks that are read from `most_chunks`.
  void ReadStream(Stream* stream, std::size_t* most_chunks);
  // False if the chunk goes on later.
  bool ReadChunk(Stream* stream);
  void Define(Stream* stream, const LogRecord* record);
  // Null: it has not been defined.
  static const Text* Find(const Stream& stream, std::uint32_t id);
  // A row that has finished. `text`: null for an op, and for what is damaged.
  void Count(const LogRecord& record, const Text* text);
  const Text* TextOf(const Stream& stream, const LogRecord& record);
  void CountEvent(LogEvent event, const Text& text, std::uint64_t time_ns,
                  double took_ns);

  const LogChunks* const file_;
  const LogEnds* ends_;  // null: all is read
  const bool is_earlier_;
  std::uint32_t chunks_found_ = 0;
  std::map<std::uint32_t, Stream> streams_;
  std::set<std::uint32_t> threads_;
  LogCounts counts_;
  std::map<std::string, SequenceCounts> sequences_;
  std::map<std::string, std::uint64_t> exit_reasons_;
  std::uint64_t damaged_ = 0;
  std::uint64_t chunks_ = 0, chunks_read_ = 0;
  std::uint64_t open_before_ = 0;  // in earlier parts
  std::vector<LogRecord> buffer_;
};

}  // namespace tjit::tools
