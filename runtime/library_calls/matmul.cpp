// Products. mm and addmm of float32 and float64 go straight to the BLAS that
// libtorch_cpu exports, with the arguments that addmm_impl_cpu_ would pass
// (addmm 8x32x32: 314 ns against 1,096 for at::cpu::addmm_out).
//
// Which operand counts as transposed follows LinearAlgebra.cpp, the leading
// dims of one row or column follow CPUBlas.cpp. Whether that is all that eager
// does is not assumed but tried: for each combination of sizes and each state
// that kernels read (float32 precision "medium" rounds to bfloat16 above some
// size) both ways run once on random data and must give the same bits.
#include <ATen/ops/addmm_native.h>
#include <ATen/ops/addmv_native.h>
#include <ATen/ops/baddbmm_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/mm_native.h>
#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>
#include <tuple>

#include "runtime/library_calls/own_product.h"
#include "runtime/library_calls/structured_step.h"
#include "runtime/library_calls/trial.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;

template <class T>
using Gemm = void (*)(const char*, const char*, const int*, const int*,
                      const int*, const T*, const T*, const int*, const T*,
                      const int*, const T*, T*, const int*);

// The BLAS that libtorch_cpu calls, or null. Asked for by name: libtorch may
// have it from another library (OpenBLAS) or under another convention.
template <class T>
Gemm<T> FindGemm() {
  static const Gemm<T> gemm = reinterpret_cast<Gemm<T>>(
      dlsym(RTLD_DEFAULT, std::is_same_v<T, float> ? "sgemm_" : "dgemm_"));
  return gemm;
}

// A column-major product c = alpha op(a) op(b) + beta c.
struct Layout {
  bool transpose_a = false, transpose_b = false;
  int m = 0, n = 0, k = 0;
  int lda = 0, ldb = 0, ldc = 0;
  bool swapped = false;  // a is the program's second matrix

  auto Key() const {
    return std::make_tuple(transpose_a, transpose_b, m, n, k, lda, ldb, ldc,
                           swapped);
  }
};

struct Matrix {
  std::int64_t sizes[2];
  std::int64_t strides[2];
  explicit Matrix(const at::Tensor& t)
      : sizes{t.size(0), t.size(1)}, strides{t.stride(0), t.stride(1)} {}
};

// How an operand is passed: transposed or not; nullopt: eager copies it first.
// `rows` and `columns` as BLAS sees the operand after op(). `major` is the
// dim whose stride must be 1 if it is not transposed.
std::optional<bool> IsTransposed(const Matrix& x, int major, std::int64_t rows,
                                 std::int64_t columns) {
  const std::int64_t one = 1;
  if (x.strides[major] == 1 && x.strides[1 - major] >= std::max(one, rows)) {
    return false;
  }
  if (x.strides[1 - major] == 1 && x.strides[major] >= std::max(one, columns)) {
    return true;
  }
  return std::nullopt;
}

