// The engine of TJIT_BACKEND=interpreter.
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/driver/kernel.h"
#include "compiler/functions/class_losses.h"
#include "compiler/functions/integer_functions.h"
#include "compiler/functions/row_functions.h"
#include "compiler/ir/interpreter.h"
#include "compiler/loops/fuse.h"

namespace tjit {
namespace {

using Entries = std::map<std::pair<ir::Op, ir::DType>, const TjitMath*>;

ir::DType TypeOf(const ir::Function& f, const ir::Instruction& in) {
  return f.values[static_cast<std::size_t>(in.results[0])].dtype;
}

// Of what reductions and row ops take.
bool IsFloat(const ir::Function& f, const ir::Instruction& in) {
  const auto operand = static_cast<std::size_t>(in.operands[0].value);
  return InfoOf(TypeOf(f, in)).kind == ir::DTypeKind::kFloat &&
         InfoOf(f.values[operand].dtype).kind == ir::DTypeKind::kFloat;
}

// Null of floats, and where there is none.
const TjitMath* IntegerFunctionFor(const ir::Function& f,
                                   const ir::Instruction& in, ir::Axis axis) {
  if (InfoOf(in.op).family != ir::Family::kReduce) return nullptr;
  const auto operand = static_cast<std::size_t>(in.operands[0].value);
  const ir::DType dtype = f.values[operand].dtype;
  return dtype == TypeOf(f, in) ? IntegerFunction(in.op, dtype, axis) : nullptr;
}

class InterpretedKernel : public Kernel {
 public:
  InterpretedKernel(ir::Function function, MathFunctions* functions)
      : function_(std::move(function)), functions_(functions) {
    if (functions == nullptr) return;
    for (const ir::Instruction& in : function_.body) {
      const TjitMath* entry = FunctionFor(function_, in, functions);
      if (entry == nullptr) continue;
      const std::optional<ir::Axis> axis = AxisOf(function_, in);
      auto& entries = axis ? EntriesOf(*axis) : entries_;
      entries[{in.op, TypeOf(function_, in)}] = entry;
    }
  }

  bool Shape(KernelShape* shape, std::string* why) const override {
    std::vector<ir::Buffer> buffers;
    if (Fill(nullptr, shape->symbols, &buffers)) return true;
    *why = "a size is too large";
    return false;
  }

  void Run(char* const* memory, const KernelShape& shape,
           const ScalarValue* scalars) const override {
    ir::RunArguments arguments;
    arguments.symbols = shape.symbols;
    arguments.scalars.assign(scalars, scalars + function_.scalars.size());
    Fill(memory, shape.symbols, &arguments.externals);
    const auto first_return = arguments.externals.begin() + function_.externals;
    arguments.returns.assign(first_return, arguments.externals.end());
    arguments.externals.erase(first_return, arguments.externals.end());
    ir::Hooks hooks;
    hooks.max_elements = std::numeric_limits<std::int64_t>::max();
    hooks.math = [this](ir::Op op, ir::DType dtype, const void* const* in,
                        const double* scalars, void* out, std::int64_t n) {
      const auto found = entries_.find({op, dtype});
      if (found == entries_.end() || found->second == nullptr) return false;
      functions_->Call(*found->second, in, scalars, out, n);
      return true;
    };
    hooks.rows = [this](const ir::RowsCall& call) { return Rows(call); };
    const std::string wrong = ir::Interpret(function_, arguments, hooks);
    if (!wrong.empty()) throw std::logic_error(wrong);
  }

 private:
  bool Rows(const ir::RowsCall& call) const {
    ir::Axis axis = call.axis;
    // All elements are a row where no function takes them as they come.
    if (axis == ir::Axis::kAll && EntryFor(call, axis) == nullptr) {
      axis = ir::Axis::kInner;
    }
    const TjitMath* entry = EntryFor(call, axis);
    if (entry == nullptr) return false;
    const auto columns = reinterpret_cast<TjitColumnFn>(entry->address);
    switch (axis) {
      case ir::Axis::kInner:
        RunRows(call, entry->address);
        break;
      case ir::Axis::kOuter:
        RunColumns(columns, call.rows, call.n, call.a, call.number, call.out,
                   call.b);
        break;
      case ir::Axis::kAll:
        RunColumns(columns, call.n, 1, call.a, call.number, call.out);
        break;
      case ir::Axis::kStrided:
        reinterpret_cast<TjitSlabFn>(entry->address)(call.rows, call.n, call.a,
                                                     call.n, call.b, call.n,
                                                     call.out, 0, call.n);
        break;
    }
    return true;
  }

  static void RunRows(const ir::RowsCall& call, void* address) {
    const bool is_mean = call.op == ir::Op::kNormMean;
    const TjitRowNumber number{call.number, is_mean ? call.out : nullptr};
    const bool has_number = is_mean || InfoOf(call.op).operands[1] == 's';
    reinterpret_cast<TjitRowFn>(address)(call.rows, call.n, call.a,
                                         has_number ? &number : call.b,
                                         is_mean ? nullptr : call.out);
  }

