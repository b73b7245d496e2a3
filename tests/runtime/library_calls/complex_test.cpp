// Programs over complex numbers have eager's bits while their ops are deferred
// and replayed: arithmetic, views of parts, the bits of lazy conjugates and
// negatives, products, reductions, gradients.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cctype>
#include <functional>
#include <string>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

using Tensors = std::vector<at::Tensor>;
using Number = c10::complex<double>;

constexpr int kSteps = 40;
constexpr int kHotSteps = 10;

// What a program works on; only read.
struct Inputs {
  explicit Inputs(at::ScalarType type)
      : dtype(type), real_dtype(c10::toRealValueType(type)) {
    at::manual_seed(7);
    z = Draw({5, 6});
    w = Draw({5, 6});
    row = Draw({6});
    m = Draw({6, 4});
    batch = Draw({3, 4, 5});
    other_batch = Draw({3, 5, 2});
    r = at::randn({5, 6}, at::kDouble).to(real_dtype);
    one = at::randn({}, at::kDouble).to(real_dtype);
    mask = at::randn({5, 6}) > 0;
    places = at::arange(6);
  }

  at::ScalarType dtype, real_dtype;
  at::Tensor z, w, row, m, batch, other_batch;  // complex
  at::Tensor r, one;                            // of the type of their parts
  at::Tensor mask, places;

 private:
  at::Tensor Draw(at::IntArrayRef sizes) const {
    return at::randn(sizes, at::kComplexDouble).to(dtype);
  }
};

// A number of its own for each step.
double Varying(int step) { return 0.5 + 0.01 * step; }
Number VaryingNumber(int step) { return {Varying(step), 0.25 - 0.02 * step}; }

struct Program {
  const char* name;
  // One step, from inputs that are the step's own.
  Tensors (*run)(const Inputs& in, int step);
};

// What a step gives, so that it is held against eager behind the loop: nothing
// in a step reads values.
Tensors RunAll(const Program& program, const Inputs& in, Stats* hot) {
  Tensors all;
  Stats before;
  for (int step = 0; step < kSteps; ++step) {
    if (step == kSteps - kHotSteps) {
      testing::WaitForCompiler();
      before = stats();
    }
    Inputs now = in;
    now.z = in.z * Varying(step);  // other values in each step
    for (const at::Tensor& t : program.run(now, step)) all.push_back(t);
    mark_step();
  }
  *hot = stats() - before;
  return all;
}

std::string Bytes(const at::Tensor& t) {
  const at::NoGradGuard no_grad;
  const at::Tensor dense = t.detach().resolve_conj().resolve_neg().contiguous();
  return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
}

std::string FirstDifference(const Tensors& eager, const Tensors& ours) {
  if (eager.size() != ours.size()) return "another number of results";
  const std::size_t each = eager.size() / kSteps;
  for (std::size_t i = 0; i < eager.size(); ++i) {
    const at::Tensor &a = eager[i], &b = ours[i];
    if (a.sizes() == b.sizes() && a.strides() == b.strides() &&
        a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() &&
        a.is_neg() == b.is_neg() && a.requires_grad() == b.requires_grad() &&
        Bytes(a) == Bytes(b)) {
      continue;
    }
    return "result " + std::to_string(i % each) + " of step " +
           std::to_string(i / each);
  }
  return "";
}

void Compare(const Program& program, at::ScalarType dtype, Backend backend) {
  SCOPED_TRACE(std::string(program.name) + " of " + at::toString(dtype));
  const Inputs in(dtype);
  disable();
  Stats hot;
  const Tensors eager = RunAll(program, in, &hot);
  clear();
  Options options;
  options.hot_threshold = 3;
  options.backend = backend;
  options.compile_all = true;
  options.cache_dir = "off";
  ASSERT_TRUE(enable(options));
  const Tensors ours = RunAll(program, in, &hot);
  sync();
  disable();
  EXPECT_EQ(FirstDifference(eager, ours), "");
  EXPECT_GE(hot.ops_seen, kHotSteps * 2);
  EXPECT_EQ(hot.ops_replayed, hot.ops_seen) << hot.to_json();
}