// Mirrors addmm_impl_cpu_ and cpublas::gemm. nullopt: eager takes a detour.
std::optional<Layout> PlanLayout(Matrix m1, Matrix m2, const Matrix& c) {
  bool transpose_c = false;
  const std::int64_t one = 1;
  if (c.strides[0] == 1 &&
      (c.sizes[1] == 1 || c.strides[1] >= std::max(one, c.sizes[0]))) {
    transpose_c = false;
  } else if (c.strides[1] == 1 &&
             (c.sizes[0] == 1 || c.strides[0] >= std::max(one, c.sizes[1]))) {
    std::swap(m1, m2);
    transpose_c = true;
  } else {
    return std::nullopt;
  }
  const int major = transpose_c ? 1 : 0;
  const std::int64_t m = c.sizes[major];
  const std::int64_t n = c.sizes[1 - major];
  const std::int64_t k = m1.sizes[1 - major];
  const std::optional<bool> ta = IsTransposed(m1, major, m, k);
  const std::optional<bool> tb = IsTransposed(m2, major, k, n);
  if (!ta.has_value() || !tb.has_value()) return std::nullopt;
  std::int64_t lda = m1.strides[*ta == transpose_c ? 1 : 0];
  std::int64_t ldb = m2.strides[*tb == transpose_c ? 1 : 0];
  std::int64_t ldc = c.strides[1 - major];
  // One row or column: its leading dim is free (normalize_last_dims).
  if (n == 1) ldc = m;
  if (*ta ? m == 1 : k == 1) lda = *ta ? k : m;
  if (*tb ? k == 1 : n == 1) ldb = *tb ? n : k;
  const bool fits_blas = std::max({m, n, k, lda, ldb, ldc}) <= INT_MAX &&
                         lda >= (*ta ? k : m) && ldb >= (*tb ? n : k) &&
                         ldc >= m;
  if (!fits_blas) return std::nullopt;
  Layout l;
  l.transpose_a = *ta;
  l.transpose_b = *tb;
  l.m = static_cast<int>(m);
  l.n = static_cast<int>(n);
  l.k = static_cast<int>(k);
  l.lda = static_cast<int>(lda);
  l.ldb = static_cast<int>(ldb);
  l.ldc = static_cast<int>(ldc);
  l.swapped = transpose_c;
  return l;
}

// The bias of addmm, copied into the result before the product.
struct Bias {
  enum Kind { kNone, kRows, kDense } kind = kNone;
  SlotAddress from;
  std::size_t row_bytes = 0;
  std::int64_t rows = 0;
  std::int64_t row_stride_bytes = 0;  // of the result
  std::int64_t from_stride_bytes = 0;
};

template <class T>
class GemmStep final : public PreparedStep {
 public:
  GemmStep(const Layout& layout, SlotAddress a, SlotAddress b, SlotAddress c,
           const Bias& bias, bool has_scalars)
      : layout_(layout),
        a_(a),
        b_(b),
        c_(c),
        bias_(bias),
        has_scalars_(has_scalars) {}

  void Run(char* const* slots, const ScalarValue* scalars) override {
    T beta = 0, alpha = 1;
    char* c = c_.In(slots);
    if (has_scalars_) {
      beta = DecodeScalar(scalars[0]).to<T>();
      alpha = DecodeScalar(scalars[1]).to<T>();
      if (DecodeScalar(scalars[0]).toDouble() != 0) CopyBias(slots, c);
    }
    const Layout& l = layout_;
    FindGemm<T>()(l.transpose_a ? "t" : "n", l.transpose_b ? "t" : "n", &l.m,
                  &l.n, &l.k, &alpha, reinterpret_cast<const T*>(a_.In(slots)),
                  &l.lda, reinterpret_cast<const T*>(b_.In(slots)), &l.ldb,
                  &beta, reinterpret_cast<T*>(c), &l.ldc);
  }
  bool uses_tensors() const override { return false; }

 private:
  void CopyBias(char* const* slots, char* to) const {
    if (bias_.kind == Bias::kNone) return;
    const char* from = bias_.from.In(slots);
    for (std::int64_t r = 0; r < bias_.rows; ++r) {
      std::memmove(to, from, bias_.row_bytes);
      to += bias_.row_stride_bytes;
      from += bias_.from_stride_bytes;
    }
  }

  Layout layout_;
  SlotAddress a_;
  SlotAddress b_;
  SlotAddress c_;
  Bias bias_;
  bool has_scalars_;
};

// The arguments of mm (mat1, mat2) or addmm (self, mat1, mat2, beta, alpha).
struct MatmulCall {
  explicit MatmulCall(const Request& r, bool is_addmm)
      : request(r), first(is_addmm ? 1 : 0), is_addmm(is_addmm) {}
  const Request& request;
  std::size_t first;  // argument that is mat1
  bool is_addmm;
};

