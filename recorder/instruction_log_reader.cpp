#include "recorder/instruction_log_reader.h"

#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

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

InstructionLog::Opened InstructionLog::Open(const std::string& path,
                                            std::string* why) {
  const Opened opened = file_.Open(path, why);
  if (opened == Opened::kYes) FindChunks();
  return opened;
}

void InstructionLog::Update() {
  file_.Update();
  FindChunks();
  for (auto& [number, stream] : streams_) stream.is_dry = false;
}

void InstructionLog::FindChunks() {
  for (; chunks_found_ < file_.count(); ++chunks_found_) {
    LogChunkHeader chunk{};
    if (!file_.ReadHead(chunks_found_, &chunk)) continue;
    const bool fits =
        IsLogChunk(chunk) && streams_[chunk.stream]
                                 .chunks.emplace(chunk.ordinal, chunks_found_)
                                 .second;
    if (!fits) ++damaged_;
  }
}

std::vector<std::string> InstructionLog::Damage() const {
  std::vector<std::string> found;
  if (std::string missing = file_.Missing(); !missing.empty()) {
    found.push_back(std::move(missing));
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

const InstructionLog::Definition* InstructionLog::Find(const Stream& stream,
                                                       std::uint32_t id) {
  auto text = stream.texts.find(id);
  if (text != stream.texts.end()) return &text->second;
  text = stream.old_texts.find(id);
  return text == stream.old_texts.end() ? nullptr : &text->second;
}

void InstructionLog::ReadDefinition(Stream* stream, const LogRecord* record) {
  LogTextView view;
  if (!ParseLogText(record, &view)) {
    ++damaged_;
    return;
  }
  Definition text{std::string(view.command), std::string(view.details),
                  view.bytes};
  if (view.parent != 0) {
    const Definition* const parent = Find(*stream, view.parent);
    if (parent == nullptr) {
      ++damaged_;
    } else {
      text.command.insert(0, parent->command);
      text.details.insert(0, parent->details);
    }
  }
  stream->texts[record->id] = std::move(text);
  ++texts_read_;
}

// From the stream's slot on. False if the chunk goes on later.
bool InstructionLog::ReadChunk(Stream* stream, std::uint32_t chunk,
                               bool is_live) {
  buffer_.resize(kLogRecordsPerChunk);
  const std::size_t n =
      file_.Read(chunk, 0, buffer_.data(), kLogRecordsPerChunk);
  LogChunkHeader head{};
  std::memcpy(&head, buffer_.data(), sizeof(head));
  if (head.magic == kLogFreshChunkMagic &&
      stream->texts_from != stream->ordinal) {
    stream->texts_from = stream->ordinal;
    stream->old_texts = std::exchange(stream->texts, {});
  }
  while (stream->slot < n) {
    const LogRecord& r = buffer_[stream->slot];
    if (r.word == 0) return false;
    const std::size_t used = LogSlotsOf(r);
    if (LogKindOf(r) == kLogDefinition) {
      if (stream->slot + used > n) {
        // Cut off, or nonsense; nothing behind it can be told apart.
        if (n == kLogRecordsPerChunk) ++damaged_;
        stream->slot = static_cast<std::uint32_t>(n);
        return n == kLogRecordsPerChunk;
      }
      ReadDefinition(stream, &r);
    } else if (!IsLogRow(r)) {
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
  return n == kLogRecordsPerChunk;
}

bool InstructionLog::Fill(Stream* stream, bool is_live) {
  const std::size_t rows = stream->rows.size();
  const std::uint64_t texts = texts_read_;
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
  return stream->rows.size() != rows || texts_read_ != texts;
}

void InstructionLog::Resolve(Stream* stream, const Raw& raw, bool is_live,
                             LogRow* row) {
  const LogRecord& r = raw.record;
  row->time_ns = r.word >> 8;
  row->event = LogEventOf(r);
  row->source = SourceName(raw.source);
  row->took_ns = std::bit_cast<float>(r.extra);
  row->is_compiled = (r.word & kLogCompiled) != 0;
  row->is_open = (r.word & kLogOpen) != 0;
  row->has_thrown = (r.word & kLogThrew) != 0;
  if (row->event == LogEvent::kOp) ++ops_;
  row->number = ops_;
  const Definition* text = Find(*stream, r.id);
  // An op that ran at the call: its results are defined behind it.
  while (text == nullptr && Fill(stream, is_live)) {
    text = Find(*stream, r.id);
  }
  if (text == nullptr) {
    ++damaged_;
    row->command.assign(1, '?');
    row->details.assign(1, '?');
    row->bytes = 0;
    return;
  }
  row->command = text->command;
  row->details = text->details;
  row->bytes = text->bytes;
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
