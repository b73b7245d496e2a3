// Rows as loops that a person would write for them: what is left of a row where
// there is nothing but its arithmetic and its memory traffic.
//
// How: copies of the row's inputs at places of our own, one loop over them, no
// tensor made. Two results take turns, as the program keeps the last one until
// the next is there. Rows that are called .../less leave out what has no short
// loop with eager's bits (logarithms, exponentials, eager's order of sums,
// quotients): less arithmetic than any kernel of the row has to do. All others
// have eager's bits, and run.py holds them against the row's. This file is
// compiled for the machine that builds it. Thread: one.
// Tested by: tests/acceptance/bench_smoke_test.py
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/narrow.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

// Of 64 bytes, or what becomes that; the compiler splits them where it must.
using Floats = float __attribute__((vector_size(64), aligned(4), may_alias));
using HalfFloats =
    float __attribute__((vector_size(32), aligned(4), may_alias));
using Doubles = double __attribute__((vector_size(64), aligned(8), may_alias));

template <class Type>
using In = std::vector<const Type*>;
template <class Type>
using Out = std::vector<Type*>;

// Memory for a tensor like `t` that begins at another place of the page than
// the last seven did, half a KiB apart: a loop over tensors in step takes a
// quarter longer where they lie as malloc() has it (Note [Colours] in
// runtime/memory/block_cache.h).
at::Tensor PlacedLike(const at::Tensor& t) {
  constexpr std::uintptr_t kPage = 4096, kApart = 512;
  static std::uintptr_t place = 0;
  place = (place + kApart) % kPage;
  const auto page = static_cast<std::int64_t>(kPage / t.itemsize());
  const at::Tensor room = at::empty({t.numel() + page}, t.options());
  const auto begins = reinterpret_cast<std::uintptr_t>(room.const_data_ptr());
  const auto skip = static_cast<std::int64_t>((place - begins) % kPage);
  const auto first = skip / static_cast<std::int64_t>(t.itemsize());
  return room.narrow(0, first, t.numel()).view(t.sizes());
}

// `loop` from `in` to results like `like`, in turn.
template <class Type>
Workload Loop(const Tensors& in, const Tensors& like,
              std::function<void(const In<Type>&, const Out<Type>&)> loop) {
  struct State {
    Tensors in;
    std::array<Tensors, 2> results;
    In<Type> from;
    std::array<Out<Type>, 2> to;
    std::size_t turn = 0;
  };
  auto s = std::make_shared<State>();
  for (const at::Tensor& t : in) {
    s->in.push_back(PlacedLike(t).copy_(t));
    s->from.push_back(s->in.back().template const_data_ptr<Type>());
  }
  for (std::size_t turn = 0; turn < 2; ++turn) {
    for (const at::Tensor& t : like) {
      s->results[turn].push_back(PlacedLike(t));
      s->to[turn].push_back(
          s->results[turn].back().template mutable_data_ptr<Type>());
    }
  }
  Workload workload;
  workload.step = [s, loop = std::move(loop)] {
    s->turn = 1 - s->turn;
    loop(s->from, s->to[s->turn]);
  };
  workload.result = [s] { return s->results[s->turn]; };
  return workload;
}

// Of as many elements as the first input; `each(i)` is one element.
template <class Type, class Each>
Workload Elementwise(const Tensors& in, Each each) {
  const std::int64_t n = in[0].numel();
  const Tensors like = {in[0]};
  return Loop<Type>(in, like,
                    [n, each](const In<Type>& from, const Out<Type>& to) {
                      Type* const __restrict out = to[0];
                      const Type *const a = from[0], *const b = from[1],
                                        *const c = from.back();
#pragma GCC ivdep
                      for (std::int64_t i = 0; i < n; ++i) {
                        out[i] = each(a[i], b[i], c[i]);
                      }
                    });
}

Workload HandChain10(std::int64_t n) {
  return Elementwise<float>({Uniform({n}, 1), Uniform({n}, 2)},
                            [](float a, float b, float) {
                              float x = (a + b) * b - a + a;
                              x = x * a - b + b;
                              return x * b - a + b;
                            });
}

Workload HandAdd4() {
  return Elementwise<float>({Uniform({100, 100}, 1), Uniform({100, 100}, 2)},
                            [](float a, float b, float) {
                              const float c = a + b, d = c + b;
                              return a + (d + c);
                            });
}

// The logarithm is its argument, powers are products.
Workload LessPoly() {
  const std::vector<std::int64_t> sizes = {2000, 2000};
  return Elementwise<float>(
      {Uniform(sizes, 1), Uniform(sizes, 2), Uniform(sizes, 3)},
      [](float a, float b, float c) {
        return a * b + c + (a + 0.1F) + a * a * a * a - b * b * b;
      });
}

