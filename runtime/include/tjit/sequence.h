// Recorded sequences: a few op calls with what they read, as a file that runs
// alone. TJIT_SHADOW writes one of what it finds to differ from eager,
// TJIT_REPRO and write_sequences() those that are asked for, and `tjit replay`
// runs them: docs/replay.md.
//
//   tjit::Sequence sequence = tjit::load_sequence("sequence-7-1.tjitseq");
//   sequence.runs.back().calls[0].op      // "aten::add.Tensor"
//
// A file is a header of lines, an empty line and a payload. The header names
// the format, libtorch, what was found, and the size and the checksum of the
// payload, which is what torch::jit::pickle_save() makes of the runs.
// Threads: any; nothing is shared.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tjit/export.h"

namespace tjit {

// A tensor of a call, over a storage of its run. Offset and strides count
// elements.
struct SequenceTensor {
  std::int64_t storage = -1;  // index into SequenceRun::storages; -1: undefined
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
  bool is_number = false;  // a number that libtorch has made a tensor of
  bool is_conjugate = false, is_negative = false;
  bool is_written = false;  // by the call, of which it is an argument
};

struct SequenceCall {
  std::string op;  // "aten::add.Tensor"
  // In the order of the schema. In the place of each tensor stands one with a
  // whole number: its index in `tensors`.
  std::vector<c10::IValue> arguments;
  std::vector<SequenceTensor> tensors;
  // Tensors that it returns, in order, those of lists too. One that is no new
  // storage has none here.
  std::vector<SequenceTensor> results;
  bool has_grad_mode = false;  // gradient mode was on
};

struct SequenceStorage {
  std::int64_t bytes = 0;
  at::Tensor content;       // bytes before the run; undefined: a call makes it
  bool is_live = true;      // the program still has it when the calls have run
  bool is_foreign = false;  // memory that libtorch has not allocated, or that
                            // the program has a raw pointer into
};

struct SequenceRun {
  std::vector<SequenceCall> calls;
  std::vector<SequenceStorage> storages;
};

// `found` of a sequence begins so if nothing differed, and who asked for it
// stands behind that.
inline constexpr char kAskedFor[] = "nothing; ";

struct Sequence {
  std::string torch, tjit;   // versions that wrote it
  std::string found;         // what differed, in words
  std::int64_t threads = 1;  // of libtorch, then
  // The last one is the run that differed, or that was asked for. If there is
  // another before it, that is the run by which the sequence was recorded: the
  // same ops, but other numbers, or over other storages.
  std::vector<SequenceRun> runs;
};

// THROWS: c10::Error that names the path and what is wrong: it cannot be read,
// is no such file, is cut short or damaged, has another format or is of another
// libtorch.
TJIT_API Sequence load_sequence(const std::string& path);
// Replaces a file of that kind. THROWS: c10::Error if there is another one, or
// it cannot be written: then there is none.
TJIT_API void save_sequence(const Sequence& sequence, const std::string& path);

// Writes sequences as files into `folder`, from now on and in the whole
// process: each once, when a run of it that is replayed comes to its end. A run
// whose ops ran in several parts gives a file for each. `which` is a list with
// commas between: names of sequences as tjit::explain() has them, or their
// beginnings, "all", and "slow" for those that were measured to be slower than
// eager. "" ends it. What a call before asked for is not asked for any more,
// nor is what TJIT_REPRO says. Waits for nothing; a line on stderr names each
// file. Runs that are recorded take copies of all that they read; others cost a
// little more than without it. THROWS: c10::Error if `which` is no such list or
// `folder` is empty.
TJIT_API void write_sequences(const std::string& folder,
                              const std::string& which);

}  // namespace tjit
