// What one object of tjit::jit() knows, and how each of its calls goes.
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "recorder/schema_key.h"
#include "runtime/call/interpose.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/memory/block.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/stance.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/jit_functions.h"
#include "runtime/thread/match.h"
#include "runtime/thread/materialize.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/thread_state.h"
#include "support/mutex.h"
#include "tjit/jit.h"

namespace tjit::internal {

using runtime::FunctionArgument;
using runtime::FunctionKey;
using runtime::FunctionNumber;
using runtime::FunctionPlan;
using runtime::FunctionRecord;
using runtime::FunctionResult;
using runtime::FunctionSession;
using runtime::Refusal;
using runtime::ThreadState;

namespace {

// Calls of one form that came to nothing before they are left alone.
constexpr int kMostFailures = 5;
// Ways in which one function is replayed at a time, and in all.
constexpr std::size_t kMostPlans = 64;
constexpr std::size_t kMostPlansEver = 1024;
// Calls that tried to make a plan serve more.
constexpr std::uint32_t kMostWidenings = 2;
// Replays in a row that could not bind their storages.
constexpr std::uint32_t kMostMisses = 2;
// Replays that turned out wrong.
constexpr int kMostMismatches = 4;

}  // namespace

struct JitCore {
  explicit JitCore(JitOptions o);
  ~JitCore();
  JitCore(const JitCore&) = delete;
  JitCore& operator=(const JitCore&) = delete;
  ExplainedJit Explain() const;

  JitOptions options;
  std::atomic<const FunctionPlan*> last{nullptr};
  std::atomic<std::int64_t> calls{0}, replays{0}, recordings{0}, verified{0},
      not_same{0};

  Mutex mutex;
  // What is dropped stays until the object dies: another thread may use it.
  std::vector<std::unique_ptr<const FunctionPlan>> plans ABSL_GUARDED_BY(mutex);
  std::deque<std::shared_ptr<const FunctionRecord>> records
      ABSL_GUARDED_BY(mutex);
  // By FormOf() a call.
  absl::flat_hash_map<std::uint64_t, int> failures ABSL_GUARDED_BY(mutex);
  int mismatches ABSL_GUARDED_BY(mutex) = 0;
  std::string why ABSL_GUARDED_BY(mutex);
};

namespace {

// Never destroyed: objects of the program may die later.
class JitFunctions {
 public:
  static JitFunctions& Get() {
    static auto& functions = *new JitFunctions;
    return functions;
  }
  void Add(const JitCore* core) {
    const MutexLock lock(mutex_);
    alive_.push_back(core);
  }
  void Remove(const JitCore* core) {
    ExplainedJit last = core->Explain();
    const MutexLock lock(mutex_);
    std::erase(alive_, core);
    if (last.calls != 0 && gone_.size() < kMost) {
      gone_.push_back(std::move(last));
    }
  }
  std::vector<ExplainedJit> All() {
    const MutexLock lock(mutex_);
    std::vector<ExplainedJit> all = gone_;
    for (const JitCore* core : alive_) {
      ExplainedJit one = core->Explain();
      if (one.calls != 0) all.push_back(std::move(one));
      if (all.size() >= gone_.size() + kMost) break;
    }
    return all;
  }

