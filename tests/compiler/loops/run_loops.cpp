#include "tests/compiler/loops/run_loops.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/builder.h"
#include "compiler/loops/fuse.h"
#include "compiler/program/place_scratch.h"

namespace tjit {
namespace {

using ir::Geometry;
using ir::Instruction;
using ir::Operand;
using ir::ValueId;

using Bytes = std::string;

class LoopMachine {
 public:
  LoopMachine(const ir::Function& f, const LoopPlan& plan,
              const ir::RunArguments& arguments, const RunOrder& order)
      : f_(f), plan_(plan), arguments_(arguments), order_(order) {
    memory_ = arguments.externals;
    memory_.insert(memory_.end(), arguments.returns.begin(),
                   arguments.returns.end());
    std::vector<std::int64_t> bytes;
    for (const ValueId id : plan.scratch) {
      bytes.push_back(Number(ExtentOf(ValueOf(id))) * ItemOf(id));
    }
    // As a kernel's: values share it.
    const ScratchPlaces places = PlaceScratch(ScratchUses(f, plan), bytes);
    scratch_.assign(places.bytes, '\x5a');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      memory_.push_back({scratch_.data() + places.offsets[i],
                         bytes[i] / ItemOf(plan.scratch[i])});
    }
  }

  std::string Run() {
    for (const Loop& loop : plan_.loops) {
      if (error_.empty()) RunLoop(loop);
    }
    return error_;
  }

 private:
  const ir::Value& ValueOf(ValueId id) const {
    return f_.values[static_cast<std::size_t>(id)];
  }
  std::int64_t ItemOf(ValueId id) const {
    return InfoOf(ValueOf(id).dtype).bytes;
  }
  std::int64_t Number(const ir::Size& size) const {
    return size.Evaluate(arguments_.symbols).value_or(0);
  }
  std::vector<std::int64_t> Numbers(const ir::Sizes& sizes) const {
    std::vector<std::int64_t> numbers;
    for (const ir::Size& size : sizes) numbers.push_back(Number(size));
    return numbers;
  }

  // Where element `i` (row-major) of an access lies.
  std::int64_t At(const Geometry& g, std::int64_t i) const {
    std::int64_t at = Number(g.offset);
    for (std::size_t d = g.sizes.size(); d-- > 0;) {
      const std::int64_t size = Number(g.sizes[d]);
      at += i % size * Number(g.strides[d]);
      i /= size;
    }
    return at;
  }

  char* Element(std::int32_t memory, std::int64_t at, std::int64_t item) {
    const ir::Buffer& buffer = memory_[static_cast<std::size_t>(memory)];
    if (at >= 0 && at < buffer.elements) return buffer.data + at * item;
    error_ = absl::StrCat("reaches element ", at, " of ", buffer.elements,
                          " of memory ", memory);
    return scrap_;
  }

  char* Home(ValueId id, const Geometry& access, std::int64_t i) {
    const auto& home = plan_.homes[static_cast<std::size_t>(id)];
    if (home.memory < 0) {
      error_ = absl::StrCat("%", id, " has no home");
      return scrap_;
    }
    return Element(home.memory, Number(home.offset) + At(access, i),
                   ItemOf(id));
  }

  void RunLoop(const Loop& loop) {
    std::int64_t n = 1;
    for (const std::int64_t size : Numbers(loop.sizes)) n *= size;
    std::vector<std::int64_t> iterations(static_cast<std::size_t>(n));
    std::iota(iterations.begin(), iterations.end(), 0);
    std::int64_t lanes = order_.lanes;
    if (loop.kind != LoopKind::kPointwise) {
      lanes = std::max<std::int64_t>(n, 1);
    } else if (loop.in_order) {
      lanes = 1;
    } else if (order_.seed != 0) {
      std::shuffle(iterations.begin(), iterations.end(),
                   std::mt19937_64(order_.seed));
    }
    if (loop.kind == LoopKind::kUpdate) return RunUpdate(loop, n);
    if (n == 0) return RunLanes(loop, {});  // a sum of nothing is 0
    for (std::int64_t i = 0; i < n && error_.empty(); i += lanes) {
      RunLanes(loop,
               {iterations.begin() + i,
                iterations.begin() + std::min<std::int64_t>(n, i + lanes)});
    }
  }