constexpr Program kPrograms[] = {
    {"arithmetic",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor sum = in.z + in.w, difference = in.z - in.row;
       return {sum,        difference,           sum * difference,
               sum / in.w, at::reciprocal(in.z), at::square(in.z),
               -in.z};
     }},
    {"with real tensors",
     [](const Inputs& in, int) -> Tensors {
       return {in.z + in.r, in.r - in.z, in.z * in.r,   in.r * in.z,
               in.z / in.r, in.r / in.z, in.z * in.one, in.one / in.z};
     }},
    {"with real numbers",
     [](const Inputs& in, int step) -> Tensors {
       const double x = Varying(step);
       return {in.z + x, x - in.z, in.z * x, in.z / x, at::add(in.z, in.w, x),
               in.z * 2};
     }},
    {"with complex numbers",
     [](const Inputs& in, int step) -> Tensors {
       const Number x = VaryingNumber(step);
       return {in.z + x,
               at::rsub(in.z, x),
               in.z * x,
               in.z / x,
               at::add(in.z, in.w, x),
               at::sub(in.z, in.w, x),
               at::addcmul(in.z, in.w, in.row, x),
               at::addcdiv(in.z, in.w, in.row, x)};
     }},
    {"real tensors with complex numbers",
     [](const Inputs& in, int step) -> Tensors {
       const Number x = VaryingNumber(step);
       return {in.r * x, in.r + x, in.r / x, at::pow(in.r, x), in.r * in.z};
     }},
    {"parts",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor p = in.z * in.w;
       return {at::abs(p),
               at::angle(p),
               at::real(p) * 2,
               at::imag(p) + in.r,
               at::real(p) + at::imag(p),
               at::sgn(p)};
     }},
    {"views as real and as complex",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor p = in.z * in.w;
       const at::Tensor parts = at::view_as_real(p) * 2 + 1;
       return {parts, at::view_as_complex(parts) * in.w,
               at::view_as_real(p).sum(-1), at::view_as_real(p).select(-1, 1)};
     }},
    {"parts written in place",
     [](const Inputs& in, int step) -> Tensors {
       const at::Tensor p = in.z + in.w;
       at::real(p).mul_(Varying(step));
       at::imag(p).copy_(in.r).add_(1);
       at::view_as_real(p).select(-1, 0).sub_(in.r);
       return {p * in.w, at::abs(p)};
     }},
    {"made of parts",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor size = at::abs(in.z), angle = at::angle(in.z);
       return {at::polar(size, angle) * in.w, at::complex(size, angle) + in.w};
     }},
    {"lazy conjugates",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor p = in.z * in.w, c = at::conj(p);
       return {c,
               c * in.w,
               c + p,
               c.resolve_conj() * p,
               at::conj_physical(p),
               at::abs(c),
               c.t() * 2,
               at::conj(c) + c,
               c.select(0, 1) * in.row};
     }},
    {"conjugates written in place",
     [](const Inputs& in, int step) -> Tensors {
       const at::Tensor p = in.z * in.w;
       at::conj(p).mul_(in.w);
       at::conj(p).add_(in.row, VaryingNumber(step));
       p.conj_physical_();
       at::conj(p).fill_(VaryingNumber(step)).mul_(in.z);
       return {p, p + in.w};
     }},
    {"lazy negatives",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor p = in.z * in.w;
       const at::Tensor n = at::imag(at::conj(p));  // its neg bit is set
       return {n,
               n * in.r,
               n + n,
               at::relu(n),
               n.resolve_neg() - in.r,
               at::real(at::conj(p)) * 2,
               n.sum(),
               n.t() + 1};
     }},
    {"negatives written in place",
     [](const Inputs& in, int step) -> Tensors {
       const at::Tensor p = in.z * in.w;
       at::imag(at::conj(p)).mul_(Varying(step)).add_(in.r);
       at::imag(at::conj(p)).copy_(at::imag(at::conj(in.w)));
       return {p + in.w};
     }},
    {"functions",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor z = in.z + in.w;
       return {at::exp(z),   at::log(z),   at::sqrt(z),    at::tanh(z),
               at::sin(z),   at::cos(z),   at::tan(z),     at::sinh(z),
               at::cosh(z),  at::asin(z),  at::acos(z),    at::atan(z),
               at::log2(z),  at::log10(z), at::sigmoid(z), at::rsqrt(z),
               at::expm1(z), at::log1p(z), at::exp2(z),    at::asinh(z)};
     }},
    {"powers",
     [](const Inputs& in, int step) -> Tensors {
       return {at::pow(in.z, 2),
               at::pow(in.z, 3),
               at::pow(in.z, 0.5),
               at::pow(in.z, -1),
               at::pow(in.z, 1.5),
               at::pow(in.z, in.w),
               at::pow(in.z, VaryingNumber(step)),
               at::pow(in.z, 0),
               at::pow(in.z, 1),
               at::pow(Number(1.5, 0.5), in.z),
               at::pow(in.z, Number(2, step % 2 == 0 ? 1e-60 : 0.5))};
     }},
    {"reductions",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor z = in.z * in.w;
       return {z.sum(),      z.sum(0),          z.sum(-1, true),
               z.mean(),     z.mean(1),         z.prod(),
               z.prod(0),    at::cumsum(z, 0),  at::cumprod(z, 1),
               z.t().sum(0), at::conj(z).sum(1)};
     }},
    {"norms",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor z = in.z * in.w;
       return {at::linalg_vector_norm(z), at::linalg_vector_norm(z, 1, {1}),
               at::norm(z), at::var(z, {1}), at::std(z)};
     }},
    {"products",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor p = at::mm(in.z, in.m);
       return {p,
               at::matmul(in.z, in.row),
               at::mv(in.z, in.row),
               at::bmm(in.batch * 2, in.other_batch),
               at::matmul(in.batch, in.m.t()[0].narrow(0, 0, 5)),
               at::dot(in.z[0], in.row),
               at::vdot(in.z[0], in.row)};
     }},
    {"products of conjugates",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor z = in.z + in.w;
       return {at::mm(z.mH(), z), at::mm(z, z.mH()), at::mm(z.conj(), in.m),
               at::mm(z.t(), z.conj()), at::bmm((in.batch * 2).mH(), in.batch)};
     }},
    {"products with numbers",
     [](const Inputs& in, int step) -> Tensors {
       const at::Tensor p = at::mm(in.z, in.m);
       const Number x = VaryingNumber(step);
       at::Tensor sum = at::addmm(p, in.z, in.m, x, 2);
       sum.addmm_(in.z, in.m, 0.5, x);
       const at::Tensor b = at::bmm(in.batch, in.other_batch);
       return {sum, at::addmm(p, in.z, in.m, Number(0, 1), 1),
               at::baddbmm(b, in.batch, in.other_batch, x, x),
               at::addmv(in.z.select(1, 0), in.w, in.row, x, Number(0, 1))};
     }},
    {"choices",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor z = in.z * in.w;
       return {at::where(in.mask, z, in.w),
               z == in.w,
               z != in.z,
               at::eq(z, Number(1, 2)),
               at::where(z == z, z, in.row),
               at::masked_fill(z, in.mask, Number(1, -1)),
               at::isnan(z),
               at::isfinite(z)};
     }},
    {"in place",
     [](const Inputs& in, int step) -> Tensors {
       at::Tensor z = in.z + 1;
       z.add_(in.w).mul_(in.row).sub_(in.r).div_(in.w);
       z.add_(in.w, VaryingNumber(step)).mul_(VaryingNumber(step)).exp_();
       z.masked_fill_(in.mask, VaryingNumber(step)).neg_().pow_(2);
       at::Tensor filled = at::empty_like(z).fill_(VaryingNumber(step));
       filled.select(0, 1).copy_(in.r[0]);
       return {z, filled, at::zeros_like(z) + z, at::full_like(z, 2) * z};
     }},
    {"out=",
     [](const Inputs& in, int) -> Tensors {
       at::Tensor out = at::empty_like(in.z), size = at::empty_like(in.r);
       at::mul_out(out, in.z, in.w);
       at::abs_out(size, out);
       at::add_out(out, out, in.r);
       at::Tensor product = at::empty({5, 4}, in.dtype);
       at::mm_out(product, out, in.m);
       return {out, size, product};
     }},
    {"moved about",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor z = in.z * in.w;
       return {at::cat({z, in.w}),
               at::stack({z, in.w}),
               z.t().contiguous(),
               at::index_select(z, 1, in.places),
               at::flip(z, {0}),
               at::roll(z, {1}, {0}),
               at::tril(z),
               z.clone(),
               z.repeat({2, 1}),
               at::conj(z).clone(),
               at::cat({at::conj(z), z})};
     }},
    {"other types",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor z = in.z * in.w;
       return {z.to(at::kComplexDouble),
               z.to(at::kComplexFloat) * 2,
               in.r.to(in.dtype) + z,
               in.mask.to(in.dtype) * z,
               in.mask * z,
               z + in.places};
     }},
    {"transforms",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor f = at::fft_fft(in.z * in.w);
       return {f, at::fft_ifft(f * in.w), at::fft_rfft(in.r * 2) * 2,
               at::real(f)};
     }},
};

