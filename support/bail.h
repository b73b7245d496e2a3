// Reasons for not going on, for running what is pending and for leaving a
// backward pass to libtorch, from the tables *_reasons.def.
#pragma once

#include <cstdint>

namespace tjit {

enum class BailReason : std::uint8_t {
#define TJIT_BAIL(suffix, name, expectedness, text, remedy) k##suffix,
#include "support/bail_reasons.def"
#undef TJIT_BAIL
  kCount,
};

// "op_differs"; "?" out of range.
const char* BailName(BailReason reason);
// One line for a user: "another op was called".
const char* BailText(BailReason reason);
// What the user can do about it: "pass ...".
const char* BailRemedy(BailReason reason);
// True for reasons that a healthy program may show.
bool IsExpected(BailReason reason);

enum class FlushReason : std::uint8_t {
#define TJIT_FLUSH_REASON(suffix, name, text) k##suffix,
#include "support/flush_reasons.def"
#undef TJIT_FLUSH_REASON
  kCount,
};

const char* FlushName(FlushReason reason);
const char* FlushText(FlushReason reason);

// Why a backward pass was left to libtorch's engine.
enum class BackwardReason : std::uint8_t {
#define TJIT_BACKWARD_REASON(suffix, name, text) k##suffix,
#include "support/backward_reasons.def"
#undef TJIT_BACKWARD_REASON
  kCount,
};

const char* BackwardName(BackwardReason reason);
const char* BackwardText(BackwardReason reason);

}  // namespace tjit
