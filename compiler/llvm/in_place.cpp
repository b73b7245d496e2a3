#include "compiler/llvm/in_place.h"

#include <algorithm>
#include <cstddef>

#include "compiler/llvm/phases.h"

namespace tjit::llvm_backend {
namespace {

// The phase in which the code last reads the access, and whether a call does
// so, which is behind the phase's vector code.
struct LastRead {
  int phase = -1;
  bool is_by_call = false;
  void Note(int in, bool by_call) {
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
    last.Note(is_filled_before ? 0 : phases.of_step[i], is_call);
  }
  for (std::size_t i = 0; i < code.stores.size(); ++i) {
    if (reads(code.stores[i].source)) last.Note(phases.of_store[i], false);
  }
  return last;
}

bool IsSameElement(const MemoryAccess& a, const MemoryAccess& b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.strides == b.strides &&
         !a.is_of_row && !b.is_of_row;
}

// What the code does with one memory.
struct Uses {
  std::vector<int> loads;   // accesses
  std::vector<int> stores;  // indices into code.stores
  bool has_column_stores = false;
};

Uses UsesOf(const LoopCode& code, int memory) {
  Uses uses;
  std::vector<char> is_stored(code.accesses.size(), 0);
  for (std::size_t i = 0; i < code.stores.size(); ++i) {
    const auto access = static_cast<std::size_t>(code.stores[i].access);
    if (code.accesses[access].memory != memory) continue;
    uses.stores.push_back(static_cast<int>(i));
    is_stored[access] = 1;
  }
  for (std::size_t a = 0; a < code.accesses.size(); ++a) {
    if (code.accesses[a].memory == memory && is_stored[a] == 0) {
      uses.loads.push_back(static_cast<int>(a));
    }
  }
  uses.has_column_stores = std::any_of(
      code.column_stores.begin(), code.column_stores.end(),
      [memory](const ColumnStore& s) { return s.memory == memory; });
  return uses;
}

bool IsReadBefore(const LoopCode& code, const Uses& from, const Uses& to) {
  if (from.loads.empty()) return true;
  if (to.has_column_stores || code.steps.empty()) return false;
  const Phases phases = MakePhases(code);
  for (const int load : from.loads) {
    const LastRead last = LastReadOf(code, phases, load);
    for (const int s : to.stores) {
      const StoreTo& store = code.stores[static_cast<std::size_t>(s)];
      const int phase = phases.of_store[static_cast<std::size_t>(s)];
      const auto& accesses = code.accesses;
      if (!IsSameElement(accesses[static_cast<std::size_t>(load)],
                         accesses[static_cast<std::size_t>(store.access)]) ||
          last.phase > phase || (last.phase == phase && last.is_by_call)) {
        return false;
      }
    }
  }
  return true;
}

bool MayReplace(const std::vector<LoopCode>& codes, int external, int memory) {
  bool is_stored = false;  // by a code so far
  for (const LoopCode& code : codes) {
    const Uses from = UsesOf(code, external);
    const Uses to = UsesOf(code, memory);
    if (!from.stores.empty() || from.has_column_stores) return false;
    if (is_stored && !from.loads.empty()) return false;
    const bool stores = !to.stores.empty() || to.has_column_stores;
    if (stores && !IsReadBefore(code, from, to)) return false;
    is_stored |= stores;
  }
  return is_stored;
}

}  // namespace

std::vector<TjitInPlace> FindInPlace(const ir::Function& f,
                                     const std::vector<LoopCode>& codes) {
  std::vector<TjitInPlace> pairs;
  const auto type = [&](ir::ValueId id) {
    return f.values[static_cast<std::size_t>(id)].dtype;
  };
  for (std::size_t r = 0; r < f.returns.size(); ++r) {
    for (int e = 0; e < f.externals; ++e) {
      const auto returned = static_cast<std::int32_t>(r);
      if (type(f.returns[r]) == type(e) &&
          MayReplace(codes, e, f.externals + returned)) {
        pairs.push_back({returned, e});
      }
    }
  }
  return pairs;
}

}  // namespace tjit::llvm_backend