 private:
  static constexpr std::size_t kMost = 64;
  Mutex mutex_;
  std::vector<const JitCore*> alive_ ABSL_GUARDED_BY(mutex_);
  std::vector<ExplainedJit> gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

JitCore::JitCore(JitOptions o) : options(std::move(o)) {
  if (options.name.empty()) options.name = "function";
  JitFunctions::Get().Add(this);
}

JitCore::~JitCore() { JitFunctions::Get().Remove(this); }

ExplainedJit JitCore::Explain() const {
  const JitStats stats = StatsOfJitCore(*this);
  return {options.name, stats.calls, stats.replays, stats.plans, stats.why};
}

// A call that runs the function, and what is seen meanwhile.
struct JitSession {
  ThreadState* state = nullptr;
  FunctionSession seen;
  const FunctionPlan* plan = nullptr;  // that is compared with the call
  std::uint64_t form = 0;              // FormOf() the call
  bool is_probe = false;               // numbers are others than the record's
  bool is_verified = false;  // not to make it serve more, but to be sure
};

namespace {

// How a call stands to what is known.
enum class Likeness : std::uint8_t {
  kSame,
  kOtherStorages,  // the same but for storages that each call so far had
  kOtherNumbers,   // or for numbers that each call so far had
  kOther,
};
bool IsWider(Likeness likeness) {
  return likeness == Likeness::kOtherStorages ||
         likeness == Likeness::kOtherNumbers;
}

bool RequiresGrad(const c10::TensorImpl* impl) {
  if (Planted(Defect::kSkippedGradGuard)) return false;
  return impl->autograd_meta() != nullptr && impl->requires_grad();
}

// True if an argument before number `i` is over `storage`. Of many arguments
// nobody looks: binding them finds it.
bool IsShared(const at::Tensor* const* all, std::size_t i,
              const c10::StorageImpl* storage) {
  constexpr std::size_t kMany = 16;
  if (i >= kMany) return false;
  for (std::size_t j = 0; j < i; ++j) {
    if (all[j]->defined() &&
        runtime::StorageOf(all[j]->unsafeGetTensorImpl()) == storage) {
      return true;
    }
  }
  return false;
}

Likeness CompareArgument(const FunctionKey& key, const at::Tensor* const* all,
                         std::size_t i) {
  const FunctionArgument& known = key.arguments[i];
  const at::Tensor& now = *all[i];
  if (!now.defined()) {
    return known.defined ? Likeness::kOther : Likeness::kSame;
  }
  const c10::TensorImpl* const impl = now.unsafeGetTensorImpl();
  if (!known.defined || !runtime::SameGeometry(impl, known.geometry) ||
      RequiresGrad(impl) != known.requires_grad) {
    return Likeness::kOther;
  }
  const c10::StorageImpl* const storage = runtime::StorageOf(impl);
  const std::int64_t shift = runtime::ShiftOf(impl, known.geometry);
  if (known.shares >= 0) {
    // One slot stands for both, with one shift.
    const c10::TensorImpl* const other =
        all[known.shares]->unsafeGetTensorImpl();
    const auto first = static_cast<std::size_t>(known.shares);
    if (runtime::StorageOf(other) != storage ||
        runtime::ShiftOf(other, key.arguments[first].geometry) != shift) {
      return Likeness::kOther;
    }
  } else if (IsShared(all, i, storage)) {
    return Likeness::kOther;
  }
  if (static_cast<std::int64_t>(storage->nbytes()) <
      known.least_bytes + shift) {
    return Likeness::kOther;
  }
  const bool is_wider =
      (known.is_pinned && known.storage._unsafe_get_target() != storage) ||
      (!known.moves && shift != 0);
  return is_wider ? Likeness::kOtherStorages : Likeness::kSame;
}

bool SameBits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

template <class Tensors, class Numbers, class Words>
Likeness Compare(const FunctionKey& known, std::uint32_t context,
                 std::uint64_t global, const Tensors& tensors,
                 const Numbers& numbers, const Words& words) {
  if (known.context != context || known.global != global ||
      known.arguments.size() != tensors.size() ||
      known.numbers.size() != numbers.size() ||
      !std::equal(known.words.begin(), known.words.end(), words.begin(),
                  words.end())) {
    return Likeness::kOther;
  }
  Likeness likeness = Likeness::kSame;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Likeness one = CompareArgument(known, tensors.data(), i);
    if (one == Likeness::kOther) return one;
    likeness = std::max(likeness, one);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!known.numbers[i].is_free &&
        !SameBits(known.numbers[i].value, numbers[i])) {
      likeness = Likeness::kOtherNumbers;
    }
  }
  return likeness;
}

// True if each number takes the formula that was recorded.
template <class Numbers>
bool NumbersFit(const FunctionPlan& plan, const Numbers& numbers) {
  for (const runtime::NumberUse& use : plan.uses) {
    if (use.is_constant || use.policy == ScalarPolicy::kFree) continue;
    ScalarValue value;
    value.type = static_cast<std::uint64_t>(c10::ScalarType::Double);
    value.bits[0] = std::bit_cast<std::uint64_t>(numbers[use.number]);
    if (ValueClass(use.policy, value) != use.value_class) return false;
  }
  return true;
}

// What the function found by itself is as it was when it was recorded.
bool HoldsCaptured(const FunctionPlan& plan) {
  for (const runtime::CapturedStorage& captured : plan.captured) {
    if (captured.storage.use_count() == 0) return false;
    if (!captured.tensor) continue;
    if (captured.tensor->use_count() == 0) return false;
    const c10::TensorImpl* const impl = captured.tensor->_unsafe_get_target();
    if (runtime::StorageOf(impl) != captured.storage._unsafe_get_target() ||
        !runtime::SameGeometry(impl, captured.geometry) ||
        impl->storage_offset() != captured.geometry.offset ||
        RequiresGrad(impl) != captured.requires_grad) {
      return false;
    }
  }
  return true;
}

// This thread's state, where a function may be replayed or recorded now.
ThreadState* UsableState() {
  if (!runtime::g_settings.may_defer() || runtime::g_settings.modes() != 0) {
    return nullptr;
  }
  ThreadState* const state = runtime::ActiveState();
  if (state == nullptr || state == runtime::LogOnlyState() ||
      state->is_paused() || state->open_function() != nullptr ||
      runtime::t_context.held != nullptr || runtime::IsWatched() ||
      runtime::InstructionLogOn() || runtime::InParallelRegion() ||
      runtime::FillsAllocations() ||
      !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU)) {
    return nullptr;
  }
  return state;
}

// Where tjit is on for jit() alone, this thread takes part until the call is
// over. True if it did not before.
bool TurnOnThread() {
  if (!runtime::g_enabled.load(std::memory_order_relaxed) ||
      runtime::g_process_enabled.load(std::memory_order_relaxed) ||
      runtime::t_context.scoped_on != 0) {
    return false;
  }
  ++runtime::t_context.scoped_on;
  return true;
}

bool IsDueForLook(std::uint64_t replays, std::int64_t every) {
  if (every <= 0) return false;
  const auto period = static_cast<std::uint64_t>(every);
  return replays < period ? std::has_single_bit(replays)
                          : replays % period == 0;
}

// The view of `base` that a result is. Where autograd does not know it as one
// (inference tensors, gradients) it is a tensor over the same storage.
at::Tensor OverView(const at::Tensor& base, const FunctionResult& result,
                    std::int64_t shift) {
  const TensorGeometry& g = result.geometry;
  const c10::IntArrayRef sizes(g.sizes, g.ndim), strides(g.strides, g.ndim);
  if (result.is_tracked) {
    const at::AutoGradMode mode(c10::GradMode::is_enabled() &&
                                !base.requires_grad());
    return base.as_strided(sizes, strides, g.offset + shift);
  }
  c10::TensorImpl* const from = base.unsafeGetTensorImpl();
  auto impl = from->shallow_copy_and_detach(
      base.is_inference() ? c10::VariableVersion(c10::VariableVersion::DISABLED)
                          : from->version_counter(),
      /*allow_tensor_metadata_change=*/true);
  impl->set_sizes_and_strides(sizes, strides, g.offset + shift);
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(
          impl.release()));
}

}  // namespace

