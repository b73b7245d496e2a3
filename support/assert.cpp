#include "support/assert.h"

#include <cstdio>
#include <cstdlib>

namespace tjit {

void FailAssert(const char* condition, const char* file, int line,
                std::string_view text) {
  std::fprintf(stderr, "tjit: %s:%d: %s does not hold%s%.*s\n", file, line,
               condition, text.empty() ? "" : ": ",
               static_cast<int>(text.size()), text.data());
  std::abort();
}

}  // namespace tjit
