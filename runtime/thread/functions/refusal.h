// Why a function that tjit::jit() wraps runs itself instead of being replayed.
#pragma once

#include <cstdint>
#include <string>

#include "recorder/schema_key.h"

namespace tjit::runtime {

enum class Refusal : std::uint8_t {
#define TJIT_REFUSAL(suffix, name, text, remedy) k##suffix,
#include "runtime/thread/functions/jit_refusals.def"
#undef TJIT_REFUSAL
  kCount,
};

// For a user: "jit_host_read: it reads values on the host (aten::item); return
// the tensor". `op`: that it is about, or kNoOp.
std::string DescribeRefusal(Refusal refusal, OpId op);

}  // namespace tjit::runtime