namespace {

// Equal for calls that differ in numbers and storages only. Never 0.
template <class Tensors, class Words>
std::uint64_t FormOf(std::uint32_t context, const Tensors& tensors,
                     const Words& words) {
  std::uint64_t hash = absl::HashOf(context, tensors.size());
  for (const std::uint64_t word : words) hash = absl::HashOf(hash, word);
  for (const at::Tensor* t : tensors) {
    if (!t->defined() || !runtime::IsPlain(t->unsafeGetTensorImpl())) continue;
    hash = absl::HashOf(hash, t->scalar_type(), t->requires_grad());
    for (const std::int64_t size : t->sizes()) hash = absl::HashOf(hash, size);
  }
  return hash | 1;
}

// Raises the version counters of what was written. Two arguments may have one
// counter: so each is raised to a number, not by one.
class Bumps {
 public:
  Bumps(const FunctionPlan& plan, const at::Tensor* const* arguments) {
    for (std::size_t a = 0; a < plan.bumps.size(); ++a) {
      if (plan.bumps[a] == 0) continue;
      Add(arguments[a]->unsafeGetTensorImpl()->version_counter(),
          plan.bumps[a]);
    }
    for (const runtime::CapturedStorage& captured : plan.captured) {
      if (captured.bumps != 0) Add(captured.version, captured.bumps);
    }
  }
  void Apply() {
    for (auto& [version, target] : targets_) {
      while (version.current_version() < target) version.bump();
    }
  }

