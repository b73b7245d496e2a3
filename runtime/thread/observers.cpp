#include "runtime/thread/observers.h"

#include <utility>

#include "runtime/call/interpose.h"
#include "runtime/platform/thread_context.h"

// Defined in intercept/interpose_observers.cpp.
TJIT_INTERPOSED at::CallbackHandle
_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE(
    at::RecordFunctionCallback callback);
TJIT_INTERPOSED void _ZN2at14removeCallbackEm(at::CallbackHandle handle);

namespace tjit::runtime {

std::atomic<bool> g_was_watched{false};

[[gnu::cold]] bool HasWatchers() { return at::hasCallbacks(); }

namespace {

struct Learning {
  std::unique_ptr<InnerCalls> calls;
  at::CallbackHandle handle = 0;
};
constinit thread_local Learning* t_learning = nullptr;

std::unique_ptr<at::ObserverContext> OnBegin(const at::RecordFunction& call) {
  // Another thread may have got the callback from this one.
  if (t_learning != nullptr) t_learning->calls->Begin(call);
  return nullptr;
}
void OnEnd(const at::RecordFunction&, at::ObserverContext*) {
  if (t_learning != nullptr) t_learning->calls->End();
}

}  // namespace

void BeginLearningCalls() {
  EndLearningCalls();
  t_learning = new Learning;
  t_learning->calls = std::make_unique<InnerCalls>();
  t_learning->handle =
      TJIT_NEXT(_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE)(
          at::RecordFunctionCallback(&OnBegin, &OnEnd)
              .needsInputs(true)
              .scopes({at::RecordScope::FUNCTION}));
}

std::unique_ptr<const InnerCalls> EndLearningCalls() {
  if (t_learning == nullptr) return nullptr;
  const std::unique_ptr<Learning> learned(std::exchange(t_learning, nullptr));
  TJIT_NEXT(_ZN2at14removeCallbackEm)(learned->handle);
  return std::move(learned->calls);
}

}  // namespace tjit::runtime
