// Interned operator names: "aten::add.Tensor" <-> a small number.
//
// Ids are dense, start at 1 (0 is "no op") and live as long as the process.
// Thread: any; a lock is taken, so this is for set-up and printing, not for
// the hot path. Tested by: tests/recorder/schema_key_test.cpp
#pragma once

#include <cstdint>
#include <string_view>

namespace tjit {

using OpId = std::uint32_t;
inline constexpr OpId kNoOp = 0;

// Returns the id of `name` ("ns::op" or "ns::op.overload"), new or known.
OpId InternOp(std::string_view name);

// Returns the name behind an id from InternOp; "?" for anything else.
std::string_view OpName(OpId op);

}  // namespace tjit