 private:
  void Add(const c10::VariableVersion& version, std::uint32_t bumps) {
    targets_.emplace_back(version, version.current_version() + bumps);
  }
  // Copies of a version share its counter.
  c10::SmallVector<std::pair<c10::VariableVersion, std::uint32_t>, 4> targets_;
};

}  // namespace

std::shared_ptr<JitCore> MakeJitCore(JitOptions options) {
  TORCH_CHECK(options.verify_every >= 0, "tjit::jit: verify_every is ",
              options.verify_every, "; accepted are 0 (never) and above");
  TurnOnForJit();
  return std::make_shared<JitCore>(std::move(options));
}

void ResetJitCore(JitCore* core) {
  const MutexLock lock(core->mutex);
  for (const auto& plan : core->plans) {
    plan->is_dropped.store(true, std::memory_order_relaxed);
  }
  core->last.store(nullptr);
  core->records.clear();
  core->failures.clear();
  core->mismatches = 0;
  core->why.clear();
}

JitStats StatsOfJitCore(const JitCore& core) {
  JitStats stats;
  stats.calls = core.calls.load(std::memory_order_relaxed);
  stats.replays = core.replays.load(std::memory_order_relaxed);
  stats.recordings = core.recordings.load(std::memory_order_relaxed);
  stats.verified = core.verified.load(std::memory_order_relaxed);
  stats.not_same = core.not_same.load(std::memory_order_relaxed);
  auto& mutable_core = const_cast<JitCore&>(core);
  const MutexLock lock(mutable_core.mutex);
  for (const auto& plan : mutable_core.plans) {
    stats.plans += !plan->is_dropped.load(std::memory_order_relaxed);
  }
  stats.why = mutable_core.why;
  return stats;
}

// What stands for the call.
struct JitCall::Found {
  const FunctionPlan* plan = nullptr;
  bool is_wider = false;  // the plan may come to serve the call, too
  std::shared_ptr<const FunctionRecord> record;
  bool is_probe = false;  // numbers are others than the record's
  std::uint64_t form = 0;
  bool is_left_alone = false;
};

