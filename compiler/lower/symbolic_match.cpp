#include "compiler/lower/symbolic_match.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace tjit {
namespace {

class Comparison {
 public:
  explicit Comparison(absl::Span<const std::int64_t> sizes) : sizes_(sizes) {}

  bool operator()(const ir::Function& general,
                  const ir::Function& numbers) const {
    return general.externals == numbers.externals &&
           general.scalars == numbers.scalars &&
           general.returns == numbers.returns &&
           AreSame(general.values, numbers.values) &&
           AreSame(general.body, numbers.body) &&
           AreSame(general.writes, numbers.writes);
  }

 private:
  template <class T>
  bool AreSame(const std::vector<T>& general,
               const std::vector<T>& numbers) const {
    return std::equal(general.begin(), general.end(), numbers.begin(),
                      numbers.end(),
                      [this](const T& g, const T& n) { return IsSame(g, n); });
  }
  bool IsSame(const ir::Size& general, const ir::Size& number) const {
    if (general.is_constant()) return general == number;
    const std::optional<std::int64_t> value = general.Evaluate(sizes_);
    return value && number == ir::Size(*value);
  }
  // A dim of 1 has no stride.
  bool IsSame(const ir::Geometry& general, const ir::Geometry& numbers) const {
    if (!IsSame(general.offset, numbers.offset) ||
        !AreSame(general.sizes, numbers.sizes) ||
        general.strides.size() != numbers.strides.size()) {
      return false;
    }
    for (std::size_t d = 0; d < general.strides.size(); ++d) {
      if (!(numbers.sizes[d] == ir::Size(1)) &&
          !IsSame(general.strides[d], numbers.strides[d])) {
        return false;
      }
    }
    return true;
  }
  bool IsSame(const ir::Value& general, const ir::Value& numbers) const {
    return general.dtype == numbers.dtype &&
           IsSame(general.layout, numbers.layout);
  }
  bool IsSame(const ir::Operand& general, const ir::Operand& numbers) const {
    return general.value == numbers.value &&
           general.written == numbers.written &&
           general.scalar == numbers.scalar &&
           IsSame(general.access, numbers.access);
  }
  bool IsSame(const ir::Instruction& general,
              const ir::Instruction& numbers) const {
    return general.op == numbers.op && general.results == numbers.results &&
           general.dims == numbers.dims && general.keepdim == numbers.keepdim &&
           general.callee == numbers.callee && general.step == numbers.step &&
           AreSame(general.operands, numbers.operands);
  }
  bool IsSame(const ir::WriteBack& general,
              const ir::WriteBack& numbers) const {
    return IsSame(general.to, numbers.to) && IsSame(general.from, numbers.from);
  }

  const absl::Span<const std::int64_t> sizes_;
};

}  // namespace

std::vector<std::int64_t> SizesOf(absl::Span<const SizeSource> symbols,
                                  absl::Span<const GroupStep> steps) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(symbols.size());
  for (const SizeSource& source : symbols) {
    const StepRecord& record =
        *steps[static_cast<std::size_t>(source.step)].record;
    sizes.push_back(record.args[static_cast<std::size_t>(source.arg)]
                        .geometry->sizes[source.dim]);
  }
  return sizes;
}

bool MatchesAt(absl::Span<const std::int64_t> sizes,
               const ir::Function& general, const ir::Function& numbers) {
  return Comparison(sizes)(general, numbers);
}

}  // namespace tjit
