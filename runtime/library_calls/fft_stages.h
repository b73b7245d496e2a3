// What libtorch asks MKL for in a call of _fft_r2c, _fft_c2r or _fft_c2c.
//
// Mirrors mkl/SpectralOps.cpp: which dims are one batch and in which order, and
// how the result lies, decide what is asked, and so the bits. One stage is one
// transform:
//   _fft_c2r over dims 1 and 2 of [8, 16, 9]
//     stage 1: 72 transforms of 16 complex numbers, 9 of them side by side
//     stage 2: the 128 rows, which do not follow one another now, copied
//              densely; 128 transforms to 16 real numbers
//
// Thread: any. Tested by: tests/runtime/library_calls/kept_fft_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/library_calls/fft_plan_cache.h"

namespace tjit::runtime {

// How a tensor lies, in elements.
struct FftLayout {
  at::DimVector sizes, strides;
};

struct FftStage {
  FftPlan plan;
  // What libtorch copies densely before: dims that are no single batch, and
  // strides of 0.
  std::optional<FftLayout> copied;
  FftLayout out;
};

// The call as the program made it. REQUIRES: distinct dims of the operand.
struct FftCall {
  at::DimVector dims;
  std::int64_t normalization = 0;  // 0: none, 1: by the root of n, 2: by n
  bool is_double = false;
};

FftStage PlanRealToComplex(const FftLayout& in, const FftCall& call);
FftStage PlanComplex(const FftLayout& in, const FftCall& call, bool is_forward);
// One or two stages.
std::vector<FftStage> PlanComplexToReal(const FftLayout& in,
                                        const FftCall& call,
                                        std::int64_t last_size);

}  // namespace tjit::runtime
