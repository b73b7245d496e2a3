// What the runtime knows of one wrapped op: the original kernel, what it
// writes and returns, and how it may be treated.
//
// Entries are made while wrapping and live as long as the process. Only
// `op_class` may change after, of plain ops to kOpaque (mark_opaque()): calls
// that are under way on other threads may still see it as it was.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "recorder/schema_key.h"
#include "recorder/value_class.h"

namespace tjit::runtime {

// How an op is treated at the call.
enum class OpClass : std::uint8_t {
  kPlain,     // may be deferred
  kEmpty,     // `empty` and the like: runs, arms its result, is no token
  kSync,      // reads values (item, equal, nonzero, dynamic shapes)
  kRandom,    // draws at the call
  kMetadata,  // touches sizes only (set_, as_strided_, t_): never flushes
  kResize,    // resize_: metadata where it fits, else runs at the call
  kReader,    // composite that reads bytes: inputs made ready, re-armed after
  kForeign,   // other namespace or key: inputs made ready, nothing learnt
  kOpaque,    // mark_opaque(): runs at the call
};

// What decides whether the op throws, where values do.
enum class ValueCheck : std::uint8_t;

// What a schema argument is packed as; only boxed wrappers need to know.
enum class ArgumentKind : std::uint8_t {
  kTensor,  // Tensor, Tensor?
  kScalar,  // Scalar, float, optional ones
  kOther,   // by what the value is
};

// One result of the schema, by position.
struct ReturnInfo {
  int alias_arg = -1;    // schema argument it aliases (in place, out=); -1: new
  bool is_list = false;  // Tensor[]
};

struct OpEntry {
  explicit OpEntry(c10::OperatorHandle h) : handle(std::move(h)) {}

  c10::OperatorHandle handle;
  c10::KernelFunction kernel;  // the kernel that was registered before
  std::string name;            // "aten::add.Tensor"
  OpId id = kNoOp;
  std::atomic<OpClass> op_class{OpClass::kPlain};
  bool typed = false;               // has an unboxed wrapper
  bool writes_anything = false;
  bool may_throw_on_values = false;  // index, gather, nll_loss, ...
  ValueCheck value_check{};          // what decides it (op_classes.h)
  bool may_warn = false;
  bool is_pointwise = false;  // each element of a result from one of each
  std::vector<ArgumentKind> argument_kinds;  // in schema order
  // A schema argument that is written: one flag each, in schema order.
  std::vector<std::uint8_t> writes;
  std::vector<ReturnInfo> returns;
  // Policy of each at::Scalar and double argument, in schema order.
  std::vector<ScalarPolicy> scalar_policies;

  ScalarPolicy PolicyOfScalar(std::size_t index) const {
    return index < scalar_policies.size() ? scalar_policies[index]
                                          : ScalarPolicy::kBaked;
  }
};

}  // namespace tjit::runtime
