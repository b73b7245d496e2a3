#include "runtime/thread/self_check/sequence_recorder.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/platform/thread_context.h"
#include "support/env.h"

namespace tjit::runtime {
namespace {

// Each of them is a different finding, mostly of one cause.
constexpr int kMostFindings = 20;

SequenceTensor TensorOf(std::int64_t storage, const TensorGeometry& g) {
  SequenceTensor t;
  t.storage = storage;
  if (storage < 0) return t;
  t.dtype = static_cast<at::ScalarType>(g.dtype);
  t.sizes.assign(g.sizes, g.sizes + g.ndim);
  t.strides.assign(g.strides, g.strides + g.ndim);
  t.offset = g.offset;
  t.is_number = g.wrapped_number;
  const auto has = [&g](c10::DispatchKey key) {
    return (g.key_set & c10::DispatchKeySet(key).raw_repr()) != 0;
  };
  t.is_conjugate = has(c10::DispatchKey::Conjugate);
  t.is_negative = has(c10::DispatchKey::Negative);
  return t;
}

at::Tensor ContentOf(const char* bytes, std::uint64_t n) {
  at::Tensor content = at::empty({static_cast<std::int64_t>(n)}, at::kByte);
  if (n != 0) std::memcpy(content.mutable_data_ptr(), bytes, n);
  return content;
}

// `n` bytes, those of `from` over and over.
at::Tensor ContentLike(const at::Tensor& from, std::uint64_t n) {
  if (from.defined() && static_cast<std::uint64_t>(from.numel()) == n) {
    return from;
  }
  at::Tensor content = at::zeros({static_cast<std::int64_t>(n)}, at::kByte);
  const std::uint64_t known = from.defined() ? from.numel() : 0;
  auto* to = static_cast<char*>(content.mutable_data_ptr());
  for (std::uint64_t at = 0; known != 0 && at < n; at += known) {
    std::memcpy(to + at, from.const_data_ptr(), std::min(known, n - at));
  }
  return content;
}

// The arguments with the number of each tensor in its place.
std::vector<c10::IValue> ArgumentsOf(const CapturedCall& call,
                                     std::size_t tensors,
                                     const std::vector<bool>& is_there,
                                     const ScalarValue* scalars) {
  std::vector<at::Tensor> numbers;
  for (std::size_t i = 0; i < tensors; ++i) {
    numbers.push_back(is_there[i]
                          ? at::scalar_tensor(static_cast<double>(i), at::kLong)
                          : at::Tensor());
  }
  std::vector<c10::IValue> values = FillArguments(call, numbers, scalars);
  for (c10::IValue& value : values) {
    if (value.isTensor() && !value.toTensor().defined()) value = c10::IValue();
  }
  return values;
}

const CapturedCall& CallOf(const TraceNode& node) {
  return *static_cast<const CapturedCall*>(node.payload.get());
}

// The record of a slot of the path that ends at `node`.
const SlotRecord* RecordOf(const TraceNode* node, std::int32_t slot) {
  const auto s = static_cast<std::uint32_t>(slot);
  while (node != nullptr && (s < node->slot_begin || s >= node->slot_end())) {
    node = node->parent;
  }
  return node == nullptr ? nullptr : &node->new_slots[s - node->slot_begin];
}

}  // namespace

bool SequenceRecorder::IsOn() {
  static const bool is_on = !Environment().repro_dir.empty();
  return is_on;
}

void SequenceRecorder::Clear() {
  storages_.clear();
  calls_.clear();
  is_written_ = false;
  lacks_memory_ = false;
}

// Blocks are told by their slots: the memory of a value that the program has
// dropped may be another's by now.
std::int64_t SequenceRecorder::StorageFor(const c10::TensorImpl* impl,
                                          std::int32_t slot, const Run& run) {
  c10::StorageImpl* const storage = StorageOf(impl);
  const Block* const block = BlockOf(storage);
  const auto* const data =
      static_cast<const char*>(storage->_mutable_data_ptr_no_checks().get());
  for (std::size_t i = storages_.size(); i-- > 0;) {
    const Storage& known = storages_[i];
    const auto s = static_cast<std::size_t>(known.slot);
    const bool is_it =
        known.is_made ? block != nullptr && s < run.slots.size() &&
                            run.slots[s].block == block
        : known.is_foreign
            ? known.data == data && known.bytes == storage->nbytes() &&
                  std::memcmp(known.content.get(), data, known.bytes) == 0
            : block != nullptr && known.block == block;
    if (is_it) return static_cast<std::int64_t>(i);
  }
  Storage added;
  added.data = data;
  added.block = block;
  added.slot = slot;
  added.is_foreign =
      block == nullptr || block->exposed.load(std::memory_order_relaxed);
  added.bytes = storage->nbytes();
  added.content.reset(new char[added.bytes]);
  if (added.bytes != 0) std::memcpy(added.content.get(), data, added.bytes);
  storages_.push_back(std::move(added));
  return static_cast<std::int64_t>(storages_.size()) - 1;
}

// The op itself runs without these copies.
void SequenceRecorder::Add(const CallFrame& frame, const TraceNode& node,
                           const Run& run) {
  if (lacks_memory_) return;
  try {
    Record(frame, node, run);
  } catch (const std::bad_alloc&) {
    Clear();
    lacks_memory_ = true;
  }
}

void SequenceRecorder::Record(const CallFrame& frame, const TraceNode& node,
                              const Run& run) {
  Call call;
  call.node = &node;
  call.has_grad_mode = c10::GradMode::is_enabled();
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    const c10::TensorImpl* const impl = frame.tensors[i].impl;
    call.storages.push_back(
        impl == nullptr ? -1 : StorageFor(impl, node.step.args[i].slot, run));
    call.geometries.push_back(impl == nullptr ? TensorGeometry()
                                              : GeometryOf(impl));
  }
  call.scalars.assign(frame.scalars.begin(), frame.scalars.end());
  for (const ResultRecord& r : node.step.results) {
    if (r.kind != ResultRecord::Kind::kFresh) {
      call.made.push_back(-1);
      continue;
    }
    Storage made;
    made.slot = r.slot;
    made.is_made = true;
    made.bytes =
        node.new_slots[static_cast<std::uint32_t>(r.slot) - node.slot_begin]
            .bytes;
    call.made.push_back(static_cast<std::int64_t>(storages_.size()));
    storages_.push_back(std::move(made));
  }
  calls_.push_back(std::move(call));
}