JitCall::Found JitCall::Find(const ThreadState& state,
                             std::uint32_t context) const {
  const std::uint64_t global = runtime::GlobalContext::Now().word;
  const auto compare = [&](const FunctionKey& key) {
    return Compare(key, context, global, tensors_, numbers_, words_);
  };
  const auto compare_plan = [&](const FunctionPlan& known) {
    const Likeness one = compare(known.key);
    return one == Likeness::kSame && !NumbersFit(known, numbers_)
               ? Likeness::kOtherNumbers
               : one;
  };
  Found found;
  found.plan = core_->last.load(std::memory_order_acquire);
  if (found.plan != nullptr &&
      !found.plan->is_dropped.load(std::memory_order_relaxed) &&
      compare_plan(*found.plan) == Likeness::kSame &&
      HoldsLeaves(*found.plan)) {
    return found;
  }
  found.plan = nullptr;
  const FunctionPlan* wider = nullptr;
  std::size_t alive = 0;
  const MutexLock lock(core_->mutex);
  for (const auto& known : core_->plans) {
    if (known->is_dropped.load(std::memory_order_relaxed)) continue;
    if (known->record->store.expired()) {  // what was recorded is forgotten
      known->is_dropped.store(true, std::memory_order_relaxed);
      continue;
    }
    ++alive;
    const Likeness one = compare_plan(*known);
    if (one == Likeness::kOther || !HoldsLeaves(*known)) continue;
    if (one == Likeness::kSame) found.plan = known.get();
    if (IsWider(one) &&
        known->failures.load(std::memory_order_relaxed) < kMostWidenings) {
      wider = known.get();
    }
  }
  if (found.plan != nullptr) return found;
  found.form = FormOf(context, tensors_, words_);
  const auto failures = core_->failures.find(found.form);
  found.is_left_alone =
      core_->mismatches >= kMostMismatches || alive >= kMostPlans ||
      core_->plans.size() >= kMostPlansEver ||
      (failures != core_->failures.end() && failures->second >= kMostFailures);
  if (alive >= kMostPlans || core_->plans.size() >= kMostPlansEver) {
    core_->why = runtime::DescribeRefusal(Refusal::kTooMany, kNoOp);
  }
  found.plan = wider;
  found.is_wider = wider != nullptr;
  if (wider != nullptr || found.is_left_alone) return found;
  // One that was followed in vain stands for something that is not seen in the
  // arguments, as another number does.
  constexpr std::uint32_t kMostFollowed = 3;
  for (const auto& known : core_->records) {
    const Likeness one = compare(known->key);
    const std::uint32_t failed =
        known->failures.load(std::memory_order_relaxed);
    const bool is_it = one <= Likeness::kOtherStorages
                           ? failed < kMostFollowed
                           : one == Likeness::kOtherNumbers && failed == 0 &&
                                 found.record == nullptr;
    if (!is_it || !state.HasStore(known->store)) continue;
    found.record = known;
    found.is_probe = one == Likeness::kOtherNumbers;
  }
  return found;
}

bool JitCall::Replay(ThreadState* state, const FunctionPlan& plan) {
  c10::SmallVector<at::Tensor, 4> fresh(plan.fresh.size());
  if (!state->ReplayFunction(plan, {tensors_.data(), numbers_.data()},
                             fresh.data())) {
    return false;
  }
  if (core_->last.load(std::memory_order_relaxed) != &plan) {
    core_->last.store(&plan, std::memory_order_release);
  }
  core_->replays.fetch_add(1, std::memory_order_relaxed);
  state->counters().jit_replays.Add();
  if (plan.misses.load(std::memory_order_relaxed) != 0) plan.misses.store(0);
  if (plan.writes) Bumps(plan, tensors_.data()).Apply();
  MakeResults(plan, fresh);
  SetGradients(plan);
  returned_ = plan.returned.get();
  return true;
}

bool JitCall::Begin() {
  core_->calls.fetch_add(1, std::memory_order_relaxed);
  is_scoped_ = TurnOnThread();
  ThreadState* const state = UsableState();
  if (state == nullptr) return false;
  const std::uint32_t context = runtime::CurrentContext();
  if (context == 0) return false;
  Found found = Find(*state, context);
  if (found.plan != nullptr && !HoldsCaptured(*found.plan)) {
    found.plan->is_dropped.store(true, std::memory_order_relaxed);
    found.plan = nullptr;
    found.is_wider = false;
  }
  bool is_verified = false;
  if (found.plan != nullptr && !found.is_wider) {
    const std::uint64_t replays =
        found.plan->replays.fetch_add(1, std::memory_order_relaxed) + 1;
    is_verified = core_->options.follow ||
                  IsDueForLook(replays, core_->options.verify_every);
    if (!is_verified && Replay(state, *found.plan)) return true;
    if (!is_verified) {
      // The storages lie otherwise, or another thread uses them now.
      if (found.plan->misses.fetch_add(1, std::memory_order_relaxed) >=
          kMostMisses) {
        found.plan->is_dropped.store(true, std::memory_order_relaxed);
      }
      return false;
    }
  }
  if (found.is_left_alone) return false;
  if (found.plan == nullptr && !runtime::g_settings.may_compile()) {
    runtime::RefuseFunction(&state->counters(), core_->options.name,
                            found.form);
    return false;
  }
  Observe(state, std::move(found), context, is_verified);
  return false;
}

