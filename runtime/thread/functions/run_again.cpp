#include "runtime/thread/functions/run_again.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "recorder/op_record.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/library_calls/library_call.h"
#include "runtime/library_calls/recorded_tensors.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

using Kind = FunctionSlot::Kind;

// Batch norm in training updates its running statistics, and reads them for
// nothing else.
bool OnlyUpdates(const StepRecord& step, const OpEntry& op,
                 const ArgRecord& arg) {
  const bool is_batch_norm = op.name == "aten::native_batch_norm" ||
                             op.name == "aten::_native_batch_norm_legit";
  return is_batch_norm && arg.written && !step.statics.empty() &&
         step.statics[0] != 0;
}

// What depends on what the function writes.
class Dependence {
 public:
  explicit Dependence(const FunctionRecord& record)
      : record_(record), depends_(record.slots.size()) {}

  // False: it writes into an argument.
  bool Find() {
    for (std::size_t s = 0; s < record_.slots.size(); ++s) {
      const FunctionSlot& slot = record_.slots[s];
      if (!slot.written || slot.kind < Kind::kArgument) continue;
      if (slot.kind != Kind::kCaptured) return false;
      depends_[s] = true;
    }
    auto read = record_.reads.begin();
    for (std::size_t n = 0; n <= record_.nodes.size(); ++n) {
      for (; read != record_.reads.end() && read->step <= n; ++read) {
        if (read->part < 0) continue;
        AddPart(record_.parts[static_cast<std::size_t>(read->part)]);
      }
      if (n < record_.nodes.size()) AddStep(*record_.nodes[n]);
    }
    return true;
  }

  // REQUIRES: Find(). What lies in a slot, and what an op at the call returns.
  bool IsOfSlot(std::size_t s) const { return depends_[s]; }
  bool IsOfCalled(std::size_t c) const {
    return std::find(called_.begin(), called_.end(), c) != called_.end();
  }

 private:
  void AddStep(const TraceNode& node) {
    const OpEntry& op =
        *static_cast<const CapturedCall*>(node.payload.get())->entry;
    const auto reads = [&](const ArgRecord& arg) {
      return arg.slot != kNoSlot &&
             depends_[static_cast<std::size_t>(arg.slot)] &&
             !OnlyUpdates(node.step, op, arg);
    };
    const auto& args = node.step.args;
    if (std::none_of(args.begin(), args.end(), reads)) return;
    const auto mark = [&](std::int32_t slot) {
      if (slot != kNoSlot) depends_[static_cast<std::size_t>(slot)] = true;
    };
    for (const ArgRecord& arg : args) {
      if (arg.written) mark(arg.slot);
    }
    for (const ResultRecord& result : node.step.results) mark(result.slot);
  }

  void AddPart(const FunctionPart& part) {
    const auto reads = [this](const PartArgument& argument) {
      return Reads(argument);
    };
    if (std::none_of(part.arguments.begin(), part.arguments.end(), reads)) {
      return;
    }
    for (std::size_t r = 0; r < part.results.size(); ++r) {
      const std::size_t index = part.first_result + r;
      called_.push_back(index);
      for (std::size_t s = 0; s < depends_.size(); ++s) {
        const FunctionSlot& slot = record_.slots[s];
        if (slot.kind == Kind::kCalled && slot.index == index) {
          depends_[s] = true;
        }
      }
    }
  }

  bool Reads(const PartArgument& argument) const {
    if (argument.from == PartArgument::From::kSlot) {
      return depends_[argument.index];
    }
    if (argument.from == PartArgument::From::kCalled) {
      return IsOfCalled(argument.index);
    }
    // Nothing is drawn in a function with parts, and no argument written.
    if (argument.from != PartArgument::From::kCaptured) return false;
    // An op before the first step that uses a storage has captured it by
    // itself.
    const auto storage_of = [this](std::uint32_t c) {
      return record_.captured[c].storage._unsafe_get_target();
    };
    for (std::size_t s = 0; s < depends_.size(); ++s) {
      const FunctionSlot& slot = record_.slots[s];
      if (slot.kind == Kind::kCaptured && depends_[s] &&
          storage_of(slot.index) == storage_of(argument.index)) {
        return true;
      }
    }
    return false;
  }

  const FunctionRecord& record_;
  std::vector<bool> depends_;
  std::vector<std::size_t> called_;  // results of parts that depend on it
};

// What lies in the part of a storage that a function writes.
class Kept {
 public:
  Kept(const FunctionSlot& slot, const CapturedStorage& captured)
      : version_(captured.version),
        current_(version_.enabled() ? version_.current_version() : 0) {
    c10::intrusive_ptr<c10::StorageImpl> storage = captured.storage.lock();
    if (!storage.defined()) return;
    before_ = at::empty({slot.end - slot.begin}, at::kByte);
    bytes_ = TensorOver(c10::Storage(std::move(storage)),
                        GeometryOf(before_.unsafeGetTensorImpl()), slot.begin);
    before_.copy_(bytes_);
  }
  void PutBack() {
    if (bytes_.defined()) bytes_.copy_(before_);
    if (version_.enabled()) version_.set_version(current_);
  }

