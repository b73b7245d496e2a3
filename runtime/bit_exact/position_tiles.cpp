#include "runtime/bit_exact/position_tiles.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/bit_exact/half_floats.h"
#include "runtime/bit_exact/position_threads.h"
#include "runtime/platform/parallel.h"

namespace tjit::runtime {
namespace {

using ir::DType;

// ---- Kernels of eager over arrays of n elements.

// Elements that two vectors of eager's kernels hold, a power of two. A kernel
// that exists for narrower vectors only does not pass the check.
int BlockOf(std::size_t itemsize) {
  static const int bytes =
      at::get_cpu_capability().find("AVX512") != std::string::npos ? 128 : 64;
  return bytes / static_cast<int>(itemsize);
}

// Elements of a call, so few that eager's kernel cuts nothing.
constexpr std::int64_t kMostOfCall = 4096;
alignas(64) char g_zeros[kMostOfCall * sizeof(double)] = {};

// Iterators over one contiguous dim, by type and number of inputs. Those of a
// thread are copies of the process's first ones, so that no thread of a kernel
// makes tensors.
using Iterators = std::array<std::array<at::TensorIterator, 3>, kPositionTypes>;

const Iterators& FirstIterators() {
  static const Iterators& made = *[] {
    auto* all = new Iterators;
    for (std::size_t t = 0; t < kPositionTypes; ++t) {
      const at::TensorOptions options(kPositionTorchTypes[t]);
      at::Tensor out = at::empty({64}, options);
      const at::Tensor a = at::empty({64}, options);
      const at::Tensor b = at::empty({64}, options);
      (*all)[t][0] = at::TensorIterator::unary_op(out, a);
      (*all)[t][1] = at::TensorIterator::binary_op(out, a, b);
      const at::Tensor c = at::empty({64}, options);
      (*all)[t][2] = at::TensorIteratorConfig()
                         .add_owned_output(out)
                         .add_owned_const_input(a)
                         .add_owned_const_input(b)
                         .add_owned_const_input(c)
                         .build();
    }
    return all;
  }();
  return made;
}

at::TensorIterator& IteratorOf(int type, int inputs) {
  thread_local std::unique_ptr<Iterators> mine;
  if (mine == nullptr) mine = std::make_unique<Iterators>(FirstIterators());
  return (*mine)[static_cast<std::size_t>(type)]
                [static_cast<std::size_t>(inputs) - 1];
}

struct Sizes : at::TensorIteratorBase {
  static constexpr auto kShape = &Sizes::shape_;
};

// One call for n elements of the type in memory.
void CallKernel(PositionKernel kernel, int type, const char* a, const char* b,
                char* out, std::int64_t n, const double* s) {
  at::TensorIterator& it = IteratorOf(type, b != nullptr ? 2 : 1);
  (it.*Sizes::kShape)[0] = n;
  it._unsafe_set_arg_data(0, out);
  it._unsafe_set_arg_data(1, const_cast<char*>(a));
  if (b != nullptr) it._unsafe_set_arg_data(2, const_cast<char*>(b));
  kernel(it, s);
}

// ---- Halves are floats in the arrays.

void CallHalves(PositionKernel kernel, int type, const char* a, const char* b,
                char* out, std::int64_t n, const double* s) {
  constexpr std::int64_t kMost = 1024;
  std::uint16_t x[kMost], y[kMost];
  const HalfType half =
      kPositionDTypes[type] == DType::kBF16 ? HalfType::kBF16 : HalfType::kF16;
  const auto floats = [](const char* p, std::int64_t i) {
    return reinterpret_cast<const float*>(p) + i;
  };
  for (std::int64_t i = 0; i < n; i += kMost) {
    const std::int64_t m = std::min(kMost, n - i);
    ToHalves(half, floats(a, i), x, m);
    if (b != nullptr) ToHalves(half, floats(b, i), y, m);
    CallKernel(kernel, type, reinterpret_cast<char*>(x),
               b == nullptr ? nullptr : reinterpret_cast<char*>(y),
               reinterpret_cast<char*>(x), m, s);
    FromHalves(half, x, reinterpret_cast<float*>(out) + i, m);
  }
}

// ---- Tiles.

struct Tile {
  PositionKernel kernel;
  int type;
  const char *a, *b;  // b: null of unary ops
  char* out;
  std::int64_t itemsize;  // in the arrays
  const double* s;

  void Call(std::int64_t from, std::int64_t n) const {
    const auto call = c10::elementSize(kPositionTorchTypes[type]) == 2
                          ? CallHalves
                          : CallKernel;
    for (std::int64_t i = 0; i < n; i += kMostOfCall) {
      const std::int64_t o = (from + i) * itemsize;
      call(kernel, type, a + o, b == nullptr ? nullptr : b + o, out + o,
           std::min(kMostOfCall, n - i), s);
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
std::int64_t GrainOf(PositionCut cut, std::int64_t total, int threads) {
  return cut == PositionCut::kGelu && total > 16384 ? total / threads
                                                    : at::internal::GRAIN_SIZE;
}

}  // namespace

at::TensorIterator& WithZeros(at::TensorIterator& it) {
  const auto* const end = std::end(kPositionTorchTypes);
  const auto type = static_cast<int>(
      std::find(std::begin(kPositionTorchTypes), end, it.dtype(0)) -
      std::begin(kPositionTorchTypes));
  at::TensorIterator& three = IteratorOf(type, 3);
  (three.*Sizes::kShape)[0] = it.numel();
  three._unsafe_set_arg_data(0, it.data_ptr(0));
  three._unsafe_set_arg_data(1, it.data_ptr(1));
  three._unsafe_set_arg_data(2, g_zeros);
  three._unsafe_set_arg_data(3, it.data_ptr(2));
  return three;
}

void RunPositionTile(PositionKernel kernel, int type, PositionCut cut,
                     const PositionTile& t) {
  const auto [n, a, b, out, first, total, s] = t;
  const Tile tile = {kernel,
                     type,
                     static_cast<const char*>(a),
                     static_cast<const char*>(b),
                     static_cast<char*>(out),
                     kPositionDTypes[type] == DType::kF64 ? 8 : 4,
                     s};
  const int block = BlockOf(c10::elementSize(kPositionTorchTypes[type]));
  const int unit = cut == PositionCut::kOneVector ? block / 2 : block;
  std::int64_t chunk = total;
  if (total > 16384) {
    const int threads = PositionThreads::InForce();
    chunk = PositionChunk(total, GrainOf(cut, total, threads), threads);
  }
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t begin =
        chunk == total ? 0 : (first + i) / chunk * chunk;
    const std::int64_t end = std::min(total, begin + chunk);
    const std::int64_t body_end = end - ((end - begin) & (unit - 1));
    const bool is_remainder = first + i >= body_end;
    const std::int64_t m =
        std::min(n, (is_remainder ? end : body_end) - first) - i;
    const std::int64_t whole = is_remainder ? m : m & ~std::int64_t{block - 1};
    if (whole > 0) tile.Call(i, whole);
    if (whole < m) tile.CallFilled(i + whole, m - whole, block);
    i += m;
  }
}

}  // namespace tjit::runtime
