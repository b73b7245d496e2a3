// The workloads of the benchmark suite, as plain libtorch programs.
//
// A workload is a loop body with its state. It knows nothing of tjit: the
// same function runs in the eager peers and under tjit, and its result is
// compared bit for bit between them after `warm_up_steps`, a fixed number.
// Invariants: (1) Seeds are fixed: equal step counts give equal results.
// (2) A step takes no raw pointer, so nothing is exposed; rows W are exempt.
// (3) The result of the last step is alive until the next one, as a program
// that uses it would keep it.
// Thread: one.
// Tested by: bench/run.py, tests in bench/CMakeLists.txt
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tjit::bench {

struct Workload {
  std::function<void()> step;
  // Everything a step changes.
  std::function<std::vector<at::Tensor>()> result;
  // The program needs the result of each step, and says where one ends
  // (mark_step): without, what the next step replaces unread need not be
  // computed at all, and the row would measure that.
  bool uses_results = false;
};

struct Row {
  std::string name;  // "row19/mlp-adam/optim"
  std::function<Workload()> make;
  // Steps before the results are compared and timing starts. A loop without
  // sync point or mark_step() is found after 4,096 ops or 2^30 elements.
  std::int64_t warm_up_steps = 64;
  // Timed steps where more would change what is measured; 0: chosen by time.
  std::int64_t fixed_steps = 0;
  // False: its steps must be new to the process, so --settle_ms is nothing.
  bool settles = true;
};

// f32 in [0, 1), seeded without the global generator, so that rows do not
// depend on their order.
at::Tensor Uniform(at::IntArrayRef sizes, std::uint64_t seed);

// Who updates the parameters: torch::optim, or the fused kernel called by
// hand (the better of the two is the baseline).
enum class Optimizer : std::uint8_t { kTorchOptim, kFusedByHand };

// Rows 1 and 9, and both with sizes that go on changing.
std::vector<Row> InferenceRows();
// Rows 2 to 8.
std::vector<Row> KernelRows();
// Rows 10 to 12.
std::vector<Row> DenseRows();
// Rows 13 to 17.
std::vector<Row> ScienceRows();
// Rows 18, 19, 24 and 25.
std::vector<Row> TrainingRows();
// Rows 20 to 23.
std::vector<Row> ProductRows();
// Row 27 a-d.
std::vector<Row> NeverRows();
// Row 26.
std::vector<Row> OverheadRows();
// Rows W (workloads_habits.h).
std::vector<Row> HabitRows();
// Some of the rows as loops written by hand (workloads_hand.cpp).
std::vector<Row> HandRows();

// Row 1: ten dependent add, mul, sub, f32 [n], inference mode.
Workload Chain10(std::int64_t n);
// Row 2: c=a+b, d=c+b, e=d+c, f=a+e, f32 [100, 100].
Workload Add4();
// Row 3: a*b + c + log(a+0.1) + a^4 - b^3, f32 [2000, 2000].
Workload Poly();
// Row 4: tanh(a*b+1)*sigmoid(b) + exp(-a*a), f32 [n].
Workload Transcendental(std::int64_t n);
// Row 5: gelu(x*s+b)*y, bf16 [1024, 1024].
Workload Bf16Gelu();
// Row 6: softmax(x/8 + mask, -1), f32 `sizes`, mask of the last two.
Workload SoftmaxMask(std::vector<std::int64_t> sizes);
// Row 7: gelu(layer_norm(x)) + x, f32 [rows, 768].
Workload NormGeluResidual(std::int64_t rows);
// Row 8: (x*x).sum(-1), f32 [1024, 1024]; mean and var over dim 0, [4096, 512].
Workload ReduceSum();
Workload MeanVar();
Workload Langevin(std::int64_t n);
Workload Dropout(std::vector<std::int64_t> sizes);
// Row 9: 16-32-32-4 ReLU, batch 8, no grad.
Workload MlpTiny();
// Rows K2: rows 1 and 9 with a new size every so many steps, ten ops over
// 1,040 floats and more, batches of 65 and more.
Workload Chain10Sizes(std::int64_t steps_of_each);
Workload MlpTinySizes(std::int64_t steps_of_each);
// Row 10: 784-512-512-10 ReLU, f32, no grad, the batches one after the other.
Workload MlpMnist(std::vector<std::int64_t> batches);
// Row 11: LSTM cell from basic ops, hidden 128, batch 16, 50 steps.
Workload LstmOps();
// Row 12: transformer d=128, 4 layers, 4 heads, context 64: a token a call
// into a cache that is written in place; prefill of 32 when it is full.
Workload DecodeToken();
// Its prefill alone: 32 tokens a call.
Workload Prefill();
// Row 13: (a-an)/(t-tn) for three a, f64 [batch].
Workload RateTriple(std::int64_t batch);
// Row 14: linear elasticity, one of 100 ramp steps, strain f64 [batch, 6].
Workload Elasticity(std::int64_t batch);
// Row 15: J2 radial return, Newton on gamma f64 [batch] with a host test.
Workload RadialReturn(std::int64_t batch);
// Row 16: Cahn-Hilliard, semi-implicit in Fourier space, f64 `sizes`.
Workload CahnHilliard(std::vector<std::int64_t> sizes);
// Row 17: D2Q9 lattice Boltzmann (BGK), f32 [9, side, side].
Workload LatticeBoltzmann(std::int64_t side);
// The same with several relaxation times: three products of 9 x 9 matrices.
Workload LatticeBoltzmannMrt(std::int64_t side);
// Row 18: 8-16-1 tanh, batch 4, MSE, SGD 0.01.
Workload Pinn(Optimizer optimizer);
// Row 19: 8-32-32-32-1 tanh, batch 32, MSE, Adam.
Workload MlpAdam(Optimizer optimizer);
// Row 20: 784-256-10 ReLU, batch 128, MSE, SGD 0.01.
Workload MlpGt(Optimizer optimizer);
// Row 21: 784-256-256-10 ReLU, batch 64, cross-entropy, Adam.
Workload MlpLarge(Optimizer optimizer);
// Row 22: an Adam step alone, of `tensors` f32 [elements].
Workload AdamOnly(std::int64_t tensors, std::int64_t elements,
                  Optimizer optimizer);
// Row 23: conv32-relu-pool-conv64-relu-pool-dropout 0.5-linear, 3x3, f32
// [128, 1, 28, 28], cross-entropy, Adam; with batch norms in the variant.
Workload MnistCnn(bool with_norm, Optimizer optimizer);
// Row 24: transformer block, d=128, 4 heads, batch 8, seq 64, AdamW. A step is
// ten training steps and an evaluation that reads its loss.
Workload Block(Optimizer optimizer);
// Row 25: 24-layer transformer, d=64, 4 heads, batch 4, seq 32,
// cross-entropy, AdamW.
Workload Deep(Optimizer optimizer);

}  // namespace tjit::bench
