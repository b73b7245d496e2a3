// Writes the instruction log: one row per wrapped op, and one for each thing
// that tjit did (instruction_log_format.h has the layout, and why the file
// survives a crash).
//
// A LogStream is one thread's writer, into chunks of a LogFile. An op's row
// costs one record: op, dtypes and shapes are looked up (mostly the site that
// came after the last one before, compared in full) and stand as an id.
// Memory for the ids is bounded: past kMaxSites a stream forgets them, and
// defines anew. So it does in each part of a bounded log, and in each fresh
// chunk.
//
// Once the LogFile has ended, streams do nothing.
// Thread: a LogStream belongs to one at a time.
// Tested by: tests/recorder/instruction_log_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/instruction_log_file.h"
#include "recorder/instruction_log_format.h"
#include "recorder/schema_key.h"

namespace tjit {

// A tensor as words: a head, then its sizes.
inline constexpr std::uint64_t kLogUndefinedTensor = 1ull << 32;
inline constexpr std::uint64_t kLogOpaqueTensor = 2ull << 32;  // sizes unknown
inline std::uint64_t LogTensorHead(std::uint8_t dtype, std::uint8_t itemsize,
                                   std::uint16_t ndim) {
  return std::uint64_t{dtype} | std::uint64_t{itemsize} << 8 |
         std::uint64_t{ndim} << 16;
}

// A view of words.
struct LogWords {
  const std::uint64_t* data;
  std::size_t size;
};
// "f32[32,8], f32[8,4]"; `-` undefined, `?` unknown; some, then how many more.
std::string LogTensorsText(LogWords tensors);
std::uint64_t LogTensorsBytes(LogWords tensors);

class LogStream {
 public:
  LogStream(LogFile* file, std::uint32_t number);
  ~LogStream();
  LogStream(const LogStream&) = delete;
  LogStream& operator=(const LogStream&) = delete;

  // Lets go of what is mapped, in a forked child: it is the parent's.
  void Unmap();
  // The thread that writes from now on.
  void SetSource(LogSource source);

  // An op that runs at the call: its row stands open until EndOp().
  void BeginOp(OpId op, LogWords arguments, std::uint64_t now_ns);
  void EndOp(LogWords results, std::uint64_t now_ns);
  void EndOpThrew(std::uint64_t now_ns);
  // An op that was deferred.
  void AddDeferred(OpId op, LogWords arguments, LogWords results,
                   std::uint64_t now_ns);

  // A row of another event. Its text is made by `make` where `key` is new.
  struct Text {
    std::string command, details;
  };
  LogRecord* BeginEvent(LogEvent event, LogWords key, std::uint64_t now_ns,
                        const std::function<Text()>& make);
  void EndEvent(LogRecord* row, std::uint64_t now_ns);

 private:
  struct Results {
    std::vector<std::uint64_t> words;
    std::uint32_t id = 0;
  };
  struct Site {
    std::vector<std::uint64_t> words;  // kind or op, then the tensors
    std::uint32_t id = 0;
    Site* next = nullptr;          // the site that followed last
    std::vector<Results> results;  // the likely ones first
    std::unique_ptr<Site> same_hash;
  };
  static constexpr std::size_t kMaxSites = 1 << 15;

  // Before each row: goes over to the part that is written now, and to a fresh
  // chunk where it is time for one.
  void FollowPart();
  void BeginFresh();
  // Puts a row whose text has the id that `make_id` gives, into one part.
  template <class MakeId>
  LogRecord* PutRow(MakeId make_id, std::uint64_t word);
  void Forget();
  // `tag` tells ops and events apart.
  Site* Find(std::uint64_t tag, LogWords words);
  Site* Insert(std::uint64_t tag, LogWords words);
  Site* SiteOfCall(OpId op, LogWords arguments);
  std::uint32_t IdOfResults(Site* site, LogWords results);
  std::uint32_t Define(std::uint32_t parent, std::uint64_t bytes,
                       std::string_view command, std::string_view details);
  LogRecord* Put(std::uint32_t id, std::uint64_t word);
  // Room for `count` records in one chunk; null if the log has ended, or goes
  // on in another part.
  LogRecord* Reserve(std::uint32_t count);

  LogFile* const file_;
  LogChunkHeader head_;
  std::uint32_t part_ = 0;
  LogRecord* chunk_ = nullptr;
  LogRecord* next_ = nullptr;
  std::uint32_t left_ = 0;
  std::uint32_t fresh_at_ = 0;          // ordinal of the last fresh chunk
  std::vector<LogRecord*> old_chunks_;  // with rows that are open
  std::uint32_t open_rows_ = 0;
  bool ended_ = false;

  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Site>> sites_;
  std::size_t site_count_ = 0;
  std::uint32_t last_id_ = 0;
  Site* last_call_ = nullptr;
  LogRecord* open_op_ = nullptr;
  std::uint32_t open_part_ = 0;  // of open_op_
};

}  // namespace tjit
