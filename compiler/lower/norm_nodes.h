// What the rules of batch norm and group norm share: dense tensors seen with
// other dims.
// Part of op_rules.h; tested with it.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/lower/step_lowering.h"

namespace tjit::lower {

const Node& One();  // 1.0

Dims DimsOf(const std::vector<std::int64_t>& sizes);

// The same elements, in order, as if the tensor had these dims; a number stays
// what it is. REQUIRES: it lies densely.
Node Reshape(StepLowering& s, Node node, const Dims& dims);

// `count` elements of one dim; of a number the number.
Node Slice(Node node, std::size_t dim, std::int64_t from, std::int64_t count);

}  // namespace tjit::lower
