#include "runtime/intercept/registration.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

#include "support/mutex.h"

namespace tjit::runtime {
namespace {

// Never freed: a handle that goes takes its kernel along, while the program's
// own static objects may still call ops.
struct Handles {
  Mutex mutex;
  std::vector<c10::RegistrationHandleRAII> all ABSL_GUARDED_BY(mutex);
};
Handles& TheHandles() {
  static auto* handles = new Handles;
  return *handles;
}

}  // namespace

void RegisterKernel(const c10::OperatorName& op, c10::DispatchKey key,
                    NewKernel kernel) {
  c10::RegistrationHandleRAII handle =
      c10::Dispatcher::singleton().registerImpl(
          op, key, std::move(kernel.function), kernel.signature,
          /*inferred_function_schema=*/nullptr, "registered by tjit");
  Handles& handles = TheHandles();
  const MutexLock lock(handles.mutex);
  handles.all.push_back(std::move(handle));
}

}  // namespace tjit::runtime
