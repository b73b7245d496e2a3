#include "runtime/platform/small_stack.h"

#include <pthread.h>
#include <unistd.h>

#include <future>

#include "runtime/platform/thread_context.h"

namespace tjit::runtime {
namespace {

bool Ask() {
  // The main thread's grows as the system lets it, and asking reads a file.
  if (gettid() == getpid()) return false;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  const bool is_known =
      pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  return is_known && bytes < kLeastStackBytes;
}

}  // namespace

bool HasSmallStack() {
  // No guard beside it: thread storage is scarce.
  enum : signed char { kUnknown, kNo, kYes };
  thread_local constinit signed char is_small = kUnknown;
  if (is_small == kUnknown) [[unlikely]]
    is_small = Ask() ? kYes : kNo;
  return is_small == kYes;
}

void RunOnUsualStack(absl::FunctionRef<void()> run) {
  std::async(std::launch::async, [&] {
    t_context.off = true;
    run();
  }).get();
}

}  // namespace tjit::runtime
