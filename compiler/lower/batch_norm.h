// What the rules of batch norm share: how its input lies, and what there is one
// of per channel. The statistics are in batch_norm_training.cpp, the gradients
// in batch_norm_backward.cpp, what takes given statistics in batch_norm.cpp.
//
// Eager has two kernels. What is row-major is added up by channel, all of a
// channel on one thread, in f64. What lies by channels (channels-last, or
// without more dims) is added up in its own type, each thread some rows of
// channels, and what the threads have in f64.
// Part of op_rules.h; tested with it.
#pragma once

#include <cstdint>

#include "compiler/lower/norm_nodes.h"

namespace tjit::lower {

inline constexpr ir::DType kWideSum = ir::DType::kF64;

struct ChannelLayout {
  bool is_by_channels = false;
  std::int64_t places = 1;    // of one channel of one image
  std::int64_t elements = 1;  // of one channel
};

// Dim 1 innermost, the others row-major.
bool IsChannelsLast(const TensorGeometry& g);
bool HasArgument(const StepLowering& s, std::size_t arg);

// Tensor argument `arg` is of f32 or f64 and lies in one of the two ways, with
// enough to add up, and not too much for a row. Else refuses.
bool FindLayout(StepLowering& s, std::size_t arg, ChannelLayout* layout);
// All sizes but the number of channels are in the kernel.
void FixPlaces(StepLowering& s, const Dims& dims);

// Argument `arg` is a dense tensor of x's type with one element per channel.
// Else refuses.
bool LoadChannels(StepLowering& s, std::size_t arg, const Node& x, Node* node);
// The same with as many dims of size one behind, to be broadcast.
Node Wide(Node node, std::size_t ones);

// Of what lies by channels: [rows, channels], all rows or those of one thread.
Node AsRows(StepLowering& s, Node node, const ChannelLayout& layout);
// Of each channel, in f64; make(from, count) gives the operands of the op for
// some rows.
template <class Make>
Node AddUpRows(StepLowering& s, const ChannelLayout& layout, ir::Op op,
               const Make& make);
// Rows that a thread adds up, the last one less.
std::int64_t RowsOfThread(const StepLowering& s, const ChannelLayout& layout);

bool LowerTraining(StepLowering& s);
bool LowerGradients(StepLowering& s);

template <class Make>
Node AddUpRows(StepLowering& s, const ChannelLayout& layout, ir::Op op,
               const Make& make) {
  const std::int64_t step = RowsOfThread(s, layout);
  const Node one = StepLowering::Number(std::int64_t{1});
  Node all = StepLowering::Number(0.0);
  for (std::int64_t from = 0; from < layout.elements; from += step) {
    const std::int64_t count =
        step < layout.elements - from ? step : layout.elements - from;
    Node part = s.ReduceAt(op, make(from, count), {0}, One());
    part = s.Convert(Reshape(s, part, {part.dims[1]}), kWideSum);
    all = s.ApplyAt(part.dims, ir::Op::kAdd, {part, all, one});
  }
  return all;
}

}  // namespace tjit::lower
