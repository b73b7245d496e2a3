// What enable() sets and every layer reads: one struct of atomics.
//
// Runtime::Enable() and Disable() write them, and each thread says whether it
// has pending ops. Any thread reads them without a lock, by one load each.
// Tested by: tests/runtime/front_door_test.cpp,
// tests/runtime/thread/self_check/modes_test.cpp
#pragma once

#include <atomic>
#include <cstdint>

#include "tjit/options.h"

namespace tjit::runtime {

// The modes in which a run watches itself, as bits (thread/self_check/modes.h).
inline constexpr unsigned kModeHide = 1, kModeLate = 2, kModeCheck = 4,
                          kModeShuffle = 8, kModeShadow = 16, kModeStrict = 32,
                          kModeNan = 64;
// Those that look at each op, and defer none.
inline constexpr unsigned kModesAtCall = kModeHide | kModeCheck | kModeNan;
// Above them: how often they were set.
inline constexpr unsigned kModeEpoch = 256;

inline unsigned ModesOf(const Options& options) {
  // One of one run is every run.
  const bool shadows_all = options.shadow || options.shadow_sample == 1;
  return static_cast<unsigned>(options.stress) |
         (shadows_all ? kModeShadow : 0) | (options.strict ? kModeStrict : 0) |
         (options.nan ? kModeNan : 0);
}

class Settings {
 public:
  // enable(): what it names.
  void Set(const Options& options, unsigned modes, std::uint64_t shuffle_seed);
  // False while disable() waits for what is pending.
  bool may_defer() const { return may_defer_.load(std::memory_order_relaxed); }
  void SetMayDefer(bool may) {
    may_defer_.store(may, std::memory_order_seq_cst);
  }
  // The bits above, and a number that each enable() with one of them raises.
  // 0: none was on so far.
  unsigned modes() const { return modes_.load(std::memory_order_relaxed); }
  bool HasModes() const { return modes() % kModeEpoch != 0; }
  bool hiding() const { return (modes() & kModeHide) != 0; }
  std::uint64_t shuffle_seed() const {
    return shuffle_seed_.load(std::memory_order_relaxed);
  }
  // TJIT_SHADOW=sample:N: one of so many runs of a sequence is compared with
  // eager; 0: none is. No mode, so that the other runs cost nothing.
  std::uint64_t shadow_sample() const {
    return shadow_sample_.load(std::memory_order_relaxed);
  }
  // Runs that are compared would decide trials of speed.
  bool samples_often() const {
    return shadow_sample() != 0 && shadow_sample() < kRareSample;
  }
  std::int64_t hot_threshold() const {
    return hot_threshold_.load(std::memory_order_relaxed);
  }
  bool compile_all() const {
    return compile_all_.load(std::memory_order_relaxed);
  }
  bool own_backward() const {
    return own_backward_.load(std::memory_order_relaxed);
  }
  bool own_products() const {
    return own_products_.load(std::memory_order_relaxed);
  }
  bool own_random() const {
    return own_random_.load(std::memory_order_relaxed);
  }
  // tjit::set_stance(): whether sequences may be recorded and compiled.
  Stance stance() const { return stance_.load(std::memory_order_relaxed); }
  bool may_compile() const { return stance() == Stance::kDefault; }
  void SetStance(Stance stance) { stance_.store(stance); }
  bool debug_compile() const {
    return debug_compile_.load(std::memory_order_relaxed);
  }

  // How many threads have pending ops.
  bool AnyPending() const {
    return pending_threads_.load(std::memory_order_relaxed) != 0;
  }
  // A thread has pending ops from now on, or none any more.
  void CountPending(bool has_pending) {
    pending_threads_.fetch_add(has_pending ? 1 : -1,
                               std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kRareSample = 1000;

  std::atomic<int> pending_threads_{0};
  std::atomic<bool> may_defer_{true};
  std::atomic<Stance> stance_{Stance::kDefault};
  std::atomic<bool> compile_all_{false};
  std::atomic<bool> debug_compile_{false};
  std::atomic<bool> own_backward_{true};
  std::atomic<bool> own_products_{true};
  std::atomic<bool> own_random_{true};
  std::atomic<unsigned> modes_{0};
  std::atomic<std::uint64_t> shuffle_seed_{0};
  std::atomic<std::uint64_t> shadow_sample_{0};
  std::atomic<std::int64_t> hot_threshold_{10};
};

inline void Settings::Set(const Options& options, unsigned modes,
                          std::uint64_t shuffle_seed) {
  hot_threshold_.store(options.hot_threshold);
  compile_all_.store(options.compile_all);
  debug_compile_.store(options.debug_compile);
  own_backward_.store(options.own_backward);
  own_products_.store(options.own_products);
  own_random_.store(options.own_random);
  shuffle_seed_.store(shuffle_seed);
  // These compare everything, or defer nothing.
  constexpr unsigned kWithoutSamples = kModesAtCall | kModeLate | kModeShadow;
  shadow_sample_.store((modes & kWithoutSamples) != 0
                           ? 0
                           : static_cast<std::uint64_t>(options.shadow_sample));
  // Threads begin afresh with each enable() that names a mode. The number stays
  // when modes end: each thread has to leave them by itself.
  unsigned epoch = modes_.load() / kModeEpoch;
  if (modes != 0) ++epoch;
  modes_.store(modes | epoch * kModeEpoch);
}

extern constinit Settings g_settings;

}  // namespace tjit::runtime