// nullopt: not one of the plain forms.
std::optional<Bias> PlanBias(const MatmulCall& p, const at::Tensor& result) {
  Bias bias;
  if (!p.is_addmm) return bias;
  const at::Tensor& self = p.request.args[0];
  if (self.is_same(result)) return bias;
  if (self.scalar_type() != result.scalar_type()) return std::nullopt;
  const auto item = static_cast<std::int64_t>(result.itemsize());
  const std::int64_t columns = result.size(1);
  const bool has_rows = result.stride(1) == 1 && self.dim() >= 1 &&
                        self.size(-1) == columns &&
                        (self.stride(-1) == 1 || columns == 1);
  if (!has_rows) return std::nullopt;
  bias.kind = Bias::kRows;
  bias.from = p.request.arg_address(0);
  bias.row_bytes = static_cast<std::size_t>(columns * item);
  bias.rows = result.size(0);
  bias.row_stride_bytes = result.stride(0) * item;
  const bool is_one_row = self.dim() == 1 || self.size(0) == 1;
  bias.from_stride_bytes = is_one_row ? 0 : self.stride(0) * item;
  return bias;
}

std::unique_ptr<PreparedStep> Structured(const MatmulCall& p) {
  return p.is_addmm
             ? PrepareStructured<native::structured_addmm_out_cpu>(p.request)
             : PrepareStructured<native::structured_mm_out_cpu>(p.request);
}

template <class T>
std::unique_ptr<PreparedStep> PrepareGemm(const MatmulCall& p) {
  const at::Tensor& mat1 = p.request.args[p.first];
  const at::Tensor& mat2 = p.request.args[p.first + 1];
  const at::Tensor& result = p.request.results[0];
  if (FindGemm<T>() == nullptr) return nullptr;
  const std::optional<Layout> layout =
      PlanLayout(Matrix(mat1), Matrix(mat2), Matrix(result));
  const std::optional<Bias> bias = PlanBias(p, result);
  if (!layout.has_value() || !bias.has_value()) return nullptr;
  const std::int64_t flops = std::int64_t{layout->m} * layout->n * layout->k;
  if (flops > policy::kMaxTriedFlops) return nullptr;
  auto step = std::make_unique<GemmStep<T>>(
      *layout, p.request.arg_address(p.first + (layout->swapped ? 1 : 0)),
      p.request.arg_address(p.first + (layout->swapped ? 0 : 1)),
      p.request.result_address(0), *bias, p.is_addmm);
  using Key = std::tuple<decltype(layout->Key()), bool, bool>;
  static auto& verdicts =
      *new TrialVerdicts<Key>;  // never destroyed, as op tables
  const Key key{layout->Key(), sizeof(T) == 8, p.is_addmm};
  const bool is_same = verdicts.Of(key, p.request.trials, [&] {
    const std::unique_ptr<PreparedStep> eager = Structured(p);
    return eager != nullptr && HaveSameBits(p.request, eager.get(), step.get());
  });
  if (!is_same) return nullptr;
  return step;
}

bool IsFloating(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
}

// The last two dims of the operands and the result, by rows; of three dims the
// first one counts products. nullopt: columns of the result do not touch.
std::optional<ProductCall> PlanOwn(const Request& request,
                                   std::size_t first_argument) {
  const at::Tensor& a = request.args[first_argument];
  const at::Tensor& b = request.args[first_argument + 1];
  const at::Tensor& c = request.results[0];
  if (!IsFloating(c) || (c.stride(-1) != 1 && c.size(-1) != 1)) {
    return std::nullopt;
  }
  ProductCall call;
  call.is_double = c.scalar_type() == at::kDouble;
  call.product.m = c.size(-2);
  call.product.n = c.size(-1);
  call.product.k = a.size(-1);
  call.product.a_row = a.stride(-2);
  call.product.a_term = a.stride(-1);
  call.product.b_term = b.stride(-2);
  call.product.b_column = b.stride(-1);
  call.product.c_row = c.stride(-2);
  if (c.dim() == 3) {
    call.batches = c.size(0);
    call.a_batch = a.stride(0);
    call.b_batch = b.stride(0);
    call.c_batch = c.stride(0);
  }
  call.a = request.arg_address(first_argument);
  call.b = request.arg_address(first_argument + 1);
  call.c = request.result_address(0);
  return call;
}

