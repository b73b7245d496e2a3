// A program that knows nothing of tjit and times its own steps, for what the
// report says of times.
//
//   timed_loop STEPS [varied | branches | sizes | numbers | pointers]
//
// varied: a factor changes once in a hundred steps, so that code in which it
// was compiled in is compiled again. pointers: each step fills an input of its
// own through its pointer. The others differ in the middle of every hundredth
// step: in an op more, in sizes, in a number. Prints the result and two medians
// of steps, in ns: those of its first eight steps, and of its last hundred.
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t Median(std::vector<std::int64_t> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  const std::string kind = argc > 2 ? argv[2] : "";
  const at::Tensor w = at::linspace(-1, 1, 4096).reshape({64, 64});
  at::Tensor x = at::ones({64, 64});
  std::vector<std::int64_t> times;
  double sum = 0;
  for (int step = 0; step < steps; ++step) {
    const auto began = Clock::now();
    const double factor = kind == "varied" ? 0.5 + step / 100 * 0.001 : 0.5;
    at::Tensor y = x;
    if (kind == "pointers") {
      y = at::empty({64, 64});
      std::fill_n(y.data_ptr<float>(), 4096, 0.5f);
    }
    for (int i = 0; i < 6; ++i) {
      y = at::tanh(y * factor + w) - w * 0.25;
      const bool differs = i == 3 && step % 100 == 99;
      if (kind == "branches" && differs) y = at::abs(y);
      if (kind == "sizes" && differs) y = y.narrow(0, 0, 32);
      if (kind == "numbers") y = at::pow(y, differs ? 3 : 2);
      y = at::clamp(y, -2, 2);
      if (y.size(0) != 64) y = at::cat({y, y});
      y = y * w + x;
    }
    sum += y.sum().item<double>();
    times.push_back((Clock::now() - began).count());
  }
  std::printf("%.17g\n", sum);
  const int few = std::min<int>(8, steps), last = std::min<int>(100, steps);
  std::printf("%lld %lld\n",
              static_cast<long long>(
                  Median({times.begin(), times.begin() + few})),
              static_cast<long long>(Median({times.end() - last, times.end()})));
  return 0;
}
