// A program for replay_command_test.py whose loop gives wrong numbers where a
// defect is planted (TJIT_PLANTED_DEFECT): one loop for each defect.
//
//   differing_loop DEFECT
//
// Each loop has ops around those that show the defect, so that there is
// something to take out. A defect without a loop of its own gets them all.
#include <ATen/ATen.h>
#include <tjit/tjit.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kSteps = 64;

at::Tensor Numbers(at::IntArrayRef sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return at::sin(at::arange(n, at::kFloat)).mul_(3).view(sizes);
}

// Ops that have nothing to do with it.
at::Tensor Other(const at::Tensor& x) {
  return at::cos(at::mul(at::add(x, x), at::sigmoid(x)));
}

using Tensors = std::vector<at::Tensor>;
// Returns what the program still has when the ops run.
using Step = std::function<Tensors(int)>;
using MakeStep = std::function<Step()>;

Step Scalars() {
  const at::Tensor x = Numbers({8, 16});
  return [x](int i) {
    const at::Tensor y = at::mul(Other(x), 1.0 + i / 4);
    return Tensors{at::add(at::exp(y), x).sum()};
  };
}

// A number that is the same for long is part of the code.
Step RareScalars() {
  const at::Tensor x = Numbers({8, 16});
  return [x](int i) {
    const at::Tensor y = at::mul(Other(x), i < kSteps / 2 ? 2.0 : 3.0);
    return Tensors{at::add(at::exp(y), x).sum()};
  };
}

Step Operands() {
  const at::Tensor x = Numbers({8, 16}), y = Numbers({8, 16}).neg();
  return [x, y](int) {
    const at::Tensor z = at::sub(Other(x), at::exp(y));
    return Tensors{at::mul(z, x).sum()};
  };
}

Step Zeros() {
  const at::Tensor x = at::full({8, 16}, -0.0f);
  return [x](int) {
    const at::Tensor y = at::add(at::mul(x, 1.5), 0.0);
    return Tensors{at::div(at::abs(Other(x)), y)};
  };
}

Step TwoNumbers() {
  const at::Tensor x = Numbers({8, 16});
  return [x](int) {
    const at::Tensor y = Other(x);
    return Tensors{at::sub(at::mul(y, 2.0), at::mul(y, 3.0))};
  };
}

Step Parts() {
  const at::Tensor whole = Numbers({32});
  const at::Tensor first = whole.slice(0, 0, 16), second = whole.slice(0, 16);
  return [first, second](int) {
    const at::Tensor y = Other(second);
    first.add_(y, 0.25);
    second.mul_(0.5).add_(y);
    return Tensors{at::exp(at::mul(y, y))};
  };
}

Step ReadParts() {
  const at::Tensor whole = Numbers({64});
  return [whole](int) {
    const at::Tensor y = at::mul(whole.slice(0, 32), 0.5);
    return Tensors{at::add(Other(y), whole.slice(0, 0, 32))};
  };
}

Step InPlace() {
  const at::Tensor x = Numbers({8, 16});
  return [x](int) {
    const at::Tensor y = at::tanh(Other(x));
    x.add_(y, 0.25).mul_(0.5);
    return Tensors{at::exp(y)};
  };
}

// Two windows that move over one storage, apart at first.
Step Windows() {
  const at::Tensor whole = Numbers({512});
  return [whole](int i) {
    const at::Tensor written = whole.slice(0, i, i + 16);
    const int begin = i < kSteps / 2 ? 256 + 2 * i : i + 4;
    const at::Tensor read = whole.slice(0, begin, begin + 16);
    written.mul_(0.5);
    const at::Tensor y = at::add(read, 1.0);
    return Tensors{at::exp(y), Other(y)};
  };
}

Step Rows() {
  const at::Tensor x = Numbers({5, 7});
  return [x](int) {
    const at::Tensor y = at::add(at::mul(x, x), x);
    return Tensors{at::softmax(at::mul(y, 0.5), 1).add(y), Other(x)};
  };
}

Step Fused() {
  const at::Tensor x = Numbers({8, 16}), y = Numbers({8, 16}).exp();
  return [x, y](int) {
    const at::Tensor z = at::addcmul(Other(x), x, y, 0.3);
    return Tensors{at::add(at::lerp(z, y, 0.7), x, 0.1)};
  };
}

