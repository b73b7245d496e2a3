#include "recorder/instruction_log_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tjit {
namespace {

constexpr const char* kNames[] = {
#define TJIT_LOG_EVENT(suffix, name) name,
    TJIT_LOG_EVENTS(TJIT_LOG_EVENT)
#undef TJIT_LOG_EVENT
};

std::string SourceName(LogSource source) {
  switch (source.kind) {
    case LogSource::Kind::kMain:
      return "MAIN";
    case LogSource::Kind::kThread:
      return absl::StrCat("T", source.number);
    case LogSource::Kind::kWorker:
      return "WORKER";
  }
  return "?";
}

std::uint64_t KindOf(const LogRecord& r) { return r.word >> 4 & 0xf; }

// Reads up to `bytes`; returns how many there were.
std::size_t ReadAt(int fd, void* out, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(fd, static_cast<char*>(out) + done, bytes - done,
                            static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace

const char* LogEventName(LogEvent event) {
  const auto i = static_cast<std::size_t>(event);
  return i < std::size(kNames) ? kNames[i] : "?";
}

std::string ToText(const LogRow& row, int decimals) {
  std::string text =
      absl::StrFormat("%.*fs | #%04d | %s | %s | %s", decimals,
                      1e-9 * static_cast<double>(row.time_ns), row.number,
                      LogEventName(row.event), row.source, row.command);
  if (row.event == LogEvent::kOp)
    absl::StrAppend(&text, " | ", row.bytes, " B");
  absl::StrAppend(&text, " | ", row.details);
  if (row.event != LogEvent::kOp && row.took_ns > 0) {
    absl::StrAppendFormat(&text, " time=%.1fus", 1e-3 * row.took_ns);
  }
  if (row.is_compiled) text += " (COMPILED)";
  if (row.has_thrown) text += " (THREW)";
  if (row.is_open) text += " (UNFINISHED)";
  return text;
}

InstructionLog::~InstructionLog() {
  if (fd_ >= 0) close(fd_);
}

InstructionLog::Opened InstructionLog::Open(const std::string& path,
                                            std::string* why) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat file {};
  if (fd_ < 0 || fstat(fd_, &file) != 0) {
    *why = std::strerror(errno);
    return Opened::kUnreadable;
  }
  *why = "it is no instruction log of tjit";
  if (S_ISDIR(file.st_mode)) *why = "it is a folder";
  if (!S_ISREG(file.st_mode)) return Opened::kNotALog;
  const std::size_t n = ReadAt(fd_, &header_, sizeof(header_), 0);
  if (n == 0) *why = "it is empty";
  // What is left of the magic word has to be one.
  const std::size_t shown = std::min(n, sizeof(header_.magic));
  if (n == 0 || std::memcmp(header_.magic, kLogMagic, shown) != 0) {
    return Opened::kNotALog;
  }
  if (n == sizeof(header_) && (header_.version != kLogVersion ||
                               header_.chunk_bytes != kLogChunkBytes)) {
    *why = absl::StrCat("it is of version ", header_.version,
                        ", this tjit reads version ", kLogVersion);
    return Opened::kNotALog;
  }
  Update();
  return Opened::kYes;
}

void InstructionLog::Update() {
  struct stat file {};
  if (fstat(fd_, &file) == 0) {
    file_bytes_ = static_cast<std::uint64_t>(file.st_size);
  }
  if (ReadAt(fd_, &header_, sizeof(header_), 0) < sizeof(header_)) {
    header_.chunks = 0;
  }
  FindChunks();
  for (auto& [number, stream] : streams_) stream.is_dry = false;
}

void InstructionLog::FindChunks() {
  for (; chunks_found_ < header_.chunks; ++chunks_found_) {
    const std::uint64_t offset =
        kLogPageBytes + std::uint64_t{chunks_found_} * kLogChunkBytes;
    LogChunkHeader chunk{};
    if (offset >= file_bytes_) return;
    if (ReadAt(fd_, &chunk, sizeof(chunk), offset) < sizeof(chunk)) continue;
    const bool fits =
        chunk.magic == kLogChunkMagic &&
        streams_[chunk.stream].chunks.emplace(chunk.ordinal, offset).second;
    if (!fits) ++damaged_;
  }
}

bool InstructionLog::HasEnded() const {
  if (end() != LogEnd::kRunning) return true;
  return kill(static_cast<pid_t>(header_.pid), 0) != 0 && errno == ESRCH;
}

std::vector<std::string> InstructionLog::Damage() const {
  std::vector<std::string> found;
  const std::uint64_t whole =
      kLogPageBytes + std::uint64_t{header_.chunks} * kLogChunkBytes;
  if (file_bytes_ < kLogPageBytes) {
    found.push_back(
        "the file is cut short within its first page, all rows are "
        "missing");
  } else if (file_bytes_ < whole) {
    found.push_back(absl::StrCat("the file is cut short: ", whole - file_bytes_,
                                 " of ", whole,
                                 " bytes are missing, with the rows in them"));
  }
  std::uint64_t damaged = damaged_;
  for (const auto& [number, stream] : streams_) {
    // Behind a chunk of the stream that is not there.
    damaged += static_cast<std::uint64_t>(std::distance(
        stream.chunks.upper_bound(stream.ordinal), stream.chunks.end()));
  }
  if (damaged != 0) {
    found.push_back(absl::StrCat(damaged, " records or chunks are damaged"));
  }
  return found;
}

// ------------------------------------------------------------------ streams

void InstructionLog::ReadDefinition(Stream* stream, const LogRecord* record,
                                    std::size_t bytes) {
  LogText head{};
  Definition text;
  if (bytes >= sizeof(head)) std::memcpy(&head, record + 1, sizeof(head));
  if (bytes < sizeof(head) || head.command_bytes > bytes - sizeof(head)) {
    ++damaged_;
    return;
  }
  const char* chars = reinterpret_cast<const char*>(record + 1) + sizeof(head);
  text.bytes = head.bytes;
  text.command.assign(chars, head.command_bytes);
  text.details.assign(chars + head.command_bytes,
                      bytes - sizeof(head) - head.command_bytes);
  if (head.parent != 0) {
    const auto parent = stream->texts.find(head.parent);
    if (parent == stream->texts.end()) {
      ++damaged_;
    } else {
      text.command.insert(0, parent->second.command);
      text.details.insert(0, parent->second.details);
    }
  }
  stream->texts[record->id] = std::move(text);
}

// From the stream's slot on. False if the chunk goes on later.
bool InstructionLog::ReadChunk(Stream* stream, std::uint64_t offset,
                               bool is_live) {
  constexpr std::uint32_t kSlots = kLogChunkBytes / sizeof(LogRecord);
  buffer_.resize(kSlots);
  const std::size_t n =
      ReadAt(fd_, buffer_.data(), kLogChunkBytes, offset) / sizeof(LogRecord);
  LogChunkHeader head{};
  std::memcpy(&head, buffer_.data(), sizeof(head));
  while (stream->slot < n) {
    const LogRecord& r = buffer_[stream->slot];
    if (r.word == 0) return false;
    std::size_t used = 1;
    if (KindOf(r) == kLogDefinition) {
      used += (r.extra + sizeof(LogRecord) - 1) / sizeof(LogRecord);
      if (stream->slot + used > n) {
        // Cut off, or nonsense; nothing behind it can be told apart.
        if (n == kSlots) ++damaged_;
        stream->slot = static_cast<std::uint32_t>(n);
        return n == kSlots;
      }
      ReadDefinition(stream, &r, r.extra);
    } else if (KindOf(r) < kLogFirstRow ||
               KindOf(r) >= kLogFirstRow +
                                static_cast<std::uint64_t>(LogEvent::kCount)) {
      ++damaged_;
    } else {
      if (is_live && (r.word & kLogOpen) != 0) {
        stream->waits = true;
        return false;
      }
      stream->rows.push_back({r, head.source});
    }
    stream->slot += static_cast<std::uint32_t>(used);
  }
  return n == kSlots;
}

bool InstructionLog::Fill(Stream* stream, bool is_live) {
  const std::size_t rows = stream->rows.size();
  const std::size_t texts = stream->texts.size();
  stream->waits = false;
  for (;;) {
    const auto chunk = stream->chunks.find(stream->ordinal);
    if (chunk == stream->chunks.end()) break;
    const bool complete = ReadChunk(stream, chunk->second, is_live);
    // The rest of a chunk stays empty where the next record did not fit.
    if ((complete || stream->chunks.count(stream->ordinal + 1) != 0) &&
        !stream->waits) {
      ++stream->ordinal;
      stream->slot = 1;
    } else {
      break;
    }
    if (stream->rows.size() != rows) break;
  }
  return stream->rows.size() != rows || stream->texts.size() != texts;
}

void InstructionLog::Resolve(Stream* stream, const Raw& raw, bool is_live,
                             LogRow* row) {
  const LogRecord& r = raw.record;
  row->time_ns = r.word >> 8;
  row->event = static_cast<LogEvent>(KindOf(r) - kLogFirstRow);
  row->source = SourceName(raw.source);
  row->took_ns = std::bit_cast<float>(r.extra);
  row->is_compiled = (r.word & kLogCompiled) != 0;
  row->is_open = (r.word & kLogOpen) != 0;
  row->has_thrown = (r.word & kLogThrew) != 0;
  if (row->event == LogEvent::kOp) ++ops_;
  row->number = ops_;
  auto text = stream->texts.find(r.id);
  // An op that ran at the call: its results are defined behind it.
  while (text == stream->texts.end() && Fill(stream, is_live)) {
    text = stream->texts.find(r.id);
  }
  if (text == stream->texts.end()) {
    ++damaged_;
    row->command.assign(1, '?');
    row->details.assign(1, '?');
    row->bytes = 0;
    return;
  }
  row->command = text->second.command;
  row->details = text->second.details;
  row->bytes = text->second.bytes;
}

bool InstructionLog::Next(bool is_live, LogRow* row) {
  Stream* first = nullptr;
  std::uint32_t first_number = 0;
  for (auto& [number, stream] : streams_) {
    if (stream.rows.empty() && !stream.is_dry) {
      stream.is_dry = !Fill(&stream, is_live);
    }
    if (stream.rows.empty()) continue;
    if (first == nullptr || stream.rows.front().record.word >> 8 <
                                first->rows.front().record.word >> 8) {
      first = &stream;
      first_number = number;
    }
  }
  if (first == nullptr) return false;
  const Raw raw = first->rows.front();
  first->rows.pop_front();
  row->stream = first_number;
  Resolve(first, raw, is_live, row);
  return true;
}

}  // namespace tjit
