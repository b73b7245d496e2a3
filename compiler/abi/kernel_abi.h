// The C ABI of libtjit_llvm.so, the only way in: a function of the IR as text
// goes in, machine code comes out.
//
// A kernel is one or more loops, to be run in order; each runs over [begin,
// end) of its own outermost dim, in parts on any number of threads (but what
// is in_order in one):
//
//   shape(handle, symbols, {extents, elements, bytes, scratch, &scratch_bytes,
//                           numbers, blocks});
//   for each loop i: parallel_for(0, extents[i], [&](begin, end) {
//     loops[i].run(memory, numbers + loops[i].first_number, scalars, begin,
//                  end); })
//
// Where blocks[i] is not 0, loop i + 1 may follow it block by block, of so many
// rows (Note [Row blocks] in row_blocks.h; RunChain() in loop_chain.h does it).
//
// numbers: what the code must know of the sizes; valid for these symbols.
// memory: the externals, the returned values, then scratch, in the order of
// the function. No two of them may overlap but those of TjitInPlace, nor may an
// external that is written be passed twice. No alignment is asked for.
// Errors are texts: functions that can fail return 0 for success, and take a
// buffer for the message, cut to its size.
// Thread: every function may be called from any thread; compiling is done by
// one at a time.
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp, llvm_errors_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

constexpr std::int32_t kTjitLlvmAbi = 21;

// The layout of ScalarValue (recorder/tensor_meta.h).
struct TjitScalar {
  std::uint64_t type;
  std::uint64_t bits[2];
};

using TjitKernelFn = void (*)(char* const* memory, const std::int64_t* numbers,
                              const TjitScalar* scalars, std::int64_t begin,
                              std::int64_t end);

// How a math function of the process is called.
enum TjitMathKind : std::int32_t {
  kTjitMathVmlF32 = 0,  // void f(n, in..., out, mode) over arrays
  kTjitMathVmlF64,
  kTjitMathF32x4,  // one vector per operand in registers, as SLEEF
  kTjitMathF32x8,
  kTjitMathF32x16,
  kTjitMathF64x2,
  kTjitMathF64x4,
  kTjitMathF64x8,
  kTjitRowF32,  // TjitRowFn, over whole rows
  kTjitRowF64,
  // TjitPositionFn, Note [Position-dependent functions] in math_table.h; halves
  // are floats in the arrays.
  kTjitPositionF32,
  kTjitPositionF64,
  kTjitPositionBF16,
  kTjitPositionF16,
  kTjitMathBF16,   // as VML's; halves are floats in the arrays
  kTjitColumnF32,  // TjitColumnFn, over whole columns
  kTjitColumnF64,
  kTjitWholeF32,  // TjitColumnFn, over all elements
  kTjitWholeF64,
  // sqrt, which has no address: compiler/llvm/sqrt_step.h inline, in vectors of
  // 64 bytes. The caller may keep one for itself. So are kTjitSqrtTwoSteps.
  kTjitSqrtStepF32,
  kTjitSqrtStepF64,
  kTjitMathF16,  // as kTjitMathBF16
  kTjitRowI64,   // as those of floats; of the types themselves
  kTjitRowBool,
  kTjitColumnI64,
  kTjitColumnBool,
  kTjitWholeI64,
  kTjitWholeBool,
  kTjitSqrtTwoStepsF32x8,
  kTjitSqrtTwoStepsF32x16,
  kTjitSlabF32,  // TjitSlabFn, along the rows of slabs
  kTjitSlabF64,
  kTjitMathKindCount,
};

// True for roots that are code in the loop.
constexpr bool IsSqrtInCode(std::int32_t kind) {
  return kind == kTjitSqrtStepF32 || kind == kTjitSqrtStepF64 ||
         kind == kTjitSqrtTwoStepsF32x8 || kind == kTjitSqrtTwoStepsF32x16;
}

