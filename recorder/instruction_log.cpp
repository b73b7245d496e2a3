#include "recorder/instruction_log.h"

#include <sys/mman.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/trace_text.h"

namespace tjit {
namespace {

// Tensors of one call that are written out.
constexpr std::size_t kMaxTensors = 12;
constexpr std::uint32_t kRecordsPerChunk = kLogChunkBytes / sizeof(LogRecord);

std::size_t WordsOfTensor(std::uint64_t head) {
  return 1 + (head >> 16 & 0xffff);
}

// The record becomes visible, whole.
void Publish(LogRecord* record, std::uint32_t id, std::uint32_t extra,
             std::uint64_t word) {
  const std::uint64_t front = std::uint64_t{extra} << 32 | id;
  std::memcpy(static_cast<void*>(record), &front, sizeof(front));
  std::atomic_ref<std::uint64_t>(record->word)
      .store(word, std::memory_order_release);
}

void Finish(LogRecord* record, std::uint32_t id, std::uint64_t now_ns,
            std::uint64_t flags) {
  const std::uint64_t word = record->word;
  const std::uint64_t began_ns = word >> 8;
  const auto took =
      static_cast<float>(now_ns > began_ns ? now_ns - began_ns : 0);
  Publish(record, id, std::bit_cast<std::uint32_t>(took),
          (word & ~kLogOpen) | flags);
}

void UnmapChunk(LogRecord* chunk) {
  if (chunk != nullptr) munmap(chunk, kLogChunkBytes);
}

}  // namespace

std::string LogTensorsText(LogWords tensors) {
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < tensors.size; ++count) {
    const std::uint64_t head = tensors.data[i];
    if (count < kMaxTensors) {
      if (count != 0) text += ", ";
      if (head == kLogUndefinedTensor || head == kLogOpaqueTensor) {
        text += head == kLogUndefinedTensor ? "-" : "?";
      } else {
        text += DtypeName(static_cast<std::uint8_t>(head)) + "[";
        for (std::size_t d = 1; d < WordsOfTensor(head); ++d) {
          absl::StrAppend(&text, d == 1 ? "" : ",",
                          static_cast<std::int64_t>(tensors.data[i + d]));
        }
        text += "]";
      }
    }
    i += WordsOfTensor(head);
  }
  if (count > kMaxTensors) {
    absl::StrAppend(&text, ", ... ", count - kMaxTensors, " more");
  }
  return text;
}

std::uint64_t LogTensorsBytes(LogWords tensors) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensors.size;) {
    const std::uint64_t head = tensors.data[i];
    std::uint64_t bytes = head >> 8 & 0xff;
    for (std::size_t d = 1; d < WordsOfTensor(head); ++d) {
      bytes *= tensors.data[i + d];
    }
    sum += bytes;
    i += WordsOfTensor(head);
  }
  return sum;
}

LogStream::LogStream(LogFile* file, std::uint32_t number)
    : file_(file), head_{kLogChunkMagic, number, 0, {}} {}

LogStream::~LogStream() { Unmap(); }

void LogStream::Unmap() {
  UnmapChunk(std::exchange(chunk_, nullptr));
  for (LogRecord* chunk : old_chunks_) UnmapChunk(chunk);
  old_chunks_.clear();
}

void LogStream::SetSource(LogSource source) {
  if (source.kind == head_.source.kind &&
      source.number == head_.source.number) {
    return;
  }
  head_.source = source;
  left_ = 0;  // the next chunk names it
}

LogRecord* LogStream::Reserve(std::uint32_t count) {
  if (left_ < count) {
    if (ended_) return nullptr;
    if (chunk_ != nullptr)
      old_chunks_.push_back(std::exchange(chunk_, nullptr));
    if (open_rows_ == 0) {
      for (LogRecord* chunk : old_chunks_) UnmapChunk(chunk);
      old_chunks_.clear();
    }
    left_ = 0;
    head_.magic =
        head_.ordinal == fresh_at_ ? kLogFreshChunkMagic : kLogChunkMagic;
    chunk_ = file_->NewChunk(head_, part_);
    if (chunk_ == nullptr) {
      ended_ = file_->part() == part_;
      return nullptr;
    }
    ++head_.ordinal;
    next_ = chunk_ + 1;
    left_ = kRecordsPerChunk - 1;
  }
  left_ -= count;
  return std::exchange(next_, next_ + count);
}

