#include "compiler/schedule/bind_loop.h"

#include <cstring>

namespace tjit::llvm_backend {

void BindLoop(std::uint64_t* bound, char* const* memory,
              const std::int64_t* numbers, const TjitScalar* scalars,
              std::int64_t pointer_count, std::int64_t scalar_count) {
  const std::int64_t* number = numbers;
  for (std::int64_t i = 0; i < pointer_count; ++i, number += 2) {
    *bound++ = reinterpret_cast<std::uintptr_t>(memory[number[0]] + number[1]);
  }
  for (std::int64_t i = 0; i < scalar_count; ++i) {
    const std::int64_t place = *number++;
    const void* base = scalars;
    if (place < 0) base = numbers;
    std::memcpy(bound++,
                static_cast<const char*>(base) + (place < 0 ? ~place : place),
                sizeof(*bound));
  }
}

}  // namespace tjit::llvm_backend
