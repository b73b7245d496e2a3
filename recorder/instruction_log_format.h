// The file of the instruction log: what recorder/instruction_log.h writes and
// recorder/instruction_log_reader.h reads.
//
//   page of LogFileHeader | chunk | chunk | ...       all of 16-byte records
//   chunk: LogChunkHeader | record | record | ... | zeros
//
// A chunk belongs to one stream, which one thread writes. A record is a row,
// or defines the text that rows of this stream mean by an id; its text lies in
// the records behind it. A definition may come after its first use: an op's
// row is there before its kernel runs, and names its results when it is done.
//
// Note [A log that survives a crash]. The file is mapped MAP_SHARED: a store
// lands in the page cache, which belongs to the kernel and outlives a process
// that is killed, without any flush. `word` is stored last, with release, and
// is never 0 for a record: whoever finds it not 0 finds the rest. What is
// lost with the machine itself (power) is up to the kernel's write-back.
#pragma once

#include <cstdint>

namespace tjit {

inline constexpr char kLogMagic[8] = {'t', 'j', 'i', 't', 'l', 'o', 'g', '\n'};
// Version 2 has rows of waits and fresh chunks. What this tjit reads:
// kOldestLogVersion on.
inline constexpr std::uint32_t kLogVersion = 2;
inline constexpr std::uint32_t kOldestLogVersion = 1;
inline constexpr std::uint32_t kLogPageBytes = 4096;  // before the chunks
inline constexpr std::uint32_t kLogChunkBytes = 65536;
inline constexpr std::uint32_t kLogChunkMagic = 0x4b4e4843;  // "CHNK"
// What its rows, and those of later chunks, mean is defined from there on: a
// reader may begin with it. Each stream has one every so many chunks at least.
inline constexpr std::uint32_t kLogFreshChunkMagic = 0x48535246;  // "FRSH"
inline constexpr std::uint32_t kLogFreshChunks = 256;

struct LogFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t chunk_bytes;
  std::uint32_t pid;
  std::uint32_t chunks;  // that the file has
  std::uint32_t end;     // LogEnd
  std::uint32_t part;    // of a bounded log, from 0
  // Of the program that wrote it, ended by a 0.
  char tjit[16];  // the version of tjit
  char program[512];
};
static_assert(sizeof(LogFileHeader) <= kLogPageBytes);

// How the log ended. kContinued: another part goes on. kDetached: the program
// goes on without a log (`tjit attach`).
enum class LogEnd : std::uint32_t {
  kRunning,
  kClosed,
  kNoSpace,
  kContinued,
  kDetached,
};

// A bounded log (TJIT_INSTRUCTION_LOG_MB) has two files: PATH, and PATH.old
// with what came right before. Each is a log by itself. Where PATH has half of
// what is allowed, it takes the place of PATH.old.
inline constexpr char kOldPart[] = ".old";

// The thread that a row comes from: MAIN, T<number>, or a WORKER of libtorch's
// parallel regions or of tjit.
struct LogSource {
  enum class Kind : std::uint16_t { kMain, kThread, kWorker };
  Kind kind;
  std::uint16_t number;
};

struct LogChunkHeader {
  std::uint32_t magic;
  std::uint32_t stream;
  std::uint32_t ordinal;  // in the stream, from 0
  LogSource source;
};

// What a row tells: LOG_EVENT(suffix, the printed name).
#define TJIT_LOG_EVENTS(LOG_EVENT)                                     \
  LOG_EVENT(Op, "OP")           /* a wrapped op was called */          \
  LOG_EVENT(Detect, "DETECT")   /* a sequence was found or promoted */ \
  LOG_EVENT(Compile, "COMPILE") /* a segment is prepared */            \
  LOG_EVENT(Replay, "REPLAY")   /* a segment ran */                    \
  LOG_EVENT(Drain, "DRAIN")     /* pending ops ran eagerly */          \
  LOG_EVENT(Exit, "EXIT")       /* a run left its trace */             \
  LOG_EVENT(Wait, "WAIT")       /* a thread waited for tjit's work */

enum class LogEvent : std::uint8_t {
#define TJIT_LOG_EVENT(suffix, name) k##suffix,
  TJIT_LOG_EVENTS(TJIT_LOG_EVENT)
#undef TJIT_LOG_EVENT
      kCount,
};

// One record. `word`: time since the start in ns << 8 | kind << 4 | flags.
struct LogRecord {
  std::uint32_t id;     // of the text
  std::uint32_t extra;  // row: float, ns it took; definition: bytes of text
  std::uint64_t word;
};
static_assert(sizeof(LogRecord) == 16 && sizeof(LogChunkHeader) == 16);

inline bool IsLogChunk(const LogChunkHeader& chunk) {
  return chunk.magic == kLogChunkMagic || chunk.magic == kLogFreshChunkMagic;
}

// Kinds: 1 a definition, 2 + LogEvent a row.
inline constexpr std::uint64_t kLogDefinition = 1;
inline constexpr std::uint64_t kLogFirstRow = 2;
static_assert(kLogFirstRow + static_cast<int>(LogEvent::kCount) <= 16);
// Flags of rows.
inline constexpr std::uint64_t kLogOpen = 1;      // it has not finished
inline constexpr std::uint64_t kLogCompiled = 2;  // deferred at the call
inline constexpr std::uint64_t kLogThrew = 4;

inline std::uint64_t LogWord(std::uint64_t time_ns, std::uint64_t kind,
                             std::uint64_t flags) {
  return time_ns << 8 | kind << 4 | flags;
}

// The text of a definition: this, then command and details.
struct LogText {
  std::uint32_t parent;  // 0, or the id whose text comes before this
  std::uint32_t command_bytes;
  std::uint64_t bytes;  // of an op's results
};
inline constexpr std::uint32_t kMaxLogText = 2048;  // longer ones are cut

}  // namespace tjit
