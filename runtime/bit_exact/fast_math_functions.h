// The functions of TJIT_FAST_MATH=1: those of compiler/functions/fast_math.h
// where this processor and libtorch have them, else those that have eager's
// bits.
// Thread: any. REQUIRES: as MathProbe.
// Tested by: tests/runtime/bit_exact/fast_math_test.cpp,
// tests/runtime/tier2/tier2_fast_math_test.cpp
#pragma once

#include <map>
#include <optional>

#include "compiler/functions/fast_math.h"
#include "compiler/functions/math_functions.h"
#include "runtime/bit_exact/verdicts.h"
#include "support/mutex.h"

namespace tjit::runtime {

// How it is called, in vectors of 16 floats or 8; nothing if libtorch has not
// the function, or it is an instruction. REQUIRES: the processor has such
// vectors, or `lanes` is 0.
std::optional<TjitMath> FindFastFunction(const FastFunction& f, int lanes);
// The widest vectors of floats that code is made of here; 0: too narrow ones.
int FastLanes();

class FastMath : public MathFunctions {
 public:
  // `exact` outlives this.
  explicit FastMath(MathFunctions* exact) : exact_(exact) {}
  // Gets notes alone. To be called before the others.
  void UseVerdicts(Verdicts* verdicts) { verdicts_ = verdicts; }

  const TjitMath* For(ir::Op op, ir::DType dtype) override;
  const TjitMath* ForAxis(ir::Op op, ir::Axis axis, ir::DType dtype) override {
    return exact_->ForAxis(op, axis, dtype);
  }
  // REQUIRES: `function` is an exact one.
  void Call(const TjitMath& function, const void* const* in,
            const double* scalars, void* out, std::int64_t n) const override {
    exact_->Call(function, in, scalars, out, n);
  }
  bool IsFunction(ir::Op op, ir::DType dtype) const override;

 private:
  MathFunctions* const exact_;
  Verdicts* verdicts_ = nullptr;
  Mutex mutex_;
  // Of f32.
  std::map<ir::Op, std::optional<TjitMath>> found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit::runtime
