// The engine of TJIT_BACKEND=torchscript: groups of recorded steps as graphs of
// TorchScript, run by its interpreter.
//
// It takes steps, not functions of the IR: an op of a graph is an aten op, so
// the recorded steps are one already, with products, convolutions and whatever
// the IR lacks, while an op of the IR (a product that rounds once, a cast with
// its own rounding) would have to be taken apart into several of them whose
// bits nobody vouches for. Graph executor, profiling and fusers are left out:
// the bits are those of the ops, which are eager's.
//
// For looking at what is replayed (TJIT_DUMP=torchscript), and a second opinion
// on partition, memory plan and bindings that shares no code with the compiler
// behind them. Slower than library calls.
//
// Thread: see Engine. Tested by: tests/runtime/tier2/torchscript_test.cpp
#pragma once

#include <memory>

#include "compiler/driver/kernel.h"

namespace tjit::runtime {

std::unique_ptr<Engine> MakeTorchscriptEngine();

}  // namespace tjit::runtime
