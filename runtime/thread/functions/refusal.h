// Why a function that tjit::jit() wraps runs itself instead of being replayed.
#pragma once

#include <cstdint>

namespace tjit::runtime {

enum class Refusal : std::uint8_t {
#define TJIT_REFUSAL(suffix, name, text, remedy) k##suffix,
#include "runtime/thread/functions/jit_refusals.def"
#undef TJIT_REFUSAL
  kCount,
};

// "jit_host_read"; "?" out of range.
const char* RefusalName(Refusal refusal);
// One line for a user, and what the user can do.
const char* RefusalText(Refusal refusal);
const char* RefusalRemedy(Refusal refusal);

}  // namespace tjit::runtime
