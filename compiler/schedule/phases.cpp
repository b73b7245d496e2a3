#include "compiler/schedule/phases.h"

#include <algorithm>

namespace tjit::llvm_backend {
namespace {

using Kind = Source::Kind;

class Cutter {
 public:
  explicit Cutter(const LoopCode& code) : code_(code) {}

  Phases Run() {
    FindStoresByCalls();
    for (const Step& step : code_.steps) PlaceStep(step);
    last_ = LastPhase();
    if (!code_.is_rows) SinkSteps();
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      MakeBuffers(code_.steps[i], phases_.of_step[i]);
    }
    for (std::size_t i = 0; i < code_.stores.size(); ++i) {
      const StoreTo& store = code_.stores[i];
      if (phases_.is_by_call[i] != 0) {
        phases_.of_store.push_back(made_.at(store.source.value).phase);
        continue;
      }
      phases_.of_store.push_back(PhaseOf(store));
      NeedIn(phases_.of_store.back(), store.source, store.is_of_row);
    }
    phases_.count = last_ + 1;
    return std::move(phases_);
  }

 private:
  struct Made {
    int phase;
    bool by_call;
    bool is_of_row;
    ir::DType dtype;
  };

  // Note [Stored by calls].
  void FindStoresByCalls() {
    phases_.is_by_call.assign(code_.stores.size(), 0);
    if (!code_.is_rows || code_.in_order || ReplacesExternals()) return;
    for (const Step& step : code_.steps) {
      if (!step.is_row_call || step.is_of_row) continue;
      for (std::size_t i = 0; i < code_.stores.size(); ++i) {
        if (!MayStoreByCall(step, code_.stores[i])) continue;
        phases_.is_by_call[i] = 1;
        stored_by_call_[step.result] = code_.stores[i].access;
        break;
      }
    }
  }

  // The phase of a store to an external comes behind all that reads it: so it
  // is where what functions make is stored a phase later.
  bool ReplacesExternals() const {
    return std::any_of(
        code_.stores.begin(), code_.stores.end(), [&](const StoreTo& store) {
          return code_.accesses[static_cast<std::size_t>(store.access)]
              .is_external;
        });
  }

  // The elements lie as the function gives them, in memory that nothing else
  // in the loop touches.
  bool MayStoreByCall(const Step& step, const StoreTo& store) const {
    const auto& access = code_.accesses[static_cast<std::size_t>(store.access)];
    if (store.source.kind != Kind::kRegister ||
        store.source.value != step.result || store.is_of_row ||
        access.is_external || access.dtype != step.result_dtype ||
        !IsDirect(code_, store.access)) {
      return false;
    }
    return std::count_if(code_.accesses.begin(), code_.accesses.end(),
                         [&](const MemoryAccess& other) {
                           return other.memory == access.memory;
                         }) == 1;
  }

  // The first phase whose vector code can read it.
  int PhaseToRead(const Source& source) const {
    if (source.kind != Kind::kRegister) return 0;
    const Made& made = made_.at(source.value);
    return made.phase + (made.by_call ? 1 : 0);
  }

  void PlaceStep(const Step& step) {
    int phase = 0;
    for (const Source& source : step.sources) {
      if (source.kind != Kind::kRegister) continue;
      phase = std::max(phase, step.is_array_call ? made_.at(source.value).phase
                                                 : PhaseToRead(source));
    }
    made_[step.result] = {phase, step.is_array_call, step.is_of_row,
                          step.result_dtype};
    phases_.of_step.push_back(phase);
  }

  int LastPhase() const {
    int last = 0;
    for (std::size_t i = 0; i < code_.stores.size(); ++i) {
      const Source& source = code_.stores[i].source;
      last = std::max(last, phases_.is_by_call[i] != 0
                                ? made_.at(source.value).phase
                                : PhaseToRead(source));
    }
    for (std::size_t i = 0; i < code_.steps.size(); ++i) {
      if (!code_.steps[i].is_array_call) {
        last = std::max(last, phases_.of_step[i]);
      }
    }
    return last;
  }

