#include "runtime/bit_exact/row_probe.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/bit_exact/half_reductions.h"
#include "runtime/bit_exact/row_test_inputs.h"
#include "runtime/bit_exact/sequential_sums.h"
#include "runtime/platform/libtorch_symbol.h"
#include "runtime/platform/parallel.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

constexpr double kEps = 1e-5;
constexpr std::int64_t kCorrection = 1;

constexpr double kExponents[] = {1, 2, std::numeric_limits<double>::infinity()};

at::Tensor Norms(const at::Tensor& a, at::OptionalIntArrayRef dims) {
  std::vector<at::Tensor> norms;
  for (const double p : kExponents) {
    norms.push_back(at::linalg_vector_norm(a, p, dims));
  }
  return at::stack(norms);
}

// One slab for each thread of eager's, so that none is split.
at::Tensor EagerSlab(RowOp op, const at::Tensor& a, const at::Tensor& b) {
  const auto slabs = [](const at::Tensor& x) {
    return x.unsqueeze(0).repeat({at::get_num_threads(), 1, 1});
  };
  const auto type = a.scalar_type();
  switch (op) {
    case RowOp::kSlabSoftmax:
      return at::_softmax(slabs(a), 1, false)[0];
    case RowOp::kSlabLogSoftmax:
      return at::_log_softmax(slabs(a), 1, false)[0];
    case RowOp::kSlabSoftmaxBackward:
      return at::_softmax_backward_data(slabs(a), slabs(b), 1, type)[0];
    default:
      return at::_log_softmax_backward_data(slabs(a), slabs(b), 1, type)[0];
  }
}

// Mean and reciprocal deviation of each row. Wide: of one group.
at::Tensor EagerMoments(RowOp op, const at::Tensor& a) {
  const auto [y, mean, rstd] =
      op == RowOp::kMoments
          ? at::native_layer_norm(a, {a.size(1)}, {}, {}, kEps)
          : at::native_group_norm(a, {}, {}, a.size(0), 1, a.size(1), 1, kEps);
  return at::stack({mean.flatten(), rstd.flatten()});
}

// What eager computes, in the layout of the row function.
at::Tensor Eager(RowOp op, const at::Tensor& a, const at::Tensor& b) {
  switch (op) {
    case RowOp::kSum:
      return at::sum(a, {-1});
    case RowOp::kMean:
      return at::mean(a, {-1});
    case RowOp::kAmax:
      return at::amax(a, {-1});
    case RowOp::kAmin:
      return at::amin(a, {-1});
    case RowOp::kSoftmax:
      return at::_softmax(a, -1, false);
    case RowOp::kLogSoftmax:
      return at::_log_softmax(a, -1, false);
    case RowOp::kSoftmaxBackward:
      return at::_softmax_backward_data(a, b, -1, a.scalar_type());
    case RowOp::kLogSoftmaxBackward:
      return at::_log_softmax_backward_data(a, b, -1, a.scalar_type());
    case RowOp::kSlabSoftmax:
    case RowOp::kSlabLogSoftmax:
    case RowOp::kSlabSoftmaxBackward:
    case RowOp::kSlabLogSoftmaxBackward:
      return EagerSlab(op, a, b);
    case RowOp::kMoments:
    case RowOp::kMomentsWide:
      return EagerMoments(op, a);
    case RowOp::kVar:
      return at::var(a, at::IntArrayRef{-1}, kCorrection, false);
    case RowOp::kStd:
      return at::std(a, at::IntArrayRef{-1}, kCorrection, false);
    case RowOp::kWelfordMean:
      return std::get<1>(at::var_mean(a, at::IntArrayRef{-1}, 1));
    case RowOp::kColumnWelfordMean:
      return std::get<1>(at::var_mean(a, at::IntArrayRef{0}, 1));
    case RowOp::kColumnSum:
      return at::sum(a, {0});
    case RowOp::kColumnMean:
      return at::mean(a, {0});
    case RowOp::kColumnVar:
      return at::var(a, at::IntArrayRef{0}, kCorrection, false);
    case RowOp::kColumnStd:
      return at::std(a, at::IntArrayRef{0}, kCorrection, false);
    case RowOp::kColumnAmax:
      return at::amax(a, {0});
    case RowOp::kColumnAmin:
      return at::amin(a, {0});
    case RowOp::kNorm:
      return Norms(a, at::IntArrayRef{-1});
    case RowOp::kWholeNorm:
      return Norms(a, std::nullopt);
    case RowOp::kWholeSum:
      return at::sum(a);
    case RowOp::kWholeMean:
      return at::mean(a);
    case RowOp::kWholeAmax:
      return at::amax(a);
    case RowOp::kWholeAmin:
      return at::amin(a);
    case RowOp::kWholeMax:
      return at::max(a);
    case RowOp::kWholeMin:
      return at::min(a);
    case RowOp::kSumOfHalves:
    case RowOp::kAmaxOfHalves:
    case RowOp::kAminOfHalves:
    case RowOp::kColumnSumOfHalves:
    case RowOp::kColumnAmaxOfHalves:
    case RowOp::kColumnAminOfHalves:
    case RowOp::kWholeSumOfHalves:
    case RowOp::kWholeAmaxOfHalves:
    case RowOp::kWholeAminOfHalves:
      return EagerOfHalves(op, a);
    case RowOp::kSumSequential:
    case RowOp::kDot:
    case RowOp::kColumnSumSequential:
    case RowOp::kColumnDot:
      return EagerSequential(op, a, b);
  }
  return {};
}

