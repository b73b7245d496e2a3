#include "compiler/passes/copy_out.h"

#include <utility>
#include <vector>

#include "compiler/passes/concats.h"
#include "compiler/passes/rewriter.h"

namespace tjit {

namespace {

// By instruction: an update that is a part of a concat.
std::vector<char> PartsOfConcats(const ir::Function& function) {
  std::vector<char> is_part(function.body.size(), 0);
  for (const ConcatParts& concat : FindConcats(function).of) {
    for (const int part : concat.parts)
      is_part[static_cast<std::size_t>(part)] = 1;
  }
  return is_part;
}

}  // namespace

ir::Function CopyOut(const ir::Function& function) {
  Rewriter r(function);
  const auto copy = [&](const ir::Operand& from, ir::Geometry layout) {
    ir::Instruction to;
    to.op = ir::Op::kTo;
    to.operands = {from};
    const ir::DType dtype =
        r.function().values[static_cast<std::size_t>(from.value)].dtype;
    return r.EmitFresh(std::move(to), {dtype, std::move(layout)});
  };
  const std::vector<char> is_part = PartsOfConcats(function);
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    ir::Instruction in = r.Mapped(function.body[i]);
    if (is_part[i] != 0 && !IsOwnPart(r.function(), in)) {
      const ir::Operand from = in.operands[1];
      const ir::ValueId id = copy(from, ir::Contiguous(from.access.sizes));
      in.operands[1] = Whole(r.function(), id);
    }
    r.Emit(std::move(in));
  }
  std::vector<ir::WriteBack> writes;
  for (const ir::WriteBack& old : function.writes) {
    ir::WriteBack write = {r.Map(old.to), r.Map(old.from)};
    if (r.function().IsExternal(write.from.value) ||
        !IsWhole(r.function(), write.from)) {
      const ir::ValueId id =
          copy(write.from, ir::Contiguous(write.from.access.sizes));
      write.from = Whole(r.function(), id);
    }
    writes.push_back(std::move(write));
  }
  std::vector<ir::ValueId> returns;
  std::vector<char> is_returned(r.function().values.size(), 0);
  for (const ir::ValueId old : function.returns) {
    ir::ValueId id = r.Map(old);
    char& is_taken = is_returned[static_cast<std::size_t>(id)];
    if (r.function().IsExternal(id) || is_taken != 0) {
      const ir::Operand whole = Whole(r.function(), id);
      id = copy(whole, whole.access);
    } else {
      is_taken = 1;
    }
    returns.push_back(id);
  }
  return r.FinishWith(std::move(writes), std::move(returns));
}

}  // namespace tjit