  void RunLanes(const Loop& loop, const std::vector<std::int64_t>& lanes) {
    registers_.clear();
    std::vector<std::int64_t> rows;
    if (loop.kind == LoopKind::kRows) {
      ir::Sizes sizes = loop.sizes;
      sizes.pop_back();
      rows.resize(static_cast<std::size_t>(Number(ir::Product(sizes))));
      std::iota(rows.begin(), rows.end(), 0);
    }
    for (const int i : loop.instructions) {
      const Instruction& in = f_.body[static_cast<std::size_t>(i)];
      const bool is_of_rows = AreRowsOf(LoopSizesOf(f_, in), loop.sizes);
      Execute(in, is_of_rows ? rows : lanes);
    }
    for (const LoopStore& store : loop.stores) {
      const auto in_register = registers_.find(store.value);
      const bool is_copy = in_register == registers_.end();
      const std::int64_t item = ItemOf(store.value);
      const auto n =
          loop.kind == LoopKind::kPointwise
              ? static_cast<std::int64_t>(lanes.size())
              : static_cast<std::int64_t>(in_register->second.size()) / item;
      const bool is_result =
          loop.kind != LoopKind::kPointwise;  // all of it at once
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t i =
            is_result ? k : lanes[static_cast<std::size_t>(k)];
        const char* from =
            is_copy ? Home(store.value, ValueOf(store.value).layout, i)
                    : in_register->second.data() + k * item;
        char element[8];
        std::memcpy(element, from, static_cast<std::size_t>(item));
        std::memcpy(Element(store.memory, At(store.to, i), item), element,
                    static_cast<std::size_t>(item));
      }
    }
  }

  Bytes Load(const Operand& operand, const std::vector<std::int64_t>& lanes) {
    const auto in_register = registers_.find(operand.value);
    Bytes bytes;
    if (in_register != registers_.end()) {
      const Bytes& made = in_register->second;
      const ir::Sizes& sizes = ValueOf(operand.value).layout.sizes;
      if (!AreRowsOf(sizes, operand.access.sizes)) return made;
      const auto item = static_cast<std::size_t>(ItemOf(operand.value));
      const auto n =
          static_cast<std::size_t>(Number(operand.access.sizes.back()));
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        bytes.append(made, i / n * item, item);
      }
      return bytes;
    }
    for (const std::int64_t i : lanes) {
      bytes.append(Home(operand.value, operand.access, i),
                   static_cast<std::size_t>(ItemOf(operand.value)));
    }
    return bytes;
  }

  // Runs one instruction over these iterations with the interpreter.
  void Execute(const Instruction& in, const std::vector<std::int64_t>& lanes) {
    ir::Builder b("lanes");
    ir::RunArguments run;
    ir::Sizes flat = {static_cast<std::int64_t>(lanes.size())};
    ir::Sizes sizes = flat;
    if (InfoOf(in.op).takes_dims()) {
      sizes.clear();
      for (const auto size : Numbers(in.operands[0].access.sizes)) {
        sizes.emplace_back(size);
      }
    }
    std::deque<Bytes> inputs;
    std::vector<Operand> operands;
    for (const Operand& operand : in.operands) {
      operands.push_back(operand);
      if (!operand.is_tensor()) continue;
      inputs.push_back(Load(operand, lanes));
      run.externals.push_back({inputs.back().data(), flat[0].constant()});
      operands.back() =
          b.View(b.External(ValueOf(operand.value).dtype, flat[0]), sizes);
    }
    for (const ir::ScalarType type : f_.scalars) b.ScalarArgument(type);
    run.scalars = arguments_.scalars;
    const ValueId id = in.results[0];
    ir::Sizes result;
    for (const auto size : Numbers(ValueOf(id).layout.sizes)) {
      result.emplace_back(size);
    }
    if (!InfoOf(in.op).takes_dims()) result = flat;
    ir::Function function = b.Finish();
    Instruction clone = in;
    clone.operands = operands;
    clone.results = {static_cast<ValueId>(function.values.size())};
    function.returns = clone.results;
    function.values.push_back({ValueOf(id).dtype, ir::Contiguous(result)});
    function.body.push_back(clone);
    const std::int64_t n = ir::Product(result).constant();
    Bytes& bytes = registers_[id];
    bytes.assign(static_cast<std::size_t>(n * ItemOf(id)), '\0');
    run.returns.push_back({bytes.data(), n});
    const std::string error = ir::Interpret(function, run);
    if (error_.empty()) error_ = error;
  }

  void RunUpdate(const Loop& loop, std::int64_t n) {
    const Instruction& in =
        f_.body[static_cast<std::size_t>(loop.instructions[0])];
    const Operand& base = in.operands[0];
    const auto item = static_cast<std::size_t>(ItemOf(base.value));
    const Geometry layout = ValueOf(base.value).layout;
    const std::int64_t all = Number(ExtentOf(ValueOf(base.value)));
    for (std::int64_t i = 0; i < all && error_.empty(); ++i) {
      std::memcpy(Home(in.results[0], layout, i), Home(base.value, layout, i),
                  item);
    }
    for (std::int64_t i = 0; i < n && error_.empty(); ++i) {
      const Operand& from = in.operands[1];
      std::memcpy(Home(in.results[0], base.access, i),
                  Home(from.value, from.access, i), item);
    }
  }

  const ir::Function& f_;
  const LoopPlan& plan_;
  const ir::RunArguments& arguments_;
  const RunOrder order_;
  std::vector<ir::Buffer> memory_;
  Bytes scratch_;
  std::map<ValueId, Bytes> registers_;
  std::string error_;
  char scrap_[8] = {};
};

}  // namespace

std::string RunLoops(const ir::Function& function, const LoopPlan& plan,
                     const ir::RunArguments& arguments, const RunOrder& order) {
  return LoopMachine(function, plan, arguments, order).Run();
}

}  // namespace tjit