void LogStream::Forget() {
  sites_.clear();
  site_count_ = 0;
  last_call_ = nullptr;
}

void LogStream::FollowPart() {
  if (file_->IsFull()) [[unlikely]] {
    file_->BeginPartAfter(file_->part());
  }
  const std::uint32_t part = file_->part();
  if (part != part_) [[unlikely]] {
    part_ = part;
    head_.ordinal = 0;
    BeginFresh();
  } else if (head_.ordinal - fresh_at_ >= kLogFreshChunks &&
             open_op_ == nullptr) [[unlikely]] {
    BeginFresh();  // an op that is open would lose its results
  }
}

void LogStream::BeginFresh() {
  Forget();
  left_ = 0;
  fresh_at_ = head_.ordinal;
}

template <class MakeId>
LogRecord* LogStream::PutRow(MakeId make_id, std::uint64_t word) {
  for (;;) {
    FollowPart();
    LogRecord* const row = Put(make_id(), word);
    // Another thread has begun a part, which has no room for half a row.
    if (row != nullptr || ended_) return row;
  }
}

LogRecord* LogStream::Put(std::uint32_t id, std::uint64_t word) {
  LogRecord* record = Reserve(1);
  if (record != nullptr) Publish(record, id, 0, word);
  return record;
}

std::uint32_t LogStream::Define(std::uint32_t parent, std::uint64_t bytes,
                                std::string_view command,
                                std::string_view details) {
  const std::uint32_t id = ++last_id_;
  command = command.substr(0, kMaxLogText / 2);
  details = details.substr(0, kMaxLogText / 2);
  const LogText text{parent, static_cast<std::uint32_t>(command.size()), bytes};
  const auto size = static_cast<std::uint32_t>(sizeof(text) + command.size() +
                                               details.size());
  LogRecord* record =
      Reserve(1 + (size + sizeof(LogRecord) - 1) / sizeof(LogRecord));
  if (record == nullptr) return id;
  char* out = reinterpret_cast<char*>(record + 1);
  std::memcpy(out, &text, sizeof(text));
  std::memcpy(out + sizeof(text), command.data(), command.size());
  std::memcpy(out + sizeof(text) + command.size(), details.data(),
              details.size());
  Publish(record, id, size, LogWord(0, kLogDefinition, 0));
  return id;
}

namespace {

bool IsSite(const std::vector<std::uint64_t>& known, std::uint64_t tag,
            LogWords words) {
  return known.size() == words.size + 1 && known[0] == tag &&
         std::equal(words.data, words.data + words.size, known.data() + 1);
}

std::uint64_t HashOf(std::uint64_t tag, LogWords words) {
  return XXH3_64bits_withSeed(words.data, words.size * sizeof(std::uint64_t),
                              tag);
}

}  // namespace

LogStream::Site* LogStream::Find(std::uint64_t tag, LogWords words) {
  const auto found = sites_.find(HashOf(tag, words));
  if (found == sites_.end()) return nullptr;
  Site* site = found->second.get();
  while (site != nullptr && !IsSite(site->words, tag, words)) {
    site = site->same_hash.get();
  }
  return site;
}

LogStream::Site* LogStream::Insert(std::uint64_t tag, LogWords words) {
  if (site_count_ == kMaxSites) Forget();
  ++site_count_;
  auto site = std::make_unique<Site>();
  site->words.reserve(words.size + 1);
  site->words.push_back(tag);
  site->words.insert(site->words.end(), words.data, words.data + words.size);
  std::unique_ptr<Site>& bucket = sites_[HashOf(tag, words)];
  site->same_hash = std::move(bucket);
  bucket = std::move(site);
  return bucket.get();
}

