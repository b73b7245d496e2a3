// Generates the calls of a loop that is cut into tiles (Note [Tiles] in
// phases.h): of array functions, of row functions, and of functions of columns
// with what goes before and behind their loop.
// Tested by: tests/compiler/llvm/llvm_math_test.cpp, llvm_rows_test.cpp,
// llvm_columns_test.cpp
#pragma once

#include <map>
#include <vector>

#include "compiler/llvm/block_emitter.h"

namespace tjit::llvm_backend {

class CallEmitter {
 public:
  // Where each operand of a step lies; null for a scalar.
  using Arrays = std::vector<llvm::Value*>;

  explicit CallEmitter(const LoopContext& loop);

  // void f(n, in..., out, mode)
  void Array(const Step& step, const Arrays& in, llvm::Value* elements);
  // A TjitPositionFn; `place`: of the first of the elements, of `total`;
  // `from`: the first of them in the buffers, null: 0.
  void PositionCall(const Step& step, const Arrays& in, llvm::Value* elements,
                    llvm::Value* place, llvm::Value* total,
                    llvm::Value* from = nullptr);
  // A TjitRowFn. sums: null, or what of each row has been added up, or an
  // address that is null.
  void Rows(const Step& step, const Arrays& in, llvm::Value* rows,
            llvm::Value* sums = nullptr);

  // A TjitSlabFn, of `count` columns from `first` on, of so many; strides: of
  // the arrays.
  void Slab(const Step& step, const Arrays& in, const Arrays& strides,
            llvm::Value* rows, llvm::Value* count, llvm::Value* first,
            llvm::Value* columns);

  // A TjitColumnFn: of all steps before the loop, of one for some rows, of all
  // behind the loop. The same of functions of all elements.
  void BeginColumns();
  void Columns(const Step& step, const Arrays& in, llvm::Value* rows);
  void EndColumns();

 private:
  void Call(const Step& step, const std::vector<llvm::Type*>& types,
            const std::vector<llvm::Value*>& arguments);
  void CallColumns(const Step& step, llvm::Value* rows, llvm::Value* a,
                   llvm::Value* out);
  void StoreColumns(const ColumnStore& store);
  const Step* PartnerOf(const Step& step) const;
  llvm::Value* RowNumber(const Step& step, llvm::Value* mean);
  llvm::Value* Result(const Step& step) const;
  llvm::Value* Null() const;
  llvm::Value* Constant(std::int64_t number) const;
  llvm::Value* Length() const;
  llvm::Value* ColumnCount() const;
  llvm::Value* StateBytes() const;

  const LoopContext& loop_;
  Builder& b_;
  std::map<ir::ValueId, llvm::Value*> states_, columns_;  // by result
};

}  // namespace tjit::llvm_backend
