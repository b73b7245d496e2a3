// Generates the code of one row of a loop, or of a part of it: full vectors and
// what is left of them.
//
// Note [One body]. What LLVM takes is linear in instructions, so with masks a
// body that stores to tiles alone, or once per row, is emitted once: each
// vector of the row is a masked one. (What is stored to memory is stored by
// whole vectors: a processor reads a line before it writes a part of it, and a
// loop over memory takes twice as long on Zen 5.) The mask is computed for the
// first vector and the last one, and has all lanes between them, so that the
// loop has nothing more to do than one without:
//
//   check:  if begin >= to: done         begin: from, or where the body ended
//   iteration: mask = lanes of [begin, to)
//   body:   ...                          mask: of the iteration, or all lanes
//           next = index + lanes
//           if next <= to - lanes: body, else check with next
//
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp
#pragma once

#include <vector>

#include "compiler/llvm/block_emitter.h"

namespace tjit::llvm_backend {

class RowEmitter {
 public:
  // Indices [from, to) of the dim behind the outer ones, in one phase.
  struct Piece {
    llvm::Value* from;
    llvm::Value* to;
    llvm::Value* tile_offset;  // buffer index of element 0
    int phase;
    bool is_of_row = false;
    llvm::Value* row = nullptr;  // of a rows loop: index in the tile
  };

  // outer: indices of the dims around, as they are when the row is emitted.
  // Both outlive it.
  RowEmitter(const LoopContext& loop, int lanes,
             const std::vector<llvm::Value*>& outer);

  // The piece of the row at the outer indices, which is not empty: of an empty
  // one nothing may be loaded.
  void Columns(const Piece& piece);
  // Of an access at the outer indices, in elements.
  llvm::Value* OffsetOf(const MemoryAccess& access);

  // Where a function finds the operand, which is no scalar: in a buffer, or in
  // memory at the outer indices.
  llvm::Value* ArrayOf(const Source& source);
  // Of the access at the outer indices.
  llvm::Value* AddressOf(int access);

  // What is loaded once for such a piece.
  Row MakeRow(const Piece& piece);

 private:
  bool IsStored(std::size_t access) const;
  bool NeedsFullVectors(const Piece& piece) const;
  bool HasSharedDivisors(const Piece& piece) const;
  void OneBody(const Row& row, llvm::Value* from, llvm::Value* to,
               llvm::Value* last, Block block);
  void Masked(const Row& row, llvm::Value* from, llvm::Value* to, Block block);
  void Blocks(const Row& row, llvm::Value* from, llvm::Value* to, Block block);
  llvm::Value* Lanes() const;
  // The mask of those of [from, to) that one vector has lanes for.
  llvm::Value* LanesOf(llvm::Value* from, llvm::Value* to) const;

  const LoopContext& loop_;
  const LoopCode& code_;
  Frame& frame_;
  Builder& b_;
  const int lanes_;
  const std::vector<llvm::Value*>& outer_;
};

}  // namespace tjit::llvm_backend
