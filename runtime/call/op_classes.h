// How each operator may be treated, from its schema, its tags and a table.
//
// The schema says what is written and returned, tags say where values decide
// shapes or are drawn at random; op_classes.def names what neither says.
// Fails closed: an op that reads values out (a result that is no tensor), or
// that writes without saying what, makes its inputs ready and runs at the
// call; an op of a namespace other than aten is foreign.
//
// Thread: any; reads immutable tables. Used while wrapping only.
// Tested by: tests/runtime/call/op_classes_test.cpp
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

#include "runtime/call/op_entry.h"

namespace tjit::runtime {

// What decides whether the op throws, where values do. Argument 0 is what is
// indexed, but for kTargetOfGrad. See value_checks.h.
enum class ValueCheck : std::uint8_t {
  kNone,          // values never make it throw
  kUnknown,       // they may, and we cannot tell: run it at the call
  kIntegral,      // only for integral dtypes (division by zero)
  kElementwise,   // not values: a loss that reduces resizes its result twice,
                  // and warns
  kSameSizes,     // not values: a loss as large as its input is resized for a
                  // larger target, and warns
  kLossGradient,  // not values: the gradient of a loss, as large as argument 1,
                  // is resized for larger arguments 0 and 2, and warns
  kFits,          // not values: a result as large as argument 0 is resized
                  // where argument 1 is not broadcast to it, and warns
  kFreedom,       // not values but sizes: a variance of too few numbers warns
  kIndices,       // the integer tensors of argument 1 index the dims in turn;
                  // bool and byte masks decide the shape, and warn
  kDimIndex,      // argument 2 indexes the dim that argument 1 names
  kFlatIndex,     // argument 1 indexes the elements
  kTarget,        // argument 1 names classes: dim 1, or dim 0 of a vector
  kTargetOfGrad,  // the same with arguments 1 and 2
};

struct OpTraits {
  OpClass op_class = OpClass::kPlain;
  bool leave_alone = false;  // pure view or without bytes: do not wrap
  bool may_warn = false;     // for the same sizes and dtypes now and then
  ValueCheck value_check = ValueCheck::kNone;
  // Schema arguments that it writes although the schema denies it.
  std::vector<int> extra_writes;

  bool may_throw_on_values() const {
    return value_check != ValueCheck::kNone;
  }
};

// REQUIRES: the operator has a schema.
OpTraits TraitsOf(const c10::OperatorHandle& op);

}  // namespace tjit::runtime
