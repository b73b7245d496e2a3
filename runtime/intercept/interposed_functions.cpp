#include "runtime/intercept/interposed_functions.h"

#include <cstddef>
#include <vector>

#include "runtime/call/interpose.h"

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

}  // namespace

bool InterpositionIsComplete() {
  for (const char* symbol : Symbols()) {
    if (!IsActiveInterposer(symbol)) return false;
  }
  return true;
}

std::string ActiveInterposers() {
  std::size_t active = 0;
  std::string missing;
  for (const char* symbol : Symbols()) {
    if (IsActiveInterposer(symbol)) {
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
