#include "compiler/llvm/row_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include "compiler/llvm/index_math.h"

namespace tjit::llvm_backend {
namespace {

using Kind = Source::Kind;
using llvm::Value;

constexpr std::int64_t kPart = 16;  // groups, until levels are carried
// Besides the groups' own. No row is so long that a third one would get more
// than what is all of the second.
constexpr int kLevels = 2;
constexpr std::int64_t kLongRow = 64;  // elements
constexpr std::int64_t kRowsAtOnce = 32;
constexpr int kLineBytes = 64;
constexpr int kFetchedAheadBytes = 1 << 10;
// Each is there for every register of a group.
constexpr int kMaxSteps = 12;
constexpr int kMaxRegisters = 8;  // of the sums of a phase
static_assert(kMaxRowBytes / 4 / 32 <= kPart * kPart * kPart);

class Planner {
 public:
  Planner(const LoopCode& code, const Phases& phases, const MathTable& math,
          int lanes)
      : code_(code), phases_(phases), math_(math), lanes_(lanes) {}

  SumPlan Run() {
    if (!code_.is_rows || code_.is_columns) return {};
    for (std::size_t i = 0; i < code_.steps.size(); ++i) FindSum(i);
    if (plan_.phases.empty() || !AllBuffersAreSummed()) return {};
    for (const auto& [phase, sums] : plan_.phases) {
      if (!IsCheap(phase, sums)) return {};
    }
    plan_.is_alone = IsAlone();
    return std::move(plan_);
  }

 private:
  // Of the math table's order, of what an ordinary step computes.
  void FindSum(std::size_t index) {
    const Step& step = code_.steps[index];
    if (!step.is_row_call ||
        (step.op != ir::Op::kSum && step.op != ir::Op::kMean)) {
      return;
    }
    const int group = 4 * static_cast<int>(math_.at(step.math).mode);
    const Source& source = step.sources[0];
    if (group == 0 || group % lanes_ != 0 || source.kind != Kind::kRegister) {
      return;
    }
    PhaseSums& sums = plan_.phases[phases_.of_step[index]];
    if (sums.group != 0 && sums.group != group) return;
    sums.group = group;
    sums.steps.push_back(&step);
    summed_.insert(source.value);
  }

  bool IsSum(const Step& step) const {
    return std::any_of(plan_.phases.begin(), plan_.phases.end(),
                       [&](const auto& in_phase) {
                         const auto& steps = in_phase.second.steps;
                         return std::count(steps.begin(), steps.end(), &step);
                       });
  }

  // No buffer of elements is needed but for the sums.
  bool AllBuffersAreSummed() const {
    for (const auto& [access, buffer] : phases_.buffer_of_access) {
      if (!IsOfRow(buffer)) return false;
    }
    for (const auto& [value, buffer] : phases_.buffer_of_value) {
      if (!IsOfRow(buffer) && !summed_.contains(value)) return false;
    }
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      const Step& step = code_.steps[i];
      if (step.is_array_call && summed_.contains(step.result)) return false;
      if (IsSum(step)) continue;
      for (const Source& source : step.sources) {
        if (!IsReadInside(source, phases_.of_step[i]) ||
            (step.is_array_call && IsSummed(source))) {
          return false;
        }
      }
    }
    for (std::size_t i = 0; i < code_.stores.size(); ++i) {
      const int phase = phases_.of_store[i];
      if (!IsReadInside(code_.stores[i].source, phase)) return false;
    }
    return true;
  }

  bool IsOfRow(int buffer) const {
    return phases_.buffers[static_cast<std::size_t>(buffer)].is_of_row;
  }
  bool IsSummed(const Source& source) const {
    return source.kind == Kind::kRegister && summed_.contains(source.value);
  }
  bool IsReadInside(const Source& source, int phase) const {
    if (!IsSummed(source)) return true;
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      if (code_.steps[i].result == source.value) {
        return phases_.of_step[i] == phase;
      }
    }
    return false;
  }

  bool IsCheap(int phase, const PhaseSums& sums) const {
    int steps = 0;
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      const Step& step = code_.steps[i];
      if (phases_.of_step[i] != phase || step.is_array_call || step.is_of_row) {
        continue;
      }
      ++steps;
      if (step.math >= 0 && !math_.IsRoot(step.math)) return false;
    }
    const int registers =
        sums.group / lanes_ * static_cast<int>(sums.steps.size());
    return steps <= kMaxSteps && registers <= kMaxRegisters;
  }

  bool IsAlone() const {
    int readers = 0;
    for (int phase = 0; phase < phases_.count; ++phase) {
      if (!CodeOf(code_, phases_, phase, false).is_empty) ++readers;
    }
    for (const Step& step : code_.steps) {
      if (step.is_row_call && !IsSum(step)) ++readers;
    }
    return readers == 1;
  }

  const LoopCode& code_;
  const Phases& phases_;
  const MathTable& math_;
  const int lanes_;
  std::set<ir::ValueId> summed_;
  SumPlan plan_;
};

}  // namespace

