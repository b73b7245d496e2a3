#include "compiler/schedule/in_place.h"

#include <algorithm>
#include <cstddef>

#include "compiler/schedule/phases.h"

namespace tjit::llvm_backend {
namespace {

// The phase in which the code last reads the access, and whether a call does
// so, which is behind the phase's vector code.
struct LastRead {
  int phase = -1;
  bool is_by_call = false;
  void Record(int in, bool by_call) {
    if (in < phase) return;
    is_by_call = by_call || (in == phase && is_by_call);
    phase = in;
  }
};

LastRead LastReadOf(const LoopCode& code, const Phases& phases, int access) {
  const auto reads = [access](const Source& source) {
    return source.kind == Source::Kind::kAccess && source.access == access;
  };
  LastRead last;
  for (std::size_t i = 0; i < code.steps.size(); ++i) {
    const Step& step = code.steps[i];
    if (std::none_of(step.sources.begin(), step.sources.end(), reads)) continue;
    const bool is_call =
        step.is_array_call && !phases.buffer_of_access.contains(access);
    const bool is_filled_before = step.is_array_call && !is_call;
    last.Record(is_filled_before ? 0 : phases.of_step[i], is_call);
  }
  for (std::size_t i = 0; i < code.stores.size(); ++i) {
    if (reads(code.stores[i].source)) last.Record(phases.of_store[i], false);
  }
  return last;
}

// No function reads the access but the one that makes the store, which may
// write over its first operand. Note [Stored by calls] in phases.h.
bool IsReplacedByReader(const LoopCode& code, const StoreTo& store,
                        int access) {
  return std::all_of(
      code.steps.begin(), code.steps.end(), [&](const Step& step) {
        if (!step.is_array_call) return true;
        for (std::size_t k = 0; k < step.sources.size(); ++k) {
          const Source& source = step.sources[k];
          if (source.kind == Source::Kind::kAccess && source.access == access &&
              (step.result != store.source.value || k > 0)) {
            return false;
          }
        }
        return true;
      });
}

bool IsSameElement(const MemoryAccess& a, const MemoryAccess& b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.strides == b.strides &&
         !a.is_of_row && !b.is_of_row;
}

// The codes, by index, that load from a memory last and store to it first.
struct Uses {
  int last_load = -1;
  int first_store = -1;
};

// By memory.
std::vector<Uses> UsesOf(const std::vector<LoopCode>& codes, int count) {
  std::vector<Uses> uses(static_cast<std::size_t>(count));
  for (std::size_t c = 0; c < codes.size(); ++c) {
    const LoopCode& code = codes[c];
    const auto store_to = [&](int memory) {
      if (memory >= count) return;  // scratch
      int& first = uses[static_cast<std::size_t>(memory)].first_store;
      if (first < 0) first = static_cast<int>(c);
    };
    std::vector<char> is_stored(code.accesses.size(), 0);
    for (const StoreTo& store : code.stores) {
      const auto access = static_cast<std::size_t>(store.access);
      is_stored[access] = 1;
      store_to(code.accesses[access].memory);
    }
    for (const ColumnStore& store : code.column_stores) store_to(store.memory);
    for (std::size_t a = 0; a < code.accesses.size(); ++a) {
      const int memory = code.accesses[a].memory;
      if (is_stored[a] != 0 || memory >= count) continue;
      uses[static_cast<std::size_t>(memory)].last_load = static_cast<int>(c);
    }
  }
  return uses;
}

// True if the code, which stores to `memory`, reads what it replaces before.
bool IsReadBefore(const LoopCode& code, int external, int memory) {
  const bool has_column_stores =
      std::any_of(code.column_stores.begin(), code.column_stores.end(),
                  [&](const ColumnStore& s) { return s.memory == memory; });
  if (has_column_stores || code.steps.empty()) return false;
  const Phases phases = MakePhases(code);
  for (std::size_t a = 0; a < code.accesses.size(); ++a) {
    const MemoryAccess& load = code.accesses[a];
    if (load.memory != external) continue;
    const LastRead last = LastReadOf(code, phases, static_cast<int>(a));
    for (std::size_t s = 0; s < code.stores.size(); ++s) {
      const MemoryAccess& store =
          code.accesses[static_cast<std::size_t>(code.stores[s].access)];
      if (store.memory != memory) continue;
      const int phase = phases.of_store[s];
      const bool is_late =
          last.phase == phase && last.is_by_call &&
          (phases.is_by_call[s] == 0 ||
           !IsReplacedByReader(code, code.stores[s], static_cast<int>(a)));
      if (!IsSameElement(load, store) || last.phase > phase || is_late) {
        return false;
      }
    }
  }
  return true;
}

bool MayReplace(const std::vector<LoopCode>& codes,
                const std::vector<Uses>& uses, int external, int memory) {
  const Uses& from = uses[static_cast<std::size_t>(external)];
  const Uses& to = uses[static_cast<std::size_t>(memory)];
  if (from.first_store >= 0 || to.first_store < 0) return false;
  if (from.last_load != to.first_store) return from.last_load < to.first_store;
  return IsReadBefore(codes[static_cast<std::size_t>(to.first_store)], external,
                      memory);
}

}  // namespace

std::vector<TjitInPlace> FindInPlace(const ir::Function& f,
                                     const std::vector<LoopCode>& codes) {
  std::vector<TjitInPlace> pairs;
  const std::vector<Uses> uses =
      UsesOf(codes, f.externals + static_cast<int>(f.returns.size()));
  const auto type = [&](ir::ValueId id) {
    return f.values[static_cast<std::size_t>(id)].dtype;
  };
  for (std::size_t r = 0; r < f.returns.size(); ++r) {
    for (int e = 0; e < f.externals; ++e) {
      const auto returned = static_cast<std::int32_t>(r);
      if (type(f.returns[r]) == type(e) &&
          MayReplace(codes, uses, e, f.externals + returned)) {
        pairs.push_back({returned, e});
      }
    }
  }
  return pairs;
}

}  // namespace tjit::llvm_backend
