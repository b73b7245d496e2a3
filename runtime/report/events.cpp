#include "runtime/report/events.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "recorder/region_table.h"
#include "runtime/call/kernel_state.h"
#include "runtime/platform/own_thread.h"
#include "runtime/report/log.h"
#include "runtime/report/sequence_name.h"
#include "support/json_text.h"
#include "support/mutex.h"
#include "tjit/tjit.h"

namespace tjit::runtime {

std::atomic<bool> g_has_event_callbacks{false};

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPause{1};  // between two of the same

struct Callback {
  std::uint64_t id;
  std::function<void(const Event&)> call;
  std::atomic<bool> is_removed{false};
  bool has_thrown = false;  // the thread's
};

// Which sequence, and which reason.
using Key = std::tuple<std::uint64_t, std::uint32_t, int>;
constexpr int kSlower = -1;

struct Repeated {
  Clock::time_point told;
  Event event;            // the first one since
  std::int64_t held = 0;  // of these, not told yet
};

Key KeyOf(std::uint64_t lineage, const Trace& trace, int reason) {
  return {lineage, trace.id, reason};
}

// What a run met in the place of a step.
struct Difference {
  std::uint32_t trace;
  BailReason why;
  std::string op, expected, actual;
};

class EventQueue {
 public:
  static EventQueue& Get() {
    static auto* queue = new EventQueue;
    return *queue;
  }

  std::uint64_t Add(std::function<void(const Event&)> call);
  bool Remove(std::uint64_t id);
  bool Wait(std::chrono::milliseconds timeout);
  void Tell(Event event);
  // Of this thread, until TellFellBack(), which comes next, takes it.
  void Keep(Difference difference);
  std::optional<Difference> Take();
  bool IsFirst(const Key& key);
  void TellRepeated(const Key& key, Event event);
  void Stop();
  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork(bool is_child) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (is_child) LookForFork();
    mutex_.UnlockAfterFork();
  }

 private:
  using Callbacks = std::vector<std::shared_ptr<Callback>>;

