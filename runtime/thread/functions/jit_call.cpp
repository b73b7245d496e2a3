// How a call of a function that tjit::jit() wraps goes, but for its replay.
#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/schema_key.h"
#include "runtime/call/interpose.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/events.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/stance.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/host_reads.h"
#include "runtime/thread/functions/jit_core.h"
#include "runtime/thread/functions/jit_match.h"
#include "runtime/thread/functions/jit_node.h"
#include "runtime/thread/functions/run_again.h"
#include "runtime/thread/materialize.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"

namespace tjit::internal {

using runtime::FunctionArgument;
using runtime::FunctionKey;
using runtime::FunctionPlan;
using runtime::FunctionRecord;
using runtime::FunctionSession;
using runtime::Likeness;
using runtime::Refusal;
using runtime::ThreadState;

namespace {

// Calls of one form that came to nothing before they are left alone.
constexpr int kMostFailures = 5;
// Ways in which one function is replayed at a time, and in all.
constexpr std::size_t kMostPlans = 64;
constexpr std::size_t kMostPlansEver = 1024;
// First calls that wait for a second one: as many as there may be plans, so
// that a program that goes through as many forms in turn comes to replay them.
constexpr std::size_t kMostRecords = kMostPlans;
// First calls in a row that no second one confirmed.
constexpr int kMostInVain = 256;
// Calls that tried to make a plan serve more.
constexpr std::uint32_t kMostWidenings = 2;
// Replays that turned out wrong.
constexpr int kMostMismatches = 4;

bool IsWider(Likeness likeness) {
  return likeness == Likeness::kOtherStorages ||
         likeness == Likeness::kOtherNumbers;
}

// This thread's state, where a function may be replayed or recorded now.
ThreadState* UsableState() {
  if (!runtime::g_settings.may_defer() || runtime::g_settings.HasModes() ||
      runtime::RunsAgain()) {
    return nullptr;
  }
  ThreadState* const state = runtime::ActiveState();
  if (state == nullptr || state == runtime::LogOnlyState() ||
      state->is_paused() || state->open_function() != nullptr ||
      runtime::t_context.held != nullptr || runtime::IsWatched() ||
      runtime::InstructionLogOn() || runtime::InParallelRegion() ||
      runtime::FillsAllocations() ||
      at::SavedTensorDefaultHooks::get_hooks().has_value() ||
      !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU) ||
      state->FollowModes()) {
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

}  // namespace

runtime::FunctionInputs JitCall::Inputs() const {
  return {tensors_, numbers_, words_};
}

JitCall::Found JitCall::Find(const ThreadState& state,
                             std::uint32_t context) const {
  const runtime::FunctionInputs inputs = Inputs();
  const std::uint64_t global = runtime::GlobalContext::Now().word;
  const auto compare = [&](const FunctionKey& key) {
    return runtime::Compare(key, context, global, inputs);
  };
  const auto compare_plan = [&](const FunctionPlan& known) {
    const Likeness one = compare(known.key);
    return one == Likeness::kSame && !runtime::NumbersFit(known, numbers_)
               ? Likeness::kOtherNumbers
               : one;
  };
  Found found;
  found.plan = core_->last.load(std::memory_order_acquire);
  if (found.plan != nullptr &&
      !found.plan->is_dropped.load(std::memory_order_relaxed) &&
      compare_plan(*found.plan) == Likeness::kSame &&
      HoldsLeaves(*found.plan, tensors_)) {
    return found;
  }
  found.plan = nullptr;
  const FunctionPlan* wider = nullptr;
  {
    const MutexLock lock(core_->mutex);
    for (const auto& known : core_->plans) {
      if (known->is_dropped.load(std::memory_order_relaxed)) continue;
      // What was recorded is forgotten, or what it takes from outside is gone.
      if (known->record->store.expired() || runtime::IsDead(*known)) {
        known->is_dropped.store(true, std::memory_order_relaxed);
        continue;
      }
      const Likeness one = compare_plan(*known);
      if (one == Likeness::kOther || !HoldsLeaves(*known, tensors_)) continue;
      if (one == Likeness::kSame) found.plan = known.get();
      if (IsWider(one) &&
          known->failures.load(std::memory_order_relaxed) < kMostWidenings) {
        wider = known.get();
      }
    }
  }
  if (found.plan != nullptr) return found;
  found.plan = wider;
  found.is_wider = wider != nullptr;
  FindRecord(state, context, &found);
  return found;
}

// How a call is looked at that no plan serves.
void JitCall::FindRecord(const ThreadState& state, std::uint32_t context,
                         Found* found) const {
  const runtime::FunctionInputs inputs = Inputs();
  const std::uint64_t global = runtime::GlobalContext::Now().word;
  found->form = runtime::FormOf(context, inputs);
  const MutexLock lock(core_->mutex);
  const auto alive = static_cast<std::size_t>(std::count_if(
      core_->plans.begin(), core_->plans.end(), [](const auto& plan) {
        return !plan->is_dropped.load(std::memory_order_relaxed);
      }));
  const auto failures = core_->failures.find(found->form);
  const bool is_full = alive >= kMostPlans ||
                       core_->plans.size() >= kMostPlansEver ||
                       core_->in_vain >= kMostInVain;
  found->is_left_alone =
      is_full || core_->mismatches >= kMostMismatches ||
      (failures != core_->failures.end() && failures->second >= kMostFailures);
  if (is_full) {
    core_->why = runtime::DescribeRefusal(Refusal::kTooMany, kNoOp);
  }
  if (core_->records_due > 0) {
    found->plan = nullptr;
    found->is_wider = false;
    return;
  }
  if (found->is_wider || found->is_left_alone) return;
  // One that was followed in vain stands for something that is not seen in the
  // arguments, as another number does.
  constexpr std::uint32_t kMostFollowed = 3;
  for (const auto& known : core_->records) {
    const Likeness one = runtime::Compare(known->key, context, global, inputs);
    const std::uint32_t failed =
        known->failures.load(std::memory_order_relaxed);
    const bool is_it = one <= Likeness::kOtherStorages
                           ? failed < kMostFollowed
                           : one == Likeness::kOtherNumbers && failed == 0 &&
                                 found->record == nullptr;
    if (!is_it || !state.HasStore(known->store)) continue;
    if (found->left != nullptr &&
        !runtime::GoesOnWith(*found->left->record, *known, found->read,
                             found->bits)) {
      continue;
    }
    found->record = known;
    found->is_probe = one == Likeness::kOtherNumbers;
  }
}

const FunctionPlan* JitCall::FindOther(const FunctionPlan& plan,
                                       std::size_t read,
                                       std::uint64_t bits) const {
  const runtime::FunctionInputs inputs = Inputs();
  const MutexLock lock(core_->mutex);
  for (const auto& known : core_->plans) {
    if (!known->is_dropped.load(std::memory_order_relaxed) &&
        runtime::GoesOnWith(*plan.record, *known->record, read, bits) &&
        runtime::Compare(known->key, plan.key.context, plan.key.global,
                         inputs) == Likeness::kSame &&
        runtime::NumbersFit(*known, numbers_) &&
        HoldsLeaves(*known, tensors_) &&
        runtime::HoldsCaptured(*known, core_->is_backward)) {
      return known.get();
    }
  }
  return nullptr;
}

bool JitCall::Begin() {
  core_->calls.fetch_add(1, std::memory_order_relaxed);
  is_scoped_ = TurnOnThread();
  // A call that is replayed has no op to look at it.
  if (runtime::LogsOrIsAsked()) [[unlikely]]
    runtime::ThreadRegistry::Get()->LookAtAttach();
  ThreadState* const state = UsableState();
  if (state == nullptr) return false;
  const std::uint32_t context = runtime::CurrentContext();
  if (context == 0) return false;
  Found found = Find(*state, context);
  if (found.plan != nullptr &&
      !runtime::HoldsCaptured(*found.plan, core_->is_backward)) {
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
    if (!is_verified) {
      if (Replay(state, &found)) return true;
      if (found.left == nullptr) return false;
      found.plan = nullptr;
      FindRecord(*state, context, &found);
      if (found.is_left_alone) runtime::CountMiss(*found.left);
    } else {
      const MutexLock lock(core_->mutex);
      if (core_->records_due > 0) {
        found.plan = nullptr;
        is_verified = false;
      }
    }
  }
  if (found.is_left_alone || graph_.only_replays) return false;
  if (found.plan == nullptr && !runtime::g_settings.may_compile()) {
    runtime::RefuseFunction(&state->counters(), core_->options.name,
                            found.form);
    return false;
  }
  Observe(state, std::move(found), context, is_verified);
  return false;
}

std::shared_ptr<const FunctionRecord> JitCall::FindOtherRecord(
    const ThreadState& state, const FunctionRecord& follows, std::size_t read,
    std::uint64_t bits) const {
  const runtime::FunctionInputs inputs = Inputs();
  const MutexLock lock(core_->mutex);
  for (const auto& known : core_->records) {
    if (runtime::GoesOnWith(follows, *known, read, bits) &&
        runtime::Compare(known->key, follows.key.context, follows.key.global,
                         inputs) <= Likeness::kOtherStorages &&
        state.HasStore(known->store)) {
      return known;
    }
  }
  return nullptr;
}

// The function runs and is looked at.
void JitCall::Observe(ThreadState* state, Found found, std::uint32_t context,
                      bool is_verified) {
  if (found.form == 0) found.form = runtime::FormOf(context, Inputs());
  auto session = std::make_unique<JitSession>();
  FunctionSession& seen = session->seen;
  for (const at::Tensor* t : tensors_) {
    if (t->defined() && !runtime::MayBeRecorded(t->unsafeGetTensorImpl())) {
      return RecordRefusal(found.form, Refusal::kNotPlain, kNoOp);
    }
    seen.arguments.push_back(*t);
  }
  seen.key = runtime::MakeKey(context, Inputs());
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
  if (session->plan == nullptr) {
    seen.find_other = [this, state](const FunctionRecord& follows,
                                    std::size_t read, std::uint64_t bits) {
      return FindOtherRecord(*state, follows, read, bits);
    };
  } else if (is_verified) {
    seen.find_other =
        [this, state, s = session.get()](
            const FunctionRecord& follows, std::size_t read,
            std::uint64_t bits) -> std::shared_ptr<const FunctionRecord> {
      const FunctionPlan* const other =
          s->plan == nullptr ? nullptr : FindOther(*s->plan, read, bits);
      // What its leaves had before the call is not known any more.
      if (other != nullptr && other->leaves.empty()) {
        s->plan = s->seen.before = other;
        return other->record;
      }
      auto record = FindOtherRecord(*state, follows, read, bits);
      if (record != nullptr) {  // it is confirmed, then
        s->plan = s->seen.before = nullptr;
        s->is_verified = false;
      }
      return record;
    };
  }
  if (seen.follows == nullptr) {
    const MutexLock lock(core_->mutex);
    if (core_->records_due > 0) --core_->records_due;
    core_->recordings.fetch_add(1);
    state->counters().jit_recordings.Add();
  }
  seen.is_backward = core_->is_backward;
  seen.keeps_graph = core_->options.gradients && graph_.may_run_again &&
                     c10::GradMode::is_enabled();
  seen.own_begin = graph_.own_begin;
  seen.own_end = graph_.own_end;
  seen.numbers = graph_.numbers;
  session->first_node = at::sequence_number::peek();
  state->OpenFunction(&seen);
  session_ = session.release();
}

namespace {

// A way of the function is replayed from now on.
void TellReplayed(const std::string& name,
                  const std::vector<TraceNode*>& nodes) {
  if (!runtime::TellsEvents()) return;
  const Trace* const trace = nodes.back()->ends.load(std::memory_order_acquire);
  if (trace != nullptr) {
    runtime::TellPromoted({nodes.begin(), nodes.end()}, *trace, name);
  }
}

// It runs itself. `text`: "jit_host_read: it reads ...".
void TellRefused(const std::string& name, const std::string& text) {
  if (!runtime::TellsEvents()) return;
  Event event;
  event.kind = EventKind::kGivenUp;
  event.function = name;
  event.reason = text.substr(0, text.find(": "));
  event.why = text.substr(std::min(event.reason.size() + 2, text.size()));
  runtime::TellEvent(std::move(event));
}

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

// Reasons that say nothing of the function. One that was replayed does not
// seed: another thread has drawn meanwhile. Its op that threw runs at the call,
// and a replay would have ended there.
bool IsPassing(Refusal why, bool is_verified) {
  return why == Refusal::kInterrupted || why == Refusal::kNoRoom ||
         ((why == Refusal::kSeeded || why == Refusal::kThrew) && is_verified);
}

// Who holds a result beside the caller and this call, each once for each time
// that it is a result.
std::vector<bool> KeptResults(c10::ArrayRef<at::Tensor> results,
                              const std::vector<at::Tensor>& leaves) {
  std::vector<bool> kept;
  for (const at::Tensor& t : results) {
    std::size_t times = 0;
    std::vector<const c10::TensorImpl*> views;  // they hold what they are of
    for (const at::Tensor& other : results) {
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

}  // namespace

void JitCall::End(std::shared_ptr<const void> returned) {
  if (session_ == nullptr) return;
  const std::unique_ptr<JitSession> session(std::exchange(session_, nullptr));
  ClosesFunction closes(session->state);
  FunctionSession& seen = session->seen;
  if (runtime::CurrentContext() != seen.key.context) {
    seen.Fail(Refusal::kMode);
  }
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
    seen.is_kept = KeptResults(results_, seen.leaves);
    plan = session->state->EndFollowing(
        std::vector<at::Tensor>(results_.begin(), results_.end()));
    if (plan != nullptr) plan->returned = std::move(returned);
  }
  closes.Close();
  if (seen.has_failed()) {
    EndInVain(*session);
  } else if (record != nullptr) {
    const MutexLock lock(core_->mutex);
    core_->records.push_back(std::move(record));
    ++core_->in_vain;
    if (core_->records.size() > kMostRecords) core_->records.pop_front();
  } else if (plan->gradients == nullptr) {
    Publish(*session, std::move(plan));
  } else if (!GraphCalls(this).Keep(session.get(), std::move(plan))) {
    EndInVain(*session);
  }
}

void JitCall::Publish(const JitSession& session,
                      std::unique_ptr<FunctionPlan> plan) {
  if (session.plan == nullptr || !session.is_verified) {
    return PublishPlan(core_, session.plan, session.form, std::move(plan));
  }
  const MutexLock lock(core_->mutex);
  core_->why.clear();
  core_->failures.erase(session.form);
  core_->in_vain = 0;
  core_->verified.fetch_add(1);
  session.state->counters().jit_verified.Add();
}

void PublishPlan(JitCore* core, const FunctionPlan* before, std::uint64_t form,
                 std::unique_ptr<FunctionPlan> plan) {
  const MutexLock lock(core->mutex);
  core->why.clear();
  core->failures.erase(form);
  core->in_vain = 0;
  core->other_values = core->records_due = 0;
  std::erase(core->records, plan->record);
  if (before != nullptr) {
    if (!IsWider(*plan, *before)) {
      before->failures.fetch_add(1);
      return;
    }
    before->is_dropped.store(true);
  }
  const FunctionPlan* const made = plan.get();
  if (before == nullptr) TellReplayed(core->options.name, made->record->nodes);
  core->plans.push_back(std::move(plan));
  core->last.store(made, std::memory_order_release);
}

// THROWS: under `strict`.
void JitCall::EndInVain(const JitSession& session) {
  const FunctionSession& seen = session.seen;
  const FunctionPlan* const before = session.plan;
  if (seen.why == Refusal::kOtherValue) {
    const MutexLock lock(core_->mutex);
    core_->records_due = ++core_->other_values;
    core_->why = runtime::DescribeRefusal(seen.why, seen.op);
    return;
  }
  const bool is_passing = IsPassing(seen.why, session.is_verified);
  if (before != nullptr && session.is_verified && !is_passing) {
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
    if (session.is_probe) {  // the numbers may come again: a way of their own
      const MutexLock lock(core_->mutex);
      core_->why = runtime::DescribeRefusal(seen.why, seen.op);
      return;
    }
  }
  if (is_passing && before == nullptr) {
    const MutexLock lock(core_->mutex);
    core_->why = runtime::DescribeRefusal(seen.why, seen.op);
  }
  if (is_passing) return;
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
  TellRefused(core_->options.name, text);
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
  if (i >= numbers_.size() || !runtime::SameBits(n, numbers_[i])) {
    session_->seen.Fail(Refusal::kOutputArgument);
  }
}
void JitCall::CheckWord(std::size_t i, std::uint64_t w) {
  if (i >= words_.size() || w != words_[i]) {
    session_->seen.Fail(Refusal::kOutputArgument);
  }
}

void JitCall::AllowUpdates(const at::Tensor& parameter) {
  FunctionSession& seen = session_->seen;
  seen.updated.push_back(parameter.unsafeGetTensorImpl());
  // Whether the function gives it a gradient or takes that away.
  if (parameter.requires_grad()) session_->state->AddLeaf(parameter);
}
void JitCall::CheckState(bool is_as_expected) {
  if (!is_as_expected) session_->seen.Fail(Refusal::kHostState);
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

double ref(const double& number) {
  runtime::ThreadState* const state = runtime::t_context.state;
  if (state != nullptr && state->open_function() != nullptr) {
    state->open_function()->AddRef(&number);
  }
  return number;
}

NoJit::NoJit(const char*) {
  runtime::ThreadState* const state = runtime::t_context.state;
  if (state != nullptr && state->open_function() != nullptr) {
    state->open_function()->Fail(runtime::Refusal::kOpaqueScope);
  }
}

}  // namespace tjit
