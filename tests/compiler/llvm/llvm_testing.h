// Kernels of libtjit_llvm.so beside the interpreter.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/interpreter.h"
#include "compiler/ir/ir.h"

namespace tjit::ir {

// Fails the test if the text is no function.
Function Parsed(const std::string& text);

// The lengths at which blocks, tails and tiles end.
std::vector<std::int64_t> Lengths();

// The library of this build. Fails the test if it cannot be loaded.
const TjitLlvmApi& Api();

TjitLlvmOptions DefaultOptions();
// vector_bits: 0 for the machine's. `math` stays the caller's.
TjitLlvmOptions OptionsWith(const std::vector<TjitMath>& math,
                            int vector_bits = 0);

class CompiledKernel {
 public:
  explicit CompiledKernel(const Function& f,
                          TjitLlvmOptions options = DefaultOptions());
  explicit CompiledKernel(const std::string& text,
                          TjitLlvmOptions options = DefaultOptions());
  ~CompiledKernel();
  CompiledKernel(const CompiledKernel&) = delete;

  const std::string& error() const { return error_; }
  const TjitKernel& kernel() const { return kernel_; }
  // Of the processor.
  std::int64_t compile_ns() const { return compile_ns_; }

  // Of the last run: loops that another one followed block by block.
  std::size_t chained_loops() const { return chained_loops_; }

  // Runs all loops, each in so many parts. "" or what is wrong.
  std::string Run(const RunArguments& arguments, int parts = 1) const;

 private:
  TjitKernel kernel_ = {};
  std::string error_;
  std::int64_t compile_ns_ = 0;
  mutable std::size_t chained_loops_ = 0;
};

// Arguments of one run: special values and random ones by `seed`, in memory
// with a guard on either side, at no certain alignment.
class KernelRun {
 public:
  KernelRun(const Function& f, std::vector<std::int64_t> symbols,
            std::uint64_t seed);
  KernelRun(const KernelRun&) = delete;

  RunArguments arguments;
  // Where the memory of two runs of `f` differs, NaNs being equal, or "".
  std::string DifferenceFrom(const KernelRun& o) const;

 private:
  struct Memory {
    DType dtype;
    std::string bytes;  // with guards
  };
  Buffer Add(DType dtype, std::int64_t elements, std::uint64_t seed);

  std::deque<Memory> memory_;
};

// Runs kernel and interpreter on equal arguments and compares all bytes; so
// with each returned value that may lie over an external.
// "" or where they differ.
std::string Compare(const Function& f, const CompiledKernel& kernel,
                    const std::vector<std::int64_t>& symbols,
                    std::uint64_t seed, const Hooks& hooks = {}, int parts = 1);

}  // namespace tjit::ir