  bool MayTell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookForFork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Push(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock::time_point PushRepeated(Clock::time_point now, bool all)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();
  void TellFirst(ReleasableMutexLock* lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  bool IsOwnThread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return has_thread_ && thread_ == std::this_thread::get_id();
  }
  static void Call(Callback* callback, const Event& event);

  Mutex mutex_;
  // By pointer: the child of a fork takes a new one.
  std::condition_variable* changed_ ABSL_GUARDED_BY(mutex_) =
      new std::condition_variable;
  Callbacks callbacks_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Event> queue_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Repeated> repeated_ ABSL_GUARDED_BY(mutex_);
  // No thread_local: thread storage is scarce.
  std::map<std::thread::id, Difference> differences_ ABSL_GUARDED_BY(mutex_);
  std::int64_t missed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_thread_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id thread_ ABSL_GUARDED_BY(mutex_);
  pid_t process_ ABSL_GUARDED_BY(mutex_) = getpid();  // of all the above
  const Callback* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool is_telling_ ABSL_GUARDED_BY(mutex_) = false;  // one of the events
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
};

// In the child of a fork, unless it is the thread itself that has forked.
void EventQueue::LookForFork() {
  const pid_t process = getpid();
  if (process == process_) return;
  process_ = process;
  queue_.clear();
  repeated_.clear();
  differences_.clear();
  missed_ = 0;
  if (IsOwnThread()) return;
  // The parent's thread may wait on the old one.
  changed_ = new std::condition_variable;
  has_thread_ = false;
  running_ = nullptr;
  is_telling_ = false;
}

// What is wrong; "" if there is a thread.
std::string EventQueue::Start() {
  if (has_thread_) return "";
  try {
    const SignalsBlocked blocked;
    std::thread thread([this] { Work(); });
    thread_ = thread.get_id();
    has_thread_ = true;
    thread.detach();
  } catch (const std::system_error& e) {
    return e.what();
  }
  return "";
}

std::uint64_t EventQueue::Add(std::function<void(const Event&)> call) {
  auto callback = std::make_shared<Callback>();
  callback->call = std::move(call);
  // What the callback uses is destroyed at the exit behind it. Without one more
  // handler an earlier one stops it.
  constexpr int kMostHandlers = 1024;
  static std::atomic<int> handlers{0};
  if (handlers.load() < kMostHandlers && std::atexit(&StopEvents) == 0) {
    handlers.fetch_add(1);
  }
  const MutexLock lock(mutex_);
  LookForFork();
  const std::string wrong = stops_ ? "the process ends" : Start();
  TORCH_CHECK(wrong.empty(), "tjit::on_event: there is no thread to call it (",
              wrong, ")");
  callback->id = ++last_id_;
  callbacks_.push_back(std::move(callback));
  g_has_event_callbacks.store(true, std::memory_order_relaxed);
  return last_id_;
}

bool EventQueue::Remove(std::uint64_t id) {
  // Both are destroyed without the mutex.
  std::shared_ptr<Callback> gone;
  std::function<void(const Event&)> call;
  ReleasableMutexLock lock(mutex_);
  LookForFork();
  const auto found =
      std::find_if(callbacks_.begin(), callbacks_.end(),
                   [id](const auto& callback) { return callback->id == id; });
  if (found == callbacks_.end()) {
    lock.Unlock();
    return false;
  }
  gone = std::move(*found);
  callbacks_.erase(found);
  gone->is_removed.store(true);
  if (callbacks_.empty()) {
    g_has_event_callbacks.store(false, std::memory_order_relaxed);
    queue_.clear();
    repeated_.clear();
    differences_.clear();
    missed_ = 0;
    changed_->notify_all();
  }
  while (running_ == gone.get() && !IsOwnThread()) lock.Wait(*changed_);
  // What it holds goes here, unless it is running.
  if (running_ != gone.get()) call = std::move(gone->call);
  lock.Unlock();
  return true;
}

bool EventQueue::MayTell() {
  LookForFork();
  return !callbacks_.empty() && !stops_ && Start().empty();
}

void EventQueue::Push(Event event) {
  if (queue_.size() >= kMostEvents) {
    ++missed_;
    return;
  }
  event.missed = std::exchange(missed_, 0);
  queue_.push_back(std::move(event));
}

void EventQueue::Tell(Event event) {
  const MutexLock lock(mutex_);
  if (!MayTell()) return;
  Push(std::move(event));
  changed_->notify_all();
}

void EventQueue::Keep(Difference difference) {
  const MutexLock lock(mutex_);
  differences_.insert_or_assign(std::this_thread::get_id(),
                                std::move(difference));
}

std::optional<Difference> EventQueue::Take() {
  const MutexLock lock(mutex_);
  auto taken = differences_.extract(std::this_thread::get_id());
  if (taken.empty()) return std::nullopt;
  return std::move(taken.mapped());
}

bool EventQueue::IsFirst(const Key& key) {
  const MutexLock lock(mutex_);
  const auto found = repeated_.find(key);
  return found == repeated_.end() || found->second.held == 0;
}

void EventQueue::TellRepeated(const Key& key, Event event) {
  const MutexLock lock(mutex_);
  if (!MayTell()) return;
  const auto now = Clock::now();
  auto found = repeated_.find(key);
  if (found == repeated_.end() && repeated_.size() >= kMostRepeated) {
    std::erase_if(repeated_, [now](const auto& item) {
      return item.second.held == 0 && item.second.told + kPause <= now;
    });
    if (repeated_.size() >= kMostRepeated) {
      ++missed_;
      return;
    }
  }
  const bool is_new = found == repeated_.end();
  if (is_new) found = repeated_.emplace(key, Repeated()).first;
  Repeated& repeated = found->second;
  if (repeated.held++ == 0) repeated.event = std::move(event);
  if (is_new || now >= repeated.told + kPause) {
    repeated.told = now;
    repeated.event.times = std::exchange(repeated.held, 0);
    Push(std::move(repeated.event));
  } else if (repeated.held > 1) {
    return;  // the thread knows when to wake
  }
  changed_->notify_all();
}

// Puts what was held for long enough into the queue. Returns when there is more
// to do.
Clock::time_point EventQueue::PushRepeated(Clock::time_point now, bool all) {
  auto next = Clock::time_point::max();
  for (auto& [key, repeated] : repeated_) {
    if (repeated.held == 0) continue;
    if (!all && now < repeated.told + kPause) {
      next = std::min(next, repeated.told + kPause);
      continue;
    }
    repeated.told = now;
    repeated.event.times = std::exchange(repeated.held, 0);
    Push(std::move(repeated.event));
  }
  return next;
}

bool EventQueue::Wait(std::chrono::milliseconds timeout) {
  // Longer than any process lives, and far from where the clock overflows.
  constexpr std::chrono::milliseconds kLongest = std::chrono::years(10);
  const auto until =
      Clock::now() +
      std::clamp(timeout, std::chrono::milliseconds::zero(), kLongest);
  ReleasableMutexLock lock(mutex_);
  LookForFork();
  bool is_told = !IsOwnThread();
  if (is_told && has_thread_) {
    PushRepeated(Clock::now(), /*all=*/true);
    changed_->notify_all();
    while (has_thread_ && (is_telling_ || !queue_.empty())) {
      const auto now = Clock::now();
      if (now >= until) {
        is_told = false;
        break;
      }
      lock.WaitFor(*changed_, until - now);
    }
  }
  lock.Unlock();
  return is_told;
}

void EventQueue::Work() {
  pthread_setname_np(pthread_self(), "tjit-events");
  const Pause off;  // what a callback calls is no part of what is recorded
  ReleasableMutexLock lock(mutex_);
  while (!stops_ && !callbacks_.empty()) {
    const auto now = Clock::now();
    const auto next = PushRepeated(now, /*all=*/false);
    if (!queue_.empty()) {
      TellFirst(&lock);
    } else if (next == Clock::time_point::max()) {
      lock.Wait(*changed_);
    } else {
      lock.WaitFor(*changed_, next - now);
    }
  }
  has_thread_ = false;
  changed_->notify_all();
  lock.Unlock();
}

void EventQueue::TellFirst(ReleasableMutexLock* lock) {
  Event event = std::move(queue_.front());
  queue_.pop_front();
  is_telling_ = true;
  Callbacks callbacks = callbacks_;
  for (const std::shared_ptr<Callback>& callback : callbacks) {
    if (stops_ || callback->is_removed.load()) continue;
    running_ = callback.get();
    lock->Unlock();
    Call(callback.get(), event);
    lock->Lock();
    running_ = nullptr;
    changed_->notify_all();
  }
  // The last of one that removed itself: what it holds may call tjit.
  lock->Unlock();
  callbacks.clear();
  lock->Lock();
  is_telling_ = false;
  changed_->notify_all();
}

void EventQueue::Call(Callback* callback, const Event& event) {
  std::string what;
  try {
    return callback->call(event);
  } catch (const c10::Error& e) {
    what = e.what_without_backtrace();
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {  // said below
    what = "what is no std::exception";
  }
  if (std::exchange(callback->has_thrown, true)) return;
  LogWarning(absl::StrCat("a callback of tjit::on_event() threw: ", what,
                          "; the program goes on, and the callback is called "
                          "again. Catch what it may throw"));
}

void EventQueue::Stop() {
  ReleasableMutexLock lock(mutex_);
  LookForFork();
  stops_ = true;
  g_has_event_callbacks.store(false, std::memory_order_relaxed);
  changed_->notify_all();
  while (has_thread_ && !IsOwnThread()) lock.Wait(*changed_);
  lock.Unlock();
}

// `node`: one of its steps; null: not known.
Event EventOf(EventKind kind, const Trace& trace, const TraceNode* node) {
  Event event;
  event.kind = kind;
  event.sequence = SequenceName(trace);
  event.ops = trace.length;
  if (node != nullptr) event.region = RegionNameOf(node->step.context);
  return event;
}

}  // namespace

std::string RegionNameOf(std::uint32_t context) {
  const RegionId region = RegionOfContext(context);
  return region == kNoRegion ? "" : RegionTable::Get().NameOf(region);
}

namespace {

// No memory to tell it: nobody hears of it, and the program goes on.
template <class Tell>
void TellIfThereIsMemory(Tell tell) {
  if (!TellsEvents()) return;
  try {
    tell();
  } catch (const std::bad_alloc&) {
    LogWarning("an event is not told, as there is no memory");
  }
}

}  // namespace

void TellEvent(Event event) {
  TellIfThereIsMemory([&] { EventQueue::Get().Tell(std::move(event)); });
}

void TellPromoted(const std::vector<const TraceNode*>& path, const Trace& trace,
                  const std::string& function) {
  TellIfThereIsMemory([&] {
    Event event = EventOf(EventKind::kPromoted, trace, path.front());
    event.ops = static_cast<std::int64_t>(path.size());
    event.function = function;
    EventQueue::Get().Tell(std::move(event));
  });
}

void KeepDifference(const Trace& trace, BailReason why, std::string op,
                    std::string expected, std::string actual) {
  EventQueue::Get().Keep(
      {trace.id, why, std::move(op), std::move(expected), std::move(actual)});
}

bool IsFirstFallback(std::uint64_t lineage, const Trace& trace,
                     BailReason why) {
  return EventQueue::Get().IsFirst(
      KeyOf(lineage, trace, static_cast<int>(why)));
}

void TellFellBack(std::uint64_t lineage, const Trace& trace,
                  const TraceNode& node, BailReason why) {
  TellIfThereIsMemory([&] {
    const std::optional<Difference> difference = EventQueue::Get().Take();
    Event event = EventOf(EventKind::kFellBack, trace, &node);
    event.ops = node.depth + 1;
    event.reason = BailName(why);
    event.why = BailText(why);
    if (difference && difference->trace == trace.id && difference->why == why) {
      event.op = difference->op;
      event.expected = difference->expected;
      event.actual = difference->actual;
    }
    EventQueue::Get().TellRepeated(KeyOf(lineage, trace, static_cast<int>(why)),
                                   std::move(event));
  });
}

void TellGivenUp(std::uint64_t lineage, const Trace& trace, bool is_slower) {
  TellIfThereIsMemory([&] {
    constexpr BailReason kLeft = BailReason::kBlacklisted;
    Event event = EventOf(EventKind::kGivenUp, trace,
                          trace.first_end.load(std::memory_order_acquire));
    event.reason = is_slower ? "slower" : BailName(kLeft);
    event.why = is_slower ? "eager is as fast" : BailText(kLeft);
    EventQueue::Get().TellRepeated(
        KeyOf(lineage, trace, is_slower ? kSlower : static_cast<int>(kLeft)),
        std::move(event));
  });
}

void StopEvents() { EventQueue::Get().Stop(); }
void LockEventsForFork() { EventQueue::Get().LockForFork(); }
void UnlockEventsAfterFork(bool is_child) {
  EventQueue::Get().UnlockAfterFork(is_child);
}

}  // namespace tjit::runtime