  Entries& EntriesOf(ir::Axis axis) {
    return axis_entries_[static_cast<std::size_t>(axis)];
  }
  // Null if there is none.
  const TjitMath* EntryFor(const ir::RowsCall& call, ir::Axis axis) const {
    const Entries& entries = axis_entries_[static_cast<std::size_t>(axis)];
    const auto found = entries.find({call.op, call.dtype});
    return found == entries.end() ? nullptr : found->second;
  }

  // Externals, then returned values. `memory` may be null.
  bool Fill(char* const* memory, const std::vector<std::int64_t>& symbols,
            std::vector<ir::Buffer>* buffers) const {
    const auto add = [&](ir::ValueId id) {
      const auto value = static_cast<std::size_t>(id);
      std::int64_t elements = 1;
      for (const ir::Size& size : function_.values[value].layout.sizes) {
        const auto n = size.Evaluate(symbols);
        if (!n || *n < 0 || __builtin_mul_overflow(elements, *n, &elements)) {
          return false;
        }
      }
      const std::size_t i = buffers->size();
      buffers->push_back({memory == nullptr ? nullptr : memory[i], elements});
      return true;
    };
    for (ir::ValueId id = 0; id < function_.externals; ++id) {
      if (!add(id)) return false;
    }
    for (const ir::ValueId id : function_.returns) {
      if (!add(id)) return false;
    }
    return true;
  }

  const ir::Function function_;
  MathFunctions* const functions_;
  Entries entries_;                      // of elements
  std::array<Entries, 4> axis_entries_;  // of each Axis
};

class InterpreterEngine : public Engine {
 public:
  explicit InterpreterEngine(MathFunctions* functions)
      : functions_(functions) {}

  const char* name() const override { return "interpreter"; }
  bool is_for_speed() const override { return false; }
  std::string WhyNot(const ir::Function& function) override {
    return functions_ == nullptr ? "" : MissingFunction(function, functions_);
  }
  std::shared_ptr<const Kernel> Compile(const ir::Function& function,
                                        std::string* /*why*/) override {
    return std::make_shared<InterpretedKernel>(function, functions_);
  }

 private:
  MathFunctions* const functions_;
};

}  // namespace

std::optional<ir::Axis> AxisOf(const ir::Function& f,
                               const ir::Instruction& in) {
  const ir::Family family = InfoOf(in.op).family;
  if (family != ir::Family::kReduce && family != ir::Family::kRow) {
    return std::nullopt;
  }
  std::optional<ir::Axis> axis;
  if (IsOverWhole(in)) {
    axis = ir::Axis::kAll;
  } else if (SlabDimOf(in) >= 0) {
    axis = ir::Axis::kStrided;
  } else if (IsAlongRows(in)) {
    axis = ir::Axis::kInner;
  } else if (IsAlongColumns(in)) {
    axis = ir::Axis::kOuter;
  }
  const bool has_function =
      axis && (IsFloat(f, in) || IntegerFunctionFor(f, in, *axis) != nullptr);
  return has_function ? axis : std::nullopt;
}

namespace {

// One that is not the library's.
const TjitMath* OwnFunctionFor(const ir::Function& f, const ir::Instruction& in,
                               ir::Axis axis) {
  const TjitMath* function = IntegerFunctionFor(f, in, axis);
  if (function != nullptr) return function;
  const ir::Axis own =
      in.op == ir::Op::kSumInLevels ? ir::Axis::kAll : ir::Axis::kInner;
  return axis == own ? ClassFunction(in.op, TypeOf(f, in)) : nullptr;
}

// Also where there is none.
bool NeedsFunction(const ir::Function& f, const ir::Instruction& in,
                   MathFunctions* functions, const TjitMath** function) {
  *function = nullptr;
  if (in.results.size() != 1) return false;
  const ir::DType dtype = TypeOf(f, in);
  if (const std::optional<ir::Axis> axis = AxisOf(f, in)) {
    *function = OwnFunctionFor(f, in, *axis);
    if (*function == nullptr) {
      *function = functions->ForAxis(in.op, *axis, dtype);
    }
    return true;
  }
  if (!functions->IsFunction(in.op, dtype)) return false;
  *function = functions->For(in.op, dtype);
  return true;
}

}  // namespace

const TjitMath* FunctionFor(const ir::Function& f, const ir::Instruction& in,
                            MathFunctions* functions) {
  const TjitMath* function = nullptr;
  NeedsFunction(f, in, functions, &function);
  return function;
}

std::string MissingFunction(const ir::Function& f, MathFunctions* functions) {
  for (const ir::Instruction& in : f.body) {
    const TjitMath* function = nullptr;
    if (!NeedsFunction(f, in, functions, &function) || function != nullptr) {
      continue;
    }
    return absl::StrCat("no function of this libtorch has eager's bits for ",
                        InfoOf(in.op).name, " of ", InfoOf(TypeOf(f, in)).name);
  }
  return "";
}

std::unique_ptr<Engine> MakeInterpreterEngine(MathFunctions* functions) {
  return std::make_unique<InterpreterEngine>(functions);
}

}  // namespace tjit