// A function of whole rows: `rows` of them, of n elements each, side by side
// (both are at least 1). b is null for ops of one operand. out: one element per
// row of reductions, else rows like the operands', which may be `a` itself.
// Of sum and mean with a mode of l, a row is added up by groups of 4 * l
// elements (Note [Sums of registers] in row_sums.h), of sum_of_halves of 8 * l.
// b may be the sums of each row's whole groups, of which there is at least one:
// 4 * l of them a row; then a holds what is left of each row, less than a
// group, in as many places.
using TjitRowFn = void (*)(std::int64_t rows, std::int64_t n, const void* a,
                           const void* b, void* out);

// A row op along the rows of a slab: of `rows` rows, n elements of each, side
// by side (both are at least 1). They are columns first to first + n of the
// slab's `columns`. A stride is how far rows lie from one another; those of
// `out` lie side by side. b: as of TjitRowFn.
using TjitSlabFn = void (*)(std::int64_t rows, std::int64_t n, const void* a,
                            std::int64_t a_stride, const void* b,
                            std::int64_t b_stride, void* out,
                            std::int64_t first, std::int64_t columns);

// Elements first to first + n of `total` that lie one behind the other. b: null
// of ops of one tensor; s, t, u: the op's scalars in order, 0 beyond.
using TjitPositionFn = void (*)(std::int64_t n, const void* a, const void* b,
                                void* out, std::int64_t first,
                                std::int64_t total, double s, double t,
                                double u);

// b of an op with a scalar (var, norm_rstd). norm_mean and norm_rstd are one
// function, and norm_mean and norm_rstd_wide another: out is for what the
// latter computes, `mean` for the former; either may be null.
struct TjitRowNumber {
  double number;
  void* mean;
};

// Reductions of n columns, whose rows come in order, some at a time: `a` null
// is the beginning, `out` not null the end, which takes n elements.
//
//   state = {number, all rows}; f(0, n, null, state, null);
//   f(rows, n, a, state, null) for some rows, side by side, and so on, of ops
//     of two operands with those of the second one in the state;
//   f(0, n, null, state, out)
//
// The function's own part lies behind the state, TjitColumnBytes(n) in all.
// A reduction of all elements has as many rows, of one element each.
struct alignas(64) TjitColumnState {
  double number;      // the scalar of the op, if it has one
  std::int64_t rows;  // of all calls together
  std::int64_t done;
  const void* b;
};
using TjitColumnFn = void (*)(std::int64_t rows, std::int64_t n, const void* a,
                              TjitColumnState* state, void* out);
constexpr std::int64_t kTjitColumnBytes = 32;             // of each column
constexpr std::int64_t kTjitColumnStateBytes = 12 << 10;  // besides
constexpr std::int64_t kTjitWholeStateBytes = 2 << 10;    // of all elements
constexpr std::int64_t TjitColumnBytes(std::int64_t n) {
  return kTjitColumnStateBytes + kTjitColumnBytes * n;
}

struct TjitMath {
  const char* op;  // name in ops.def: "exp"
  std::int32_t kind;
  void* address;
  std::int64_t mode;  // VML's last argument; of sums of rows: TjitRowFn's l
};

enum TjitLlvmFlag : std::uint32_t {
  kTjitLlvmDumpIr = 1,          // fills TjitKernel::dump: LLVM's IR,
  kTjitLlvmDumpAssembly = 2,    // and the assembly
  kTjitLlvmPerfMap = 4,         // names in /tmp/perf-<pid>.map
  kTjitLlvmPlantInvalid = 8,    // tests: a module that does not verify
  kTjitLlvmPlantFatal = 16,     // tests: LLVM gives up while it compiles
  kTjitLlvmPlantNoCode = 32,    // tests: the system forbids executable pages
  kTjitLlvmPlantNoMemory = 64,  // tests: no pages for code are left
  kTjitLlvmPlain = 128,         // tests: a loop for each instruction
  kTjitLlvmAllPasses = 256,     // tests: those that find nothing too
  kTjitLlvmSmallBlocks = 512,   // tests: TjitShape::blocks of three rows
  // Forms loops for a later call with the same text, functions and other flags;
  // nothing is compiled, and TjitKernel stays empty.
  kTjitLlvmPlanOnly = 1024,
  kTjitLlvmPlantNoHeap = 2048,  // tests: LLVM's own allocation fails
  kTjitLlvmPlantThrow = 4096,   // tests: so does one of C++ in it
  // Loops are held against their rules; a debug build always does it.
  kTjitLlvmVerifyLoops = 8192,
  kTjitLlvmPlantBadLoop = 16384,  // tests: the last store of a plan is lost
};
// Above the flags, tests: a Defect (support/planted_defect.h).
constexpr int kTjitLlvmDefectShift = 15;