namespace tjit {

std::string Event::to_json() const {
  static constexpr const char* kNames[] = {"promoted", "compiled", "fell_back",
                                           "given_up", "evicted"};
  std::string json = "{";
  const auto add = [&json](const char* name, const std::string& value) {
    absl::StrAppend(&json, json.size() > 1 ? ", \"" : "\"", name,
                    "\": ", value);
  };
  const auto add_text = [&](const char* name, const std::string& text) {
    add(name, Quoted(text));
  };
  const auto add_number = [&](const char* name, std::int64_t number) {
    add(name, absl::StrCat(number));
  };
  add_text("kind", kNames[static_cast<std::size_t>(kind)]);
  add_text("sequence", sequence);
  add_text("region", region);
  add_text("function", function);
  add_number("ops", ops);
  add_number("took_ns", took_ns);
  add_number("kernels_compiled", kernels_compiled);
  add_number("kernels_reused", kernels_reused);
  add_number("kernels_failed", kernels_failed);
  add_text("reason", reason);
  add_text("why", why);
  add_text("op", op);
  add_text("expected", expected);
  add_text("actual", actual);
  add_number("times", times);
  add_number("missed", missed);
  return json + "}";
}

std::uint64_t on_event(std::function<void(const Event&)> call) {
  TORCH_CHECK(call != nullptr,
              "tjit::on_event: the callback is empty; pass a function");
  return runtime::EventQueue::Get().Add(std::move(call));
}

bool remove_on_event(std::uint64_t id) {
  return runtime::EventQueue::Get().Remove(id);
}

bool wait_for_events(std::chrono::milliseconds timeout) {
  return runtime::EventQueue::Get().Wait(timeout);
}

}  // namespace tjit
