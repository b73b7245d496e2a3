// A compiled group of steps, and engines, which compile them.
//
// Thread: a kernel may run on several threads at once. An engine compiles on
// one thread at a time.
// Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/functions/math_functions.h"
#include "compiler/ir/ir.h"
#include "recorder/tensor_meta.h"

namespace tjit {

// A kernel for certain sizes.
struct KernelShape {
  std::vector<std::int64_t> symbols;
  // By loop of the kernel: of its outermost dim, and elements of one of them,
  // at the first of a chain (loop_chain.h) all its loops'; 0 of a loop that must
  // run in order, on one thread.
  std::vector<std::int64_t> extents, row_elements;
  // By loop: 0, or how many rows of it run before the next loop takes them.
  std::vector<std::int64_t> blocks;
  // By loop: 0, or rows of a piece (Note [Zigzag] in loop_chain.h).
  std::vector<std::int64_t> pieces;
  bool is_zigzag = false;  // one of them is not 0
  // What the kernel keeps of the sizes.
  std::vector<std::int64_t> numbers;
  // Memory that a run needs besides, by value: offsets, multiples of 64.
  std::vector<std::uint64_t> scratch;
  std::uint64_t scratch_bytes = 0;
};

// May be given the same memory, if nobody needs the external behind the kernel
// and neither is in another such pair of the run.
struct InPlace {
  std::int32_t returned = 0;  // index of the returned value
  std::int32_t external = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Fills all of *shape for its symbols. False, and *why says why, if the
  // kernel cannot serve them.
  virtual bool Shape(KernelShape* shape, std::string* why) const = 0;
  // False if all its code was there before, in the process or on disk.
  virtual bool is_generated() const { return true; }
  virtual std::vector<InPlace> in_place() const { return {}; }
  // False if it is nothing but its own code, with no function that is found by
  // address: of what can be set, its bits depend on the thread's arithmetic
  // (MXCSR) only.
  virtual bool calls_libtorch() const { return true; }
  // `memory`: first bytes of the externals, the returned values and scratch,
  // none of which overlap but pairs of in_place(). Gives eager's bits, and
  // throws nothing but out-of-memory, before it writes. REQUIRES: Shape() made
  // the shape.
  virtual void Run(char* const* memory, const KernelShape& shape,
                   const ScalarValue* scalars) const = 0;
  // LLVM's IR and the assembly, if the engine was made to keep them.
  virtual std::string_view CodeText() const { return {}; }
};

class KernelCache;     // kernel_cache.h
class SegmentDump;     // segment_dump.h
struct CompileLimits;  // segment.h
struct SegmentCode;
struct SegmentInput;

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const char* name() const = 0;
  // True if its kernels are meant to be faster than library calls: those that
  // are not get switched off.
  virtual bool is_for_speed() const = 0;
  // The groups of a segment and their kernels: what CompileSegment() of
  // segment_code.h does. Lowers each group to a function and asks for what is
  // below, unless a subclass takes the steps otherwise (step_engine.h).
  virtual SegmentCode CompileSegment(const SegmentInput& input,
                                     KernelCache* cache,
                                     const CompileLimits& limits,
                                     SegmentDump* dump);
  // True if PrecompileSegment() does something.
  virtual bool can_precompile() const { return true; }
  // What PrecompileSegment() of segment_code.h does.
  virtual bool PrecompileSegment(const SegmentInput& input, KernelCache* cache,
                                 const std::atomic<bool>& stop);
  // True if the bits of its kernels are eager's only where libtorch's kernels
  // contract products and sums, as the lowering says.
  virtual bool needs_contraction() const { return true; }
  // Quick: "" unless the engine cannot compile what is in this function.
  virtual std::string WhyNot(const ir::Function& function) = 0;
  // Null, and *why says why, if it cannot. REQUIRES: Verify() is content, and
  // there are no calls.
  virtual std::shared_ptr<const Kernel> Compile(const ir::Function& function,
                                                std::string* why) = 0;
  // Does ahead what Compile() will need, but for the code.
  virtual void Precompile(const ir::Function& /*function*/) {}
};

// Of the IR (ir/ir_text.h), for engines that take text.
std::string TextOf(const ir::Function& function);

// Kernels that are interpreted: the oracle, run in place of machine code.
// `functions` outlives it; null: those of std::.
std::unique_ptr<Engine> MakeInterpreterEngine(MathFunctions* functions);

}  // namespace tjit
