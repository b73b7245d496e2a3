// Own functions with the bits of MKL's VML, where those are eager's and VML
// takes longer (compiler/functions/vml_exact.h).
// Thread: any.
// Tested by: tests/runtime/bit_exact/vml_exact_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "compiler/functions/math_functions.h"
#include "compiler/functions/vml_exact.h"
#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {

// VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as ATen's vml.h has it.
inline constexpr std::int64_t kVmlMode = 0x2 | 0x140000 | 0x100;

// The candidate's name in verdicts.
inline constexpr char kVmlExact[] = "vml_exact";

// Called as VML's function of f32 for this op, of which it calls the latter in
// unusual arithmetic. Null if there is none, or this processor has not what it
// needs.
VmlF32 VmlExactFor(ir::Op op);

// True if all bits of many numbers, some near the middle of two floats, are
// eager's, and, unless it is a spot check, VML takes longer. REQUIRES:
// VmlExactFor(op).
bool VmlExactPays(ir::Op op, at::Tensor (*eager)(const at::Tensor& x),
                  Check check, std::string* difference);

}  // namespace tjit::runtime
