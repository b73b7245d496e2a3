#include "compiler/llvm/row_sums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compiler/llvm/index_math.h"
#include "llvm/TargetParser/Host.h"

namespace tjit::llvm_backend {
namespace {

using llvm::Value;

constexpr std::int64_t kPart = 16;  // groups
constexpr std::int64_t kChunk = 16 * kPart;
constexpr std::int64_t kMostGroups = 16 * kChunk;
constexpr std::int64_t kLongRow = 64;  // elements
constexpr std::int64_t kRowsAtOnce = 32;
constexpr int kLineBytes = 64;
constexpr int kFetchedAheadBytes = 1 << 10;
constexpr int kFoldedLanes = 8;  // of a vector of halves

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
  int group = 0;
  for (const auto& [phase, sums] : plan_.phases) {
    group = group == 0 ? sums.group : std::min(group, sums.group);
  }
  is_long_ = b_.CreateICmpULT(b_.CreateSub(length, Number(kLongRow)),
                              Number(group * kMostGroups - kLongRow));
  for (const auto& [phase, sums] : plan_.phases) {
    Value*& whole = whole_[sums.group];
    if (whole == nullptr) {
      whole = b_.CreateSelect(
          is_long_, b_.CreateAnd(length, Number(-sums.group)), Number(0));
    }
    for (const Step* step : sums.steps) {
      const int bytes = sums.group / ElementsOfLane(*step) *
                        RegisterBytes(step->result_dtype);
      sums_[phase].push_back(
          {step, loop_.frame.Array(static_cast<int>(kRowsAtOnce) * bytes),
           loop_.frame.Array(bytes)});
    }
  }
  Value* rows = Number(kRowsAtOnce);
  if (!plan_.is_alone) {
    rows = b_.CreateSelect(b_.CreateICmpSLT(tile_rows, rows), tile_rows, rows);
  }
  return b_.CreateSelect(is_long_, rows, tile_rows);
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

Value* RowSums::AddressOf(const Register& at, Value* tile_row) const {
  Value* first = b_.CreateMul(tile_row, Number(at.parts));
  return ElementAt(b_, at.type, at.sum->sums, Plus(b_, first, Number(at.part)));
}

Value* RowSums::LevelOf(const Register& at) const {
  return ElementAt(b_, at.type, at.sum->level, Number(at.part));
}

void RowSums::SetToZero(const Register& at, Value* address) {
  b_.CreateAlignedStore(llvm::Constant::getNullValue(at.type), address,
                        llvm::Align(4));
}

void RowSums::AddTo(const Register& at, Value* address, Value* sum) {
  Value* before = b_.CreateAlignedLoad(at.type, address, llvm::Align(4));
  b_.CreateAlignedStore(b_.CreateFAdd(before, sum), address, llvm::Align(4));
}

std::vector<RowSums::Register> RowSums::RegistersOf(int phase) const {
  std::vector<Register> registers;
  const int group = plan_.phases.at(phase).group;
  for (const Sum& sum : sums_.at(phase)) {
    const int parts = group / ElementsOfLane(*sum.step) / lanes_;
    const LaneTypes types(b_, lanes_);
    llvm::Type* type = types.Lanes(types.RegisterType(sum.step->result_dtype));
    for (int part = 0; part < parts; ++part) {
      registers.push_back({&sum, part, parts, type});
    }
  }
  return registers;
}

std::vector<RowSums::Ahead> RowSums::AheadOf(const Row& row, int phase) {
  // Zen 4 does it better without being told: 4 MB in 50.0 instead of 52.6 us,
  // where Zen 5 takes 44 instead of 50 if it is told. Code that is kept on disk
  // belongs to one of them (TargetText in engine.cpp).
  static const bool fetches = llvm::sys::getHostCPUName() != "znver4";
  if (!fetches) return {};
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
  const int parts = plan_.phases.at(phase).group / lanes_;
  std::map<const Sum*, Values> halves;  // by part
  for (int part = 0; part < parts; ++part) {
    Block block{lanes_, nullptr, nullptr, phase};
    block.index = Plus(b_, index, Number(std::int64_t{part} * lanes_));
    block.fills_buffers = false;
    BlockEmitter elements(loop_, row, block);
    elements.Run();
    Value** to_sum = sums.data();
    for (const Sum& sum : sums_.at(phase)) {
      Value* computed = elements.Computed(sum.step->sources[0].value);
      if (ElementsOfLane(*sum.step) == 1) {
        to_sum[part] = b_.CreateFAdd(to_sum[part], computed);
      } else {
        halves[&sum].push_back(computed);
        AddFolded(part, halves[&sum], to_sum);
      }
      to_sum += parts / ElementsOfLane(*sum.step);
    }
  }
  return sums;
}

// Folds what `part` completes: a vector of halves, or two of them if a register
// has so many.
void RowSums::AddFolded(int part, const Values& parts, Value** sums) {
  const int half = std::max(kFoldedLanes / lanes_, 1);  // in registers
  if (part % (2 * half) < half) return;
  Value* first = parts[static_cast<std::size_t>(part - half)];
  Value* second = parts[static_cast<std::size_t>(part)];
  if (lanes_ > kFoldedLanes) {
    std::vector<int> low, high;
    for (int lane = 0; lane < lanes_; ++lane) {
      low.push_back(lane + lane / kFoldedLanes * kFoldedLanes);
      high.push_back(low.back() + kFoldedLanes);
    }
    Value* both = b_.CreateShuffleVector(first, second, high);
    first = b_.CreateShuffleVector(first, second, low);
    second = both;
  }
  Value*& sum = sums[part / (2 * half) * half + part % half];
  sum = b_.CreateFAdd(sum, b_.CreateFAdd(first, second));
}

// Of elements [from, to), one group at least.
RowSums::Values RowSums::AddPart(const Row& row, int phase, Value* from,
                                 Value* to) {
  const std::vector<Ahead> ahead = AheadOf(row, phase);
  const int group = plan_.phases.at(phase).group;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* iteration = loop_.frame.NewBlock();
  llvm::BasicBlock* done = loop_.frame.NewBlock();
  b_.CreateBr(iteration);
  b_.SetInsertPoint(iteration);
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
  b_.CreateCondBr(b_.CreateICmpSLT(next, to), iteration, done);
  index->addIncoming(next, end);
  for (std::size_t r = 0; r < sums.size(); ++r) {
    sums[r]->addIncoming(added[r], end);
  }
  b_.SetInsertPoint(done);
  return added;
}

// The last part is added to what is before it as the others are, which is the
// function's order too.
void RowSums::Groups(const Row& row, int phase, Value* tile_row) {
  const std::vector<Register> registers = RegistersOf(phase);
  const std::int64_t group = plan_.phases.at(phase).group;
  Value* whole = whole_.at(static_cast<int>(group));
  Value* part = Number(kPart * group);
  Value* has_chunks = b_.CreateICmpSGE(whole, Number(kChunk * group));
  for (const Register& at : registers) SetToZero(at, AddressOf(at, tile_row));
  loop_.frame.If(has_chunks, [&] {
    for (const Register& at : registers) SetToZero(at, LevelOf(at));
  });
  // Level 1 of a chunk goes to level 2, and at the end level 2 to it.
  const auto load = [&](const Register& at, Value* address) {
    return b_.CreateAlignedLoad(at.type, address, llvm::Align(4));
  };
  loop_.frame.For(Number(0), whole, part, [&](Value* from) {
    Value* to = b_.CreateAdd(from, part);
    to = b_.CreateSelect(b_.CreateICmpSLT(to, whole), to, whole);
    const Values sums = AddPart(row, phase, from, to);
    for (std::size_t r = 0; r < sums.size(); ++r) {
      AddTo(registers[r], AddressOf(registers[r], tile_row), sums[r]);
    }
    Value* in_chunk = b_.CreateAnd(to, Number(kChunk * group - 1));
    loop_.frame.If(b_.CreateIsNull(in_chunk), [&] {
      for (const Register& at : registers) {
        AddTo(at, LevelOf(at), load(at, AddressOf(at, tile_row)));
        SetToZero(at, AddressOf(at, tile_row));
      }
    });
  });
  loop_.frame.If(has_chunks, [&] {
    for (const Register& at : registers) {
      AddTo(at, AddressOf(at, tile_row), load(at, LevelOf(at)));
    }
  });
}

}  // namespace tjit::llvm_backend