template <class T>
bool SameBits(const T* a, const T* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(T)) == 0) continue;
    if (a[i] == a[i] || b[i] == b[i]) return false;
  }
  return true;
}

// The addresses of SLEEF; false if one is missing.
bool FillMath(RowMath* math, bool wide) {
  static Mutex mutex;
  const MutexLock lock(mutex);
  math->exp_f32 = LibtorchSymbol(wide ? "Sleef_expf16_u10" : "Sleef_expf8_u10");
  math->exp_f64 = LibtorchSymbol(wide ? "Sleef_expd8_u10" : "Sleef_expd4_u10");
  math->log_f32 = LibtorchSymbol(wide ? "Sleef_logf16_u10" : "Sleef_logf8_u10");
  math->log_f64 = LibtorchSymbol(wide ? "Sleef_logd8_u10" : "Sleef_logd4_u10");
  return math->exp_f32 != nullptr && math->exp_f64 != nullptr &&
         math->log_f32 != nullptr && math->log_f64 != nullptr;
}

// Asked once for each table; its math is there. Another polynomial differs in
// some of 1,000 numbers. That no bit of a coefficient does is a matter of the
// libtorch that this was built for, and of a test.
bool OwnExpHolds(const RowTable* table) {
  constexpr std::uint32_t kStep = 10007;
  static Mutex mutex;
  static std::map<const RowTable*, bool> known;
  const MutexLock lock(mutex);
  const auto [at, is_new] = known.try_emplace(table, false);
  if (is_new && table->own_exp_holds != nullptr) {
    at->second = table->own_exp_holds(kStep);
  }
  return at->second;
}

struct Candidate {
  const RowFunction* function;
  std::string name;  // "AVX512 7": of the table and the place in it
};

// All that this processor runs, eager's own capability first.
std::vector<Candidate> Candidates(RowOp op, bool is_double) {
  std::vector<const RowTable*> tables = {&kPlainRows};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    tables.insert(tables.begin(), &kAvx2Rows);
  }
  if (__builtin_cpu_supports("avx512f")) {
    tables.insert(tables.begin(), &kAvx512Rows);
  }
  const std::string capability = at::get_cpu_capability();
  std::stable_partition(tables.begin(), tables.end(), [&](const RowTable* t) {
    return capability == t->capability;
  });
  std::vector<Candidate> found;
  for (const RowTable* table : tables) {
    const bool has_math =
        table->math == nullptr || FillMath(table->math, table == &kAvx512Rows);
    for (int i = 0; i < table->count; ++i) {
      const RowFunction& f = table->functions[i];
      if (f.op == op && f.is_double == is_double &&
          (has_math || !f.needs_math) &&
          (!f.has_own_exp || OwnExpHolds(table))) {
        found.push_back({&f, absl::StrCat(table->capability, " ", i)});
      }
    }
  }
  return found;
}

template <class T>
at::Tensor Operand(Values kind, const Shape& shape, std::int64_t* place) {
  const std::vector<T>& pool = Pool<T>(kind);
  const std::int64_t n = shape.rows * shape.n;
  at::Tensor x = at::empty({shape.rows, shape.n},
                           sizeof(T) == 8 ? at::kDouble : at::kFloat);
  *place = (*place + 97) % (kPoolSize - n);
  std::memcpy(x.data_ptr(), pool.data() + *place,
              static_cast<std::size_t>(n) * sizeof(T));
  return x;
}

