// Runs a backward pass on the calling thread: the nodes that libtorch's engine
// would run, in its order, without its GraphTask.
//
// Why: for each node libtorch saves and sets the thread's state, takes locks
// and looks into hash tables, about 1.2 us. Between CPU tensors of one thread
// none of that changes a result.
//
// A pass is taken only if its roots' gradients, and those that its nodes
// expect, are plain CPU tensors, and if nothing watches or changes how ops are
// called (support/backward_reasons.def). Nothing is taken half-way: the graph
// is read before the first node runs.
//
// What stays as it is with libtorch's engine:
//   - which nodes run and in which order: a heap by sequence number, with the
//     same comparisons and the same order of pushes;
//   - how many hold a gradient while a node runs, as AccumulateGrad keeps the
//     tensor itself where nobody else holds it, and sums are made in place;
//   - gradients of another shape or dtype go through libtorch's own check, so
//     messages are the same; warnings come out at the end of the pass;
//   - an exception leaves through backward(), and what has run stays run;
//   - what a hook or a custom function may ask of the engine is answered by the
//     running pass (backward_pass.h).
//
// Threads: any; each has tables of its own. A graph that two threads run at
// once is guarded by the mutexes of libtorch's nodes, as with its engine.
// Tested by: tests/runtime/intercept/backward_engine_test.cpp
// Source: Engine::execute() and Engine::evaluate_function() of libtorch 2.13.
#pragma once
