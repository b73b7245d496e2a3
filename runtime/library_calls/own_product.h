// A matrix product as a step of our own, where one has the library's bits and
// takes less time.
//
// How: candidates are products of compiler/functions/products.h in every order,
// for the instruction sets of this processor, with operands packed or not. The
// probe (runtime/bit_exact/product_probe.h) compares them with the step that
// runs the library, for the exact sizes, strides and state that kernels read.
// Its verdict holds for the process, and on disk for later ones.
// Invariants: (1) A step computes what the library's step computes, or runs
// that one: other scalars, operands whose storage does not begin at a multiple
// of 64 bytes, TJIT_PRODUCTS=library, a check that found a difference. (2) Of
// kProductRunsPerCheck runs of a step one is compared.
// Thread: a step belongs to one ThreadState.
// Tested by: tests/runtime/library_calls/own_product_test.cpp
#pragma once

#include <memory>

#include "runtime/library_calls/internal.h"
#include "runtime/library_calls/product_candidates.h"

namespace tjit::runtime {

// Null if the library is to run; *library is the step that runs it, and the
// step that is returned takes it.
std::unique_ptr<PreparedStep> PrepareOwnProduct(
    const Request& request, const ProductCall& call,
    std::unique_ptr<PreparedStep>* library);

}  // namespace tjit::runtime
