// The seeds that CI runs. They are fixed; so is what must come of them.
#pragma once

#include <cstdint>

namespace tjit::differential {

// Tier 1: seeds [0, kCiSeeds), of which so many must count.
inline constexpr std::uint64_t kCiSeeds = 1300;
inline constexpr std::int64_t kCiCounted = 1000;

// Tier 2. Programs of ops that are not lowered do not count.
inline constexpr std::uint64_t kCiInterpreterSeeds = 400;
inline constexpr std::int64_t kCiInterpreterCounted = 280;
inline constexpr std::uint64_t kCiLlvmSeeds = 500;
inline constexpr std::int64_t kCiLlvmCounted = 350;
inline constexpr std::uint64_t kCiPlainSeeds = 200;
inline constexpr std::int64_t kCiPlainCounted = 140;
inline constexpr std::uint64_t kCiTorchscriptSeeds = 300;
inline constexpr std::int64_t kCiTorchscriptCounted = 200;

// Programs of complex numbers. Fewer count as machine code:
// what is compiled is of their parts.
inline constexpr std::uint64_t kCiComplexSeeds = 150;
inline constexpr std::int64_t kCiComplexCounted = 120;
inline constexpr std::int64_t kCiComplexCompiled = 70;

// Programs of long rows.
inline constexpr std::uint64_t kCiRowsSeeds = 150;
inline constexpr std::int64_t kCiRowsCounted = 100;
inline constexpr std::uint64_t kCiRowsThreadsSeeds = 70;
inline constexpr std::int64_t kCiRowsThreadsCounted = 45;

// Programs of lengths among the first so many seeds, and of the hot ops in the
// engine the least share.
inline constexpr std::uint64_t kCiLengthsSeeds = 1300;
inline constexpr std::int64_t kCiLengthsCounted = 35;
inline constexpr double kCiLengthsShare = 0.55;

// Forced drain: at most kCiDrains ops k for each program.
inline constexpr std::uint64_t kCiDrainSeeds = 300;
inline constexpr std::int64_t kCiDrainCounted = 200;
inline constexpr int kCiDrains = 8;

// Machine code whose loops two threads share.
inline constexpr std::uint64_t kCiThreadsSeeds = 150;
inline constexpr std::int64_t kCiThreadsCounted = 90;

// Of each engine, while threads are left alone every few ops.
inline constexpr std::uint64_t kCiTurnsSeeds = 150;

// The body of the loop as a function of tjit::jit(). Programs with gradients,
// random numbers and host code do not count: such a function runs.
inline constexpr std::uint64_t kCiJitSeeds = 700;
inline constexpr std::int64_t kCiJitCounted = 70;

// Machine code that is left at each op once.
inline constexpr std::uint64_t kCiExitSeeds = 100;
inline constexpr std::int64_t kCiExitCounted = 70;

}  // namespace tjit::differential
