#include "compiler/loops/fuse.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Instruction;
using ir::Operand;
using ir::ValueId;

// A loop of more instructions compiles slowly and spills registers.
constexpr std::size_t kMaxLoopInstructions = 256;
// Siblings share one operand; beyond this many streams the hardware's
// prefetchers have nothing left to give.
constexpr std::size_t kMaxSiblingStreams = 16;
// Siblings with more than this between them stay apart.
constexpr std::size_t kMaxVisited = 500;
constexpr std::size_t kMaxEarlierReaders = 8;

constexpr int kNone = std::numeric_limits<int>::max();

struct Use {
  int instruction;  // -1: a write-back or a return
  bool is_register;
  bool is_row;  // ReadsRow()
};

class Fuser {
 public:
  explicit Fuser(const ir::Function& f)
      : f_(f),
        definitions_(Definitions(f)),
        uses_(f.values.size()),
        loops_(f.body.size()),
        loop_of_(f.body.size()) {
    for (std::size_t i = 0; i < f.body.size(); ++i) {
      const Instruction& in = f.body[i];
      loop_of_[i] = static_cast<int>(i);
      loops_[i].kind = LoopKindOf(in);
      loops_[i].sizes = LoopSizesOf(f, in);
      loops_[i].slab_dim = SlabDimOf(in);
      loops_[i].instructions = {static_cast<int>(i)};
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        if (!in.operands[k].is_tensor()) continue;
        AddUse(
            in.operands[k].value,
            {static_cast<int>(i), TakesRegister(f, in, k), ReadsRow(f, in, k)});
      }
    }
    for (const ir::WriteBack& write : f.writes) {
      AddUse(write.from.value, {-1, false, false});
    }
    for (const ValueId id : f.returns) AddUse(id, {-1, false, false});
  }

  std::vector<Loop> Run(Fusion fusion) {
    if (fusion == Fusion::kNone) return Sorted();
    for (std::size_t i = 0; i < f_.body.size(); ++i) {
      present_ = static_cast<int>(i);
      MergeProducers(i);
    }
    present_ = kNone;
    for (std::size_t i = 0; i < f_.body.size(); ++i) MergePrologue(i);
    for (ValueId id = 0; id < static_cast<int>(f_.values.size()); ++id) {
      MergeReaders(id);
    }
    return Sorted();
  }

 private:
  void AddUse(ValueId value, Use use) {
    uses_[static_cast<std::size_t>(value)].push_back(use);
  }
  Loop& LoopAt(int loop) { return loops_[static_cast<std::size_t>(loop)]; }
  int LoopOf(int instruction) const {
    return loop_of_[static_cast<std::size_t>(instruction)];
  }
  const Instruction& At(int instruction) const {
    return f_.body[static_cast<std::size_t>(instruction)];
  }

  // Calls f(use) for every use of what the loop makes.
  template <class F>
  void EachUse(int loop, F f) {
    for (const int i : LoopAt(loop).instructions) {
      for (const Use& use : uses_[static_cast<std::size_t>(At(i).results[0])]) {
        f(use);
      }
    }
  }

  // Some loop lies on a way from `from` to `to`. While producers are merged,
  // instructions behind the present one are loops of their own, from which no
  // way leads back.
  bool HasDetour(int from, int to) {
    absl::flat_hash_set<int> visited = {from, to};
    std::vector<int> next = {from};
    bool found = false;
    while (!next.empty() && !found) {
      const int loop = next.back();
      next.pop_back();
      EachUse(loop, [&](const Use& use) {
        if (use.instruction < 0) return;
        const int user = LoopOf(use.instruction);
        found |= user == to && loop != from;
        const bool is_beyond = LoopAt(user).instructions.size() == 1 &&
                               LoopAt(user).instructions[0] > present_;
        if (!is_beyond && visited.insert(user).second) next.push_back(user);
      });
      found |= visited.size() > kMaxVisited && present_ == kNone;
    }
    return found;
  }

  bool NeedsMemory(int from, int to) {
    const bool have_rows = IsRows(from) || IsRows(to);
    bool needs = false;
    EachUse(from, [&](const Use& use) {
      needs |= use.instruction >= 0 && LoopOf(use.instruction) == to &&
               !use.is_register && !(have_rows && use.is_row);
    });
    return needs;
  }

  bool FitsOne(int a, int b) {
    const Loop& x = LoopAt(a);
    const Loop& y = LoopAt(b);
    const bool fit =
        (x.sizes == y.sizes && AreAlike(a, b)) ||
        (IsRows(a) && IsPointwise(b) && AreRowsOf(y.sizes, x.sizes)) ||
        (IsPointwise(a) && IsRows(b) && AreRowsOf(x.sizes, y.sizes));
    return a != b && fit &&
           x.instructions.size() + y.instructions.size() <=
               kMaxLoopInstructions;
  }
  // Rows, or slabs of one dim; pointwise loops go with all.
  bool AreAlike(int a, int b) {
    return IsPointwise(a) || IsPointwise(b) ||
           (LoopAt(a).kind == LoopAt(b).kind &&
            LoopAt(a).slab_dim == LoopAt(b).slab_dim);
  }
  // There is an edge from the producer, so no way back (loops have no cycle).
  bool CanMergeProducer(int producer, int user) {
    return FitsOne(producer, user) && !NeedsMemory(producer, user) &&
           !HasDetour(producer, user);
  }
  bool CanMergeSiblings(int a, int b) {
    return FitsOne(a, b) && !NeedsMemory(a, b) && !NeedsMemory(b, a) &&
           !HasDetour(a, b) && !HasDetour(b, a);
  }

  // The larger one takes the other in; rows and slabs win over the kind of `b`.
  void Merge(int a, int b) {
    const int kept = IsRows(a) || IsSlabs(a) ? a : b;
    const LoopKind kind = LoopAt(kept).kind;
    const ir::Sizes sizes = LoopAt(kept).sizes;
    const int slab_dim = LoopAt(kept).slab_dim;
    if (LoopAt(a).instructions.size() > LoopAt(b).instructions.size()) {
      std::swap(a, b);
    }
    std::vector<int>& to = LoopAt(b).instructions;
    for (const int i : LoopAt(a).instructions) {
      loop_of_[static_cast<std::size_t>(i)] = b;
      to.push_back(i);
    }
    LoopAt(a).instructions.clear();
    LoopAt(b).kind = kind;
    LoopAt(b).sizes = sizes;
    LoopAt(b).slab_dim = slab_dim;
  }

  bool IsPointwise(int loop) {
    return LoopAt(loop).kind == LoopKind::kPointwise;
  }
  bool IsRows(int loop) { return LoopAt(loop).kind == LoopKind::kRows; }
  bool IsSlabs(int loop) { return LoopAt(loop).kind == LoopKind::kSlabs; }
  bool IsInParts(int loop) { return RunsInParts(LoopAt(loop).kind); }
  bool TakesSiblings(int loop) {
    const LoopKind kind = LoopAt(loop).kind;
    return IsInParts(loop) || kind == LoopKind::kColumns ||
           kind == LoopKind::kWhole;
  }

  // The loop of the instruction that makes the operand; -1 for an external.
  int ProducerOf(const Operand& operand) const {
    if (!operand.is_tensor()) return -1;
    const int i = definitions_[static_cast<std::size_t>(operand.value)];
    return i < 0 ? -1 : LoopOf(i);
  }

  void MergeProducers(std::size_t i) {
    const Instruction& in = f_.body[i];
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      const int producer = ProducerOf(in.operands[k]);
      const int own = LoopOf(static_cast<int>(i));
      if (producer < 0 || !IsInParts(producer) || !IsInParts(own)) continue;
      if ((TakesRegister(f_, in, k) || ReadsRow(f_, in, k)) &&
          CanMergeProducer(producer, own)) {
        Merge(producer, own);
      }
    }
  }

  // Different values read, and values needed outside.
  std::size_t StreamsOf(int a, int b) {
    absl::flat_hash_set<ValueId> streams;
    for (const int loop : {a, b}) {
      for (const int i : LoopAt(loop).instructions) {
        for (const Operand& operand : At(i).operands) {
          const int producer = ProducerOf(operand);
          if (operand.is_tensor() && producer != a && producer != b) {
            streams.insert(operand.value);
          }
        }
        for (const Use& use :
             uses_[static_cast<std::size_t>(At(i).results[0])]) {
          const int user = use.instruction < 0 ? -1 : LoopOf(use.instruction);
          if (user != a && user != b) streams.insert(At(i).results[0]);
        }
      }
    }
    return streams.size();
  }

  bool ReadAlike(ValueId id, int a, int b) const {
    for (const Operand& x : At(a).operands) {
      for (const Operand& y : At(b).operands) {
        if (x.value == id && x == y) return true;
      }
    }
    return false;
  }

  void MergeReaders(ValueId id) {
    const std::vector<Use>& readers = uses_[static_cast<std::size_t>(id)];
    for (std::size_t i = 1; i < readers.size(); ++i) {
      const int reader = readers[i].instruction;
      if (reader < 0 || !TakesSiblings(LoopOf(reader))) continue;
      const std::size_t first =
          i > kMaxEarlierReaders ? i - kMaxEarlierReaders : 0;
      for (std::size_t k = first; k < i; ++k) {
        const int earlier = readers[k].instruction;
        const int a = LoopOf(earlier), b = LoopOf(reader);
        if (a == b) break;
        const bool are_alike =
            IsInParts(a) ? IsInParts(b) : LoopAt(a).kind == LoopAt(b).kind;
        if (TakesSiblings(a) && are_alike && ReadAlike(id, earlier, reader) &&
            StreamsOf(a, b) <= kMaxSiblingStreams && CanMergeSiblings(a, b)) {
          Merge(a, b);
          break;
        }
      }
    }
  }

  // A reduce op of other dims, or of columns, takes in what only it reads.
  void MergePrologue(std::size_t i) {
    const Instruction& in = f_.body[i];
    const int own = LoopOf(static_cast<int>(i));
    const LoopKind kind = LoopAt(own).kind;
    if (IsInParts(own) || kind == LoopKind::kUpdate) return;
    for (const Operand& operand : in.operands) {
      const int root = LoopOf(static_cast<int>(i));
      const int producer = ProducerOf(operand);
      if (producer < 0 || !IsPointwise(producer)) continue;
      const std::vector<int>& own_part = LoopAt(producer).instructions;
      bool is_private = *std::max_element(own_part.begin(), own_part.end()) <
                        static_cast<int>(i);
      EachUse(producer, [&](const Use& use) {
        const int user = use.instruction < 0 ? -1 : LoopOf(use.instruction);
        is_private &= user == root || user == producer;
      });
      if (is_private && CanMergeProducer(producer, root)) Merge(producer, root);
    }
  }

  // What must be equal for two loops to be generated alike.
  std::string SignatureOf(const Loop& loop) const {
    std::string text =
        absl::StrCat(Name(loop.kind), " ", loop.sizes.size(), " dims");
    for (const int i : loop.instructions) {
      const Instruction& in = At(i);
      absl::StrAppend(
          &text, " ", InfoOf(in.op).name, " ",
          Name(f_.values[static_cast<std::size_t>(in.results[0])].dtype));
      for (const Operand& operand : in.operands) {
        text += operand.is_tensor() ? 't' : 's';
      }
    }
    return text;
  }

  // Users of each loop, once each, and how many loops each one waits for.
  void Edges(std::vector<std::vector<int>>* users, std::vector<int>* waits) {
    users->resize(loops_.size());
    waits->assign(loops_.size(), 0);
    for (int loop = 0; loop < static_cast<int>(loops_.size()); ++loop) {
      absl::flat_hash_set<int> seen = {loop};
      EachUse(loop, [&](const Use& use) {
        if (use.instruction < 0) return;
        const int user = LoopOf(use.instruction);
        if (!seen.insert(user).second) return;
        (*users)[static_cast<std::size_t>(loop)].push_back(user);
        ++(*waits)[static_cast<std::size_t>(user)];
      });
    }
  }

  std::vector<Loop> Sorted() {
    std::vector<std::vector<int>> users;
    std::vector<int> waits, ready;
    Edges(&users, &waits);
    std::vector<std::string> signatures(loops_.size());
    for (std::size_t loop = 0; loop < loops_.size(); ++loop) {
      std::vector<int>& instructions = loops_[loop].instructions;
      std::sort(instructions.begin(), instructions.end());
      signatures[loop] = SignatureOf(loops_[loop]);
      if (!instructions.empty() && waits[loop] == 0) {
        ready.push_back(static_cast<int>(loop));
      }
    }
    std::vector<Loop> sorted;
    std::string last;
    while (!ready.empty()) {
      const auto first_of = [&](int loop) {
        const auto at = static_cast<std::size_t>(loop);
        return std::pair(signatures[at] != last,
                         LoopAt(loop).instructions.front());
      };
      const auto next = std::min_element(
          ready.begin(), ready.end(),
          [&](int a, int b) { return first_of(a) < first_of(b); });
      const int loop = *next;
      ready.erase(next);
      for (const int user : users[static_cast<std::size_t>(loop)]) {
        if (--waits[static_cast<std::size_t>(user)] == 0) ready.push_back(user);
      }
      last = signatures[static_cast<std::size_t>(loop)];
      sorted.push_back(std::move(LoopAt(loop)));
    }
    return sorted;
  }

  const ir::Function& f_;
  const std::vector<int> definitions_;
  std::vector<std::vector<Use>> uses_;  // by value
  std::vector<Loop> loops_;             // by first instruction; empty: merged
  std::vector<int> loop_of_;            // by instruction
  int present_ = kNone;                 // see HasDetour()
};

}  // namespace

std::vector<Loop> Fuse(const ir::Function& function, Fusion fusion) {
  return Fuser(function).Run(fusion);
}

}  // namespace tjit