Step Halves() {
  const at::Tensor x = Numbers({8, 16}).to(at::kBFloat16);
  return [x](int) {
    const at::Tensor y = at::add(at::mul(x, x), x);
    return Tensors{at::sub(at::mul(y, 1.7), x)};
  };
}

Step Nans() {
  at::Tensor x = Numbers({8, 16});
  x.select(0, 3).fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor y = Numbers({8, 16});
  return [x, y](int) {
    const at::Tensor z = at::clamp_min(at::mul(x, 2.0), 0.25);
    return Tensors{at::exp(at::mul(z, 0.5)), Other(y)};
  };
}

Step Casts() {
  const at::Tensor x = Numbers({8, 16});
  return [x](int) {
    const at::Tensor y = at::mul(Other(x), 2.7).to(at::kInt);
    return Tensors{at::add(at::mul(y, 3), y)};
  };
}

// Everything that it makes is there at the end.
Step Kept() {
  const at::Tensor x = Numbers({8, 16});
  return [x](int) {
    Tensors all = {x};
    for (int i = 0; i < 12; ++i) {
      all.push_back(i % 2 == 0 ? at::sin(all.back()) : at::add(all.back(), x));
    }
    return all;
  };
}

Step Chain() {
  const at::Tensor x = Numbers({64, 64});
  return [x](int) {
    at::Tensor y = at::matmul(x, x);
    for (int i = 0; i < 4; ++i) {
      y = at::cumsum(at::flip(at::add(y, 1.0), {0}), 0);
    }
    return Tensors{at::tanh(y)};
  };
}

// A storage in the place of two, then another one.
Step Aliases() {
  const at::Tensor x = Numbers({8, 16}), z = Numbers({8, 16}).cos();
  return [x, z](int i) {
    const at::Tensor y = i < kSteps / 2 ? x : z;
    x.add_(at::sin(x), 0.1);
    return Tensors{at::mul(at::add(y, 1.0), Other(x))};
  };
}

// Batches of one tensor.
Step Batches() {
  const at::Tensor whole = Numbers({64, 16});
  return [whole](int i) {
    const at::Tensor x = whole.slice(0, i % 60, i % 60 + 4);
    return Tensors{at::mul(at::exp(Other(x)), x)};
  };
}

Step Shapes() {
  const at::Tensor whole = Numbers({64, 16});
  return [whole](int i) {
    const at::Tensor same = at::exp(Other(whole));
    const at::Tensor x = whole.slice(0, 0, i < kSteps / 2 ? 8 : 12);
    return Tensors{at::mul(at::sin(x), 0.5), same};
  };
}

// A few numbers in memory of the program's own.
Step Constants() {
  const at::Tensor x = Numbers({8, 4});
  return [x](int i) {
    static float numbers[4];
    for (int k = 0; k < 4; ++k) numbers[k] = static_cast<float>(i + k);
    const at::Tensor few = at::from_blob(numbers, {4});
    return Tensors{at::exp(at::mul(Other(x), few))};
  };
}

const std::map<std::string, MakeStep>& Steps() {
  static const std::map<std::string, MakeStep> steps = {
      {"skipped_scalar_guard", RareScalars},
      {"missed_overlap", Windows},
      {"swapped_operands", Operands},
      {"lost_sign", Zeros},
      {"wrong_common", TwoNumbers},
      {"dead_write_back", Parts},
      {"lost_offset", ReadParts},
      {"stale_kernel_scalar", Scalars},
      {"lost_write_back", InPlace},
      {"early_publication", Operands},
      {"wrong_tail", Rows},
      {"two_roundings", Fused},
      {"unrounded_half", Halves},
      {"lost_nan", Nans},
      {"wrong_cast", Casts},
      {"stale_scalar", Scalars},
      {"wrong_live_out", Kept},
      {"no_execute", InPlace},
      {"shared_place", Chain},
      {"lost_alias", Aliases},
      {"lost_shift", Batches},
      {"skipped_guard", Shapes},
      {"frozen_constant", Constants},
  };
  return steps;
}

void Run(const MakeStep& make) {
  const Step step = make();
  for (int i = 0; i < kSteps; ++i) {
    const Tensors kept = step(i);
    tjit::mark_step();
    if (i % 4 == 3) tjit::wait_until_compiled();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const at::NoGradGuard no_grad;
  const auto found = Steps().find(argv[1]);
  if (found != Steps().end()) {
    Run(found->second);
  } else {
    for (const auto& [name, make] : Steps()) Run(make);
  }
  std::puts("done");
  return 0;
}
