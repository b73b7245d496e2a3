// Row 27: streams that tjit must not slow down, because nothing in them
// repeats for long, or not in the order it came before.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>

#include <array>
#include <memory>
#include <vector>

#include "bench/workloads.h"

namespace tjit::bench {
namespace {

using at::Tensor;

// xorshift64*: the draws must be cheap beside an op of a microsecond.
class Draw {
 public:
  std::uint32_t Below(std::uint32_t n) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<std::uint32_t>((state_ * 2685821657736338717ull) >> 33) %
           n;
  }

 private:
  std::uint64_t state_ = 88172645463325252ull;
};

// Row 27a. Operands are drawn from a pool for each of four sizes. Results
// that stay within bounds go back into a second pool, which feeds later ops.
class RandomStream {
 public:
  static constexpr int kOpsPerStep = 128;

  RandomStream() {
    const std::vector<std::vector<std::int64_t>> sizes = {
        {64}, {1024}, {64, 64}, {256, 256}};
    for (int size = 0; size < kSizes; ++size) {
      for (int i = 0; i < kPool; ++i) {
        inputs_[size][i] = Uniform(sizes[size], 100 * size + i);
        fresh_[size][i] = inputs_[size][i].clone();
        // A quarter of the inputs are leaves that want gradients.
        if (i % 4 == 0) inputs_[size][i].set_requires_grad(true);
      }
    }
  }

  // The first half with grad mode on, the second half without.
  void Step() {
    {
      const at::AutoGradMode grad(true);
      for (int i = 0; i < kOpsPerStep / 2; ++i) One();
    }
    const at::AutoGradMode grad(false);
    for (int i = 0; i < kOpsPerStep / 2; ++i) One();
  }

  std::vector<Tensor> Result() const {
    std::vector<Tensor> out = {sink_};
    for (const auto& pool : fresh_) {
      for (const Tensor& tensor : pool) out.push_back(tensor);
    }
    return out;
  }

 private:
  static constexpr int kSizes = 4, kPool = 16;

  const Tensor& Operand(int size) {
    const std::uint32_t i = draw_.Below(2 * kPool);
    return i < kPool ? inputs_[size][i] : fresh_[size][i - kPool];
  }

  void One() {
    const std::uint32_t kind = draw_.Below(100);
    const int size = static_cast<int>(draw_.Below(kSizes));
    if (kind < 60) {
      Pointwise(size);
    } else if (kind < 75) {
      Reduce(size);
    } else if (kind < 90) {
      const int square = 2 + size % 2;
      sink_ = at::mm(Operand(square), Operand(square));
    } else {
      InPlace(size);
    }
  }

  void Pointwise(int size) {
    const Tensor& a = Operand(size);
    const Tensor& b = Operand(size);
    // Results of the first four go on, without their history.
    Tensor& kept = fresh_[size][draw_.Below(kPool)];
    switch (draw_.Below(8)) {
      case 0: kept = at::tanh(a).detach(); break;
      case 1: kept = at::sigmoid(a).detach(); break;
      case 2: kept = at::maximum(a, b).detach(); break;
      case 3: kept = at::abs(a).detach(); break;
      case 4: sink_ = a + b; break;
      case 5: sink_ = a - b; break;
      case 6: sink_ = a * b; break;
      default: sink_ = at::relu(a); break;
    }
  }

  void Reduce(int size) {
    const Tensor& a = Operand(size);
    switch (draw_.Below(3)) {
      case 0: sink_ = at::sum(a); break;
      case 1: sink_ = at::mean(a); break;
      default: sink_ = at::sum(a, -1); break;
    }
  }

  void InPlace(int size) {
    Tensor& target = fresh_[size][draw_.Below(kPool)];
    // An operand without gradients: the target must not grow a history.
    const Tensor& other = inputs_[size][1 + 4 * draw_.Below(kPool / 4)];
    switch (draw_.Below(3)) {
      case 0: target.mul_(other); break;
      case 1: target.add_(other); break;
      default: target.clamp_(-2, 2); break;
    }
  }

