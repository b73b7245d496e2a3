#include "runtime/report/asked_sequences.h"

#include <bit>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/report/log.h"
#include "runtime/report/sequence_name.h"
#include "support/env.h"
#include "support/mutex.h"

namespace tjit::runtime {

constinit std::atomic<Asking> g_asking{Asking::kNone};

namespace {

// Runs from one beginning that are recorded in a row although none of them
// comes to be written; then fewer and fewer are.
constexpr std::uint32_t kTries = 64;

// What was found at the root of a run, and of which nodes and answers.
struct RootAnswer {
  std::uint32_t nodes = 0;
  std::uint64_t answers = 0;
  bool is_given_up = false;
  bool may_be = false;
  std::uint32_t in_vain = 0;
  std::uint32_t refused = 0;  // runs
};

class Asked {
 public:
  static Asked& Get() {
    static auto* asked = new Asked;
    return *asked;
  }

  void Ask(const ReproList& list, const std::string& folder,
           const std::string& by) {
    const MutexLock lock(mutex_);
    list_ = list;
    place_ = {folder, by};
    written_.clear();
    found_names_.clear();
    roots_.clear();
    ++answers_;
    Publish();
  }

  bool MayBe(const TraceStore& store, const TraceNode& root) {
    const MutexLock lock(mutex_);
    RootAnswer& known = roots_[root.id];
    const std::uint32_t nodes = store.node_count();
    const bool is_given_up = IsGivenUp(root);
    // A sequence may end at nodes that were there: now and then it is looked
    // for.
    constexpr std::uint32_t kLookAgain = 64;
    const bool looks_again = !known.may_be && ++known.refused % kLookAgain == 0;
    if (looks_again || known.nodes != nodes || known.answers != answers_ ||
        known.is_given_up != is_given_up) {
      known.nodes = nodes;
      known.answers = answers_;
      known.is_given_up = is_given_up;
      known.may_be = HasWanted(&root, is_given_up);
    }
    if (!known.may_be) return false;
    return known.in_vain < kTries || std::has_single_bit(known.in_vain++);
  }

  bool Take(const TraceNode& root, const Trace& trace) {
    const MutexLock lock(mutex_);
    if (!IsWanted(trace, IsGivenUp(root))) return false;
    roots_[root.id].in_vain = 0;
    written_.insert(trace.key.hash);
    const std::string name = SequenceName(trace);
    for (const std::string& beginning : list_.names) {
      if (name.starts_with(beginning)) found_names_.insert(beginning);
    }
    ++answers_;
    Publish();
    return true;
  }

  void RecordInVain(const TraceNode& root) {
    const MutexLock lock(mutex_);
    ++roots_[root.id].in_vain;
  }

  void RecordSlowCode(const Trace& trace) {
    const MutexLock lock(mutex_);
    if (!slow_code_.insert(trace.key.hash).second) return;
    ++answers_;
    Publish();
  }

  AskedPlace Place() const {
    const MutexLock lock(mutex_);
    return place_;
  }

  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork() { mutex_.UnlockAfterFork(); }

  // "" if there is nothing to say.
  std::string NotWritten(const std::string& by) const {
    const MutexLock lock(mutex_);
    if (place_.by != by) return "";  // the program has asked since
    std::vector<std::string> missing;
    for (const std::string& name : list_.names) {
      if (!found_names_.contains(name)) missing.push_back(name);
    }
    if (!missing.empty()) {
      return absl::StrCat(
          "no file was written of ", absl::StrJoin(missing, ", "),
          ": no sequence whose name begins so was replayed to its end; the "
          "names are in the report of `tjit explain`");
    }
    if (!written_.empty() || (!list_.all && !list_.slow)) return "";
    return list_.all
               ? "no file was written, as no sequence was replayed to its end; "
                 "`tjit explain` says why"
               : "no file was written, as no trial found a sequence, or the "
                 "machine code of one, to be slower";
  }