void Compute(const RowFunction& f, const at::Tensor& a, const at::Tensor& b,
             at::Tensor& out) {
  const std::int64_t rows = a.size(0);
  const std::int64_t n = a.size(1);
  if (IsSequential(f.op)) {
    RunSequential(f, a, b, out);
  } else if (IsOfHalves(f.op)) {
    RunOfHalves(f, a, out);
  } else if (f.op == RowOp::kNorm || f.op == RowOp::kWholeNorm) {
    for (std::int64_t i = 0; i < out.size(0); ++i) {
      const TjitRowNumber p{kExponents[i], nullptr};
      if (f.op == RowOp::kNorm) {
        f.run(rows, n, a.const_data_ptr(), &p, out[i].data_ptr());
      } else {
        RunColumns(f.run_columns, rows * n, 1, a.const_data_ptr(), p.number,
                   out[i].data_ptr());
      }
    }
  } else if (IsOfWhole(f.op)) {
    RunColumns(f.run_columns, rows * n, 1, a.const_data_ptr(), 0,
               out.data_ptr());
  } else if (IsOfColumns(f.op)) {
    RunColumns(f.run_columns, rows, n, a.const_data_ptr(), kCorrection,
               out.data_ptr());
  } else if (IsOfSlabs(f.op)) {
    f.run_slab(rows, n, a.const_data_ptr(), n, b.const_data_ptr(), n,
               out.data_ptr(), 0, n);
  } else if (f.op == RowOp::kMoments || f.op == RowOp::kMomentsWide) {
    const TjitRowNumber eps{kEps, out[0].data_ptr()};
    f.run(rows, n, a.const_data_ptr(), &eps, out[1].data_ptr());
  } else if (f.op == RowOp::kVar || f.op == RowOp::kStd) {
    const TjitRowNumber correction{kCorrection, nullptr};
    f.run(rows, n, a.const_data_ptr(), &correction, out.data_ptr());
  } else {
    f.run(rows, n, a.const_data_ptr(),
          HasTwoOperands(f.op) ? b.const_data_ptr() : nullptr, out.data_ptr());
  }
}

// True if the function has eager's bits for these operands; else *difference
// gets where it has not.
template <class T>
bool HasBits(const RowFunction& f, const at::Tensor& a, const at::Tensor& b,
             std::string* difference) {
  const at::Tensor eager = Eager(f.op, a, b);
  at::Tensor got = at::empty_like(eager);
  Compute(f, a, b, got);
  if (SameBits(got.const_data_ptr<T>(), eager.const_data_ptr<T>(),
               got.numel())) {
    return true;
  }
  *difference = absl::StrCat("eager has other bits of ", a.size(0), " rows of ",
                             a.size(1), " elements");
  return false;
}

bool IsExtreme(RowOp op) {
  switch (op) {
    case RowOp::kAmax:
    case RowOp::kAmin:
    case RowOp::kColumnAmax:
    case RowOp::kColumnAmin:
    case RowOp::kWholeAmax:
    case RowOp::kWholeAmin:
    case RowOp::kWholeMax:
    case RowOp::kWholeMin:
      return true;
    default:
      return IsOfHalves(op) && !IsSumOfHalves(op);
  }
}

// In a spot check: candidates for extremes differ in the zero that they take,
// others in how they round.
bool IsTelling(RowOp op, Values kind) {
  const bool is_of_zeros =
      kind == Values::kZerosAbove || kind == Values::kZerosBelow;
  return IsExtreme(op) == is_of_zeros && kind != Values::kSpecial;
}

// The same for the test inputs. A spot check takes every fifth of the shapes,
// each with two kinds of values.
template <class T>
bool HasBits(const RowFunction& f, Check check, std::int64_t* compared,
             std::string* difference) {
  const RowOp op = f.op;
  // Candidates for these differ in one number of hundreds.
  const bool is_rare = op == RowOp::kNorm || op == RowOp::kSlabLogSoftmax;
  const bool is_spot = check == Check::kSpot && !is_rare;
  std::int64_t place = 0;
  const int threads = at::get_num_threads();
  const auto shapes =
      IsOfColumns(op) || IsOfSlabs(op) ? ShapesOfColumns() : ShapesOfRows();
  for (std::size_t i = is_spot ? 3 : 0; i < shapes.size();
       i += is_spot ? 5 : 1) {
    Shape shape = shapes[i];
    // The variance of all elements is another function of eager's.
    const bool is_var =
        op == RowOp::kVar || op == RowOp::kStd || op == RowOp::kWelfordMean;
    if (is_var) shape.rows = std::max<std::int64_t>(shape.rows, 2);
    if (!RowOrderHolds(op, sizeof(T) == 8, shape.rows, shape.n, threads)) {
      shape.rows = 1;
    }
    for (int k = 0; k < kValuesCount; ++k) {
      const auto kind = static_cast<Values>(k);
      if (is_spot && !IsTelling(op, kind)) continue;
      at::Tensor a = Operand<T>(kind, shape, &place);
      if (IsOfHalves(op)) {
        const bool is_ordinary =
            kind == Values::kOrdinary || kind == Values::kWide;
        a = AsHalves(op, a, is_ordinary && !IsExtreme(op));
      }
      const at::Tensor b = Operand<T>(kind, shape, &place);
      ++*compared;
      if (!HasBits<T>(f, a, b, difference)) return false;
    }
  }
  return true;
}

