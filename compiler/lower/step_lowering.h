// One step while it is lowered: what the rules of the op families work with.
//
//   Node a, b;
//   return s.Into(0) && s.Tensor(0, &a) && s.Tensor(1, &b) &&
//          s.Store(s.Apply(Op::kMaximum, {a, b}));
//
// A rule says where a result goes (Into), loads tensors and scalars as nodes,
// applies IR ops to them and stores. Apply() broadcasts its operands to the
// destination's sizes. What returns bool returns false after Refuse().
// A list op does that once per element.
// Tested by: tests/compiler/lower/lower_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/lower/storages.h"

namespace tjit::lower {

// A tensor or scalar in the making.
struct Node {
  ir::Operand operand;
  ir::DType dtype = ir::DType::kF32;  // of a scalar: as the program gave it
  Dims dims;
  bool is_number = false;  // a scalar, or a 0-dim tensor that wraps one
  double recorded = 0;     // of a scalar: its value when it was recorded
};

// A step with its variables; made for all steps before any is lowered.
struct StepPlaces {
  std::vector<Place> args;     // slot kNoSlot: undefined
  std::vector<Place> results;  // fresh ones; else slot kNoSlot
};

// What is known of the call that a step records.
class LoweredCall {
 public:
  LoweredCall(const GroupStep& step, const StepPlaces& places)
      : step_(step), places_(places) {}

  const StepRecord& record() const { return *step_.record; }
  std::string_view op() const { return step_.op; }
  int threads() const { return step_.threads; }  // 0: any number
  bool has_one_thread() const { return threads() == 1; }
  std::size_t arg_count() const { return places_.args.size(); }
  std::uint64_t Static(std::size_t index) const {
    return index < record().statics.size() ? record().statics[index] : 0;
  }

  // The element of the lists that tensors, results and `*` are of.
  void SetElement(std::size_t element, std::size_t count) {
    element_ = element;
    elements_ = count;
  }
  std::size_t element() const { return element_; }

 protected:
  const GroupStep& step_;
  const StepPlaces& places_;
  std::size_t element_ = 0, elements_ = 1;
};

class StepLowering : public LoweredCall {
 public:
  StepLowering(const GroupStep& step, std::int32_t index,
               const StepPlaces& places, ir::Builder* builder, SizeVars* sizes,
               Storages* storages, std::vector<ScalarSource>* scalars)
      : LoweredCall(step, places),
        index_(index),
        builder_(*builder),
        sizes_(*sizes),
        storages_(*storages),
        scalars_(*scalars) {}

  // Sets the reason and returns false.
  bool Refuse(std::string why);
  const std::string& reason() const { return reason_; }

  bool HasResult(std::size_t result) const;  // no mask has left it out
  // Where the next Store() goes: result number `result`, or, where the op has
  // no results, the written argument `arg`.
  bool Into(std::size_t result);
  bool IntoArgument(std::size_t arg);
  // What is applied then has the sizes of argument `arg`, lies row-major, and
  // is in no slot: eager's tensor between two of its kernels.
  bool IntoBetween(std::size_t arg);
  ir::DType target_dtype() const { return target_dtype_; }
  const Dims& target_dims() const { return target_.dims; }
  // A result that the step makes has the common dtype of its operands.
  bool target_is_fresh() const { return target_is_fresh_; }

  bool Tensor(std::size_t arg, Node* node);
  bool SharedTensor(Node* node);  // the last argument
  bool Scalar(std::size_t index, Node* node);
  bool HasScalar(std::size_t index) const;
  // The value of a scalar that never varied; false if there is none.
  bool BakedScalar(std::size_t index, double* value) const;
  static Node Number(double value);
  static Node Number(std::int64_t value);

  // That eager computes in; integers become the default dtype `is_for_floats`.
  bool CommonDType(const std::vector<Node>& nodes, bool is_for_floats,
                   ir::DType* dtype);
  // A tensor node of the dtype; scalars stay as they are.
  Node Convert(const Node& node, ir::DType dtype);

  // Operands broadcast to the destination; tensors of one dtype.
  Node Apply(ir::Op op, const std::vector<Node>& nodes);
  // full, or a comparison of scalars: the dtype is given.
  Node ApplyAs(ir::DType dtype, ir::Op op, const std::vector<Node>& nodes);
  // To the destination; `number`: of ops with a scalar.
  Node Reduce(ir::Op op, const Node& node, const std::vector<int>& dims,
              bool keepdim, const Node* number = nullptr);
  Node Reduce(ir::Op op, const std::vector<Node>& nodes,
              const std::vector<int>& dims, bool keepdim, const Node* number);
  // Values in between, of sizes of their own; a reduction keeps its dims.
  // `number`: of ops with a scalar.
  Node ApplyAt(const Dims& dims, ir::Op op, const std::vector<Node>& nodes);
  Node ReduceAt(ir::Op op, const std::vector<Node>& nodes,
                const std::vector<int>& dims, const Node& number);
  // Reduce() over the first dims of a row-major node: the others are one dim to
  // the op, whatever they are.
  Node ReduceLeading(ir::Op op, const Node& node, const std::vector<int>& dims,
                     const Node* number = nullptr);

  // A row op of operands with the destination's sizes.
  Node AlongDim(ir::Op op, const std::vector<Node>& nodes, int dim);

  // A value that lies as the destination, made of parts that cover it: the
  // elements of `operand` from `starts` on, one per dim.
  struct Part {
    ir::Operand operand;
    std::vector<std::int64_t> starts;
  };
  Node Concat(std::vector<Part> parts);

  // True if the destination has some element of the node several times.
  bool IsBroadcast(const Node& node) const;
  // Sizes that an op's result depends on otherwise than by broadcasting.
  void Fix(const Dims& dims) { sizes_.Fix(dims); }
  ir::Size SizeOf(const Dim& dim) const { return sizes_.Of(dim); }
  ir::Sizes SizesOf(const Dims& dims) const { return sizes_.Of(dims); }
  // The target has the sizes of argument `arg`, if they are equal.
  void RelateTarget(std::size_t arg);

  // Puts the node into the destination, converted and broadcast to it.
  bool Store(const Node& node);

 private:
  bool SetTarget(const Place& place, bool is_fresh);
  bool Load(std::size_t arg, Node* node);
  Node Broadcast(const Node& node) { return Broadcast(node, target_.dims); }
  Node Broadcast(const Node& node, const Dims& dims);
  ir::Value TargetValue(ir::DType dtype) const;

  const std::int32_t index_;
  ir::Builder& builder_;
  SizeVars& sizes_;
  Storages& storages_;
  std::vector<ScalarSource>& scalars_;

  Place target_;
  bool target_is_fresh_ = false;
  bool target_is_between_ = false;
  ir::DType target_dtype_ = ir::DType::kF32;
  std::vector<std::size_t> loaded_;  // arguments, since Into()
  std::vector<ir::ValueId> made_;    // by Apply(), since Into()
  std::string reason_;
};

}  // namespace tjit::lower
