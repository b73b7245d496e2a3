// A program for timeline_test.py that knows nothing of tjit: one thread has to
// wait for another. `waiting_threads other|own`:
//
//   other   a thread reads what MAIN is just computing
//   own     MAIN goes on while a thread runs what MAIN has called before
//
// Prints how many ns that read, or that op, took by the program's clock.
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kElements = 1 << 21;
constexpr int kOps = 16, kSteps = 12;
// Within what the ops of a step take.
constexpr std::chrono::milliseconds kLater(10);

at::Tensor Chain(const at::Tensor& x) {
  at::Tensor y = x;
  for (int i = 0; i < kOps; ++i) y = at::tanh(at::add(y, x));
  return y;
}

float Read(const at::Tensor& y) { return at::sum(y).item<float>(); }

}  // namespace

int main(int argc, char** argv) {
  const bool is_own = argc > 1 && std::string(argv[1]) == "own";
  const at::Tensor x = at::ones({kElements});
  float sum = 0;
  for (int i = 0; i < kSteps; ++i) sum += Read(Chain(x));
  at::Tensor y;
  std::atomic<bool> is_there{false};
  std::int64_t took_ns = 0;
  float read = 0;
  // The one that comes later waits for the other one.
  const auto read_late = [&](float* to) {
    std::this_thread::sleep_for(kLater);
    const auto began = Clock::now();
    *to = Read(y);
    took_ns = std::chrono::nanoseconds(Clock::now() - began).count();
  };
  std::thread other([&] {
    while (!is_there) std::this_thread::yield();
    if (is_own) {
      read = Read(y);
    } else {
      read_late(&read);
    }
  });
  y = Chain(x);
  is_there = true;
  float own = 0;
  if (is_own) {
    read_late(&own);
  } else {
    own = Read(y);
  }
  other.join();
  std::printf("%lld\n", static_cast<long long>(took_ns));
  return own == read && sum > 0 ? 0 : 1;
}