SequenceRun SequenceRecorder::ThisRun(const Run& run) const {
  SequenceRun made;
  for (const Storage& known : storages_) {
    SequenceStorage& storage = made.storages.emplace_back();
    storage.bytes = static_cast<std::int64_t>(known.bytes);
    storage.is_foreign = known.is_foreign;
    if (!known.is_made) {
      storage.content = ContentOf(known.content.get(), known.bytes);
    }
    const auto s = static_cast<std::size_t>(known.slot);
    if (s < run.slots.size()) {
      const SlotBinding& slot = run.slots[s];
      storage.is_live = (slot.block != nullptr && !slot.held) || slot.copied;
    }
  }
  for (const Call& call : calls_) {
    SequenceCall& now = made.calls.emplace_back();
    now.op = OpName(call.node->step.op);
    now.has_grad_mode = call.has_grad_mode;
    std::vector<bool> is_there;
    for (std::size_t i = 0; i < call.storages.size(); ++i) {
      now.tensors.push_back(TensorOf(call.storages[i], call.geometries[i]));
      now.tensors.back().is_written = call.node->step.args[i].written;
      is_there.push_back(call.storages[i] >= 0);
    }
    now.arguments = ArgumentsOf(CallOf(*call.node), call.storages.size(),
                                is_there, call.scalars.data());
    for (std::size_t i = 0; i < call.made.size(); ++i) {
      now.results.push_back(
          TensorOf(call.made[i], call.node->step.results[i].geometry));
    }
  }
  return made;
}

// Numbers the storages of a trace by its slots, places of one storage as one.
class SequenceRecorder::Recorded {
 public:
  explicit Recorded(const SequenceRun& now) : now_(now) {}

  // The storage of a slot that stands where this run has storage `like`.
  std::int64_t Of(const TraceNode* node, std::int32_t slot, std::int64_t like,
                  bool is_made) {
    if (slot == kNoSlot) return -1;
    const SlotRecord* record = RecordOf(node, slot);
    if (record != nullptr && record->is_place()) slot = record->place_of;
    const auto [at, is_new] = by_slot_.try_emplace(
        slot, static_cast<std::int64_t>(run.storages.size()));
    if (!is_new) return at->second;
    SequenceStorage& storage = run.storages.emplace_back();
    storage = like < 0 ? SequenceStorage()
                       : now_.storages[static_cast<std::size_t>(like)];
    if (record != nullptr) {
      storage.bytes = static_cast<std::int64_t>(record->bytes);
    }
    storage.content =
        is_made ? at::Tensor()
                : ContentLike(storage.content,
                              static_cast<std::uint64_t>(storage.bytes));
    return at->second;
  }