 private:
  at::Tensor bytes_, before_;
  c10::VariableVersion version_;
  std::uint32_t current_;
};

// The threads on which functions run again: rare, so no thread has a word for
// it.
std::atomic<int> g_running{0};
Mutex g_mutex;
std::vector<std::thread::id>& Running() {
  static auto& running = *new std::vector<std::thread::id>;
  return running;
}

class RunningScope {
 public:
  RunningScope() {
    const MutexLock lock(g_mutex);
    Running().push_back(std::this_thread::get_id());
    g_running.fetch_add(1);
  }
  ~RunningScope() {
    const MutexLock lock(g_mutex);
    Running().erase(std::find(Running().begin(), Running().end(),
                              std::this_thread::get_id()));
    g_running.fetch_sub(1);
  }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
};

}  // namespace

bool MayRunAgain(const FunctionPlan& plan) {
  const FunctionRecord& record = *plan.record;
  Dependence dependence(record);
  if (!dependence.Find()) return false;
  const std::size_t drawn = plan.fresh.size();
  const std::size_t called = drawn + record.drawn.size();
  for (const std::uint32_t m : plan.gradients->living) {
    if (m >= called) {
      if (dependence.IsOfCalled(m - called)) return false;
      continue;
    }
    for (std::size_t s = 0; s < record.slots.size(); ++s) {
      const FunctionSlot& slot = record.slots[s];
      const bool is_it =
          m < drawn ? plan.fresh[m].slot == s
                    : slot.kind == Kind::kDrawn && slot.index == m - drawn;
      if (is_it && dependence.IsOfSlot(s)) return false;
    }
  }
  return true;
}

std::size_t MadeOf(const FunctionPlan& plan, const FunctionResult& result) {
  constexpr std::size_t kNone = -1;
  if (result.same_as >= 0) return kNone;
  const std::size_t drawn = plan.fresh.size();
  switch (result.kind) {
    case FunctionResult::Kind::kSlot:
      return result.index;
    case FunctionResult::Kind::kDrawn:
      return drawn + result.index;
    case FunctionResult::Kind::kCalled:
      return drawn + plan.record->drawn.size() + result.index;
    default:
      return kNone;
  }
}

std::optional<std::size_t> ResultOf(const FunctionPlan& plan,
                                    std::size_t made) {
  for (std::size_t r = 0; r < plan.results.size(); ++r) {
    if (MadeOf(plan, plan.results[r]) == made) return r;
  }
  return std::nullopt;
}

bool Writes(const FunctionRecord& record, std::size_t c) {
  return std::any_of(
      record.slots.begin(), record.slots.end(), [c](const FunctionSlot& slot) {
        return slot.kind == Kind::kCaptured && slot.index == c && slot.written;
      });
}

bool RunsAgain() {
  if (g_running.load(std::memory_order_relaxed) == 0) return false;
  const MutexLock lock(g_mutex);
  return std::find(Running().begin(), Running().end(),
                   std::this_thread::get_id()) != Running().end();
}

std::vector<at::Tensor> RunAgain(
    const FunctionPlan& plan, const GeneratorMoves& moves,
    const std::string& who, c10::function_ref<std::vector<at::Tensor>()> run) {
  std::vector<Kept> kept;
  at::Generator now;  // undefined: it draws nothing
  {
    const at::NoGradGuard no_grad;
    for (const FunctionSlot& slot : plan.record->slots) {
      if (slot.kind != Kind::kCaptured || !slot.written) continue;
      kept.emplace_back(slot, plan.captured[slot.index]);
    }
    if (moves.before.defined()) now = ExchangeGenerator(moves.before);
  }
  // Returns the generator as the function has left it.
  const auto put_back = [&] {
    const at::NoGradGuard no_grad;
    for (Kept& one : kept) one.PutBack();
    return now.defined() ? ExchangeGenerator(now) : now;
  };
  std::vector<at::Tensor> results;
  try {
    const RunningScope running;
    ContextScope as_then;
    as_then.Switch(plan.key.context);
    const at::AutoGradMode on(true);
    results = run();
  } catch (...) {
    static_cast<void>(put_back());
    throw;
  }
  const at::Generator after = put_back();
  TORCH_CHECK(!after.defined() || SameState(after, moves.after), who,
              "and it draws other random numbers than before, or another "
              "thread has drawn some");
  return results;
}

}  // namespace tjit::runtime