// One candidate after the other: the first mostly has them, and is all that is
// computed besides eager.
template <class T>
const RowFunction* Probe(RowOp op, Verdicts* verdicts, std::int64_t* compared) {
  std::vector<std::string> names;
  std::vector<const RowFunction*> all;
  for (Candidate& candidate : Candidates(op, sizeof(T) == 8)) {
    names.push_back(std::move(candidate.name));
    all.push_back(candidate.function);
  }
  std::optional<std::size_t> found;
  RunWithTeam([&] {
    const at::NoGradGuard no_grad;
    found = FirstWithBits(
        verdicts,
        // Threads: what of eager is looked at depends on them.
        absl::StrCat("row ", static_cast<int>(op), " f", 8 * sizeof(T),
                     " threads ", at::get_num_threads()),
        names, [&](std::size_t i, Check check, std::string* difference) {
          return HasBits<T>(*all[i], check, compared, difference);
        });
  });
  return found ? all[*found] : nullptr;
}

}  // namespace

namespace {

TjitMath EntryOf(const RowFunction& f) {
  const char* name = NameOf(f.op);
  if (IsOfWhole(f.op)) {
    return {name, f.is_double ? kTjitWholeF64 : kTjitWholeF32,
            reinterpret_cast<void*>(f.run_columns), 0};
  }
  if (IsOfColumns(f.op)) {
    return {name, f.is_double ? kTjitColumnF64 : kTjitColumnF32,
            reinterpret_cast<void*>(f.run_columns), 0};
  }
  if (IsOfSlabs(f.op)) {
    return {name, f.is_double ? kTjitSlabF64 : kTjitSlabF32,
            reinterpret_cast<void*>(f.run_slab), 0};
  }
  return {name, f.is_double ? kTjitRowF64 : kTjitRowF32,
          reinterpret_cast<void*>(f.run), f.sum_lanes};
}

}  // namespace

const RowProbe::Found& RowProbe::FindLocked(RowOp op, bool is_double) {
  const auto [at, is_new] = found_.try_emplace({op, is_double});
  Found& found = at->second;
  if (is_new) {
    found.function = is_double ? Probe<double>(op, verdicts_, &compared_)
                               : Probe<float>(op, verdicts_, &compared_);
    if (found.function != nullptr) {
      found.entry = EntryOf(*found.function);
      found.mean_entry = found.entry;
      found.mean_entry.op = InfoOf(ir::Op::kNormMean).name;
    }
  }
  return found;
}

const RowFunction* RowProbe::Find(RowOp op, bool is_double) {
  const MutexLock lock(mutex_);
  return FindLocked(op, is_double).function;
}

const TjitMath* RowProbe::For(ir::Op op, ir::DType dtype) {
  const std::optional<RowOp> row_op = RowOpOf(op);
  if (!row_op) return nullptr;
  const Found* found = FoundFor(*row_op, dtype);
  if (found == nullptr) return nullptr;
  return op == ir::Op::kNormMean ? &found->mean_entry : &found->entry;
}

const TjitMath* RowProbe::ForWhole(ir::Op op, ir::DType dtype) {
  const std::optional<RowOp> whole_op = WholeOpOf(op);
  if (!whole_op) return nullptr;
  const Found* found = FoundFor(*whole_op, dtype);
  return found == nullptr ? nullptr : &found->entry;
}

const TjitMath* RowProbe::ForColumns(ir::Op op, ir::DType dtype) {
  const std::optional<RowOp> column_op = ColumnOpOf(op);
  if (!column_op) return nullptr;
  const Found* found = FoundFor(*column_op, dtype);
  return found == nullptr ? nullptr : &found->entry;
}

const TjitMath* RowProbe::ForSlabs(ir::Op op, ir::DType dtype) {
  const std::optional<RowOp> slab_op = SlabOpOf(op);
  if (!slab_op) return nullptr;
  const Found* found = FoundFor(*slab_op, dtype);
  return found == nullptr ? nullptr : &found->entry;
}

const RowProbe::Found* RowProbe::FoundFor(RowOp op, ir::DType dtype) {
  if (dtype != ir::DType::kF32 && dtype != ir::DType::kF64) return nullptr;
  const MutexLock lock(mutex_);
  const Found& found = FindLocked(op, dtype == ir::DType::kF64);
  return found.function == nullptr ? nullptr : &found;
}

}  // namespace tjit::runtime
