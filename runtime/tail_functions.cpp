#include "runtime/tail_functions.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/Version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <string>

#include "compiler/gelu_functions.h"
#include "runtime/half_tables.h"
#include "runtime/native_stubs.h"
#include "runtime/tail_check.h"

namespace tjit::runtime {
namespace {

namespace native = at::native;
using ir::DType;
using ir::Op;

thread_local int t_threads = 0;  // TailThreads; 0: none

// ---- Kernels of eager over arrays of n elements.

constexpr int kTypes = 3;
constexpr at::ScalarType kTorchTypes[kTypes] = {at::kFloat, at::kDouble,
                                                at::kBFloat16};
constexpr DType kDTypes[kTypes] = {DType::kF32, DType::kF64, DType::kBF16};

// Elements that two vectors of eager's kernels hold. A kernel that exists for
// narrower vectors only does not pass the check.
int BlockOf(std::size_t itemsize) {
  static const int bytes =
      at::get_cpu_capability().find("AVX512") != std::string::npos ? 128 : 64;
  return bytes / static_cast<int>(itemsize);
}

// Iterators over one contiguous dim, by type and number of inputs. Those of a
// thread are copies of the process's first ones, so that no thread of a kernel
// makes tensors.
using Iterators = std::array<std::array<at::TensorIterator, 2>, kTypes>;

const Iterators& FirstIterators() {
  static const Iterators& made = *[] {
    auto* all = new Iterators;
    for (std::size_t t = 0; t < kTypes; ++t) {
      const at::TensorOptions options(kTorchTypes[t]);
      at::Tensor out = at::empty({64}, options);
      const at::Tensor a = at::empty({64}, options);
      const at::Tensor b = at::empty({64}, options);
      (*all)[t][0] = at::TensorIterator::unary_op(out, a);
      (*all)[t][1] = at::TensorIterator::binary_op(out, a, b);
    }
    return all;
  }();
  return made;
}

at::TensorIterator& IteratorOf(int type, bool is_binary) {
  thread_local std::unique_ptr<Iterators> mine;
  if (mine == nullptr) mine = std::make_unique<Iterators>(FirstIterators());
  return (*mine)[static_cast<std::size_t>(type)][is_binary ? 1 : 0];
}

struct Sizes : at::TensorIteratorBase {
  static constexpr auto kShape = &Sizes::shape_;
};

using Kernel = void (*)(at::TensorIterator& it, const double* s);

// One call for n elements of the type in memory.
void CallKernel(Kernel kernel, int type, const char* a, const char* b,
                char* out, std::int64_t n, const double* s) {
  at::TensorIterator& it = IteratorOf(type, b != nullptr);
  (it.*Sizes::kShape)[0] = n;
  it._unsafe_set_arg_data(0, out);
  it._unsafe_set_arg_data(1, const_cast<char*>(a));
  if (b != nullptr) it._unsafe_set_arg_data(2, const_cast<char*>(b));
  kernel(it, s);
}

// ---- Halves are floats in the arrays.

void ToBF16(const float* from, std::uint16_t* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]) >> 16;
    to[i] = static_cast<std::uint16_t>(from[i] != from[i] ? 0x7fc0 : bits);
  }
}

void FromBF16(const std::uint16_t* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = std::bit_cast<float>(std::uint32_t{from[i]} << 16);
  }
}

void CallHalves(Kernel kernel, int type, const char* a, const char* b,
                char* out, std::int64_t n, const double* s) {
  constexpr std::int64_t kMost = 1024;
  std::uint16_t x[kMost], y[kMost];
  const auto floats = [](const char* p, std::int64_t i) {
    return reinterpret_cast<const float*>(p) + i;
  };
  for (std::int64_t i = 0; i < n; i += kMost) {
    const std::int64_t m = std::min(kMost, n - i);
    ToBF16(floats(a, i), x, m);
    if (b != nullptr) ToBF16(floats(b, i), y, m);
    CallKernel(kernel, type, reinterpret_cast<char*>(x),
               b == nullptr ? nullptr : reinterpret_cast<char*>(y),
               reinterpret_cast<char*>(x), m, s);
    FromBF16(x, reinterpret_cast<float*>(out) + i, m);
  }
}

// ---- Tiles.