SumPlan PlanSums(const LoopCode& code, const Phases& phases,
                 const MathTable& math, int lanes) {
  return Planner(code, phases, math, lanes).Run();
}

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

// Level 1 gets a part's sum, level 2 what is in a full level 1. `end` elements
// have been added up.
void RowSums::Carry(const std::vector<Register>& registers, Value* end,
                    const Values& part) {
  for (std::size_t r = 0; r < registers.size(); ++r) {
    Store(registers[r], 0, b_.CreateFAdd(Load(registers[r], 0), part[r]));
  }
  const std::int64_t elements = registers[0].parts * lanes_ * kPart;
  Value* over = b_.CreateAnd(end, Number(elements * kPart - elements));
  loop_.frame.If(b_.CreateICmpEQ(over, Number(0)), [&] {
    for (const Register& at : registers) {
      Store(at, 1, b_.CreateFAdd(Load(at, 1), Load(at, 0)));
      Store(at, 0, llvm::Constant::getNullValue(at.type));
    }
  });
}

// Where the blocks of Groups() begin.
struct RowSums::Turns {
  llvm::BasicBlock* part;   // to = end of the part that begins here
  llvm::BasicBlock* turn;   // sums += group, up to `to`
  llvm::BasicBlock* check;  // of less than 16 groups: done, with their sums
  llvm::BasicBlock* carry;  // levels; more groups: part; else done, with 0
  llvm::BasicBlock* done;
};

void RowSums::Groups(const Row& row, int phase, Value* tile_row) {
  Frame& frame = loop_.frame;
  const std::vector<Register> registers = RegistersOf(phase);
  const std::int64_t group = plan_.phases.at(phase).group;
  Values zeros;
  for (const Register& at : registers) {
    zeros.push_back(llvm::Constant::getNullValue(at.type));
    for (int level = 0; level < kLevels; ++level) {
      Store(at, level, zeros.back());
    }
  }
  Value* whole = whole_.at(static_cast<int>(group));
  const std::vector<Ahead> ahead = AheadOf(row, phase);
  const Turns at{frame.NewBlock(), frame.NewBlock(), frame.NewBlock(),
                 frame.NewBlock(), frame.NewBlock()};
  const auto phi = [&](llvm::Type* type, Value* value, llvm::BasicBlock* from) {
    llvm::PHINode* node = b_.CreatePHI(type, 2);
    node->addIncoming(value, from);
    return node;
  };
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(at.part);
  b_.SetInsertPoint(at.part);
  llvm::PHINode* start = phi(b_.getInt64Ty(), Number(0), before);
  Value* to = b_.CreateAdd(start, Number(kPart * group));
  Value* is_part = b_.CreateICmpSLE(to, whole);
  to = b_.CreateSelect(is_part, to, whole);
  b_.CreateBr(at.turn);
  b_.SetInsertPoint(at.turn);
  llvm::PHINode* index = phi(b_.getInt64Ty(), start, at.part);
  std::vector<llvm::PHINode*> sums;
  for (std::size_t r = 0; r < registers.size(); ++r) {
    sums.push_back(phi(registers[r].type, zeros[r], at.part));
  }
  Fetch(ahead, index, static_cast<int>(group));
  const Values added =
      AddGroup(row, phase, index, Values(sums.begin(), sums.end()));
  Value* next = b_.CreateNSWAdd(index, Number(group));
  llvm::BasicBlock* end = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), at.turn, at.check);
  index->addIncoming(next, end);
  for (std::size_t r = 0; r < sums.size(); ++r) {
    sums[r]->addIncoming(added[r], end);
  }
  b_.SetInsertPoint(at.check);
  b_.CreateCondBr(is_part, at.carry, at.done);
  b_.SetInsertPoint(at.carry);
  Carry(registers, to, added);
  llvm::BasicBlock* carried = b_.GetInsertBlock();
  start->addIncoming(to, carried);
  b_.CreateCondBr(b_.CreateICmpSLT(to, whole), at.part, at.done);
  b_.SetInsertPoint(at.done);
  Values last;
  for (std::size_t r = 0; r < registers.size(); ++r) {
    llvm::PHINode* sum = phi(registers[r].type, added[r], at.check);
    sum->addIncoming(zeros[r], carried);
    last.push_back(sum);
  }
  Finish(registers, tile_row, last);
}

void RowSums::Finish(const std::vector<Register>& registers, Value* tile_row,
                     Values sums) {
  for (std::size_t r = 0; r < registers.size(); ++r) {
    const Register& at = registers[r];
    for (int level = 0; level < kLevels; ++level) {
      sums[r] = b_.CreateFAdd(sums[r], Load(at, level));
    }
    b_.CreateAlignedStore(sums[r], AddressOf(at, at.sum->sums, tile_row),
                          llvm::Align(4));
  }
}

}  // namespace tjit::llvm_backend