 private:
  static bool IsGivenUp(const TraceNode& root) {
    const Trace* const owner = root.owner.load(std::memory_order_acquire);
    return owner != nullptr && owner->trial.is_off();
  }

  bool IsWanted(const Trace& trace, bool is_given_up) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (written_.contains(trace.key.hash)) return false;
    return list_.all ||
           (list_.slow &&
            (is_given_up || slow_code_.contains(trace.key.hash))) ||
           (!list_.names.empty() && list_.HasName(SequenceName(trace)));
  }

  // A path from `root` on ends a trace that is wanted.
  bool HasWanted(const TraceNode* root, bool is_given_up) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<const TraceNode*> open = {root};
    while (!open.empty()) {
      const TraceNode* const node = open.back();
      open.pop_back();
      const Trace* const ends = node->ends.load(std::memory_order_acquire);
      if (ends != nullptr && IsWanted(*ends, is_given_up)) return true;
      for (const TraceNode* child =
               node->first_child.load(std::memory_order_acquire);
           child != nullptr;
           child = child->next_sibling.load(std::memory_order_acquire)) {
        open.push_back(child);
      }
    }
    return false;
  }

  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bool has_slow_code = false;
    for (const std::uint64_t hash : slow_code_) {
      has_slow_code |= !written_.contains(hash);
    }
    const bool each =
        list_.all || !list_.names.empty() || (list_.slow && has_slow_code);
    g_asking.store(each         ? Asking::kEachRun
                   : list_.slow ? Asking::kGivenUp
                                : Asking::kNone);
  }

  mutable Mutex mutex_;
  ReproList list_ ABSL_GUARDED_BY(mutex_);
  AskedPlace place_ ABSL_GUARDED_BY(mutex_);
  // Hashes of the keys of sequences.
  absl::flat_hash_set<std::uint64_t> written_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::uint64_t> slow_code_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> found_names_ ABSL_GUARDED_BY(mutex_);
  // Raised when another answer may hold for the same nodes.
  std::uint64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
  // By the id of the node.
  absl::flat_hash_map<std::uint32_t, RootAnswer> roots_ ABSL_GUARDED_BY(mutex_);
};

std::string EnvironmentAsks() {
  return absl::StrCat("TJIT_REPRO=", Environment().repro);
}

}  // namespace

void AskForSequences(const ReproList& list, const std::string& folder,
                     const std::string& by) {
  // The program may change its folder.
  std::error_code error;
  std::filesystem::path whole =
      std::filesystem::absolute(folder, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "/a/" of "/a/."
  Asked::Get().Ask(list, error ? folder : whole.string(), by);
}

void AskAsEnvironmentSays() {
  const EnvOptions& env = Environment();
  ReproList list;
  if (env.repro.empty() || !ParseReproList(env.repro, &list)) return;
  const std::string folder = env.repro_dir.empty() ? "." : env.repro_dir;
  AskForSequences(list, folder, EnvironmentAsks());
}

bool MayBeAsked(const TraceStore& store, const TraceNode& root) {
  return Asked::Get().MayBe(store, root);
}
bool TakeAsked(const TraceNode& root, const Trace& trace) {
  return Asked::Get().Take(root, trace);
}
void RecordInVain(const TraceNode& root) { Asked::Get().RecordInVain(root); }
void RecordSlowCode(const Trace& trace) { Asked::Get().RecordSlowCode(trace); }
void LockAskedForFork() { Asked::Get().LockForFork(); }
void UnlockAskedAfterFork() { Asked::Get().UnlockAfterFork(); }
AskedPlace PlaceOfAsked() { return Asked::Get().Place(); }

void PrintNotWritten() {
  const std::string by = EnvironmentAsks();
  const std::string text = Asked::Get().NotWritten(by);
  if (!text.empty()) LogWarning(absl::StrCat(by, ": ", text));
}

}  // namespace tjit::runtime