  int PhaseOf(const StoreTo& store) const {
    const auto& access = code_.accesses[static_cast<std::size_t>(store.access)];
    return access.is_external ? last_ : PhaseToRead(store.source);
  }

  // Note [Late steps].
  void SinkSteps() {
    std::set<ir::ValueId> lies_in_memory, may_sink;
    for (const Step& step : code_.steps) {
      if (step.is_array_call) {
        lies_in_memory.insert(step.result);
        for (const Source& s : step.sources) lies_in_memory.insert(s.value);
      }
    }
    const auto is_there = [&](const Source& s) {
      if (s.kind == Kind::kAccess) return IsRow(s.access);
      return s.kind == Kind::kScalar || may_sink.contains(s.value) ||
             lies_in_memory.contains(s.value);
    };
    for (const Step& step : code_.steps) {
      if (!step.is_array_call &&
          std::all_of(step.sources.begin(), step.sources.end(), is_there)) {
        may_sink.insert(step.result);
      }
    }
    // Where each value is read first, known when its step's turn comes.
    std::map<ir::ValueId, int> use;
    const auto add_use = [&](const Source& source, int phase) {
      const auto [it, is_new] = use.try_emplace(source.value, phase);
      if (!is_new) it->second = std::min(it->second, phase);
    };
    for (const StoreTo& store : code_.stores) {
      add_use(store.source, PhaseOf(store));
    }
    for (std::size_t i = code_.steps.size(); i-- > 0;) {
      const Step& step = code_.steps[i];
      int& phase = phases_.of_step[i];
      const auto first_use = use.find(step.result);
      if (may_sink.contains(step.result) && first_use != use.end()) {
        phase = made_.at(step.result).phase = first_use->second;
      }
      for (const Source& source : step.sources) add_use(source, phase);
    }
  }

  // Lies in the order in which the loop goes: reading it again costs little.
  bool IsRow(int access) const {
    const ir::Size& stride =
        code_.accesses[static_cast<std::size_t>(access)].strides.back();
    return stride == ir::Size(1) || stride == ir::Size(0);
  }

  void MakeBuffers(const Step& step, int phase) {
    for (const Source& source : step.sources) {
      if (step.is_array_call) {
        BufferFor(source);
      } else {
        NeedIn(phase, source, step.is_of_row);
      }
    }
    if (step.is_array_call && !step.is_column_call) BufferOfValue(step.result);
  }

  void NeedIn(int phase, const Source& source, bool is_of_row) {
    if (source.kind != Kind::kRegister) return;
    const Made& made = made_.at(source.value);
    if (made.phase < phase || made.is_of_row != is_of_row) {
      BufferOfValue(source.value);
    }
  }

  void BufferFor(const Source& source) {
    if (source.kind == Kind::kRegister) BufferOfValue(source.value);
    if (source.kind != Kind::kAccess || IsDirect(code_, source.access)) return;
    const auto& access =
        code_.accesses[static_cast<std::size_t>(source.access)];
    if (phases_.buffer_of_access.contains(source.access)) return;
    phases_.buffer_of_access[source.access] =
        NewBuffer({access.dtype, access.is_of_row});
  }

  void BufferOfValue(ir::ValueId value) {
    if (phases_.buffer_of_value.contains(value)) return;
    const Made& made = made_.at(value);
    const auto stored = stored_by_call_.find(value);
    const int access = stored == stored_by_call_.end() ? -1 : stored->second;
    phases_.buffer_of_value[value] =
        NewBuffer({made.dtype, made.is_of_row, access});
  }

  int NewBuffer(TileBuffer buffer) {
    phases_.buffers.push_back(buffer);
    return static_cast<int>(phases_.buffers.size()) - 1;
  }

  const LoopCode& code_;
  std::map<ir::ValueId, Made> made_;
  std::map<ir::ValueId, int> stored_by_call_;  // to which access
  int last_ = 0;  // phase
  Phases phases_;
};

void AddSource(const Source& source, const std::set<ir::ValueId>& of_row,
               PhaseCode* mine) {
  mine->is_empty = false;
  if (source.kind == Kind::kAccess) mine->accesses.insert(source.access);
  if (source.kind == Kind::kRegister && of_row.contains(source.value)) {
    mine->row_values.insert(source.value);
  }
}

bool IsDense(const LoopCode& code, int access) {
  const std::size_t row = code.sizes.size() - 1;
  const ir::Sizes& strides =
      code.accesses[static_cast<std::size_t>(access)].strides;
  if (strides[row] == ir::Size(0)) return strides[row - 1] == ir::Size(0);
  return strides[row] == ir::Size(1) && strides[row - 1] == code.sizes[row];
}

}  // namespace

