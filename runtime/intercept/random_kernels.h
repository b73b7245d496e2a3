// Own kernels behind libtorch's stubs of uniform_, bernoulli_ and normal_.
//
// Eager draws one number after the other: 3 ns for a float, uniform or normal,
// and 12 ns for each number of a dropout on processors that are not Intel's.
// Here many are drawn at once (compiler/functions/mersenne_twister.h), from the
// same generator and with the same bits. The stubs are what rand(), randn(),
// dropout() and other ops of libtorch call inside as well.
//
// Own code is compared with libtorch's kernel first, over generators of its
// own, for each kind and type. A kind that differs stays libtorch's: on Intel's
// processors bernoulli_ draws by MKL.
// Invariants: (1) Numbers and the generator's state are eager's. (2) On a
// thread that takes no part, with TJIT_RANDOM=libtorch, for other types,
// strided memory and few numbers libtorch's kernel runs.
// Thread: any; the generator's lock is held for a draw, as libtorch does.
// Tested by: tests/runtime/intercept/random_kernels_test.cpp
#pragma once

namespace tjit::runtime {

// Once, in a fifth of a millisecond. Nothing happens where the processor lacks
// what is needed. REQUIRES: no other thread does the same.
void ReplaceRandomKernels();

}  // namespace tjit::runtime
