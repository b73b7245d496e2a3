// A program whose sequences meet what is rare, for why_test.py.
//
//   followed_loop MODE STEPS
//
//   read       the loop, once the profile has been read
//   region     a loop in the named region "one step=1"
//   leaving    once the loop is hot, each step leaves it at another shift
//   clear      the loop, tjit::clear(), the loop again
//   many       the loop, then many other loops (TJIT_MAX_TRACE_STEPS)
//   threads    the loop in two threads, one after the other
//
// These need seams of the tests; where a build has none the status is 3:
//
//   off        its replays are slower than eager
//   wrong      its replays go wrong (TJIT_SHADOW)
//   alone      the loop, then ops that do not repeat, until the thread is left
//              alone
#include <ATen/ATen.h>
#include <tjit/region.h>
#include <tjit/tjit.h>

#include <cstdlib>
#include <string>
#include <thread>

#ifdef FOLLOWED_LOOP_HAS_SEAMS
#include <random>

#include "runtime/testing.h"
#endif

namespace {

[[maybe_unused]] constexpr int kNoSeam = 3;

at::Tensor X() { return at::full({8}, 0.5); }

void Loop(int steps) {
  const at::Tensor x = X();
  for (int i = 0; i < steps; ++i) {
    at::mul(at::add(at::tanh(at::mul(x, 0.5)), x), 0.25);
    tjit::mark_step();
  }
}

void InRegion(int steps) {
  for (int i = 0; i < steps; ++i) {
    const tjit::Region region("one step=1");
    Loop(1);
  }
}

void Leaving(int steps) {
  constexpr int kSeen = 30;
  const at::Tensor x = X();
  for (int i = 0; i < steps; ++i) {
    const at::Tensor y = at::add(at::tanh(at::mul(x, 0.5)), x);
    at::tanh(at::roll(y, i < kSeen ? 1 : i));
    tjit::mark_step();
  }
}

// Loop number n has an op for each of its binary digits.
void Many(int loops) {
  constexpr int kOps = 10, kTimes = 25;
  const at::Tensor x = X();
  for (int n = 0; n < loops; ++n) {
    for (int i = 0; i < kTimes; ++i) {
      at::Tensor y = x;
      for (int bit = 0; bit < kOps; ++bit) {
        y = (n >> bit & 1) != 0 ? at::sin(y) : at::cos(y);
      }
      tjit::mark_step();
    }
    tjit::wait_until_compiled();  // forgets what there is no room for
  }
}

#ifdef FOLLOWED_LOOP_HAS_SEAMS
void Off(int steps) {
  constexpr std::int64_t kSlowNs = 8'000'000, kSlowerNs = 100'000;
  constexpr int kBeforeTrial = 300;
  tjit::testing::SetReplayDelayNs(kSlowNs);  // half a second in all
  Loop(kBeforeTrial);
  tjit::testing::SetReplayDelayNs(kSlowerNs);
  Loop(steps);
}

// Each step changes what the next one reads: one that does not run shows.
void Wrong(int steps) {
  at::Tensor x = X();
  for (int i = 0; i < steps; ++i) {
    if (i == steps / 2) tjit::testing::SetPlantedDefect("no_execute");
    x.add_(at::tanh(at::mul(x, 0.5)), 0.25);
    tjit::mark_step();
  }
}

void Alone(int steps) {
  constexpr std::int64_t kRecordingNs = 5000;
  constexpr int kMostOps = 20'000'000, kOpsPerLook = 1000, kSizes = 64;
  Loop(steps);
  tjit::testing::SetRecordingDelayNs(kRecordingNs);
  std::mt19937 random(1);
  for (int i = 0; i < kMostOps; ++i) {
    const at::Tensor x = at::full({1 + static_cast<int>(random() % kSizes)}, 1);
    random() % 2 == 0 ? at::sin(x) : at::cos(x);
    if (i % kOpsPerLook == 0 && tjit::stats().threads_left_alone > 0) break;
  }
  Loop(steps);
}
#else
void Off(int) { std::exit(kNoSeam); }
void Wrong(int) { std::exit(kNoSeam); }
void Alone(int) { std::exit(kNoSeam); }
#endif

void Run(const std::string& mode, int steps) {
  if (mode == "read") {
    X();  // the first op asks for it
    tjit::wait_until_compiled();
    Loop(steps);
  }
  if (mode == "region") InRegion(steps);
  if (mode == "leaving") Leaving(steps);
  if (mode == "off") Off(steps);
  if (mode == "wrong") Wrong(steps);
  if (mode == "alone") Alone(steps);
  if (mode == "clear") {
    Loop(steps);
    tjit::clear();
    Loop(steps);
  }
  if (mode == "many") {
    Loop(steps);
    Many(steps);
  }
  if (mode == "threads") {
    for (int i = 0; i < 2; ++i) std::thread(Loop, steps).join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const at::NoGradGuard no_grad;
  Run(argv[1], std::atoi(argv[2]));
  return 0;
}