PhaseCode CodeOf(const LoopCode& code, const Phases& phases, int phase,
                 bool is_of_row) {
  PhaseCode mine;
  std::set<ir::ValueId> of_row;  // that the code of elements may read
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const Step& step = code.steps[i];
    if (step.is_of_row && !is_of_row) of_row.insert(step.result);
    if (phases.of_step[i] != phase || step.is_array_call ||
        step.is_of_row != is_of_row) {
      continue;
    }
    for (const Source& source : step.sources) AddSource(source, of_row, &mine);
  }
  for (std::size_t i = 0; i < code.stores.size(); ++i) {
    const StoreTo& store = code.stores[i];
    if (phases.of_store[i] != phase || phases.is_by_call[i] != 0 ||
        store.is_of_row != is_of_row) {
      continue;
    }
    AddSource(store.source, of_row, &mine);
    mine.accesses.insert(store.access);
  }
  for (const auto& [access, buffer] : phases.buffer_of_access) {
    const auto a = static_cast<std::size_t>(access);
    if (phase != 0 || code.accesses[a].is_of_row != is_of_row) continue;
    mine.is_empty = false;
    mine.accesses.insert(access);
  }
  if (!code.is_rows && !code.is_slabs) return mine;
  mine.is_dense = mine.row_values.empty();
  for (const int access : mine.accesses) {
    mine.is_dense = mine.is_dense && IsDense(code, access);
  }
  return mine;
}

std::vector<int> CallsOf(const LoopCode& code, const Phases& phases,
                         int phase) {
  std::vector<int> calls, sums;
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const Step& step = code.steps[i];
    if (phases.of_step[i] != phase || !step.is_array_call) continue;
    const bool is_sum = step.is_column_call && step.op != ir::Op::kVar &&
                        step.op != ir::Op::kStd;
    (is_sum ? sums : calls).push_back(static_cast<int>(i));
  }
  calls.insert(calls.end(), sums.begin(), sums.end());
  return calls;
}

int RegisterBytes(ir::DType dtype) {
  if (dtype == ir::DType::kBool) return 1;
  const bool is_float = InfoOf(dtype).kind == ir::DTypeKind::kFloat;
  return is_float && dtype != ir::DType::kF64 ? 4 : 8;
}

namespace {

// Other functions get elements that lie one behind the other.
bool IsReadBySlabsAlone(const LoopCode& code, int access) {
  return std::none_of(
      code.steps.begin(), code.steps.end(), [&](const Step& step) {
        return step.is_array_call && !step.is_slab_call &&
               std::any_of(step.sources.begin(), step.sources.end(),
                           [&](const Source& source) {
                             return source.kind == Kind::kAccess &&
                                    source.access == access;
                           });
      });
}

}  // namespace

bool IsDirect(const LoopCode& code, int access) {
  const MemoryAccess& a = code.accesses[static_cast<std::size_t>(access)];
  if (a.strides.back() != ir::Size(1) || InfoOf(a.dtype).bytes <= 2) {
    return false;
  }
  if (code.is_slabs) return IsReadBySlabsAlone(code, access);
  if (!code.is_rows) return code.sizes.size() == 1;
  return a.strides[code.sizes.size() - 2] == code.sizes.back();
}

int TileElementBytes(const Phases& phases) {
  int bytes = 0;
  for (const TileBuffer& buffer : phases.buffers) {
    if (buffer.is_of_row || buffer.access >= 0) continue;
    bytes += RegisterBytes(buffer.dtype);
  }
  return bytes;
}

Phases MakePhases(const LoopCode& code) { return Cutter(code).Run(); }

}  // namespace tjit::llvm_backend
