// Generates the tiles of a slabs loop (Note [Slabs] in form_loops.h): some
// columns at a time, all rows of each, phase by phase the vector code and then
// the calls (Note [Tiles] in phases.h). A slab's function reads memory where it
// lies, with the stride of its rows; what is in buffers lies row behind row.
// Tested by: tests/compiler/llvm/llvm_slabs_test.cpp
#pragma once

#include <vector>

#include "compiler/llvm/call_emitter.h"
#include "compiler/llvm/row_emitter.h"

namespace tjit::llvm_backend {

class SlabEmitter {
 public:
  // outer: indices of the dims around, as rows has them. All outlive it.
  SlabEmitter(const LoopContext& loop, RowEmitter* rows, CallEmitter* calls,
              std::vector<llvm::Value*>* outer);

  // Before the loop. Returns the elements of a tile, which buffers are for.
  llvm::Value* Begin();
  // Of the slab, or of the part of its columns, where the loop stands.
  void Tiles();

 private:
  void Tile(llvm::Value* first, llvm::Value* count);
  void Elements(llvm::Value* first, llvm::Value* count, int phase,
                bool is_dense);
  void Call(const Step& step, llvm::Value* first, llvm::Value* count);
  void PositionCall(const Step& step, const CallEmitter::Arrays& in,
                    llvm::Value* first, llvm::Value* count);
  CallEmitter::Arrays ArraysOf(const Step& step, llvm::Value* first);
  CallEmitter::Arrays StridesOf(const Step& step, llvm::Value* in_buffers);
  llvm::Value* Rows();
  llvm::Value* Columns();  // of the last dim
  llvm::Value* AllColumns();
  llvm::Value* ColumnPlace(llvm::Value* first);
  llvm::Value* PlaceIn(std::size_t from, std::size_t to);
  std::size_t SplitColumns() const;
  llvm::Value* Number(std::int64_t number) const;

  const LoopContext& loop_;
  const LoopCode& code_;
  Frame& frame_;
  Builder& b_;
  RowEmitter& rows_;
  CallEmitter& calls_;
  std::vector<llvm::Value*>& outer_;
  llvm::Value* tile_columns_ = nullptr;
};

}  // namespace tjit::llvm_backend