// Where machine code is kept from process to process. A key names all that
// decides an object but the version of this library, which the caller adds.
struct TjitObjectCache {
  void* state;
  // 1 if there is one: *object is valid until the next call.
  std::int32_t (*find)(void* state, const char* key, std::size_t key_bytes,
                       const char** object, std::size_t* object_bytes);
  void (*store)(void* state, const char* key, std::size_t key_bytes,
                const char* object, std::size_t object_bytes);
};

struct TjitLlvmOptions {
  std::int32_t abi;          // kTjitLlvmAbi
  std::int32_t vector_bits;  // 512, 256 or 128 at most; 0: all the machine has
  std::uint32_t flags;
  std::int32_t math_count;
  const TjitMath* math;
  const TjitObjectCache* cache;  // null: none
};

struct TjitLoop {
  TjitKernelFn run;
  std::int32_t first_number;
  std::int32_t in_order;  // 1: in one part, on one thread
};

// Both may be passed the same memory, if nobody needs the external behind the
// kernel. Of several such pairs none has one of the others' memory.
struct TjitInPlace {
  std::int32_t returned;  // index of the returned value
  std::int32_t external;
};

struct TjitKernel {
  void* handle;  // for tjit_llvm_free and tjit_llvm_shape
  std::int32_t loop_count;
  std::int32_t scratch_count;
  std::int32_t number_count;
  std::int32_t generated_count;  // loops; the others' code was there or cached
  std::int32_t was_planned;      // 1: by kTjitLlvmPlanOnly
  const TjitLoop* loops;
  std::int32_t in_place_count;
  const TjitInPlace* in_place;
  std::size_t code_bytes;    // of new pages; 0 if other kernels had all loops
  std::size_t handle_bytes;  // that the handle keeps besides, about
  const char* dump;          // "" unless asked for
};

// What one run needs, for given symbols. Arrays as long as the counts.
struct TjitShape {
  std::int64_t* extents;        // by loop: of its outermost dim
  std::int64_t* elements;       // by loop: of its iteration space
  std::int64_t* bytes;          // by loop: of memory that it touches
  // By scratch value: where it may lie in one piece of memory, a multiple of
  // 64; those that are not needed at the same time share it.
  std::uint64_t* scratch;
  std::uint64_t* scratch_bytes;  // of that piece
  std::int64_t* numbers;        // number_count
  std::int64_t* blocks;         // by loop: 0, or rows that it and the next take
};

using TjitLlvmCompileFn = std::int32_t (*)(const char* ir_text,
                                           const TjitLlvmOptions* options,
                                           TjitKernel* kernel, char* error,
                                           std::size_t error_bytes);
using TjitLlvmShapeFn = std::int32_t (*)(void* handle,
                                         const std::int64_t* symbols,
                                         const TjitShape* shape, char* error,
                                         std::size_t error_bytes);
using TjitLlvmFreeFn = void (*)(void* handle);

struct TjitLlvmApi {
  std::int32_t abi;
  const char* version;  // of LLVM
  TjitLlvmCompileFn compile;
  // Fails if an access would leave its memory, or a row is too long.
  TjitLlvmShapeFn shape;
  // REQUIRES: no loop of the kernel is running.
  TjitLlvmFreeFn free;
};

// The one exported function.
using TjitLlvmApiFn = const TjitLlvmApi* (*)();

}  // extern "C"
