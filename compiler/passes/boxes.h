// Accesses that are boxes of a value: some indices of each dim, in a row.
// Part of split_parts.h, and tested with it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/ir.h"

namespace tjit {

struct Box {
  std::vector<std::int64_t> starts;  // by dim of the value
  ir::Sizes sizes;                   // by dim of the value
  std::vector<int> dims;  // by dim of the access: of the value; -1: of size 1

  bool IsSameAs(const Box& o) const {
    return starts == o.starts && sizes == o.sizes;
  }
};

// Nothing if it is none, or that depends on symbols: dims whose sizes are
// symbols are there as a whole, but for the outermost one.
std::optional<Box> BoxOf(const ir::Geometry& access,
                         const ir::Geometry& layout);

// Some dim keeps them apart. REQUIRES: boxes of one value.
bool AreApart(const Box& a, const Box& b);

// What `outer`, an access with the dims of the value, reads for the elements
// of the box that `inner` accesses.
ir::Geometry Within(const ir::Geometry& outer, const Box& box,
                    const ir::Geometry& inner);

}  // namespace tjit
