// Sums of rows whose elements the loop computes: they are added up where they
// are computed.
//
// Note [Sums of registers]. A row function reads its rows from memory, so
// elements that are computed for it go through a buffer. A sum need not: where
// the function says in what order it adds (TjitMath::mode), the loop does what
// there is most of, and calls it for the rest. A row is cut into groups, four
// ways of so many lanes; its order of additions (row_functions/sums.h) is
//
//   16 groups, a part, are added up; their sum is added to level 1
//   16 times that: level 1 is added to level 2, and is 0; there is one more
//   at the end: the last groups that are no 16, + level 1, + level 2
//   the function: ways, what is left of the row, lanes
//
// Of sum_of_halves a group has twice as many elements as lanes: each way folds
// its vector, the first half of the lanes + the second one.
//
// The groups' sums lie in registers, the two levels in memory. Rows that have
// more go to the buffer (131,072 elements of f32, as many as it has). What
// is left of each row, less than a group, is computed to the buffer as before,
// row beside row. Short rows are computed to it as a whole, as each row has
// costs of its own. So the loop's code has both ways, and each run takes one:
// sizes are no part of the code. Lines of memory are fetched 1 KiB before they
// are read. (x * x).sum(-1) of [1024, 1024] f32 takes 44 us instead of 63
// (bench row 8, Zen 5), 50 without fetching; a loop in C that only reads the
// numbers 42. Not on Zen 4, where it costs.
// Tested by: tests/compiler/llvm/llvm_row_sums_test.cpp
#pragma once

#include <map>
#include <vector>

#include "compiler/llvm/block_emitter.h"
#include "compiler/schedule/register_sums.h"

namespace tjit::llvm_backend {

class RowSums {
 public:
  // Of the loop's elements [from, to) those that go to the buffer.
  struct Rest {
    llvm::Value* from;
    llvm::Value* to;
    llvm::Value* tile_offset;
  };

  RowSums(const LoopContext& loop, int lanes);

  bool is_empty() const { return plan_.phases.empty(); }
  bool AreIn(int phase) const { return plan_.phases.contains(phase); }

  // Where builder() stands at the loop's beginning. Returns the rows of a tile
  // instead of `tile_rows`, those that fill a buffer.
  llvm::Value* Begin(llvm::Value* length, llvm::Value* tile_rows);
  // How much of a row's buffer is used.
  llvm::Value* KeptOf(llvm::Value* length);

  template <class Body>
  void IfLong(Body body) {
    loop_.frame.If(is_long_, body);
  }
  // Adds up the whole groups of one row, number tile_row of the tile.
  void Groups(const Row& row, int phase, llvm::Value* tile_row);
  // The pieces that go to the buffer, and the one that begins with a row; it
  // may be empty. Dense: short rows are one piece.
  llvm::Value* PiecesOf(llvm::Value* rows, bool is_dense) const;
  Rest RestOf(int phase, llvm::Value* rows, llvm::Value* row, bool is_dense);

  // What the function is to go on with; null if the step is none of these.
  llvm::Value* SumsOf(const Step& step) const;

 private:
  using Values = std::vector<llvm::Value*>;  // by register of the phase
  struct Sum {
    const Step* step;
    llvm::Value* sums;   // by row of the tile: one group
    llvm::Value* level;  // 2, of the row that is added up: one group
  };
  // Some lanes of a sum's group.
  struct Register {
    const Sum* sum;
    int part, parts;
    llvm::Type* type;
  };

  // Rows of memory as they are some lines later.
  struct Ahead {
    llvm::Value* start;
    llvm::Type* element;
    int bytes;  // of an element
  };

  llvm::Value* Number(std::int64_t number) const;
  std::vector<Register> RegistersOf(int phase) const;
  llvm::Value* AddressOf(const Register& at, llvm::Value* tile_row) const;
  llvm::Value* LevelOf(const Register& at) const;
  void SetToZero(const Register& at, llvm::Value* address);
  void AddTo(const Register& at, llvm::Value* address, llvm::Value* sum);
  std::vector<Ahead> AheadOf(const Row& row, int phase);
  void Fetch(const std::vector<Ahead>& ahead, llvm::Value* index, int group);
  Values AddGroup(const Row& row, int phase, llvm::Value* index,
                  const Values& to);
  void AddFolded(int part, const Values& parts, llvm::Value** sums);
  Values AddPart(const Row& row, int phase, llvm::Value* from, llvm::Value* to);

  const LoopContext& loop_;
  Builder& b_;
  const int lanes_;
  const SumPlan plan_;
  std::map<int, std::vector<Sum>> sums_;  // by phase
  llvm::Value* length_ = nullptr;
  llvm::Value* is_long_ = nullptr;
  // By group: elements in whole ones, of short rows 0.
  std::map<int, llvm::Value*> whole_;
};

}  // namespace tjit::llvm_backend
