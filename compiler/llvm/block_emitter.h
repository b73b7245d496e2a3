// Generates the vector code for some elements of a row: one phase of a loop's
// steps (phases.h), all loads before the first store.
//
// Note [No gathers]. Elements at a stride are loaded one by one, but under a
// mask: three columns of 1,024 rows of six doubles, summed, take 1.14 us with
// gathers of eight and 0.44 so (Zen 5).
//
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp, llvm_math_test.cpp
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "compiler/llvm/frame.h"
#include "compiler/llvm/quotients.h"
#include "compiler/schedule/loop_code.h"
#include "compiler/schedule/phases.h"

namespace tjit::llvm_backend {

// A loop while it is generated.
struct LoopContext {
  const LoopCode& code;
  const Phases& phases;
  const MathTable& math;
  Frame& frame;
  std::vector<llvm::Value*> buffers;  // of the tile, by number
  bool has_masks = false;             // the target is AVX-512
};

// One row of the iteration space: all but one index are fixed.
struct Row {
  std::size_t dim = 0;  // of that index

  std::vector<llvm::Value*> starts;    // by access: address of element 0
  // By access of stride 0: a register, on all of a vector's lanes.
  std::vector<llvm::Value*> uniforms, splats;
  // By access: what is loaded, as it is in memory; null or none: not yet.
  std::vector<llvm::Value*> lanes;
  // Registers that are the same for the whole row, of values that there is one
  // of per row, on all lanes too.
  std::map<ir::ValueId, llvm::Value*> values, value_splats;
  llvm::Value* tile_offset = nullptr;  // buffer index of element 0
};

// `lanes` elements of a row from index on; without mask all of them.
struct Block {
  int lanes = 1;
  llvm::Value* index = nullptr;
  llvm::Value* mask = nullptr;
  int phase = 0;
  bool is_of_row = false;  // the code of rows, else of elements
  bool fills_buffers = true;
};

// 0, 1, 2, ...
llvm::Value* LaneNumbers(Builder& b, int lanes);
// The mask of the first `count` lanes; of an i64 below 2^31.
llvm::Value* FirstLanes(Builder& b, int lanes, llvm::Value* count);

class BlockEmitter {
 public:
  BlockEmitter(const LoopContext& loop, const Row& row, const Block& block);

  void Run();
  // Of what Run() has computed.
  llvm::Value* Computed(ir::ValueId value) { return registers_.at(value); }
  // Lanes from `index` on of a value that lies in a buffer.
  llvm::Value* LoadValue(ir::ValueId value);

 private:
  // Where the lanes are: the first one's address where they lie side by side.
  struct Place {
    llvm::Value* pointer;  // of the first lane's element
    llvm::Value* stride;   // to the next one's
    llvm::Type* type;  // of the lanes in memory
    llvm::Align align;
    bool is_row;
  };

  // What the store writes, as it lies in memory.
  llvm::Value* RawOf(const StoreTo& store);
  llvm::Value* Compute(const Step& step);
  llvm::Value* Read(const Source& source, ir::DType dtype, bool rounded);
  Place PlaceOf(int access);
  llvm::Value* Pointers(const Place& place);
  llvm::Value* LoadElements(const Place& place);
  llvm::Value* LoadRaw(int access);
  llvm::Value* Load(int access);
  void Store(int access, llvm::Value* raw);
  ir::DType DTypeOf(int buffer) const;
  llvm::Value* BufferPlace(int buffer);
  llvm::Value* LoadBuffer(int buffer);
  void StoreBuffer(int buffer, llvm::Value* value);
  llvm::Value* CallVector(const Step& step, llvm::Value* const* x);
  llvm::Value* CallOneVector(const Step& step,
                             const std::vector<llvm::Value*>& arguments);

  const LoopContext& loop_;
  const LoopCode& code_;
  const Row& row_;
  const Block block_;
  Builder& b_;
  const LaneTypes types_;
  std::unordered_map<ir::ValueId, llvm::Value*> registers_;
  Quotients quotients_;
  std::vector<llvm::Value*> raw_, loaded_;  // by access
  llvm::Value* buffer_index_ = nullptr;     // of the first lane
};

}  // namespace tjit::llvm_backend