// What a leaf gets of a loss over z.
template <class Loss>
Tensors GradientOf(const at::Tensor& of, const Loss& loss) {
  const at::Tensor leaf = of.detach().clone().requires_grad_();
  const at::Tensor value = loss(leaf);
  return torch::autograd::grad({value}, {leaf});
}

constexpr Program kGradients[] = {
    {"of arithmetic",
     [](const Inputs& in, int) {
       return GradientOf(in.w, [&](const at::Tensor& w) {
         return at::abs((in.z * w + w / in.z - in.row) * in.r).sum();
       });
     }},
    {"of functions",
     [](const Inputs& in, int) {
       return GradientOf(in.w, [&](const at::Tensor& w) {
         const at::Tensor y = at::exp(w * 0.25) * at::tanh(w) + at::sqrt(w) +
                              at::log(w) + at::pow(w, 2) + at::sin(w);
         return at::real(y * in.z).sum();
       });
     }},
    {"of parts",
     [](const Inputs& in, int) {
       return GradientOf(in.w, [&](const at::Tensor& w) {
         const at::Tensor p = w * in.z;
         return (at::angle(p) + at::abs(p) * in.r + at::imag(at::conj(p)))
             .mean();
       });
     }},
    {"of views as real",
     [](const Inputs& in, int) {
       return GradientOf(in.w, [&](const at::Tensor& w) {
         const at::Tensor parts = at::tanh(at::view_as_real(w * in.z));
         return at::abs(at::view_as_complex(parts) * in.w).sum();
       });
     }},
    {"of products",
     [](const Inputs& in, int) {
       return GradientOf(in.m, [&](const at::Tensor& m) {
         const at::Tensor p = at::mm(in.z, m);
         return at::abs(at::mm(p.mH(), p)).sum();
       });
     }},
    {"of a real leaf",
     [](const Inputs& in, int) {
       return GradientOf(in.r, [&](const at::Tensor& r) {
         const at::Tensor p =
             at::polar(at::abs(r), r) * in.z + at::complex(r, r);
         return at::abs(at::where(in.mask, p, in.w * r)).sum();
       });
     }},
    {"of a transform",
     [](const Inputs& in, int) {
       return GradientOf(in.w, [&](const at::Tensor& w) {
         return at::abs(at::fft_fft(w * in.z)).square().sum();
       });
     }},
    {"that train",
     [](const Inputs& in, int step) {
       at::Tensor w = in.w.detach().clone().requires_grad_();
       for (int i = 0; i < 2; ++i) {
         const at::Tensor loss = at::abs(at::mm(in.z, w.mH()) - 1).sum();
         const at::Tensor g = torch::autograd::grad({loss}, {w})[0];
         const at::NoGradGuard no_grad;
         w.add_(g, -0.01 * Varying(step));
       }
       return Tensors{w};
     }},
};