LogStream::Site* LogStream::SiteOfCall(OpId op, LogWords arguments) {
  Site* site = last_call_ == nullptr ? nullptr : last_call_->next;
  if (site == nullptr || !IsSite(site->words, op, arguments)) {
    site = Find(op, arguments);
    if (site == nullptr) {
      site = Insert(op, arguments);
      site->id = Define(0, 0, OpName(op), LogTensorsText(arguments));
    }
    if (last_call_ != nullptr) last_call_->next = site;
  }
  last_call_ = site;
  return site;
}

std::uint32_t LogStream::IdOfResults(Site* site, LogWords results) {
  const auto is_it = [&](const Results& r) {
    return r.words.size() == results.size &&
           std::equal(r.words.begin(), r.words.end(), results.data);
  };
  const auto found =
      std::find_if(site->results.begin(), site->results.end(), is_it);
  if (found != site->results.end()) {
    if (found != site->results.begin()) std::swap(*found, site->results[0]);
    return site->results[0].id;
  }
  constexpr std::size_t kMaxResults = 16;  // of one call; ops that count
  if (site->results.size() == kMaxResults) site->results.pop_back();
  Results added;
  added.words.assign(results.data, results.data + results.size);
  added.id = Define(site->id, LogTensorsBytes(results), "",
                    results.size == 0 ? "" : " -> " + LogTensorsText(results));
  site->results.insert(site->results.begin(), std::move(added));
  return site->results[0].id;
}

void LogStream::BeginOp(OpId op, LogWords arguments, std::uint64_t now_ns) {
  open_op_ = PutRow([&] { return SiteOfCall(op, arguments)->id; },
                    LogWord(now_ns, kLogFirstRow, kLogOpen));
  open_part_ = part_;
  if (open_op_ != nullptr) ++open_rows_;
}

void LogStream::EndOp(LogWords results, std::uint64_t now_ns) {
  if (open_op_ == nullptr) return;
  std::uint32_t id = open_op_->id;
  if (last_call_ != nullptr && open_part_ == part_) {
    const std::uint32_t with_results = IdOfResults(last_call_, results);
    if (file_->part() == part_) id = with_results;  // else it may not be there
  }
  Finish(open_op_, id, now_ns, 0);
  open_op_ = nullptr;
  --open_rows_;
}

void LogStream::EndOpThrew(std::uint64_t now_ns) {
  if (open_op_ == nullptr) return;
  Finish(open_op_, open_op_->id, now_ns, kLogThrew);
  open_op_ = nullptr;
  --open_rows_;
}

void LogStream::AddDeferred(OpId op, LogWords arguments, LogWords results,
                            std::uint64_t now_ns) {
  PutRow([&] { return IdOfResults(SiteOfCall(op, arguments), results); },
         LogWord(now_ns, kLogFirstRow, kLogCompiled));
}

LogRecord* LogStream::BeginEvent(LogEvent event, LogWords key,
                                 std::uint64_t now_ns,
                                 const std::function<Text()>& make) {
  const std::uint64_t tag =
      std::uint64_t{1} << 32 | static_cast<std::uint64_t>(event);
  const auto id = [&] {
    Site* site = Find(tag, key);
    if (site == nullptr) {
      const Text text = make();
      site = Insert(tag, key);
      site->id = Define(0, 0, text.command, text.details);
    }
    return site->id;
  };
  LogRecord* row = PutRow(
      id, LogWord(now_ns, kLogFirstRow + static_cast<std::uint64_t>(event),
                  kLogOpen));
  if (row != nullptr) ++open_rows_;
  return row;
}

void LogStream::EndEvent(LogRecord* row, std::uint64_t now_ns) {
  if (row == nullptr) return;
  Finish(row, row->id, now_ns, 0);
  --open_rows_;
}

}  // namespace tjit