// Results of a replay: `fresh` are the tensors that it made.
void JitCall::MakeResults(const runtime::FunctionPlan& plan,
                          c10::ArrayRef<at::Tensor> fresh) {
  for (const FunctionResult& result : plan.results) {
    if (result.same_as >= 0) {
      const at::Tensor same =
          results_[static_cast<std::size_t>(result.same_as)];
      results_.push_back(same);
      continue;
    }
    at::Tensor base;
    std::int64_t shift = 0;
    switch (result.kind) {
      case FunctionResult::Kind::kUndefined:
        break;
      case FunctionResult::Kind::kArgument:
        base = *tensors_[result.index];
        shift = base.storage_offset() -
                plan.key.arguments[result.index].geometry.offset;
        break;
      case FunctionResult::Kind::kCaptured: {
        auto tensor = plan.captured[result.index].tensor->lock();
        base = at::Tensor(
            c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::
                reclaim(tensor.release()));
        break;
      }
      case FunctionResult::Kind::kSlot:
        base = fresh[result.index];
        break;
    }
    results_.push_back(result.is_view ? OverView(base, result, shift)
                                      : std::move(base));
  }
}

void JitCall::SetGradients(const runtime::FunctionPlan& plan) {
  using After = runtime::FunctionLeaf::After;
  for (const runtime::FunctionLeaf& leaf : plan.leaves) {
    if (leaf.after == After::kSame) continue;
    at::Tensor& gradient = leaf.tensor._unsafe_get_target()->mutable_grad();
    if (leaf.after == After::kNone) {
      gradient.reset();
    } else {
      gradient = results_[leaf.result];
    }
  }
}

// The function runs and is looked at.
void JitCall::Observe(ThreadState* state, Found found, std::uint32_t context,
                      bool is_verified) {
  if (found.form == 0) found.form = FormOf(context, tensors_, words_);
  auto session = std::make_unique<JitSession>();
  FunctionSession& seen = session->seen;
  seen.key.context = context;
  seen.key.global = runtime::GlobalContext::Now().word;
  seen.key.words.assign(words_.begin(), words_.end());
  for (const double number : numbers_) seen.key.numbers.push_back({number});
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& t = *tensors_[i];
    FunctionArgument argument;
    argument.defined = t.defined();
    if (t.defined()) {
      const c10::TensorImpl* const impl = t.unsafeGetTensorImpl();
      if (!runtime::IsPlain(impl)) {
        return RecordRefusal(found.form, Refusal::kNotPlain, kNoOp);
      }
      argument.geometry = runtime::GeometryOf(impl);
      argument.requires_grad = RequiresGrad(impl);
      argument.storage = impl->storage().getWeakStorageImpl();
      for (std::size_t j = 0; j < i && argument.shares < 0; ++j) {
        if (tensors_[j]->defined() &&
            runtime::StorageOf(tensors_[j]->unsafeGetTensorImpl()) ==
                runtime::StorageOf(impl)) {
          argument.shares = static_cast<std::int32_t>(j);
        }
      }
    }
    seen.key.arguments.push_back(std::move(argument));
    seen.arguments.push_back(t);
  }
  session->state = state;
  session->form = found.form;
  session->is_verified = is_verified;
  session->is_probe = found.is_probe;
  if (found.plan != nullptr && state->HasStore(found.plan->record->store)) {
    session->plan = seen.before = found.plan;
    seen.follows = found.plan->record;
  } else if (found.plan == nullptr) {
    seen.follows = std::move(found.record);
  }
  if (!state->SeesOps()) state->ForgetTrial();
  if (seen.follows == nullptr) {
    core_->recordings.fetch_add(1);
    state->counters().jit_recordings.Add();
  }
  state->OpenFunction(&seen);
  session_ = session.release();
}

