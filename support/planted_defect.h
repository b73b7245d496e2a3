// Defects that tests plant, one at a time, to see that the tests find them.
// Each is a mistake that somebody could make there.
//
// Only a build with TJIT_TESTING has them: it defines TJIT_PLANTED_DEFECTS,
// without which all of it is constant and compiles away. The library of the
// code generator has a copy of its own, set with each compile.
// Thread: any; a change is seen soon.
// Tested by: tests/differential/planted_defect_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tjit {

enum class Defect : std::uint8_t {
  kNone,
  // Of recording, matching and replay.
  kStaleScalar,
  kLostAlias,
  kWrongLiveOut,
  kLateRandomDraw,
  kLateError,
  kOtherThreadWrite,
  kMissedExposure,
  kNoExecute,
  kSkippedGuard,        // a tensor of another shape passes for the recorded one
  kSkippedScalarGuard,  // a number that is baked in passes with any value
  kLostShift,           // a batch sliced out of a tensor is read at the first's
  kSharedPlace,         // values that meet in one step share memory
  kMissedOverlap,       // parts of a storage pass for storages of their own
  kStaleSnapshot,       // a copy of an input passes whatever was written since
  kFrozenConstant,      // a few numbers have the values of the run before
  kWrongTripCount,      // a loop that goes on ends where it once ended
  kSkippedGradGuard,    // a function is replayed where gradients are asked for
  kReusedResult,        // a replay returns the tensor of the one before
  kStaleRead,           // a replay goes on whatever the function would read
  kStaleVerdict,  // indices that a pending op writes still count as looked at
  // Of the compiler: lowering and passes.
  kSwappedOperands,
  kLostSign,       // x + 0 is taken for x: -0 becomes 0
  kWrongCommon,    // ops that differ in a number are taken for one
  kDeadWriteBack,  // a part of a storage that another follows is not written
  kLostOffset,     // a part of a storage is read from its beginning
  // Of generated code.
  kWrongTail,      // the last element of a vector that is not full
  kTwoRoundings,   // fma as a product and a sum
  kUnroundedHalf,  // bf16 and f16 rounded when stored only
  kLostNan,        // max and min
  kWrongCast,      // numbers to integers: to the nearest
  // Of kernels in their places.
  kStaleKernelScalar,
  kLostWriteBack,
  kEarlyPublication,
  // Failures at a place. Of the first: no math function has eager's bits.
  kNoEagerBits,
  kThunkFails,
  kStepThrows,
  kWrongProduct,  // an element of an own product
};

#if defined(TJIT_PLANTED_DEFECTS)
// False if there is no such name; "" is Defect::kNone.
bool DefectOf(std::string_view name, Defect* defect);
extern std::atomic<Defect> g_planted_defect;
inline void Plant(Defect d) { g_planted_defect.store(d); }
inline Defect PlantedDefect() {
  return g_planted_defect.load(std::memory_order_relaxed);
}
inline bool Planted(Defect d) { return PlantedDefect() == d; }
#else
inline void Plant(Defect) {}
constexpr Defect PlantedDefect() { return Defect::kNone; }
constexpr bool Planted(Defect) { return false; }
#endif

}  // namespace tjit
