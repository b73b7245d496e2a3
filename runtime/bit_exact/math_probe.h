// Finds, for each math function, the library function of this process that has
// eager's bits: MKL's VML or SLEEF, both exported by libtorch_cpu.
//
// How: eager computes test inputs: bit patterns (specials, denormals, ordinary
// numbers of all magnitudes), each candidate does the same, and the first whose
// bits agree everywhere (any NaN for any NaN) is taken. Done once for each
// function and type, when a kernel first needs it: some 0.2 ms; what an earlier
// process found is compared with a third of the test inputs (verdicts.h). MKL's
// square root is a few instructions (sqrt_step.h), and its tanh and exp of f32
// are own code where that is faster (vml_replacement.h). Ops whose bits depend
// on the position of an element come from position_dependent.h, ops over whole
// rows from row_probe.h.
// Thread: any. REQUIRES: For() is not called inside a kernel, and the thread
// takes no part in recording.
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "compiler/functions/math_functions.h"
#include "runtime/bit_exact/row_probe.h"
#include "support/mutex.h"

namespace tjit::runtime {

class MathProbe : public MathFunctions {
 public:
  // Null: none. To be called before the others; For() takes one thread then.
  void UseVerdicts(Verdicts* verdicts) {
    verdicts_ = verdicts;
    rows_.UseVerdicts(verdicts);
  }

  const TjitMath* For(ir::Op op, ir::DType dtype) override;
  const TjitMath* ForAxis(ir::Op op, Axis axis, ir::DType dtype) override {
    return rows_.For(op, axis, dtype);
  }
  // REQUIRES: `function` is not one of rows.
  void Call(const TjitMath& function, const void* const* in,
            const double* scalars, void* out, std::int64_t n) const override;
  bool IsFunction(ir::Op op, ir::DType dtype) const override;

 private:
  Verdicts* verdicts_ = nullptr;
  RowProbe rows_;
  Mutex mutex_;
  std::map<std::pair<ir::Op, ir::DType>, std::optional<TjitMath>> found_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit::runtime
