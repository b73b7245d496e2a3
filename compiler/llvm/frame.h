// The frame of one generated loop function: its parameters, and what is
// computed once at entry: pointers, sizes and strides (Note [Shared loops] in
// shared_loop.h), and scalars as registers.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "compiler/llvm/lane_types.h"
#include "compiler/schedule/shared_loop.h"
#include "llvm/IR/Module.h"

namespace tjit::llvm_backend {

class Frame {
 public:
  // Begins the function of `loop`; builder() stands behind the entry.
  Frame(llvm::Module& module, const std::string& name, const SharedLoop& loop);
  // Ends it where builder() stands.
  void Return();

  llvm::Function* function() const { return function_; }
  Builder& builder() { return body_; }
  llvm::Value* begin() const { return function_->getArg(3); }
  llvm::Value* end() const { return function_->getArg(4); }

  llvm::Value* Memory(int index);
  llvm::Value* Number(const ir::Size& size);  // i64
  // A scalar operand as a register of `dtype`, on all lanes; `rounded`: to the
  // element type first, otherwise only to the compute type.
  llvm::Value* Scalar(const ir::Scalar& scalar, ir::DType dtype, bool rounded,
                      int lanes);
  // As `full` stores it.
  llvm::Value* Fill(const ir::Scalar& scalar, ir::DType dtype, int lanes);

  // Memory of this call of the function.
  llvm::Value* Array(int bytes);
  // The same, where builder() stands: not in a loop.
  llvm::Value* Array(llvm::Value* bytes);

  llvm::BasicBlock* NewBlock();
  // for (i = from; i < to; i += step) body(i), where builder() stands.
  template <class Body>
  void For(llvm::Value* from, llvm::Value* to, llvm::Value* step, Body body) {
    const LoopBlocks blocks = BeginFor(from, to);
    body(blocks.index);
    EndFor(blocks, step);
  }
  template <class Body>
  void If(llvm::Value* condition, Body body) {
    llvm::BasicBlock* then = NewBlock();
    llvm::BasicBlock* done = NewBlock();
    body_.CreateCondBr(condition, then, done);
    body_.SetInsertPoint(then);
    body();
    body_.CreateBr(done);
    body_.SetInsertPoint(done);
  }

 private:
  struct LoopBlocks {
    llvm::BasicBlock* body;
    llvm::BasicBlock* done;
    llvm::PHINode* index;
    llvm::Value* to;
  };
  LoopBlocks BeginFor(llvm::Value* from, llvm::Value* to);
  void EndFor(const LoopBlocks& blocks, llvm::Value* step);
  void Bind();
  // Entry `index` of an array of 8 bytes each.
  llvm::Value* Load(llvm::Type* type, llvm::Value* array, std::size_t index);
  llvm::Value* LoopNumber(std::size_t index);
  llvm::Value* ScalarAt(llvm::Value* place);
  // The 64 bits as their type says: a register of f64 or i64.
  llvm::Value* Bits(const ir::Scalar& scalar);

  llvm::Function* function_;
  Builder entry_;  // in front of the first block's branch
  Builder body_;
  const std::size_t pointer_count_, scalar_count_;
  llvm::Value* bound_ = nullptr;  // by BindLoop()
  std::map<int, llvm::Value*> memory_, arguments_;
  std::map<std::size_t, llvm::Value*> numbers_;
  using ScalarKey = std::tuple<int, std::uint64_t, int, int, int, int>;
  std::map<ScalarKey, llvm::Value*> scalars_;
};

}  // namespace tjit::llvm_backend
