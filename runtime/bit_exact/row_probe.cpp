#include "runtime/bit_exact/row_probe.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
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

at::Tensor EagerRowOp(RowOp op, const at::Tensor& a, const at::Tensor& b,
                      std::int64_t dim) {
  switch (op) {
    case RowOp::kSoftmax:
      return at::_softmax(a, dim, false);
    case RowOp::kLogSoftmax:
      return at::_log_softmax(a, dim, false);
    case RowOp::kSoftmaxBackward:
      return at::_softmax_backward_data(a, b, dim, a.scalar_type());
    default:
      return at::_log_softmax_backward_data(a, b, dim, a.scalar_type());
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
at::Tensor Eager(const AxisOp& what, const at::Tensor& a, const at::Tensor& b) {
  if (what.of_halves) return EagerOfHalves(what, a);
  if (what.axis == Axis::kStrided) {
    // One slab for each thread of eager's, so that none is split.
    const auto slabs = [](const at::Tensor& x) {
      return x.unsqueeze(0).repeat({at::get_num_threads(), 1, 1});
    };
    return EagerRowOp(what.op, slabs(a), slabs(b), 1)[0];
  }
  const std::vector<std::int64_t> dims = DimsOf(what.axis);
  switch (what.op) {
    case RowOp::kSum:
      return at::sum(a, dims);
    case RowOp::kMean:
      return at::mean(a, dims);
    case RowOp::kAmax:
      return at::amax(a, dims);
    case RowOp::kAmin:
      return at::amin(a, dims);
    case RowOp::kSoftmax:
    case RowOp::kLogSoftmax:
    case RowOp::kSoftmaxBackward:
    case RowOp::kLogSoftmaxBackward:
      return EagerRowOp(what.op, a, b, -1);
    case RowOp::kMoments:
    case RowOp::kMomentsWide:
      return EagerMoments(what.op, a);
    case RowOp::kVar:
      return at::var(a, dims, kCorrection, false);
    case RowOp::kStd:
      return at::std(a, dims, kCorrection, false);
    case RowOp::kWelfordMean:
      return std::get<1>(at::var_mean(a, dims, /*unbiased=*/true));
    case RowOp::kNorm:
      return what.axis == Axis::kAll ? Norms(a, std::nullopt) : Norms(a, dims);
    case RowOp::kMaxOfAll:
      return at::max(a);
    case RowOp::kMinOfAll:
      return at::min(a);
    case RowOp::kSumSequential:
    case RowOp::kDot:
      return EagerSequential(what, a, b);
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
std::vector<Candidate> Candidates(const AxisOp& what, bool is_double) {
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
      if (f.what == what && f.is_double == is_double &&
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
  const RowOp op = f.what.op;
  if (IsSequential(op)) {
    RunSequential(f, a, b, out);
  } else if (f.what.of_halves) {
    RunOfHalves(f, a, out);
  } else if (op == RowOp::kNorm) {
    for (std::int64_t i = 0; i < out.size(0); ++i) {
      RunAlongAxis(f, rows, n, a.const_data_ptr(), nullptr, kExponents[i],
                   out[i].data_ptr());
    }
  } else if (op == RowOp::kMoments || op == RowOp::kMomentsWide) {
    const TjitRowNumber eps{kEps, out[0].data_ptr()};
    f.run(rows, n, a.const_data_ptr(), &eps, out[1].data_ptr());
  } else {
    RunAlongAxis(f, rows, n, a.const_data_ptr(), b.const_data_ptr(),
                 kCorrection, out.data_ptr());
  }
}

// True if the function has eager's bits for these operands; else *difference
// gets where it has not.
template <class T>
bool HasBits(const RowFunction& f, const at::Tensor& a, const at::Tensor& b,
             std::string* difference) {
  const at::Tensor eager = Eager(f.what, a, b);
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
  return op == RowOp::kAmax || op == RowOp::kAmin || op == RowOp::kMaxOfAll ||
         op == RowOp::kMinOfAll;
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
  const auto [op, axis, of_halves] = f.what;
  // Candidates for these differ in one number of hundreds.
  const bool is_rare = (op == RowOp::kNorm && axis == Axis::kInner) ||
                       (op == RowOp::kLogSoftmax && axis == Axis::kStrided);
  const bool is_spot = check == Check::kSpot && !is_rare;
  std::int64_t place = 0;
  const int threads = at::get_num_threads();
  const auto shapes = axis == Axis::kOuter || axis == Axis::kStrided
                          ? ShapesOfColumns()
                          : ShapesOfRows();
  for (std::size_t i = is_spot ? 3 : 0; i < shapes.size();
       i += is_spot ? 5 : 1) {
    Shape shape = shapes[i];
    // The variance of all elements is another function of eager's.
    const bool is_var =
        op == RowOp::kVar || op == RowOp::kStd || op == RowOp::kWelfordMean;
    if (is_var && axis == Axis::kInner)
      shape.rows = std::max<std::int64_t>(shape.rows, 2);
    if (!RowOrderHolds(f.what, sizeof(T) == 8, shape.rows, shape.n, threads)) {
      shape.rows = 1;
    }
    for (int k = 0; k < kValuesCount; ++k) {
      const auto kind = static_cast<Values>(k);
      if (is_spot && !IsTelling(op, kind)) continue;
      at::Tensor a = Operand<T>(kind, shape, &place);
      if (of_halves) {
        const bool is_ordinary =
            kind == Values::kOrdinary || kind == Values::kWide;
        a = AsHalves(axis, a, is_ordinary && !IsExtreme(op));
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
const RowFunction* Probe(const AxisOp& what, Verdicts* verdicts,
                         std::int64_t* compared) {
  std::vector<std::string> names;
  std::vector<const RowFunction*> all;
  for (Candidate& candidate : Candidates(what, sizeof(T) == 8)) {
    names.push_back(std::move(candidate.name));
    all.push_back(candidate.function);
  }
  std::optional<std::size_t> found;
  RunWithTeam([&] {
    const at::NoGradGuard no_grad;
    found = FirstWithBits(
        verdicts,
        // Threads: what of eager is looked at depends on them.
        absl::StrCat("row ", IndexOf(what), " f", 8 * sizeof(T), " threads ",
                     at::get_num_threads()),
        names, [&](std::size_t i, Check check, std::string* difference) {
          return HasBits<T>(*all[i], check, compared, difference);
        });
  });
  return found ? all[*found] : nullptr;
}

}  // namespace

const RowProbe::Found& RowProbe::FindLocked(const AxisOp& what,
                                            bool is_double) {
  const auto [at, is_new] = found_.try_emplace({IndexOf(what), is_double});
  Found& found = at->second;
  if (is_new) {
    found.function = is_double ? Probe<double>(what, verdicts_, &compared_)
                               : Probe<float>(what, verdicts_, &compared_);
    if (found.function != nullptr) {
      found.entry = EntryOf(*found.function);
      found.mean_entry = found.entry;
      found.mean_entry.op = InfoOf(ir::Op::kNormMean).name;
    }
  }
  return found;
}

const RowFunction* RowProbe::Find(const AxisOp& what, bool is_double) {
  const MutexLock lock(mutex_);
  return FindLocked(what, is_double).function;
}

const TjitMath* RowProbe::For(ir::Op op, Axis axis, ir::DType dtype) {
  AxisOp what;
  if (!AxisOpOf(op, axis, &what)) return nullptr;
  if (dtype != ir::DType::kF32 && dtype != ir::DType::kF64) return nullptr;
  const MutexLock lock(mutex_);
  const Found& found = FindLocked(what, dtype == ir::DType::kF64);
  if (found.function == nullptr) return nullptr;
  return op == ir::Op::kNormMean ? &found.mean_entry : &found.entry;
}

}  // namespace tjit::runtime
