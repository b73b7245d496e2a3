#include "compiler/llvm/phases.h"

#include <algorithm>

namespace tjit::llvm_backend {
namespace {

using Kind = Source::Kind;

class Cutter {
 public:
  explicit Cutter(const LoopCode& code) : code_(code) {}

  Phases Run() {
    for (const Step& step : code_.steps) AddStep(step);
    int last = 0;
    for (const StoreTo& store : code_.stores) {
      last = std::max(last, PhaseToRead(store.source));
    }
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      if (!code_.steps[i].is_array_call) {
        last = std::max(last, phases_.of_step[i]);
      }
    }
    for (const StoreTo& store : code_.stores) {
      const auto& access =
          code_.accesses[static_cast<std::size_t>(store.access)];
      const int phase = access.is_external ? last : PhaseToRead(store.source);
      phases_.of_store.push_back(phase);
      NeedIn(phase, store.source);
    }
    phases_.count = last + 1;
    return std::move(phases_);
  }

 private:
  struct Made {
    int phase;
    bool by_call;
    ir::DType dtype;
  };

  // The first phase whose vector code can read it.
  int PhaseToRead(const Source& source) const {
    if (source.kind != Kind::kRegister) return 0;
    const Made& made = made_.at(source.value);
    return made.phase + (made.by_call ? 1 : 0);
  }

  void AddStep(const Step& step) {
    int phase = 0;
    for (const Source& source : step.sources) {
      if (source.kind != Kind::kRegister) continue;
      phase = std::max(phase, step.is_array_call ? made_.at(source.value).phase
                                                 : PhaseToRead(source));
    }
    for (const Source& source : step.sources) {
      if (step.is_array_call) {
        BufferFor(source);
      } else {
        NeedIn(phase, source);
      }
    }
    made_[step.result] = {phase, step.is_array_call, step.result_dtype};
    phases_.of_step.push_back(phase);
    if (step.is_array_call) BufferOfValue(step.result);
  }

  void NeedIn(int phase, const Source& source) {
    if (source.kind != Kind::kRegister) return;
    if (made_.at(source.value).phase < phase) BufferOfValue(source.value);
  }

  void BufferFor(const Source& source) {
    if (source.kind == Kind::kRegister) BufferOfValue(source.value);
    if (source.kind != Kind::kAccess || IsDirect(code_, source.access)) return;
    const auto& access =
        code_.accesses[static_cast<std::size_t>(source.access)];
    if (phases_.buffer_of_access.contains(source.access)) return;
    phases_.buffer_of_access[source.access] = NewBuffer(access.dtype);
  }

  void BufferOfValue(ir::ValueId value) {
    if (phases_.buffer_of_value.contains(value)) return;
    phases_.buffer_of_value[value] = NewBuffer(made_.at(value).dtype);
  }

  int NewBuffer(ir::DType dtype) {
    phases_.buffers.push_back(dtype);
    return static_cast<int>(phases_.buffers.size()) - 1;
  }

  const LoopCode& code_;
  std::map<ir::ValueId, Made> made_;
  Phases phases_;
};

}  // namespace

bool IsDirect(const LoopCode& code, int access) {
  const MemoryAccess& a = code.accesses[static_cast<std::size_t>(access)];
  return code.sizes.size() == 1 && a.strides.back() == ir::Size(1);
}

Phases MakePhases(const LoopCode& code) { return Cutter(code).Run(); }

}  // namespace tjit::llvm_backend
