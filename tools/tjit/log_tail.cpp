#include "tools/tjit/log_tail.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "tools/tjit/log_details.h"

namespace tjit::tools {

void LogTail::FindChunks() {
  for (; chunks_found_ < file_->count(); ++chunks_found_) {
    LogChunkHeader head{};
    if (!file_->ReadHead(chunks_found_, &head)) continue;
    Stream* const stream =
        head.magic == kLogChunkMagic ? &streams_[head.stream] : nullptr;
    if (stream == nullptr || head.ordinal != stream->ordinal) {
      ++damaged_;
      continue;
    }
    ++stream->ordinal;
    stream->chunks.push_back(chunks_found_);
    threads_.insert(std::bit_cast<std::uint32_t>(head.source));
  }
}

void LogTail::Define(Stream* stream, const LogRecord* record) {
  LogTextView view;
  if (!ParseLogText(record, &view)) {
    ++damaged_;
    return;
  }
  // The name of an op has its namespace before it.
  const bool is_op =
      view.parent != 0 || view.command.find("::") != std::string_view::npos;
  if (is_op || stream->texts.size() == kMaxTexts) return;
  const std::string details(view.details);
  Text text;
  text.command = view.command;
  text.sequence = ValueOf(details, "sequence");
  text.reason = ValueOf(details, "reason");
  text.ops = std::strtoull(ValueOf(details, "ops").c_str(), nullptr, 10);
  text.is_tier2 = ValueOf(details, "tier") == "2";
  if (text.command == "Promoted") text.what = OpsOf(details);
  stream->texts[record->id] = std::move(text);
}

void LogTail::CountEvent(LogEvent event, const Text& text, double took_ns) {
  constexpr std::size_t kMaxSequences = 1 << 16;
  if (event == LogEvent::kWait) {
    ++counts_.waits;
    counts_.wait_ns += took_ns;
    return;
  }
  if (sequences_.size() >= kMaxSequences) sequences_.clear();
  SequenceCounts& sequence = sequences_[text.sequence];
  switch (event) {
    case LogEvent::kReplay:
      ++counts_.runs;
      counts_.replayed += text.ops;
      ++sequence.runs;
      sequence.ops += text.ops;
      sequence.replay_ns += took_ns;
      break;
    case LogEvent::kDrain:
      ++counts_.drains;
      counts_.drained += text.ops;
      break;
    case LogEvent::kExit:
      ++counts_.exits;
      ++sequence.exits;
      ++exit_reasons_[text.reason];
      break;
    case LogEvent::kCompile:
      if (text.command != "Complete") break;
      ++(text.is_tier2 ? counts_.compiled : counts_.prepared);
      (text.is_tier2 ? counts_.compiled_ns : counts_.prepared_ns) += took_ns;
      break;
    case LogEvent::kDetect:
      if (!text.what.empty()) sequence.what = text.what;
      break;
    case LogEvent::kOp:
    case LogEvent::kWait:
    case LogEvent::kCount:
      break;
  }
}

// A row that has finished.
void LogTail::Count(Stream* stream, const LogRecord& record) {
  const LogEvent event = LogEventOf(record);
  ++counts_.rows;
  counts_.last_ns = std::max(counts_.last_ns, record.word >> 8);
  if (event == LogEvent::kOp) {
    ++counts_.ops;
    counts_.deferred += (record.word & kLogCompiled) != 0 ? 1 : 0;
    return;
  }
  const auto text = stream->texts.find(record.id);
  if (text == stream->texts.end()) {
    ++damaged_;
    return;
  }
  CountEvent(event, text->second, std::bit_cast<float>(record.extra));
}

bool LogTail::ReadChunk(Stream* stream) {
  const std::uint32_t chunk = stream->chunks.front();
  const std::uint32_t begin = stream->slot;
  buffer_.resize(kLogRecordsPerChunk);
  const std::size_t n =
      file_->Read(chunk, begin, buffer_.data(), kLogRecordsPerChunk);
  const bool is_last = begin + n == kLogRecordsPerChunk;
  for (std::size_t i = 0; i < n;) {
    const LogRecord& record = buffer_[i];
    if (record.word == 0) return false;
    const std::size_t used = LogSlotsOf(record);
    if (i + used > n) {
      if (is_last) ++damaged_;
      return is_last;
    }
    if (LogKindOf(record) == kLogDefinition) {
      Define(stream, &record);
    } else if (!IsLogRow(record)) {
      ++damaged_;
    } else if ((record.word & kLogOpen) == 0) {
      Count(stream, record);
    } else if (stream->open.size() < kMaxOpen) {
      stream->open.push_back({chunk, stream->slot});
    } else {
      ++damaged_;
    }
    i += used;
    stream->slot += static_cast<std::uint32_t>(used);
  }
  return is_last;
}

void LogTail::ReadOpen(Stream* stream) {
  std::erase_if(stream->open, [&](const OpenRow& row) {
    LogRecord record{};
    if (file_->Read(row.chunk, row.slot, &record, 1) != 1) return false;
    if ((record.word & kLogOpen) != 0 || !IsLogRow(record)) return false;
    Count(stream, record);
    return true;
  });
}

void LogTail::ReadStream(Stream* stream) {
  while (!stream->chunks.empty()) {
    const bool is_complete = ReadChunk(stream);
    // The rest of a chunk stays empty where the next record did not fit.
    if (!is_complete && stream->chunks.size() == 1) return;
    stream->chunks.pop_front();
    stream->slot = 1;
  }
}

std::uint64_t LogTail::open_rows() const {
  std::uint64_t open = open_before_;
  for (const auto& [number, stream] : streams_) open += stream.open.size();
  return open;
}

void LogTail::Read() {
  FindChunks();
  for (auto& [number, stream] : streams_) {
    ReadStream(&stream);
    ReadOpen(&stream);
  }
}

}  // namespace tjit::tools
