#include "compiler/schedule/row_blocks.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>

namespace tjit::llvm_backend {
namespace {

// Elements that an access touches for row 0, and how far the next row's lie.
struct Stretch {
  int memory = 0;
  int bytes = 1;  // of an element
  bool is_store = false;
  std::int64_t first = 0, last = 0;
  std::int64_t stride = 0;
};

using Stretches = std::vector<Stretch>;

class Joiner {
 public:
  Joiner(const std::vector<LoopCode>& codes, const KernelMemory& memory,
         const std::function<std::int64_t(const ir::Size&)>& number,
         std::int64_t rows)
      : codes_(codes), memory_(memory), number_(number), rows_(rows) {}

  std::vector<std::int64_t> Run() {
    std::vector<std::int64_t> blocks(codes_.size(), 0);
    for (std::size_t from = 0; from < codes_.size();) {
      std::size_t to = from + 1;
      Stretches all = StretchesOf(from);
      std::int64_t rows = 0;
      for (; to < codes_.size() && IsBeside(from, to); ++to) {
        Stretches more = StretchesOf(to);
        if (!SharesMemory(all, more)) break;
        more.insert(more.begin(), all.begin(), all.end());
        const std::int64_t fit = RowsOf(more);
        if (fit <= 0 || !AreApart(more)) break;
        rows = fit;
        all = std::move(more);
      }
      if (rows > 0 && rows < Rows(from)) {
        std::fill(blocks.begin() + static_cast<std::ptrdiff_t>(from),
                  blocks.begin() + static_cast<std::ptrdiff_t>(to - 1), rows);
      }
      from = to;
    }
    return blocks;
  }

 private:
  std::int64_t Rows(std::size_t code) const {
    return number_(codes_[code].sizes[0]);
  }

  static bool IsOfRows(const LoopCode& code) {
    return !code.in_order && !code.is_whole && !code.is_columns &&
           code.column_stores.empty();
  }

  bool IsBeside(std::size_t a, std::size_t b) const {
    return IsOfRows(codes_[a]) && IsOfRows(codes_[b]) && Rows(a) == Rows(b);
  }

  // Memories that may be one have one number, the lowest of them.
  std::vector<int> Numbers() const {
    const auto count =
        static_cast<std::size_t>(memory_.externals + memory_.returned) +
        memory_.scratch.size();
    std::vector<int> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    for (const TjitInPlace& pair : memory_.in_place) {
      const int a = numbers[static_cast<std::size_t>(pair.external)];
      const int b =
          numbers[static_cast<std::size_t>(memory_.externals + pair.returned)];
      std::replace(numbers.begin(), numbers.end(), std::max(a, b),
                   std::min(a, b));
    }
    return numbers;
  }

  Stretches StretchesOf(std::size_t index) const {
    const LoopCode& code = codes_[index];
    Stretches all;
    for (std::size_t a = 0; a < code.accesses.size(); ++a) {
      const MemoryAccess& access = code.accesses[a];
      Stretch s;
      s.memory = numbers_[static_cast<std::size_t>(access.memory)];
      s.bytes = InfoOf(access.dtype).bytes;
      s.is_store = std::any_of(code.stores.begin(), code.stores.end(),
                               [a](const StoreTo& store) {
                                 return store.access == static_cast<int>(a);
                               });
      s.first = s.last = number_(access.offset);
      s.stride = number_(access.strides[0]);
      for (std::size_t d = 1; d < code.sizes.size(); ++d) {
        s.last += (number_(code.sizes[d]) - 1) * number_(access.strides[d]);
      }
      all.push_back(s);
    }
    return all;
  }

  static bool SharesMemory(const Stretches& before, const Stretches& next) {
    return std::any_of(next.begin(), next.end(), [&](const Stretch& n) {
      return n.stride > 0 &&
             std::any_of(before.begin(), before.end(), [&](const Stretch& b) {
               return b.memory == n.memory && b.stride > 0;
             });
    });
  }

  // From the first element of the memory that row 0 touches to the last one.
  static std::int64_t LengthOf(const Stretches& all, int memory) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
    for (const Stretch& s : all) {
      if (s.memory != memory) continue;
      first = std::min(first, s.first);
      last = std::max(last, s.last);
    }
    return last - first;
  }

  // How many rows a block has; 0 if they are too long for that.
  std::int64_t RowsOf(const Stretches& all) const {
    if (rows_ > 0) return rows_;
    constexpr std::int64_t kMultiple = 64;  // whole vectors
    std::int64_t bytes = 0;
    std::set<int> counted;
    for (const Stretch& of : all) {
      if (of.stride == 0 || !counted.insert(of.memory).second) continue;
      bytes += (LengthOf(all, of.memory) + 1) * of.bytes;
    }
    if (bytes == 0) return 0;
    return kBlockBytes / bytes / kMultiple * kMultiple;
  }

  bool AreApart(const Stretches& all) const {
    for (const Stretch& s : all) {
      if (!s.is_store) continue;
      if (s.stride <= 0 || !IsAlone(all, s)) return false;
    }
    return true;
  }

  // Nothing else is in its stretch of another row.
  bool IsAlone(const Stretches& all, const Stretch& store) const {
    for (const Stretch& s : all) {
      if (s.memory != store.memory) {
        if (ShareScratch(s.memory, store.memory)) return false;
        continue;
      }
      if (s.stride != store.stride || s.bytes != store.bytes) return false;
    }
    return LengthOf(all, store.memory) < store.stride;
  }

  bool ShareScratch(int a, int b) const {
    const int scratch = memory_.externals + memory_.returned;
    if (a < scratch || b < scratch) return false;
    const auto at = [&](int memory) {
      return memory_.scratch[static_cast<std::size_t>(memory - scratch)];
    };
    return at(a).begin < at(b).end && at(b).begin < at(a).end;
  }

  const std::vector<LoopCode>& codes_;
  const KernelMemory& memory_;
  const std::function<std::int64_t(const ir::Size&)>& number_;
  const std::int64_t rows_;
  const std::vector<int> numbers_ = Numbers();
};

}  // namespace

std::vector<std::int64_t> RowBlocks(
    const std::vector<LoopCode>& codes, const KernelMemory& memory,
    const std::function<std::int64_t(const ir::Size&)>& number,
    std::int64_t rows) {
  return Joiner(codes, memory, number, rows).Run();
}

}  // namespace tjit::llvm_backend
