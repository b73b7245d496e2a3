// Which row function each op of the IR is.
#include "runtime/bit_exact/row_probe.h"

namespace tjit::runtime {

std::optional<RowOp> RowProbe::RowOpOf(ir::Op op) {
  switch (op) {
    case ir::Op::kSum:
      return RowOp::kSum;
    case ir::Op::kMean:
      return RowOp::kMean;
    case ir::Op::kAmax:
      return RowOp::kAmax;
    case ir::Op::kAmin:
      return RowOp::kAmin;
    case ir::Op::kSoftmax:
      return RowOp::kSoftmax;
    case ir::Op::kLogSoftmax:
      return RowOp::kLogSoftmax;
    case ir::Op::kSoftmaxBackward:
      return RowOp::kSoftmaxBackward;
    case ir::Op::kLogSoftmaxBackward:
      return RowOp::kLogSoftmaxBackward;
    case ir::Op::kVar:
      return RowOp::kVar;
    case ir::Op::kStd:
      return RowOp::kStd;
    case ir::Op::kWelfordMean:
      return RowOp::kWelfordMean;
    case ir::Op::kNorm:
      return RowOp::kNorm;
    case ir::Op::kNormMean:
    case ir::Op::kNormRstd:
      return RowOp::kMoments;
    case ir::Op::kNormRstdWide:
      return RowOp::kMomentsWide;
    case ir::Op::kSumSequential:
      return RowOp::kSumSequential;
    case ir::Op::kDot:
      return RowOp::kDot;
    case ir::Op::kSumOfHalves:
      return RowOp::kSumOfHalves;
    case ir::Op::kAmaxOfHalves:
      return RowOp::kAmaxOfHalves;
    case ir::Op::kAminOfHalves:
      return RowOp::kAminOfHalves;
    default:
      return std::nullopt;
  }
}

std::optional<RowOp> RowProbe::ColumnOpOf(ir::Op op) {
  switch (op) {
    case ir::Op::kSum:
      return RowOp::kColumnSum;
    case ir::Op::kMean:
      return RowOp::kColumnMean;
    case ir::Op::kVar:
      return RowOp::kColumnVar;
    case ir::Op::kStd:
      return RowOp::kColumnStd;
    case ir::Op::kWelfordMean:
      return RowOp::kColumnWelfordMean;
    case ir::Op::kSumSequential:
      return RowOp::kColumnSumSequential;
    case ir::Op::kDot:
      return RowOp::kColumnDot;
    case ir::Op::kAmax:
      return RowOp::kColumnAmax;
    case ir::Op::kAmin:
      return RowOp::kColumnAmin;
    case ir::Op::kSumOfHalves:
      return RowOp::kColumnSumOfHalves;
    case ir::Op::kAmaxOfHalves:
      return RowOp::kColumnAmaxOfHalves;
    case ir::Op::kAminOfHalves:
      return RowOp::kColumnAminOfHalves;
    default:
      return std::nullopt;
  }
}

std::optional<RowOp> RowProbe::SlabOpOf(ir::Op op) {
  switch (op) {
    case ir::Op::kSoftmax:
      return RowOp::kSlabSoftmax;
    case ir::Op::kLogSoftmax:
      return RowOp::kSlabLogSoftmax;
    case ir::Op::kSoftmaxBackward:
      return RowOp::kSlabSoftmaxBackward;
    case ir::Op::kLogSoftmaxBackward:
      return RowOp::kSlabLogSoftmaxBackward;
    default:
      return std::nullopt;
  }
}

std::optional<RowOp> RowProbe::WholeOpOf(ir::Op op) {
  switch (op) {
    case ir::Op::kSum:
      return RowOp::kWholeSum;
    case ir::Op::kMean:
      return RowOp::kWholeMean;
    case ir::Op::kAmax:
      return RowOp::kWholeAmax;
    case ir::Op::kAmin:
      return RowOp::kWholeAmin;
    case ir::Op::kMaxOfAll:
      return RowOp::kWholeMax;
    case ir::Op::kMinOfAll:
      return RowOp::kWholeMin;
    case ir::Op::kNorm:
      return RowOp::kWholeNorm;
    case ir::Op::kSumOfHalves:
      return RowOp::kWholeSumOfHalves;
    case ir::Op::kAmaxOfHalves:
      return RowOp::kWholeAmaxOfHalves;
    case ir::Op::kAminOfHalves:
      return RowOp::kWholeAminOfHalves;
    default:
      return std::nullopt;
  }
}

}  // namespace tjit::runtime
