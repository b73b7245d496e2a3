// Memory that the program drops while pending ops need it: what they fill
// first is free at once, everything else stays until they have run. Eager's
// bits, by the counters replayed, at each tier and where ops are drained.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

using at::Tensor;
using Step = std::function<Tensor(int)>;

constexpr int kSteps = 60;
constexpr int kCopies = 20;
constexpr std::int64_t kSide = 150;  // 90 kB a tensor
constexpr std::int64_t kBytes = kSide * kSide * 4;

struct Engine {
  Backend backend = Backend::kReplay;
  int drain_at = -1;
};

class DroppedMemory : public ::testing::TestWithParam<Engine> {
 protected:
  void TearDown() override {
    testing::SetForcedDrainAt(-1);
    disable();
    clear();
  }

  static std::vector<Tensor> Run(const Step& step) {
    std::vector<Tensor> results;
    for (int i = 0; i < kSteps; ++i) {
      if (i == kSteps / 2) reset_memory_peak();
      results.push_back(step(i));
      mark_step();
      testing::WaitForCompiler();
    }
    return results;
  }

  // Bytes that the second half of the steps had beside their results and what
  // was there before.
  std::int64_t PeakOf(const Step& step) {
    const std::vector<Tensor> eager = Run(step);
    Options options;
    options.hot_threshold = 4;
    options.backend = GetParam().backend;
    options.compile_all = true;
    options.cache_dir = "off";
    EXPECT_TRUE(enable(options));
    testing::SetForcedDrainAt(GetParam().drain_at);
    const Stats before = stats();
    reset_memory_peak();
    const std::int64_t kept = stats().memory_peak_bytes;
    const std::vector<Tensor> ours = Run(step);
    sync();
    const Stats d = stats() - before;
    disable();
    if (GetParam().drain_at >= 0) {
      EXPECT_GT(d.ops_drained, 0) << d.to_json();
    } else {
      EXPECT_GT(2 * d.ops_replayed, d.ops_seen) << d.to_json();
    }
    if (GetParam().backend != Backend::kReplay) {
      EXPECT_GT(d.replays_tier2, 10) << d.to_json();
    }
    for (int i = 0; i < kSteps; ++i) {
      EXPECT_TRUE(std::memcmp(eager[i].const_data_ptr(),
                              ours[i].const_data_ptr(), ours[i].nbytes()) == 0)
          << "step " << i;
    }
    return d.memory_peak_bytes - kept - kSteps * ours[0].nbytes();
  }
};

// `contiguous` is an empty tensor, which exists at once, and a copy, which is
// pending.
TEST_P(DroppedMemory, CopiesAreFreeWhenTheyAreDropped) {
  const Tensor x = at::rand({kSide, kSide});
  const std::int64_t peak = PeakOf([&](int) {
    Tensor sum = x * 2;
    for (int i = 0; i < kCopies; ++i) {
      const Tensor copy = (sum * 0.5).t().contiguous();
      sum = sum + at::mm(copy, x);
    }
    return sum.sum(0);
  });
  EXPECT_LT(peak, 12 * kBytes) << "of " << kCopies << " copies";
}

TEST_P(DroppedMemory, FilledAndChangedInPlaceAndRead) {
  const Tensor x = at::rand({kSide, kSide});
  const std::int64_t peak = PeakOf([&](int) {
    Tensor sum = x * 2;
    for (int i = 0; i < kCopies; ++i) {
      Tensor buffer = at::full({kSide, kSide}, 0.25);
      buffer.narrow(0, 0, 10).add_(sum.narrow(0, 5, 10));
      Tensor other = at::empty_like(buffer);
      other.zero_();
      other.sub_(buffer);
      sum = sum + other * x;
    }
    return sum.sum(0);
  });
  // A generated kernel changes the first rows of all buffers in loops of their
  // own, before the loops that read them.
  const bool has_scratch = GetParam().backend == Backend::kLlvm;
  EXPECT_LT(peak, (has_scratch ? 25 : 10) * kBytes)
      << "of " << 2 * kCopies << " buffers";
}

// The old content is read, or a part of it stays.
TEST_P(DroppedMemory, WhatWasThereIsNotLost) {
  const Tensor x = at::rand({kSide, kSide});
  PeakOf([&](int step) {
    at::manual_seed(static_cast<std::uint64_t>(step));
    Tensor drawn = at::rand({kSide, kSide});  // at the call
    Tensor before = drawn + 1;
    drawn.copy_(x);
    Tensor half = at::rand({kSide, kSide});
    half.narrow(0, 0, 20).copy_(drawn.narrow(0, 3, 20));
    Tensor turned = at::rand({kSide, kSide});
    turned.copy_(turned.clone().t());
    return (before + drawn * half + turned).sum(1);
  });
}

// Filled while an earlier pending op reads the old content.
TEST_P(DroppedMemory, ReadBeforeItIsFilled) {
  const Tensor x = at::rand({kSide, kSide});
  const Tensor kept = at::zeros({kSide, kSide});
  PeakOf([&](int step) {
    Tensor old = x.clone();
    Tensor sum = old * 3;
    old.fill_(0.5);
    sum = sum + old;
    kept.copy_(sum);  // survives
    kept.mul_(0.5);
    return (kept + step % 2).sum(0);
  });
}

// The loss of each batch is a prepared step of its own, as it reads at an
// offset of its own. A loss reduces scratch of its operands' size, and its
// storage is that large as well.
TEST_P(DroppedMemory, LossesOfBatchesShareTheirScratch) {
  const Tensor x = at::rand({kCopies * kSide, kSide});
  const Tensor y = at::rand({kCopies * kSide, kSide});
  const std::int64_t peak = PeakOf([&](int) {
    Tensor sum = at::zeros({});
    for (int i = 0; i < kCopies; ++i) {
      sum = sum + at::mse_loss(x.narrow(0, i * kSide, kSide),
                               y.narrow(0, i * kSide, kSide));
    }
    return sum;
  });
  // The additions are one group, for which all losses wait.
  const bool has_groups = GetParam().backend != Backend::kReplay;
  EXPECT_LT(peak, (has_groups ? kCopies + 5 : 8) * kBytes)
      << "of " << kCopies << " losses";
}

// What a group makes of two products takes the place of one of them.
TEST_P(DroppedMemory, ResultsLieOverOperands) {
  const Tensor x = at::rand({kSide, kSide});
  const std::int64_t peak = PeakOf([&](int) {
    const auto both = [&] {
      return at::tanh(at::mm(x, x).sub(1) * at::mm(x, x.t()));
    };
    return at::mm(both(), x).sum(0);
  });
  if (GetParam().drain_at >= 0) return;  // a run of its own for each product
  const bool in_place = GetParam().backend == Backend::kLlvm;
  EXPECT_LT(2 * peak, (in_place ? 5 : 7) * kBytes);
}

INSTANTIATE_TEST_SUITE_P(
    Engines, DroppedMemory,
    ::testing::Values(Engine{Backend::kReplay}, Engine{Backend::kReplay, 7},
                      Engine{Backend::kInterpreter}, Engine{Backend::kLlvm}),
    [](const auto& engine) {
      if (engine.param.drain_at >= 0) return "Drained";
      if (engine.param.backend == Backend::kReplay) return "Replay";
      return engine.param.backend == Backend::kLlvm ? "Llvm" : "Interpreter";
    });

}  // namespace
}  // namespace tjit