  Draw draw_;
  Tensor inputs_[kSizes][kPool], fresh_[kSizes][kPool];
  Tensor sink_;
};

Workload RandomStreamRow() {
  auto s = std::make_shared<RandomStream>();
  return {[s] { s->Step(); }, [s] { return s->Result(); }};
}

// Row 27b: a step is a pass of 64 iterations of an eight-op body, each with
// larger tensors than the one before; no size comes back within 64 passes. In
// thousands of passes they do, and are replayed.
Workload GrowingShapes() {
  struct State {
    Tensor source, out;
    std::int64_t pass = 0;
  };
  constexpr std::int64_t kStride = 64, kIterations = 64;
  auto s = std::make_shared<State>();
  s->source = Uniform({kStride * (kIterations + 2)}, 1);
  Workload workload;
  workload.step = [s] {
    const at::NoGradGuard no_grad;
    for (std::int64_t i = 1; i <= kIterations; ++i) {
      const Tensor a =
          s->source.slice(0, 0, kStride * i + s->pass % kStride);
      Tensor x = a * a;
      x = x + a;
      x = at::tanh(x);
      x = x - a;
      x = at::sigmoid(x);
      x = x * a;
      x = at::relu(x);
      s->out = at::sum(x);
    }
    ++s->pass;
  };
  workload.result = [s] { return std::vector<Tensor>{s->out}; };
  return workload;
}

// Row 27c: two five-op blocks in the order of the Fibonacci word, which is
// full of squares and never periodic.
class FibonacciWord {
 public:
  FibonacciWord() : a_(Uniform({32, 32}, 1)), b_(Uniform({32, 32}, 2)) {
    std::vector<bool> before = {true};
    word_ = {true, false};
    while (word_.size() < (1u << 20)) {
      std::vector<bool> next = word_;
      next.insert(next.end(), before.begin(), before.end());
      before = std::move(word_);
      word_ = std::move(next);
    }
  }

  // 32 letters.
  void Step() {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < 32; ++i) {
      Tensor x;
      if (word_[next_]) {
        x = at::tanh(a_ + b_);
        x = x * a_;
        x = x - b_;
        out_ = at::relu(x);
      } else {
        x = at::sigmoid(a_ * b_);
        x = x + a_;
        x = at::abs(x);
        out_ = at::mm(x, b_);
      }
      next_ = (next_ + 1) % word_.size();
    }
  }

  std::vector<Tensor> Result() const { return {out_}; }

 private:
  Tensor a_, b_, out_;
  std::vector<bool> word_;
  std::size_t next_ = 0;
};

Workload FibonacciRow() {
  auto s = std::make_shared<FibonacciWord>();
  return {[s] { s->Step(); }, [s] { return s->Result(); }};
}

// Row 27d: four variants of a step, another one every three steps, in an order
// that is drawn. No sync point, no mark_step.
class Variants {
 public:
  Variants() : x_(Uniform({32, 32}, 1)), w_(Uniform({32, 32}, 2)) {}

  // 12 variants, 3 steps each.
  void Step() {
    const at::NoGradGuard no_grad;
    for (int i = 0; i < 12; ++i) {
      const std::uint32_t variant = draw_.Below(4);
      for (int step = 0; step < 3; ++step) One(variant);
    }
  }

  std::vector<Tensor> Result() const { return {x_}; }

 private:
  void One(std::uint32_t variant) {
    switch (variant) {
      case 0:
        x_ = at::tanh(at::mm(x_, w_) * 0.125 + x_);
        break;
      case 1:
        x_ = at::relu(at::sigmoid(x_ - w_) - 0.25) * w_ + x_ * 0.5;
        break;
      case 2:
        x_ = at::mm(x_, w_) * 0.0625 - w_;
        x_ = at::abs(at::tanh(x_));
        break;
      default:
        x_ = at::maximum(x_ * w_, w_ - x_) * 0.75;
        x_ = at::sigmoid(x_ + w_);
        break;
    }
  }

  Draw draw_;
  Tensor x_, w_;
};

Workload VariantsRow() {
  auto s = std::make_shared<Variants>();
  return {[s] { s->Step(); }, [s] { return s->Result(); }};
}

}  // namespace

std::vector<Row> NeverRows() {
  Row growing{"row27b/growing-shapes", GrowingShapes, 4, 60};
  growing.settles = false;
  return {
      {"row27a/random-stream", RandomStreamRow, 8},
      growing,
      {"row27c/fibonacci", FibonacciRow, 64},
      {"row27d/variants", VariantsRow, 256},
  };
}

}  // namespace tjit::bench