// What addmm adds, if it is added as it is.
bool PlanAddend(const MatmulCall& p, const Bias& bias, ProductCall* call) {
  call->has_scalars = true;
  const auto& scalars = p.request.step.scalars;
  const double beta = DecodeScalar(scalars[0].value).toDouble();
  const double alpha = DecodeScalar(scalars[1].value).toDouble();
  if (alpha != 1 || (beta != 0 && beta != 1)) return false;
  if (beta == 0) return true;
  if (bias.kind == Bias::kNone) {
    call->z = call->c;
    call->product.z_row = call->product.c_row;
    return true;
  }
  call->z = bias.from;
  call->product.z_row = bias.from_stride_bytes / (call->is_double ? 8 : 4);
  return call->z.slot != call->c.slot;
}

std::unique_ptr<PreparedStep> OrOwn(const MatmulCall& p,
                                    std::unique_ptr<PreparedStep> library) {
  std::optional<ProductCall> call = PlanOwn(p.request, p.first);
  const std::optional<Bias> bias = PlanBias(p, p.request.results[0]);
  if (!call || !bias || (p.is_addmm && !PlanAddend(p, *bias, &*call))) {
    return library;
  }
  std::unique_ptr<PreparedStep> own =
      PrepareOwnProduct(p.request, *call, &library);
  return own ? std::move(own) : std::move(library);
}

std::unique_ptr<PreparedStep> PrepareProduct(const Request& request,
                                             bool is_addmm) {
  const MatmulCall p(request, is_addmm);
  const at::Tensor& result = request.results[0];
  std::unique_ptr<PreparedStep> step;
  if (result.scalar_type() == at::kFloat) step = PrepareGemm<float>(p);
  if (result.scalar_type() == at::kDouble) step = PrepareGemm<double>(p);
  return OrOwn(p, step ? std::move(step) : Structured(p));
}

std::unique_ptr<PreparedStep> PrepareBmm(const Request& request) {
  std::unique_ptr<PreparedStep> library =
      PrepareStructured<native::structured_bmm_out_cpu>(request);
  const std::optional<ProductCall> call = PlanOwn(request, 0);
  if (!call) return library;
  std::unique_ptr<PreparedStep> own =
      PrepareOwnProduct(request, *call, &library);
  return own ? std::move(own) : std::move(library);
}

std::unique_ptr<PreparedStep> PrepareMm(const Request& request) {
  return PrepareProduct(request, false);
}
std::unique_ptr<PreparedStep> PrepareAddmm(const Request& request) {
  return PrepareProduct(request, true);
}

constexpr FactoryRow kRows[] = {
    {"aten::addmm", PrepareAddmm},
    {"aten::addmm.out", PrepareAddmm},
    {"aten::addmm_", PrepareAddmm},
    {"aten::addmv", PrepareStructured<native::structured_addmv_out_cpu>},
    {"aten::addmv_", PrepareStructured<native::structured_addmv_out_cpu>},
    {"aten::baddbmm",
     PrepareStructured<native::structured_baddbmm_out_cpu, kComputesInMeta>},
    {"aten::baddbmm_",
     PrepareStructured<native::structured_baddbmm_out_cpu, kComputesInMeta>},
    {"aten::bmm", PrepareBmm},
    {"aten::bmm.out", PrepareBmm},
    {"aten::mm", PrepareMm},
    {"aten::mm.out", PrepareMm},
};

}  // namespace

c10::ArrayRef<FactoryRow> MatmulRows() { return kRows; }

}  // namespace tjit::runtime
