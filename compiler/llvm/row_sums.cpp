#include "compiler/llvm/row_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compiler/llvm/index_math.h"

namespace tjit::llvm_backend {
namespace {

using llvm::Value;

constexpr std::int64_t kPart = 16;  // groups, until levels are carried
// Besides the groups' own. No row is so long that a third one would get more
// than what is all of the second.
constexpr int kLevels = 2;
constexpr std::int64_t kLongRow = 64;  // elements
constexpr std::int64_t kRowsAtOnce = 32;
constexpr int kLineBytes = 64;
constexpr int kFetchedAheadBytes = 1 << 10;
static_assert(kMaxRowBytes / 4 / 32 <= kPart * kPart * kPart);

}  // namespace

RowSums::RowSums(const LoopContext& loop, int lanes)
    : loop_(loop),
      b_(loop.frame.builder()),
      lanes_(lanes),
      plan_(PlanSums(loop.code, loop.phases, loop.math, lanes)) {}

Value* RowSums::Number(std::int64_t number) const {
  return b_.getInt64(static_cast<std::uint64_t>(number));
}

Value* RowSums::Begin(Value* length, Value* tile_rows) {
  length_ = length;
  is_long_ = b_.CreateICmpSGE(length, Number(kLongRow));
  for (const auto& [phase, sums] : plan_.phases) {
    Value*& whole = whole_[sums.group];
    if (whole == nullptr) {
      whole = b_.CreateSelect(
          is_long_, b_.CreateAnd(length, Number(-sums.group)), Number(0));
    }
    for (const Step* step : sums.steps) {
      const int bytes = sums.group * RegisterBytes(step->result_dtype);
      sums_[phase].push_back(
          {step, loop_.frame.Array(static_cast<int>(kRowsAtOnce) * bytes),
           loop_.frame.Array(kLevels * bytes)});
    }
  }
  Value* most = Number(kRowsAtOnce);
  Value* of_tile =
      b_.CreateSelect(b_.CreateICmpSLT(tile_rows, most), tile_rows, most);
  return b_.CreateSelect(is_long_, plan_.is_alone ? most : of_tile, tile_rows);
}

Value* RowSums::KeptOf(Value* length) {
  int group = 0;
  for (const auto& [phase, sums] : plan_.phases) {
    group = std::max(group, sums.group);
  }
  return is_empty() ? length : b_.CreateSelect(is_long_, Number(group), length);
}

Value* RowSums::PiecesOf(Value* rows, bool is_dense) const {
  return is_dense ? b_.CreateSelect(is_long_, rows, Number(1)) : rows;
}

RowSums::Rest RowSums::RestOf(int phase, Value* rows, Value* row,
                              bool is_dense) {
  const int group = plan_.phases.at(phase).group;
  Value* from = whole_.at(group);
  Value* to = length_;
  if (is_dense) {
    to = b_.CreateSelect(is_long_, to, b_.CreateMul(rows, length_));
  }
  // Of short rows `from` is 0.
  Value* place = b_.CreateSelect(is_long_, Number(group), length_);
  return {from, to, b_.CreateSub(b_.CreateMul(row, place), from)};
}

Value* RowSums::SumsOf(const Step& step) const {
  for (const auto& [phase, sums] : sums_) {
    for (const Sum& sum : sums) {
      if (sum.step != &step) continue;
      return b_.CreateSelect(is_long_, sum.sums,
                             llvm::ConstantPointerNull::get(b_.getPtrTy()));
    }
  }
  return nullptr;
}

Value* RowSums::AddressOf(const Register& at, Value* array,
                          Value* group) const {
  Value* place = Plus(b_, Times(b_, group, Number(at.parts)), Number(at.part));
  return ElementAt(b_, at.type, array, place);
}

Value* RowSums::Load(const Register& at, int level) const {
  return b_.CreateAlignedLoad(
      at.type, AddressOf(at, at.sum->levels, Number(level)), llvm::Align(4));
}

void RowSums::Store(const Register& at, int level, Value* value) const {
  b_.CreateAlignedStore(value, AddressOf(at, at.sum->levels, Number(level)),
                        llvm::Align(4));
}

std::vector<RowSums::Register> RowSums::RegistersOf(int phase) const {
  std::vector<Register> registers;
  const int parts = plan_.phases.at(phase).group / lanes_;
  for (const Sum& sum : sums_.at(phase)) {
    const LaneTypes types(b_, lanes_);
    llvm::Type* type = types.Lanes(types.RegisterType(sum.step->result_dtype));
    for (int part = 0; part < parts; ++part) {
      registers.push_back({&sum, part, parts, type});
    }
  }
  return registers;
}

std::vector<RowSums::Ahead> RowSums::AheadOf(const Row& row, int phase) {
  std::vector<Ahead> rows;
  const LaneTypes types(b_, 1);
  const auto& stores = loop_.code.stores;
  for (const int a : CodeOf(loop_.code, loop_.phases, phase, false).accesses) {
    const auto& access = loop_.code.accesses[static_cast<std::size_t>(a)];
    const bool is_stored =
        std::any_of(stores.begin(), stores.end(),
                    [&](const StoreTo& to) { return to.access == a; });
    if (is_stored || access.strides[row.dim] != ir::Size(1)) continue;
    rows.push_back(
        {ElementAt(b_, b_.getInt8Ty(), row.starts[static_cast<std::size_t>(a)],
                   Number(kFetchedAheadBytes)),
         types.MemoryType(access.dtype), InfoOf(access.dtype).bytes});
  }
  return rows;
}

// What is behind the end of the memory is no fault.
void RowSums::Fetch(const std::vector<Ahead>& ahead, Value* index, int group) {
  for (const Ahead& row : ahead) {
    Value* first = ElementAt(b_, row.element, row.start, index);
    for (int at = 0; at < group * row.bytes; at += kLineBytes) {
      Value* line = ElementAt(b_, b_.getInt8Ty(), first, Number(at));
      b_.CreateIntrinsic(
          llvm::Intrinsic::prefetch, {line->getType()},
          {line, b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
    }
  }
}

RowSums::Values RowSums::AddGroup(const Row& row, int phase, Value* index,
                                  const Values& to) {
  Values sums = to;
  const int group = plan_.phases.at(phase).group;
  const auto parts = static_cast<std::size_t>(group / lanes_);
  for (std::size_t part = 0; part < parts; ++part) {
    Block block{lanes_, nullptr, nullptr, phase};
    block.index =
        Plus(b_, index, Number(static_cast<std::int64_t>(part) * lanes_));
    block.fills_buffers = false;
    BlockEmitter elements(loop_, row, block);
    elements.Run();
    for (std::size_t r = part; r < sums.size(); r += parts) {
      const Step& sum = *sums_.at(phase)[r / parts].step;
      sums[r] = b_.CreateFAdd(sums[r], elements.Computed(sum.sources[0].value));
    }
  }
  return sums;
}

// Of elements [from, to), one group at least.
RowSums::Values RowSums::AddPart(const Row& row, int phase, Value* from,
                                 Value* to) {
  const std::vector<Ahead> ahead = AheadOf(row, phase);
  const int group = plan_.phases.at(phase).group;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* turn = loop_.frame.NewBlock();
  llvm::BasicBlock* done = loop_.frame.NewBlock();
  b_.CreateBr(turn);
  b_.SetInsertPoint(turn);
  const auto phi = [&](Value* first) {
    llvm::PHINode* node = b_.CreatePHI(first->getType(), 2);
    node->addIncoming(first, before);
    return node;
  };
  llvm::PHINode* index = phi(from);
  std::vector<llvm::PHINode*> sums;
  for (const Register& at : RegistersOf(phase)) {
    sums.push_back(phi(llvm::Constant::getNullValue(at.type)));
  }
  Fetch(ahead, index, group);
  Values added = AddGroup(row, phase, index, Values(sums.begin(), sums.end()));
  Value* next = b_.CreateNSWAdd(index, Number(group));
  llvm::BasicBlock* end = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), turn, done);
  index->addIncoming(next, end);
  for (std::size_t r = 0; r < sums.size(); ++r) {
    sums[r]->addIncoming(added[r], end);
  }
  b_.SetInsertPoint(done);
  return added;
}

// The last part goes to level 1 too, which is the order in which it is added to
// that level, and a level of it alone may be handed on.
void RowSums::Groups(const Row& row, int phase, Value* tile_row) {
  const std::vector<Register> registers = RegistersOf(phase);
  const int group = plan_.phases.at(phase).group;
  const std::int64_t part = kPart * group;
  Value* whole = whole_.at(group);
  const auto zero = [&](const Register& at, int level) {
    Store(at, level, llvm::Constant::getNullValue(at.type));
  };
  const auto add = [&](const Register& at, int level, Value* value) {
    Store(at, level, b_.CreateFAdd(Load(at, level), value));
  };
  for (const Register& at : registers) {
    for (int level = 0; level < kLevels; ++level) zero(at, level);
  }
  loop_.frame.For(Number(0), whole, Number(part), [&](Value* from) {
    Value* to = b_.CreateAdd(from, Number(part));
    to = b_.CreateSelect(b_.CreateICmpSLT(to, whole), to, whole);
    const Values sums = AddPart(row, phase, from, to);
    for (std::size_t r = 0; r < sums.size(); ++r) add(registers[r], 0, sums[r]);
    Value* over = b_.CreateAnd(to, Number(part * kPart - part));
    loop_.frame.If(b_.CreateICmpEQ(over, Number(0)), [&] {
      for (const Register& at : registers) {
        add(at, 1, Load(at, 0));
        zero(at, 0);
      }
    });
  });
  for (const Register& at : registers) {
    b_.CreateAlignedStore(b_.CreateFAdd(Load(at, 0), Load(at, 1)),
                          AddressOf(at, at.sum->sums, tile_row),
                          llvm::Align(4));
  }
}

}  // namespace tjit::llvm_backend
