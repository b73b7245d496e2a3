// Functions that run once more, for a graph that their call has not made.
//
// Note [Run again]. A backward pass that was never seen runs the function of a
// replayed call again (Note [Results with a graph] in gradient_graph.h). Nobody
// may notice that it ran twice:
//
//   draws   come from the generator as it was at the call, which then has the
//           state again that it had. If the function ends with another state
//           than the call did, it has drawn something else, or somebody else
//           has drawn meanwhile: that is an error.
//   writes  into tensors from outside are put back. They hold other values by
//           then than they had at the call, so nothing may depend on them but
//           what the function writes into them: as with running statistics of
//           a batch norm, and counters.
//   modes   of the thread are those of the call, and functions inside of it
//           are not replayed: their graphs are part of this one.
//
// Threads: any. Tested by: tests/runtime/thread/jit_graph_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/thread/functions/draws.h"
#include "runtime/thread/functions/function_plan.h"

namespace tjit::runtime {

// True if the function makes the same graph whatever is in the tensors that it
// writes. REQUIRES: plan.gradients->living is known.
bool MayRunAgain(const FunctionPlan& plan);

// The number of the result among what a replay makes: fresh tensors, drawn
// ones, what ops at the call return. None of these if it is not made, or the
// same as one before it.
std::size_t MadeOf(const FunctionPlan& plan, const FunctionResult& result);
// The result that has number `made`.
std::optional<std::size_t> ResultOf(const FunctionPlan& plan, std::size_t made);

// True if the function writes into captured storage `c`.
bool Writes(const FunctionRecord& record, std::size_t c);

// True while a function runs again on this thread.
bool RunsAgain();

// What `run` returns. `moves`: of the generator, by the call. THROWS: what
// `run` throws, c10::Error from `who` where it has drawn other numbers.
std::vector<at::Tensor> RunAgain(
    const FunctionPlan& plan, const GeneratorMoves& moves,
    const std::string& who, c10::function_ref<std::vector<at::Tensor>()> run);

}  // namespace tjit::runtime
