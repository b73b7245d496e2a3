// Finds, for each row function, the one of compiler/functions/row_functions.h
// that has eager's bits in this process, if there is one.
//
// How: eager and a candidate compute rows of many lengths, with ordinary
// numbers, zeros of both signs, infinities and NaN; one that differs once is
// out, and the next one's turn comes. Those of eager's own capability are
// first, as most kernels are compiled for it. Done once for each function and
// type, when it is first needed: 1 to 6 ms, variances of columns and
// halves up to 15; a tenth of it where an earlier process has (verdicts.h).
// Thread: any. REQUIRES: as MathProbe.
// Tested by: tests/runtime/bit_exact/row_functions_against_eager_test.cpp,
// tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "compiler/functions/math_functions.h"
#include "compiler/functions/row_functions.h"
#include "runtime/bit_exact/verdicts.h"
#include "support/mutex.h"

namespace tjit::runtime {

class RowProbe {
 public:
  // Null: none. To be called before the others; they take one thread then.
  void UseVerdicts(Verdicts* verdicts) { verdicts_ = verdicts; }

  // Null if no function has the bits of eager wherever RowOrderHolds. Lives as
  // long as this. REQUIRES: `what` is one of kAxisOps.
  const RowFunction* Find(const AxisOp& what, bool is_double);

  // The same as an entry of the table of math functions, for an op of the IR.
  // Null also if it is no row op along that axis, or not of f32 or f64. What
  // eager computes otherwise with more threads, softmax_backward of f32,
  // lowering is to refuse there.
  const TjitMath* For(ir::Op op, Axis axis, ir::DType dtype);

  // How often a candidate was compared with eager.
  std::int64_t TEST_compared() const {
    const MutexLock lock(mutex_);
    return compared_;
  }

 private:
  struct Found {
    const RowFunction* function;
    TjitMath entry;
    TjitMath mean_entry;  // of kMoments: the same as norm_mean
  };
  const Found& FindLocked(const AxisOp& what, bool is_double)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Verdicts* verdicts_ = nullptr;
  mutable Mutex mutex_;
  // By place in kAxisOps.
  std::map<std::pair<int, bool>, Found> found_ ABSL_GUARDED_BY(mutex_);
  std::int64_t compared_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tjit::runtime