  SequenceRun run;

 private:
  const SequenceRun& now_;
  std::map<std::int32_t, std::int64_t> by_slot_;
};

SequenceRun SequenceRecorder::RecordedRun(const SequenceRun& now) const {
  Recorded recorded(now);
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    const Call& call = calls_[c];
    const StepRecord& step = call.node->step;
    SequenceCall then = now.calls[c];
    std::vector<bool> is_there;
    std::vector<ScalarValue> scalars;
    for (std::size_t i = 0; i < step.args.size(); ++i) {
      const ArgRecord& arg = step.args[i];
      then.tensors[i] =
          TensorOf(recorded.Of(call.node, arg.slot, call.storages[i], false),
                   arg.geometry);
      then.tensors[i].is_written = arg.written;
      is_there.push_back(arg.slot != kNoSlot);
    }
    for (const ScalarRecord& s : step.scalars) scalars.push_back(s.value);
    then.arguments = ArgumentsOf(CallOf(*call.node), step.args.size(), is_there,
                                 scalars.data());
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      const bool is_new = step.results[i].kind == ResultRecord::Kind::kFresh;
      then.results[i] = TensorOf(
          is_new ? recorded.Of(call.node, step.results[i].slot, call.made[i],
                               /*is_made=*/true)
                 : -1,
          step.results[i].geometry);
    }
    recorded.run.calls.push_back(std::move(then));
  }
  return std::move(recorded.run);
}

std::optional<SequencePiece> SequenceRecorder::PieceOf(
    const Run& run, std::size_t open_calls, std::string* why_not) const {
  if (lacks_memory_) {
    *why_not = "; not written, as there is no memory for copies of its inputs";
    return std::nullopt;
  }
  const std::size_t pending = run.pending.size();
  if (calls_.size() < pending || calls_.size() > pending + open_calls) {
    *why_not = absl::StrCat("; not written, as of the ", pending,
                            " ops that were pending ", calls_.size(),
                            " were recorded");
    return std::nullopt;
  }
  const KernelScope inside;  // its own ops are nobody's
  SequencePiece piece;
  piece.first_op = run.pending.empty() ? 0 : run.pending.front()->depth;
  piece.threads = at::get_num_threads();
  try {
    SequenceRun now = ThisRun(run);
    piece.runs = {RecordedRun(now), std::move(now)};
  } catch (const c10::Error& e) {
    *why_not = absl::StrCat("; not written: ", e.what_without_backtrace());
    return std::nullopt;
  } catch (const std::exception& e) {
    *why_not = absl::StrCat("; not written: ", e.what());
    return std::nullopt;
  }
  return piece;
}

std::string SequenceRecorder::Write(const std::string& found, const Run& run) {
  static std::atomic<int> written{0};
  if (!lacks_memory_ && (calls_.empty() || is_written_)) return "";
  is_written_ = true;
  std::string why_not;
  // The call that is open is none of the pending ones.
  std::optional<SequencePiece> piece = PieceOf(run, /*open_calls=*/1, &why_not);
  if (!piece.has_value()) return why_not;
  Sequence sequence;
  sequence.found = found;
  sequence.threads = piece->threads;
  sequence.runs = std::move(piece->runs);
  return WriteSequenceFile(sequence, Environment().repro_dir, &written,
                           kMostFindings);
}

std::string WriteSequenceFile(const Sequence& sequence,
                              const std::string& folder,
                              std::atomic<int>* written, int most) {
  static std::atomic<int> files{0};
  if (++*written > most) {
    return absl::StrCat("; not written, as this process has written ", most,
                        " files");
  }
  const std::string path =
      absl::StrCat(folder, "/sequence-", getpid(), "-", ++files, ".tjitseq");
  const KernelScope inside;
  try {
    mkdir(folder.c_str(), 0777);  // what is wrong with it the file says
    save_sequence(sequence, path);
  } catch (const c10::Error& e) {
    --*written;
    return absl::StrCat("; no file is written: ", e.what_without_backtrace());
  } catch (const std::exception& e) {
    --*written;
    return absl::StrCat("; no file is written: ", e.what());
  }
  return absl::StrCat("; `tjit replay ", path, "` runs it again");
}

}  // namespace tjit::runtime
