#include "runtime/call/interpose.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <string>

namespace tjit::runtime {
namespace {

const void* ObjectOf(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

void SayOnce(const std::string& text) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

// What libtorch's own calls bind to: the first definition in search order.
bool IsActiveInterposer(const char* symbol) {
  const void* first = dlsym(RTLD_DEFAULT, symbol);
  return first != nullptr &&
         ObjectOf(first) ==
             ObjectOf(reinterpret_cast<const void*>(&NextDefinition));
}

void* NextDefinition(const char* symbol, std::atomic<void*>& cache) {
  void* next = cache.load(std::memory_order_acquire);
  if (next != nullptr) return next;
  next = dlsym(RTLD_NEXT, symbol);
  // Linked behind libtorch, what is next after us is nothing.
  if (next == nullptr && !IsActiveInterposer(symbol))
    next = dlsym(RTLD_DEFAULT, symbol);
  if (next == nullptr) {
    const std::string text = std::string("tjit: libtorch does not export ") +
                             symbol +
                             ", which was called through libtjit: is "
                             "this another libtorch than the one it was built "
                             "for?\n";
    SayOnce(text);
    TORCH_CHECK(false, text);
  }
  cache.store(next, std::memory_order_release);
  return next;
}

}  // namespace tjit::runtime
