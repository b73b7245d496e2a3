// The engine of TJIT_BACKEND=interpreter.
#include <limits>
#include <stdexcept>
#include <utility>

#include "compiler/ir/interpreter.h"
#include "compiler/kernel.h"

namespace tjit {
namespace {

class InterpretedKernel : public Kernel {
 public:
  explicit InterpretedKernel(ir::Function function)
      : function_(std::move(function)) {}

  std::int64_t ScratchBytes(const std::vector<std::int64_t>& symbols,
                            std::string* why) const override {
    std::vector<ir::Buffer> buffers;
    if (Fill(nullptr, symbols, &buffers)) return 0;
    *why = "a size is too large";
    return -1;
  }

  void Run(char* const* memory, const std::vector<std::int64_t>& symbols,
           const ScalarValue* scalars, char* /*scratch*/) const override {
    ir::RunArguments arguments;
    arguments.symbols = symbols;
    arguments.scalars.assign(scalars, scalars + function_.scalars.size());
    Fill(memory, symbols, &arguments.externals);
    const auto first_return =
        arguments.externals.begin() + function_.externals;
    arguments.returns.assign(first_return, arguments.externals.end());
    arguments.externals.erase(first_return, arguments.externals.end());
    ir::Hooks hooks;
    hooks.max_elements = std::numeric_limits<std::int64_t>::max();
    const std::string wrong = ir::Interpret(function_, arguments, hooks);
    if (!wrong.empty()) throw std::logic_error(wrong);
  }

 private:
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
};

class InterpreterEngine : public Engine {
 public:
  const char* name() const override { return "interpreter"; }
  bool is_for_speed() const override { return false; }
  std::shared_ptr<const Kernel> Compile(const ir::Function& function,
                                        std::string* /*why*/) override {
    return std::make_shared<InterpretedKernel>(function);
  }
};

}  // namespace

std::unique_ptr<Engine> MakeInterpreterEngine() {
  return std::make_unique<InterpreterEngine>();
}

}  // namespace tjit