// No exponentials, no sum.
Workload LessSoftmaxMask() {
  constexpr std::int64_t kWidth = 128, kRows = std::int64_t{8} * 12 * kWidth;
  const at::Tensor x = Uniform({8, 12, kWidth, kWidth}, 1);
  const at::Tensor mask =
      Uniform({kWidth, kWidth}, 2).gt(0.9).to(at::kFloat).mul(-1e9);
  return Loop<float>(
      {x, mask}, {x}, [](const In<float>& from, const Out<float>& to) {
        for (std::int64_t row = 0; row < kRows; ++row) {
          const float* const in = from[0] + row * kWidth;
          const float* const mask = from[1] + row % kWidth * kWidth;
          float* const __restrict out = to[0] + row * kWidth;
          constexpr std::int64_t kLanes = 16;
          float largest[kLanes];  // of each lane: one chain would take longer
          std::fill(std::begin(largest), std::end(largest), -1e30F);
          for (std::int64_t i = 0; i < kWidth; i += kLanes) {
            for (std::int64_t lane = 0; lane < kLanes; ++lane) {
              const float x = in[i + lane] * 0.125F + mask[i + lane];
              largest[lane] = largest[lane] > x ? largest[lane] : x;
              out[i + lane] = x;
            }
          }
          const float most =
              *std::max_element(std::begin(largest), std::end(largest));
          for (std::int64_t i = 0; i < kWidth; ++i) out[i] -= most;
        }
      });
}

// In an order of its own.
Workload LessReduceSum() {
  constexpr std::int64_t kRows = 1024, kWidth = 1024;
  return Loop<float>(
      {Uniform({kRows, kWidth}, 1)}, {at::empty({kRows})},
      [](const In<float>& from, const Out<float>& to) {
        constexpr std::int64_t kLanes = 16;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const auto* const x =
              reinterpret_cast<const Floats*>(from[0] + row * kWidth);
          Floats sums[8] = {};  // no std::array: it drops their attributes
          for (std::size_t i = 0; i < kWidth / kLanes; i += std::size(sums)) {
            for (std::size_t k = 0; k < std::size(sums); ++k) {
              sums[k] += x[i + k] * x[i + k];
            }
          }
          const Floats all = ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                             ((sums[4] + sums[5]) + (sums[6] + sums[7]));
          float sum = 0;
          for (std::int64_t k = 0; k < kLanes; ++k) sum += all[k];
          to[0][row] = sum;
        }
      });
}

// Products with a number instead of quotients by the count; Welford's update
// in f64 as eager has it, for as many columns as registers hold.
Workload LessMeanVar() {
  constexpr std::int64_t kRows = 4096, kWidth = 512, kLanes = 8;
  constexpr std::size_t kVectors = 8;
  return Loop<float>(
      {Uniform({kRows, kWidth}, 1)}, {at::empty({kWidth}), at::empty({kWidth})},
      [](const In<float>& from, const Out<float>& to) {
        constexpr std::int64_t kColumns = kVectors * kLanes;
        for (std::int64_t first = 0; first < kWidth; first += kColumns) {
          Doubles mean[kVectors] = {}, squares[kVectors] = {};
          HalfFloats sum[kVectors] = {};
          double share = 1;
          for (std::int64_t row = 0; row < kRows; ++row) {
            const auto* const x = reinterpret_cast<const HalfFloats*>(
                from[0] + row * kWidth + first);
            share -= 1e-4;
            for (std::size_t k = 0; k < kVectors; ++k) {
              const Doubles value = __builtin_convertvector(x[k], Doubles);
              const Doubles delta = value - mean[k];
              mean[k] += delta * share;
              squares[k] += delta * (value - mean[k]);
              sum[k] += x[k];
            }
          }
          for (std::size_t k = 0; k < kVectors; ++k) {
            for (std::size_t lane = 0; lane < kLanes; ++lane) {
              const std::size_t column =
                  static_cast<std::size_t>(first) + k * kLanes + lane;
              to[0][column] = sum[k][lane] / kRows;
              to[1][column] =
                  static_cast<float>(squares[k][lane] / (kRows - 1));
            }
          }
        }
      });
}

Workload HandRateTriple(std::int64_t batch) {
  Tensors in;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    in.push_back(Uniform({batch}, seed).to(at::kDouble));
  }
  in[6] = in[6] + 1;
  const Tensors like = {in[0], in[0], in[0]};
  return Loop<double>(in, like,
                      [batch](const In<double>& in, const Out<double>& to) {
                        double* const __restrict a = to[0];
                        double* const __restrict b = to[1];
                        double* const __restrict c = to[2];
#pragma GCC ivdep
                        for (std::int64_t i = 0; i < batch; ++i) {
                          const double dt = in[6][i] - in[7][i];
                          a[i] = (in[0][i] - in[1][i]) / dt;
                          b[i] = (in[2][i] - in[3][i]) / dt;
                          c[i] = (in[4][i] - in[5][i]) / dt;
                        }
                      });
}

}  // namespace

std::vector<Row> HandRows() {
  return {
      {"row1/chain10-64k", [] { return HandChain10(65536); }},
      {"row1/chain10-4M", [] { return HandChain10(4194304); }},
      {"row2/add4", HandAdd4},
      {"row3/poly/less", LessPoly},
      {"row6/softmax-mask-l/less", LessSoftmaxMask},
      {"row8/reduce-sum/less", LessReduceSum},
      {"row8/reduce-meanvar/less", LessMeanVar},
      {"row13/rate-triple-1024", [] { return HandRateTriple(1024); }},
      {"row13/rate-triple-64k", [] { return HandRateTriple(65536); }},
  };
}

}  // namespace tjit::bench