struct Tile {
  Kernel kernel;
  int type;
  const char *a, *b;  // b: null of unary ops
  char* out;
  std::int64_t itemsize;  // in the arrays
  const double* s;

  // So few at a time that eager's kernel cuts nothing.
  void Call(std::int64_t from, std::int64_t n) const {
    constexpr std::int64_t kMost = 4096;
    const auto call = kDTypes[type] == DType::kBF16 ? CallHalves : CallKernel;
    for (std::int64_t i = 0; i < n; i += kMost) {
      const std::int64_t o = (from + i) * itemsize;
      call(kernel, type, a + o, b == nullptr ? nullptr : b + o, out + o,
           std::min(kMost, n - i), s);
    }
  }

  // Less than a block, by the formula of whole ones.
  void CallFilled(std::int64_t from, std::int64_t n, int block) const {
    constexpr std::size_t kMostBytes = 256;
    alignas(64) char x[kMostBytes] = {}, y[kMostBytes] = {}, z[kMostBytes];
    const auto bytes = static_cast<std::size_t>(n * itemsize);
    std::memcpy(x, a + from * itemsize, bytes);
    if (b != nullptr) std::memcpy(y, b + from * itemsize, bytes);
    Tile filled = *this;
    filled.a = x;
    if (b != nullptr) filled.b = y;
    filled.out = z;
    filled.Call(0, block);
    std::memcpy(out + from * itemsize, z, bytes);
  }
};

// What eager takes for a chunk. Gelu's forward has a rule of its own.
std::int64_t GrainOf(bool is_gelu, std::int64_t total, int threads) {
  return is_gelu && total > 16384 ? total / threads : at::internal::GRAIN_SIZE;
}

void RunTile(const Tile& tile, bool is_gelu, std::int64_t n, std::int64_t first,
             std::int64_t total) {
  const int block = BlockOf(c10::elementSize(kTorchTypes[tile.type]));
  std::int64_t chunk = total;
  if (total > 16384) {
    const int threads = t_threads > 0 ? t_threads : TailThreads::Current();
    chunk = TailChunk(total, GrainOf(is_gelu, total, threads), threads);
  }
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t begin = (first + i) / chunk * chunk;
    const std::int64_t end = std::min(total, begin + chunk);
    const std::int64_t body_end = end - (end - begin) % block;
    const bool is_tail = first + i >= body_end;
    const std::int64_t m = std::min(n, (is_tail ? end : body_end) - first) - i;
    const std::int64_t whole = is_tail ? m : m / block * block;
    if (whole > 0) tile.Call(i, whole);
    if (whole < m) tile.CallFilled(i + whole, m - whole, block);
    i += m;
  }
}

template <Kernel kKernel, bool kIsGelu, int kType>
void Tail(std::int64_t n, const void* a, const void* b, void* out,
          std::int64_t first, std::int64_t total, double s, double t,
          double u) {
  const double scalars[] = {s, t, u};
  const Tile tile = {kKernel,
                     kType,
                     static_cast<const char*>(a),
                     static_cast<const char*>(b),
                     static_cast<char*>(out),
                     kDTypes[kType] == DType::kF64 ? 8 : 4,
                     scalars};
  RunTile(tile, kIsGelu, n, first, total);
}

// ---- The ops.

struct TailOp {
  Op op;
  bool is_binary;
  TailEager eager;
  TjitTailFn functions[kTypes];
  TjitTailFn other_of_f32 = nullptr;  // comes first, where it has eager's bits
};

enum class Grain : std::uint8_t { kUsual, kGelu };

template <Kernel kKernel, Grain kGrain = Grain::kUsual>
constexpr TailOp Make(Op op, bool is_binary, TailEager eager) {
  constexpr bool kIsGelu = kGrain == Grain::kGelu;
  return {op,
          is_binary,
          eager,
          {Tail<kKernel, kIsGelu, 0>, Tail<kKernel, kIsGelu, 1>,
           Tail<kKernel, kIsGelu, 2>}};
}

// Eager hands tensors of more than one element to oneDNN where it may.
template <TjitTailFn kByOneDnn, TjitTailFn kOtherwise>
void ByOneDnn(std::int64_t n, const void* a, const void* b, void* out,
              std::int64_t first, std::int64_t total, double s, double t,
              double u) {
  const bool is_by_onednn =
      total > 1 && at::globalContext().userEnabledMkldnn();
  (is_by_onednn ? kByOneDnn : kOtherwise)(n, a, b, out, first, total, s, t, u);
}

