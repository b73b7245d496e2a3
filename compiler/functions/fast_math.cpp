#include "compiler/functions/fast_math.h"

#include "compiler/functions/fast_math/code.h"

namespace tjit {

void* FastFormula(ir::Op op, int lanes) {
  const FastFormulas of = lanes == 16 ? Avx512Formulas() : Avx2Formulas();
  switch (op) {
    case ir::Op::kExp:
      return of.exp;
    case ir::Op::kExpm1:
      return of.expm1;
    case ir::Op::kTanh:
      return of.tanh;
    case ir::Op::kSigmoid:
      return of.sigmoid;
    case ir::Op::kSilu:
      return of.silu;
    default:
      return nullptr;
  }
}

}  // namespace tjit