namespace {

// What pending ops throw at the end is met where their results are read.
template <class Action>
void RunOrWarn(const Action& action) {
  try {
    action();
  } catch (const std::exception& e) {
    runtime::LogWarning(absl::StrCat(
        "the end of a function of tjit::jit() leaves ops pending: ", e.what()));
  }
}

// The function that a session looks at ends with it.
class ClosesFunction {
 public:
  explicit ClosesFunction(ThreadState* state) : state_(state) {}
  ~ClosesFunction() {
    RunOrWarn([this] { Close(); });
  }
  ClosesFunction(const ClosesFunction&) = delete;
  ClosesFunction& operator=(const ClosesFunction&) = delete;
  void Close() {
    if (ThreadState* const state = std::exchange(state_, nullptr)) {
      state->CloseFunction();
    }
  }

 private:
  ThreadState* state_;
};

// True if `plan` serves calls that `before` does not.
bool IsWider(const FunctionPlan& plan, const FunctionPlan& before) {
  for (std::size_t a = 0; a < plan.key.arguments.size(); ++a) {
    const FunctionArgument& now = plan.key.arguments[a];
    const FunctionArgument& then = before.key.arguments[a];
    if (now.is_pinned != then.is_pinned || now.moves != then.moves) return true;
  }
  for (std::size_t n = 0; n < plan.key.numbers.size(); ++n) {
    if (plan.key.numbers[n].is_free != before.key.numbers[n].is_free) {
      return true;
    }
  }
  return false;
}

// Reasons that say nothing of the function.
bool IsPassing(Refusal why) {
  return why == Refusal::kInterrupted || why == Refusal::kNoRoom;
}

}  // namespace

// Who holds a result beside the caller and this call, each once for each time
// that it is a result.
std::vector<bool> JitCall::KeptResults(
    const std::vector<at::Tensor>& leaves) const {
  std::vector<bool> kept;
  for (const at::Tensor& t : results_) {
    std::size_t times = 0;
    std::vector<const c10::TensorImpl*> views;  // they hold what they are of
    for (const at::Tensor& other : results_) {
      times += other.is_same(t);
      const c10::TensorImpl* const view = other.unsafeGetTensorImpl();
      if (other.defined() && other.is_view() && other._base().is_same(t) &&
          std::find(views.begin(), views.end(), view) == views.end()) {
        views.push_back(view);
      }
    }
    std::size_t gradients = 0;
    for (const at::Tensor& leaf : leaves) gradients += leaf.grad().is_same(t);
    kept.push_back(t.defined() &&
                   t.use_count() > 2 * times + views.size() + gradients);
  }
  return kept;
}

void JitCall::End(std::shared_ptr<const void> returned) {
  if (session_ == nullptr) return;
  const std::unique_ptr<JitSession> session(std::exchange(session_, nullptr));
  ClosesFunction closes(session->state);
  FunctionSession& seen = session->seen;
  // Those that were made inside are gone.
  std::erase_if(seen.leaves,
                [](const at::Tensor& leaf) { return leaf.use_count() == 1; });
  std::unique_ptr<FunctionRecord> record;
  std::unique_ptr<FunctionPlan> plan;
  if (seen.follows == nullptr) {
    record = session->state->EndRecording();
    if (record != nullptr) {
      record->result_words.assign(result_words_.begin(), result_words_.end());
    }
  } else {
    if (!std::equal(result_words_.begin(), result_words_.end(),
                    seen.follows->result_words.begin(),
                    seen.follows->result_words.end())) {
      seen.Fail(Refusal::kNumber);
    }
    seen.is_kept = KeptResults(seen.leaves);
    plan = session->state->EndFollowing(
        std::vector<at::Tensor>(results_.begin(), results_.end()));
    if (plan != nullptr) plan->returned = std::move(returned);
  }
  closes.Close();
  if (seen.has_failed()) {
    EndInVain(*session);
  } else if (record != nullptr) {
    const MutexLock lock(core_->mutex);
    core_->why.clear();
    core_->records.push_back(std::move(record));
    constexpr std::size_t kMostRecords = 8;
    if (core_->records.size() > kMostRecords) core_->records.pop_front();
  } else {
    Publish(*session, std::move(plan));
  }
}