std::atomic<HalfTableFn> g_gelu = nullptr;

void GeluBF16(std::int64_t n, const void* a, const void* /*b*/, void* out,
              std::int64_t /*first*/, std::int64_t /*total*/, double, double,
              double) {
  g_gelu.load(std::memory_order_relaxed)(static_cast<int>(n),
                                         static_cast<const float*>(a),
                                         static_cast<float*>(out), 0);
}

// Gelu by erf: of f64 as the others.
template <Kernel kKernel, Grain kGrain, TjitTailFn kF32, TjitTailFn kBF16>
constexpr TailOp MakeByErf(Op op, bool is_binary, TailEager eager) {
  constexpr bool kIsGelu = kGrain == Grain::kGelu;
  return {
      op,
      is_binary,
      eager,
      {ByOneDnn<kF32, Tail<kKernel, kIsGelu, 0>>, Tail<kKernel, kIsGelu, 1>,
       ByOneDnn<kBF16, Tail<kKernel, kIsGelu, 2>>},
      kIsGelu ? ByOneDnn<GeluMinimaxF32, Tail<kKernel, kIsGelu, 0>> : nullptr};
}

#define TJIT_STUB(...)                          \
  [](at::TensorIterator& it, const double* s) { \
    (void)s;                                    \
    native::__VA_ARGS__;                        \
  }
#define TJIT_EAGER(...)                                           \
  [](const at::Tensor& a, const at::Tensor& b, const double* s) { \
    (void)b, (void)s;                                             \
    return __VA_ARGS__;                                           \
  }
constexpr auto kCpu = at::kCPU;

const TailOp kOps[] = {
    Make<TJIT_STUB(sigmoid_stub(kCpu, it))>(Op::kSigmoid, false,
                                            TJIT_EAGER(at::sigmoid(a))),
    Make<TJIT_STUB(silu_stub(kCpu, it))>(Op::kSilu, false,
                                         TJIT_EAGER(at::silu(a))),
    Make<TJIT_STUB(mish_stub(kCpu, it))>(Op::kMish, false,
                                         TJIT_EAGER(at::mish(a))),
    MakeByErf<TJIT_STUB(GeluKernel(kCpu, it, native::GeluType::None)),
              Grain::kGelu, GeluF32, GeluBF16>(Op::kGelu, false,
                                               TJIT_EAGER(at::gelu(a))),
    Make<TJIT_STUB(GeluKernel(kCpu, it, native::GeluType::Tanh)), Grain::kGelu>(
        Op::kGeluTanh, false, TJIT_EAGER(at::gelu(a, "tanh"))),
    Make<TJIT_STUB(softplus_stub(kCpu, it, s[0], s[1]))>(
        Op::kSoftplus, false, TJIT_EAGER(at::softplus(a, s[0], s[1]))),
    Make<TJIT_STUB(elu_stub(kCpu, it, s[0], s[1], s[2]))>(
        Op::kElu, false, TJIT_EAGER(at::elu(a, s[0], s[1], s[2]))),
    Make<TJIT_STUB(exp2_stub(kCpu, it))>(Op::kExp2, false,
                                         TJIT_EAGER(at::exp2(a))),
    Make<TJIT_STUB(sinh_stub(kCpu, it))>(Op::kSinh, false,
                                         TJIT_EAGER(at::sinh(a))),
    Make<TJIT_STUB(cosh_stub(kCpu, it))>(Op::kCosh, false,
                                         TJIT_EAGER(at::cosh(a))),
    Make<TJIT_STUB(pow_tensor_scalar_stub(kCpu, it, s[0]))>(
        Op::kPowScalar, false, TJIT_EAGER(at::pow(a, s[0]))),
    Make<TJIT_STUB(pow_tensor_tensor_stub(kCpu, it))>(
        Op::kPow, true, TJIT_EAGER(at::pow(a, b))),
    Make<TJIT_STUB(silu_backward_stub(kCpu, it))>(
        Op::kSiluBackward, true, TJIT_EAGER(at::silu_backward(a, b))),
    Make<TJIT_STUB(mish_backward_stub(kCpu, it))>(
        Op::kMishBackward, true, TJIT_EAGER(at::mish_backward(a, b))),
    MakeByErf<TJIT_STUB(GeluBackwardKernel(kCpu, it, native::GeluType::None)),
              Grain::kUsual, GeluBackwardF32, GeluBackwardBF16>(
        Op::kGeluBackward, true, TJIT_EAGER(at::gelu_backward(a, b))),
    Make<TJIT_STUB(GeluBackwardKernel(kCpu, it, native::GeluType::Tanh))>(
        Op::kGeluTanhBackward, true,
        TJIT_EAGER(at::gelu_backward(a, b, "tanh"))),
    Make<TJIT_STUB(softplus_backward_stub(kCpu, it, s[0], s[1]))>(
        Op::kSoftplusBackward, true,
        TJIT_EAGER(at::softplus_backward(a, b, s[0], s[1]))),
};

