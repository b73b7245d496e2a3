// The token of one op call: the op and where its arguments come from.
//
// Sources are distances in the stream: how many ops ago this storage was
// touched last, and whether that was a write. In a loop all of them repeat with
// the period, so equal tokens mean equal dataflow and a - b is not b - a. Sizes
// are not part of it, only ndim, dtype, layout and key set. Of tensors that a
// long list joins (joined_list.h) neither sources nor their number are. In the
// loose token a tensor that no op has written lately has its number of elements
// for a source: samples of one size are alike, whichever is drawn.
// Tested by: tests/runtime/thread/engagement_test.cpp
#pragma once

#include <cstdint>

#include "recorder/token_ring.h"
#include "runtime/call/call_frame.h"

namespace tjit::runtime {

// Stream (upper 16 bits) and position (lower 48).
inline std::uint64_t PositionStamp(std::uint16_t stream,
                                   std::uint64_t position) {
  return std::uint64_t{stream} << 48 | (position & ((1ull << 48) - 1));
}

// What else TokenOf() sees.
struct TokenNotes {
  bool fresh = false;         // an argument has never been seen by this stream
  std::int64_t elements = 0;  // of all tensor arguments
};

// Also notes the use of every argument at `position`.
StreamToken TokenOf(const CallFrame& frame, std::uint32_t context,
                    std::uint16_t stream, std::uint64_t position,
                    TokenNotes* notes);

// What TokenOf() would answer; notes nothing.
StreamToken PeekToken(const CallFrame& frame, std::uint32_t context,
                      std::uint16_t stream, std::uint64_t position);

// Notes that the storage of `impl` was written at `stamp`.
void RecordWrite(const c10::TensorImpl* impl, std::uint64_t stamp);

}  // namespace tjit::runtime
