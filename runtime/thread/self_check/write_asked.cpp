// Runs that are recorded to be written as files for `tjit replay`, because
// TJIT_REPRO or tjit::write_sequences() asks for their sequence: which run is
// recorded, and what becomes of it.
//
//   begins      BeginIfAsked()                    a ModeState for this run
//   each op     SequenceRecorder::Add()           copies what it reads
//   ops run     ModeState::KeepPiece()            a piece for each time
//   complete    WriteAsked()                      a file for each piece
//   left        EndAsked()                        nothing; a later run is tried
//
// The ops are deferred and run as in any other run: nothing is compared, and
// what the program computes does not depend on it. A sequence that runs
// eagerly, as that is faster, is replayed in the run that is recorded.
#include <c10/util/Exception.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/platform/settings.h"
#include "runtime/report/asked_sequences.h"
#include "runtime/report/log.h"
#include "runtime/report/sequence_name.h"
#include "runtime/thread/self_check/mode_state.h"
#include "runtime/thread/thread_state.h"
#include "support/repro_list.h"
#include "tjit/sequence.h"

namespace tjit::runtime {
namespace {

// Files of sequences that were asked for, of one process.
constexpr int kMostAsked = 100;

// Ops on the way to `end` that are deferred.
std::size_t DeferredOps(const TraceNode* end) {
  std::size_t ops = 0;
  for (; end->parent != nullptr; end = end->parent) {
    if (end->step.kind == StepKind::kDeferred) ++ops;
  }
  return ops;
}

// ", which runs eagerly, as that is faster: 2.10 us instead of ...".
std::string TrialText(const TraceTrial& trial) {
  if (!trial.is_off()) return "";
  return absl::StrFormat(
      ", which runs eagerly, as that is faster: %.2f us instead of %.2f us "
      "from run to run",
      1e-3 * static_cast<double>(trial.eager_ns()),
      1e-3 * static_cast<double>(trial.replay_ns()));
}

std::string OpsOf(const SequencePiece& piece, std::uint32_t all) {
  if (piece.ops() == all) {
    return absl::StrCat(all, all == 1 ? " op" : " ops");
  }
  return absl::StrCat(piece.ops(), " of its ", all, " ops, from op ",
                      piece.first_op, " on");
}

}  // namespace

void ModeState::KeepPiece(const Run& run) {
  std::optional<SequencePiece> piece =
      calls.PieceOf(run, /*open_calls=*/0, &why_not_written);
  if (piece.has_value()) pieces.push_back(std::move(*piece));
}

void TraceCursor::BeginIfAsked(bool is_watched) {
  const unsigned modes = g_settings.modes();
  if (is_watched || !root_->hot.load(std::memory_order_relaxed) ||
      !g_settings.may_defer() || (modes & (kModesAtCall | kModeLate)) != 0) {
    return;
  }
  const Trace* const owner = root_->owner.load(std::memory_order_acquire);
  const bool is_given_up = owner->trial.is_off();
  if (!is_given_up && !AsksAtEachRun()) return;
  // A run of a trial that is under way stays what it is.
  if (!is_given_up && owner->trial.runs_eagerly()) return;
  if (!MayBeAsked(*store_, *root_)) return;
  const StateLock lock(this);
  if (modes_ == nullptr) {
    modes_ = std::make_unique<ModeState>();
    modes_->is_for_run = true;
  }
  modes_->is_asked = true;
  modes_->asked_root = root_;
  SetRunKind(RunKind::kUsual);
  run_began_ns_ = 0;  // its time would be that of copies
}

void TraceCursor::WriteAsked() {
  static std::atomic<int> written{0};
  const std::vector<SequencePiece> pieces = std::move(modes_->pieces);
  std::size_t ops = 0;
  for (const SequencePiece& piece : pieces) ops += piece.ops();
  const Trace& trace = *cursor_->ends.load(std::memory_order_acquire);
  const bool is_whole = ops == DeferredOps(cursor_);
  const bool has_reason = !modes_->why_not_written.empty();
  if (root_ == nullptr || !(is_whole || has_reason) || !run_deferred_ ||
      !TakeAsked(*root_, trace)) {
    return;
  }
  modes_->asked_root = nullptr;
  const AskedPlace place = PlaceOfAsked();
  const std::string name =
      absl::StrCat(place.by, ": sequence ", SequenceName(trace), ", ");
  if (!is_whole) {
    LogWarning(absl::StrCat(name, trace.length, " ops",
                            std::exchange(modes_->why_not_written, {})));
    return;
  }
  const Trace* const owner = root_->owner.load(std::memory_order_acquire);
  for (const SequencePiece& piece : pieces) {
    Sequence sequence;
    const std::string text =
        absl::StrCat(name, OpsOf(piece, trace.length), TrialText(owner->trial));
    sequence.found = absl::StrCat(kAskedFor, text);
    sequence.threads = piece.threads;
    sequence.runs = piece.runs;
    LogWarning(absl::StrCat(
        text, WriteSequenceFile(sequence, place.folder, &written, kMostAsked)));
  }
}

void PendingQueue::EndAsked() {
  if (!std::exchange(modes_->is_asked, false)) return;
  const TraceNode* const root = std::exchange(modes_->asked_root, nullptr);
  if (root != nullptr) RecordInVain(*root);
  modes_->pieces.clear();
  modes_->why_not_written.clear();
  modes_->calls.Clear();
}

}  // namespace tjit::runtime

namespace tjit {

void write_sequences(const std::string& folder, const std::string& which) {
  constexpr char kWho[] = "tjit::write_sequences";
  ReproList list;
  TORCH_CHECK(which.empty() || ParseReproList(which, &list), kWho, ": \"",
              which, "\" names no sequences, accepted is ", kReproWords,
              ", and \"\" for none");
  TORCH_CHECK(!folder.empty(), kWho,
              ": the name of the folder is empty; give one for the files");
  runtime::AskForSequences(list, folder, kWho);
}

}  // namespace tjit
