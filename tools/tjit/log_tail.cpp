#include "tools/tjit/log_tail.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "tools/tjit/log_details.h"

namespace tjit::tools {

void LogCounts::Add(const LogCounts& other) {
  rows += other.rows;
  ops += other.ops;
  deferred += other.deferred;
  replayed += other.replayed;
  drained += other.drained;
  runs += other.runs;
  drains += other.drains;
  exits += other.exits;
  prepared += other.prepared;
  compiled += other.compiled;
  prepared_ns += other.prepared_ns;
  compiled_ns += other.compiled_ns;
  waits += other.waits;
  wait_ns += other.wait_ns;
  last_ns = std::max(last_ns, other.last_ns);
}

void SequenceCounts::Add(const SequenceCounts& other) {
  runs += other.runs;
  ops += other.ops;
  exits += other.exits;
  replay_ns += other.replay_ns;
  won.Add(other.won);
  if (what.empty()) what = other.what;
}

LogEnds FindEnds(const LogChunks& file) {
  LogEnds ends;
  LogChunkHeader head{};
  for (std::uint32_t i = 0; i < file.count(); ++i) {
    if (file.ReadHead(i, &head) && head.magic == kLogFreshChunkMagic) {
      std::uint32_t& end = ends[head.stream];
      end = std::max(end, head.ordinal);
    }
  }
  return ends;
}

void LogTail::FindChunks() {
  for (; chunks_found_ < file_->count(); ++chunks_found_) {
    LogChunkHeader head{};
    if (!file_->ReadHead(chunks_found_, &head)) continue;
    Stream* const stream = IsLogChunk(head) ? &streams_[head.stream] : nullptr;
    if (stream == nullptr || head.ordinal != stream->ordinal) {
      if (!is_earlier_) ++damaged_;
      continue;
    }
    ++stream->ordinal;
    const auto end =
        ends_ == nullptr ? LogEnds::const_iterator() : ends_->find(head.stream);
    const bool is_earlier =
        ends_ != nullptr && end != ends_->end() && head.ordinal < end->second;
    if (is_earlier != is_earlier_) continue;
    ++chunks_;
    stream->chunks.push_back(
        {chunks_found_, head.magic == kLogFreshChunkMagic});
    threads_.insert(std::bit_cast<std::uint32_t>(head.source));
  }
}

const LogTail::Text* LogTail::Find(const Stream& stream, std::uint32_t id) {
  auto text = stream.texts.find(id);
  if (text != stream.texts.end()) return &text->second;
  text = stream.old_texts.find(id);
  return text == stream.old_texts.end() ? nullptr : &text->second;
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
  text.won = WonRow(text.command, details);
  stream->texts[record->id] = std::move(text);
}

void LogTail::CountEvent(LogEvent event, const Text& text,
                         std::uint64_t time_ns, double took_ns) {
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
      sequence.won.Add(text.won, time_ns);
      break;
    case LogEvent::kOp:
    case LogEvent::kWait:
    case LogEvent::kCount:
      break;
  }
}

const LogTail::Text* LogTail::TextOf(const Stream& stream,
                                     const LogRecord& record) {
  if (LogEventOf(record) == LogEvent::kOp) return nullptr;
  const Text* const text = Find(stream, record.id);
  if (text == nullptr) ++damaged_;
  return text;
}

void LogTail::Count(const LogRecord& record, const Text* text) {
  const LogEvent event = LogEventOf(record);
  ++counts_.rows;
  counts_.last_ns = std::max(counts_.last_ns, record.word >> 8);
  if (event == LogEvent::kOp) {
    ++counts_.ops;
    counts_.deferred += (record.word & kLogCompiled) != 0 ? 1 : 0;
  } else if (text != nullptr) {
    CountEvent(event, *text, record.word >> 8,
               std::bit_cast<float>(record.extra));
  }
}

bool LogTail::ReadChunk(Stream* stream) {
  const std::uint32_t chunk = stream->chunks.front().number;
  if (std::exchange(stream->chunks.front().is_fresh, false)) {
    stream->old_texts = std::exchange(stream->texts, {});
  }
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
      Count(record, TextOf(*stream, record));
    } else if (stream->open.size() < kMaxOpen) {
      const Text* const text = TextOf(*stream, record);
      stream->open.push_back({chunk, stream->slot, std::nullopt});
      if (text != nullptr) stream->open.back().text = *text;
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
    Count(record, row.text.has_value() ? &*row.text : nullptr);
    return true;
  });
}

void LogTail::ReadStream(Stream* stream, std::size_t* most_chunks) {
  while (!stream->chunks.empty() && *most_chunks != 0) {
    const bool is_complete = ReadChunk(stream);
    // The rest of a chunk stays empty where the next record did not fit. Of
    // what is earlier nothing comes any more.
    if (!is_complete && stream->chunks.size() == 1 && !is_earlier_) return;
    stream->chunks.pop_front();
    stream->slot = 1;
    ++chunks_read_;
    --*most_chunks;
  }
}

std::uint64_t LogTail::open_rows() const {
  std::uint64_t open = open_before_;
  for (const auto& [number, stream] : streams_) open += stream.open.size();
  return open;
}

bool LogTail::Read(std::size_t most_chunks) {
  FindChunks();
  for (auto& [number, stream] : streams_) {
    ReadStream(&stream, &most_chunks);
    ReadOpen(&stream);
  }
  return most_chunks != 0;
}

}  // namespace tjit::tools
