// Functions of libtorch that begin or end an observer of ops: what is pending
// runs before, and no call goes around the dispatcher from then on
// (Note [Observers] in thread/observers.h).
#include <ATen/record_function.h>

#include <utility>

#include "runtime/call/interpose.h"
#include "runtime/intercept/direct_calls.h"
#include "runtime/thread/observers.h"

using tjit::runtime::AfterWatchersChange;
using tjit::runtime::BeforeWatchersChange;
using tjit::runtime::CloseAllDirectCalls;

// Whoever observes ops begins with one of these.
TJIT_INTERPOSED at::CallbackHandle
_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE(
    at::RecordFunctionCallback callback) {
  BeforeWatchersChange();
  CloseAllDirectCalls();
  const at::CallbackHandle handle =
      TJIT_NEXT(_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE)(
          std::move(callback));
  AfterWatchersChange();
  return handle;
}

TJIT_INTERPOSED at::CallbackHandle
_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE(
    at::RecordFunctionCallback callback) {
  BeforeWatchersChange();
  CloseAllDirectCalls();
  const at::CallbackHandle handle =
      TJIT_NEXT(_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE)(
          std::move(callback));
  AfterWatchersChange();
  return handle;
}

TJIT_INTERPOSED void _ZN2at24set_record_function_tls_ERKNS_17RecordFunctionTLSE(
    const at::RecordFunctionTLS& tls) {
  if (!tls.sorted_tls_callbacks_.empty()) {
    CloseAllDirectCalls();
  }
  TJIT_NEXT(_ZN2at24set_record_function_tls_ERKNS_17RecordFunctionTLSE)(tls);
  if (!tls.sorted_tls_callbacks_.empty()) AfterWatchersChange();
}

// And ends with one of these.
TJIT_INTERPOSED void _ZN2at14removeCallbackEm(at::CallbackHandle handle) {
  BeforeWatchersChange();
  TJIT_NEXT(_ZN2at14removeCallbackEm)(handle);
  AfterWatchersChange();
}

TJIT_INTERPOSED void _ZN2at14clearCallbacksEv() {
  BeforeWatchersChange();
  TJIT_NEXT(_ZN2at14clearCallbacksEv)();
  AfterWatchersChange();
}

TJIT_INTERPOSED void _ZN2at20clearGlobalCallbacksEv() {
  BeforeWatchersChange();
  TJIT_NEXT(_ZN2at20clearGlobalCallbacksEv)();
  AfterWatchersChange();
}

TJIT_INTERPOSED void _ZN2at25clearThreadLocalCallbacksEv() {
  BeforeWatchersChange();
  TJIT_NEXT(_ZN2at25clearThreadLocalCallbacksEv)();
  AfterWatchersChange();
}