void JitCall::Publish(const JitSession& session,
                      std::unique_ptr<FunctionPlan> plan) {
  const FunctionPlan* const before = session.plan;
  const MutexLock lock(core_->mutex);
  core_->why.clear();
  core_->failures.erase(session.form);
  if (before != nullptr && session.is_verified) {
    core_->verified.fetch_add(1);
    session.state->counters().jit_verified.Add();
    return;
  }
  std::erase(core_->records, session.seen.follows);
  if (before != nullptr) {
    if (!IsWider(*plan, *before)) {
      before->failures.fetch_add(1);
      return;
    }
    before->is_dropped.store(true);
  }
  const FunctionPlan* const made = plan.get();
  core_->plans.push_back(std::move(plan));
  core_->last.store(made, std::memory_order_release);
}

// THROWS: under `strict`.
void JitCall::EndInVain(const JitSession& session) {
  const FunctionSession& seen = session.seen;
  const FunctionPlan* const before = session.plan;
  if (before != nullptr && session.is_verified && !IsPassing(seen.why)) {
    before->is_dropped.store(true, std::memory_order_relaxed);
    core_->not_same.fetch_add(1);
    session.state->counters().jit_not_same.Add();
    const MutexLock lock(core_->mutex);
    ++core_->mismatches;
  } else if (before != nullptr && !session.is_verified) {
    before->failures.fetch_add(1, std::memory_order_relaxed);
    return;  // the plan is there
  } else if (before == nullptr && seen.follows != nullptr) {
    seen.follows->failures.fetch_add(1);
    if (session.is_probe) return;
  }
  if (IsPassing(seen.why)) return;
  RecordRefusal(session.form, seen.why, seen.op);
}

// THROWS: under `strict`.
void JitCall::RecordRefusal(std::uint64_t form, Refusal why, OpId op) {
  const std::string text = runtime::DescribeRefusal(why, op);
  {
    const MutexLock lock(core_->mutex);
    core_->why = text;
    constexpr std::size_t kMostForms = 256;
    if (core_->failures.size() > kMostForms) core_->failures.clear();
    if (!core_->options.strict) ++core_->failures[form];
  }
  TORCH_CHECK(!core_->options.strict, "tjit::jit: ", core_->options.name,
              " is not replayed: ", text);
}

// What has grown has more fields than there were.
void JitCall::CheckTensor(std::size_t i, const at::Tensor& t) {
  const std::vector<at::Tensor>& before = session_->seen.arguments;
  if (i >= before.size() || !t.is_same(before[i])) {
    session_->seen.Fail(Refusal::kOutputArgument);
  }
}
void JitCall::CheckNumber(std::size_t i, double n) {
  if (i >= numbers_.size() || !SameBits(n, numbers_[i])) {
    session_->seen.Fail(Refusal::kOutputArgument);
  }
}
void JitCall::CheckWord(std::size_t i, std::uint64_t w) {
  if (i >= words_.size() || w != words_[i]) {
    session_->seen.Fail(Refusal::kOutputArgument);
  }
}

void JitCall::Leave() {
  RunOrWarn([this] {
    if (session_ != nullptr) {  // the function threw
      const std::unique_ptr<JitSession> session(
          std::exchange(session_, nullptr));
      session->seen.Fail(Refusal::kThrew);
      session->state->CloseFunction();
    }
    if (is_scoped_) runtime::FlushThisThread(FlushReason::kSyncCall);
  });
  if (is_scoped_) --runtime::t_context.scoped_on;
}

}  // namespace tjit::internal

namespace tjit {

std::vector<ExplainedJit> runtime::ExplainJitFunctions() {
  return internal::JitFunctions::Get().All();
}

NoJit::NoJit(const char*) {
  runtime::ThreadState* const state = runtime::t_context.state;
  if (state != nullptr && state->open_function() != nullptr) {
    state->open_function()->Fail(runtime::Refusal::kOpaqueScope);
  }
}

}  // namespace tjit