// Those of which eager has kernels.
constexpr Program kHalves[] = {
    {"arithmetic of halves",
     [](const Inputs& in, int step) -> Tensors {
       const at::Tensor sum = in.z + in.w;
       return {sum,
               sum * in.row,
               in.z - in.r,
               sum * VaryingNumber(step),
               -in.z,
               at::abs(sum),
               at::addcmul(sum, in.z, in.w)};
     }},
    {"parts of halves",
     [](const Inputs& in, int) -> Tensors {
       const at::Tensor p = in.z * in.w;
       const at::Tensor parts = at::view_as_real(p) * 2 + 1;
       return {parts,
               at::view_as_complex(parts) * in.w,
               at::real(p) * 2,
               at::imag(at::conj(p)) + in.r,
               at::conj(p) * in.w,
               at::complex(at::real(p) + 1, at::imag(p) - 1)};
     }},
    {"halves moved and chosen",
     [](const Inputs& in, int step) -> Tensors {
       at::Tensor p = in.z * in.w;
       p.masked_fill_(in.mask, VaryingNumber(step));
       return {p,
               at::where(in.mask, p, in.w),
               p == in.w,
               p != in.w,
               at::cat({p, in.w}),
               p.t().contiguous(),
               at::full_like(p, 2) + p,
               p.to(at::kComplexFloat) * 2,
               at::sgn(p)};
     }},
};

class ComplexTest : public ::testing::TestWithParam<Program> {
 protected:
  void TearDown() override {
    disable();
    clear();
  }
};

TEST_P(ComplexTest, HasEagersBitsInReplays) {
  for (const at::ScalarType dtype : {at::kComplexFloat, at::kComplexDouble}) {
    Compare(GetParam(), dtype, Backend::kReplay);
  }
}

// Ops of the parts are compiled, beside library calls over the same storage.
TEST_P(ComplexTest, HasEagersBitsBesideMachineCode) {
  for (const at::ScalarType dtype : {at::kComplexFloat, at::kComplexDouble}) {
    Compare(GetParam(), dtype, Backend::kLlvm);
  }
}

class ComplexHalfTest : public ComplexTest {};

TEST_P(ComplexHalfTest, HasEagersBits) {
  Compare(GetParam(), at::kComplexHalf, Backend::kReplay);
  Compare(GetParam(), at::kComplexHalf, Backend::kLlvm);
}

std::string NameOf(const ::testing::TestParamInfo<Program>& info) {
  std::string name = info.param.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Programs, ComplexTest, ::testing::ValuesIn(kPrograms),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Gradients, ComplexTest,
                         ::testing::ValuesIn(kGradients), NameOf);
INSTANTIATE_TEST_SUITE_P(Halves, ComplexHalfTest, ::testing::ValuesIn(kHalves),
                         NameOf);

}  // namespace
}  // namespace tjit
