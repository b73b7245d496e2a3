// The calls whose ops are pending, as the program made them: what becomes a
// file of tjit/sequence.h if the replay differs from eager.
//
// A trace says how a sequence was recorded. This says how it was called this
// time: the tensors and numbers of each call, and the bytes of each storage
// that no pending op makes, copied at its first use.
//
//   y = mul(x, 3); y.add_(z)   ->   storages x (bytes), y (made), z (bytes)
//                                   calls mul(x, 3) -> y, add_(y!, z)
//
// Only with TJIT_SHADOW and TJIT_REPRO_DIR, and of runs of sequences that are
// asked for (asked_sequences.h), is anything recorded.
// Threads: under the mutex of the state. Tested by:
// tests/acceptance/replay_command_test.py,
// tests/runtime/thread/self_check/asked_sequences_test.cpp
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/trace_run.h"
#include "tjit/sequence.h"

namespace tjit::runtime {

// A part of a run: ops that were pending together. Two runs: as they were
// recorded, and as they were called now.
struct SequencePiece {
  std::vector<SequenceRun> runs;
  std::uint32_t first_op = 0;  // of the sequence
  std::int64_t threads = 1;    // of libtorch

  std::size_t ops() const { return runs.back().calls.size(); }
};

// Writes it into `folder`, which it makes. Returns the end of a sentence that
// says where, or why not. A process writes `most` files that are counted by
// `written`.
std::string WriteSequenceFile(const Sequence& sequence,
                              const std::string& folder,
                              std::atomic<int>* written, int most);

class SequenceRecorder {
 public:
  // TJIT_REPRO_DIR is given.
  static bool IsOn();

  // A call that matched `node` and is about to run. Its slots are bound. Where
  // copies lack memory nothing is kept until Clear(), which Write() says.
  void Add(const CallFrame& frame, const TraceNode& node, const Run& run);
  void Clear();

  // What was added since Clear(), none of it without memory for copies. Empty,
  // and *why_not is the end of a sentence, if it is not what is pending:
  // `open_calls` more.
  std::optional<SequencePiece> PieceOf(const Run& run, std::size_t open_calls,
                                       std::string* why_not) const;
  // Writes what was added since Clear(), once. Returns the end of a sentence
  // that says where, or why not; "" if it is written already, or nothing was
  // added. `found`: what differs.
  std::string Write(const std::string& found, const Run& run);

 private:
  struct Storage {
    const void* data = nullptr;    // of the program's bytes
    const Block* block = nullptr;  // null: foreign, or a call makes it
    std::int32_t slot = kNoSlot;
    bool is_made = false;
    bool is_foreign = false;
    std::uint64_t bytes = 0;
    std::unique_ptr<char[]> content;  // not of one that is made
  };
  struct Call {
    const TraceNode* node = nullptr;
    bool has_grad_mode = false;
    std::vector<std::int64_t> storages;  // of arguments; -1: undefined
    std::vector<TensorGeometry> geometries;
    std::vector<ScalarValue> scalars;
    std::vector<std::int64_t> made;  // storages of results; -1: not new
  };
  class Recorded;

  void Record(const CallFrame& frame, const TraceNode& node, const Run& run);
  std::int64_t StorageFor(const c10::TensorImpl* impl, std::int32_t slot,
                          const Run& run);
  SequenceRun ThisRun(const Run& run) const;
  // The same calls as their trace has them.
  SequenceRun RecordedRun(const SequenceRun& now) const;

  std::vector<Storage> storages_;
  std::vector<Call> calls_;
  bool is_written_ = false;
  bool lacks_memory_ = false;
};

}  // namespace tjit::runtime
