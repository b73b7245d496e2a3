// Tensors that a function fills from nothing but numbers, as random ones.
//
// Note [Draws]. A draw is a call that fills a whole tensor, which at::empty()
// or its like made and no step has used: so do rand, randn, dropout, and arange
// and eye, which are no steps as they change the sizes of their result. All
// draws of a function can run before its steps, in their order, and the
// generator moves as it does in eager. What draws random numbers otherwise
// keeps the function from being replayed. A call that follows has its draws
// repeated from a copy of the generator: if that ends elsewhere, the function
// seeds it, or somebody else draws. Tested by:
// tests/runtime/thread/jit_draws_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>

#include "runtime/call/call_frame.h"
#include "runtime/thread/functions/function_session.h"

namespace tjit::runtime {

// True if `frame` is a call that may be a draw.
bool MayDraw(const CallFrame& frame);
// It has run, with these arguments. `is_used`: a step has used the tensor.
// Fails the session where it is no draw, or another than it follows.
void RecordDraw(const CallFrame& frame, const torch::jit::Stack& arguments,
                bool is_used, FunctionSession* session);

// The default generator as it is now.
at::Generator CopyOfGenerator();
// The same; it is as `to` is from now on.
at::Generator ExchangeGenerator(const at::Generator& to);
bool SameState(const at::Generator& a, const at::Generator& b);
// True if what `session` drew is all that has moved the generator since.
bool AccountsForGenerator(const FunctionSession& session);

// True if drawn tensor `d` holds the same at each call.
bool IsFixed(const FunctionSession& session, std::uint32_t d);
// Which of the drawn tensors has this storage.
std::optional<std::uint32_t> DrawnOver(const FunctionSession& session,
                                       const c10::StorageImpl* storage);

// True if both draw the same in the same order.
bool DrawsTheSame(const FunctionRecord& a, const FunctionRecord& b);
// True if `record` begins with what the session has drawn.
bool DrewSoFar(const FunctionSession& session, const FunctionRecord& record);

// Makes the tensors, and fills those that hold the same at each call. False if
// one has memory that is not tjit's. THROWS: where there is no memory.
bool MakeDrawn(const FunctionRecord& record, at::Tensor* tensors);

// Fills the others for a replay, and tells `moves` where that may matter. The
// generator is put back, as the function draws again, unless Keep() is called
// or somebody else has drawn since.
class DrawScope {
 public:
  DrawScope(const FunctionPlan& plan, const at::Tensor* tensors,
            GeneratorMoves* moves);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;
  void Keep() { is_kept_ = true; }

 private:
  GeneratorMoves& moves_;
  bool is_kept_ = false;
};

}  // namespace tjit::runtime
