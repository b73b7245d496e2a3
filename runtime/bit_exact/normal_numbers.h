// Normal numbers out of uniform ones, with the bits of eager's normal_ of f32.
//
// How: the logarithm, sine and cosine are those of libtorch's own header
// ATen/native/cpu/avx_mathfun.h, whose multiplications and additions the
// compiler contracts as libtorch's did, or did not. Who calls this compares it
// with eager first.
// Source of the formula: G. Box and M. Muller, "A Note on the Generation of
// Random Normal Deviates", Ann. Math. Statist. 29 (1958).
// Thread: any.
// Tested by: tests/runtime/intercept/random_kernels_test.cpp
#pragma once

#include <cstdint>

namespace tjit::runtime {

// In each of `blocks` of 16 numbers of [0, 1), the first 8 and the last 8 make
// 16 normal ones, in place. REQUIRES: AVX2 and FMA.
void MakeNormal(float mean, float deviation, float* numbers,
                std::int64_t blocks);

}  // namespace tjit::runtime
