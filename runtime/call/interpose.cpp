#include "runtime/call/interpose.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace tjit::runtime {
namespace {

const std::vector<const char*>& Symbols() {
  static const auto* symbols = new std::vector<const char*>{
#define TJIT_CONST_POINTER(symbol) #symbol,
#define TJIT_TENSOR_MAKER(symbol) #symbol,
#define TJIT_BOOL_SETTER(symbol) #symbol,
#define TJIT_INTERPOSED_AS_IS(symbol) #symbol,
#include "runtime/intercept/interposed.def"
  };
  return *symbols;
}

const void* ObjectOf(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// What libtorch's own calls bind to: the first definition in search order.
bool IsActive(const char* symbol) {
  const void* first = dlsym(RTLD_DEFAULT, symbol);
  return first != nullptr &&
         ObjectOf(first) ==
             ObjectOf(reinterpret_cast<const void*>(&ActiveInterposers));
}

void SayOnce(const std::string& text) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

void* NextDefinition(const char* symbol, std::atomic<void*>& cache) {
  void* next = cache.load(std::memory_order_acquire);
  if (next != nullptr) return next;
  next = dlsym(RTLD_NEXT, symbol);
  // Linked behind libtorch, what is next after us is nothing.
  if (next == nullptr && !IsActive(symbol)) next = dlsym(RTLD_DEFAULT, symbol);
  if (next == nullptr) {
    const std::string text = std::string("tjit: libtorch does not export ") +
                             symbol + ", which was called through libtjit: is "
                             "this another libtorch than the one it was built "
                             "for?\n";
    SayOnce(text);
    TORCH_CHECK(false, text);
  }
  cache.store(next, std::memory_order_release);
  return next;
}

bool InterpositionIsComplete() {
  for (const char* symbol : Symbols()) {
    if (!IsActive(symbol)) return false;
  }
  return true;
}

std::string ActiveInterposers() {
  std::size_t active = 0;
  std::string missing;
  for (const char* symbol : Symbols()) {
    if (IsActive(symbol)) {
      ++active;
    } else {
      missing += "\n  not active: ";
      missing += symbol;
    }
  }
  return std::to_string(active) + " of " + std::to_string(Symbols().size()) +
         " interposed functions are active" + missing;
}

}  // namespace tjit::runtime