const TailOp* TailOpOf(Op op) {
  for (const TailOp& tail : kOps) {
    if (tail.op == op) return &tail;
  }
  return nullptr;
}

int TypeOf(DType dtype) {
  const auto* found = std::find(kDTypes, kDTypes + kTypes, dtype);
  return found == kDTypes + kTypes ? -1 : static_cast<int>(found - kDTypes);
}

// False if eager does without oneDNN now.
bool PrepareOneDnn() {
  if (!HasGeluFormulas() || !at::globalContext().userEnabledMkldnn()) {
    return false;
  }
  const auto table = FindHalfTable(Op::kGelu);
  if (table) g_gelu = reinterpret_cast<HalfTableFn>(table->address);
  return true;
}

}  // namespace

std::int64_t TailChunk(std::int64_t total, std::int64_t grain, int threads) {
  if (threads <= 1 || total <= grain || grain <= 0) return total;
  const std::int64_t parts =
      std::min<std::int64_t>(threads, (total + grain - 1) / grain);
  return (total + parts - 1) / parts;
}

bool IsTailFunction(Op op, DType dtype) {
  return TailOpOf(op) != nullptr && InfoOf(dtype).kind == ir::DTypeKind::kFloat;
}

std::optional<TjitMath> FindTailFunction(Op op, DType dtype) {
  constexpr TjitMathKind kKinds[kTypes] = {kTjitTailF32, kTjitTailF64,
                                           kTjitTailBF16};
  const TailOp* const tail = TailOpOf(op);
  const int type = TypeOf(dtype);
  if (tail == nullptr || type < 0) return std::nullopt;
  const at::NoGradGuard no_grad;
  const bool is_by_erf = op == Op::kGelu || op == Op::kGeluBackward;
  if (is_by_erf && dtype != DType::kF64 && !PrepareOneDnn()) {
    return std::nullopt;
  }
  if (op == Op::kGelu && dtype == DType::kBF16 && g_gelu == nullptr) {
    return std::nullopt;
  }
  TjitTailFn candidates[] = {nullptr, tail->functions[type]};
  if (dtype == DType::kF32 && HasGeluMinimax()) {
    candidates[0] = tail->other_of_f32;
  }
  for (const TjitTailFn candidate : candidates) {
    if (candidate != nullptr &&
        TilesHaveBitsOfEager(candidate, tail->eager, tail->is_binary,
                             kTorchTypes[type])) {
      return TjitMath{InfoOf(op).name, kKinds[type],
                      reinterpret_cast<void*>(candidate), 0};
    }
  }
  return std::nullopt;
}

void CallTailFunction(const TjitMath& function, const void* const* in,
                      const double* scalars, void* out, std::int64_t n) {
  const TailOp* const op =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const TailOp& o) {
        return std::strcmp(InfoOf(o.op).name, function.op) == 0;
      });
  const int tensors = op->is_binary ? 2 : 1;
  const int operands = static_cast<int>(std::strlen(InfoOf(op->op).operands));
  double s[3] = {};
  std::copy(scalars + tensors, scalars + operands, s);
  reinterpret_cast<TjitTailFn>(function.address)(
      n, in[0], op->is_binary ? in[1] : nullptr, out, 0, n, s[0], s[1], s[2]);
}

TailThreads::TailThreads(int threads) : before_(t_threads) {
  t_threads = threads;
}
TailThreads::~TailThreads() { t_threads = before_; }

int TailThreads::Current() {
  return at::in_parallel_region() ? 1 : at::get_num_threads();
}

}  // namespace tjit::runtime
