// What tjit did while a benchmark ran, for programs with and without tjit.
//
// How: each benchmark program is linked twice from the same objects, once
// with engagement_tjit.cpp and libtjit, once with engagement_plain.cpp and
// libtorch alone. The plain one is the eager peer: nothing of ours is in it.
// Thread: the benchmark's own.
// Tested by: tests in bench/CMakeLists.txt (an idle tjit fails them)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tjit::bench {

struct Engagement {
  std::int64_t ops_seen = 0;
  std::int64_t ops_deferred = 0;
  std::int64_t ops_replayed = 0;
  std::int64_t ops_drained = 0;
  std::int64_t segments = 0;
  std::int64_t flushes = 0;
  std::int64_t steps_fused = 0;     // ops that ran in compiled code
  std::int64_t steps_dead = 0;      // replayed ops that nothing needed
  std::int64_t sequences = 0;       // since the process started
  std::int64_t function_replays = 0;  // calls of wrapped functions
  std::int64_t median_segment = 0;  // ops; lower bound of its bin
};

// True if this program is linked to libtjit.
bool IsLinked();
// True if tjit is on now.
bool IsEnabled();

// Starts counting from zero. Call it when steady.
void StartCounting();
// What happened since StartCounting().
Engagement Counted();

// Counts the bytes of CPU tensors. REQUIRES: called before the first of them.
void CountMemory();
// The largest sum of live bytes at libtorch's CPU allocator since the last
// StartPeak(). With tjit: blocks that a tensor, a deferred op or a segment that
// runs holds, and that have memory.
void StartPeak();
std::int64_t PeakBytes();

// Functions of a step, as tjit::jit() wraps them once WrapFunctions() was
// called; as they are in the plain program.
using TensorFunction =
    std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;
using TensorsFunction = std::function<std::vector<at::Tensor>(
    const std::vector<at::Tensor>&, double)>;
// At a place of a context.
using PlaceFunction =
    std::function<at::Tensor(const at::Tensor&, std::int64_t)>;
// Of numbers that are others at each call.
using NumbersFunction =
    std::function<at::Tensor(const at::Tensor&, double, double)>;
// A whole training step; its loss.
using TrainingFunction = std::function<at::Tensor(torch::optim::Optimizer&)>;
// The same, of a batch and its targets.
using BatchFunction = std::function<at::Tensor(
    torch::optim::Optimizer&, const at::Tensor&, const at::Tensor&)>;
void WrapFunctions();
// True once WrapFunctions() was called.
bool WrapsFunctions();
TensorFunction Wrapped(TensorFunction function);
TensorsFunction Wrapped(TensorsFunction function);
PlaceFunction Wrapped(PlaceFunction function);
NumbersFunction Wrapped(NumbersFunction function);
TrainingFunction Wrapped(TrainingFunction function);
BatchFunction Wrapped(BatchFunction function);

// tjit's functions of the same names; nothing in the plain program.
void Enable();
void Disable();
void MarkStep();
void Sync();

}  // namespace tjit::bench
