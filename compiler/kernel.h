// A compiled group of steps, and engines, which compile them.
//
// Thread: a kernel may run on several threads at once. An engine compiles on
// one thread at a time.
// Tested by: tests/compiler/segment_code_test.cpp
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "recorder/tensor_meta.h"

namespace tjit {

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Bytes that Run() needs besides, for these sizes; -1 and *why if it cannot
  // serve them.
  virtual std::int64_t ScratchBytes(const std::vector<std::int64_t>& symbols,
                                    std::string* why) const = 0;
  // `memory`: first bytes of the externals, then of the returned values, which
  // do not overlap; `scratch` is aligned to 64. Gives eager's bits, and throws
  // nothing but out-of-memory, before it writes. REQUIRES: ScratchBytes() took
  // these symbols.
  virtual void Run(char* const* memory,
                   const std::vector<std::int64_t>& symbols,
                   const ScalarValue* scalars, char* scratch) const = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const char* name() const = 0;
  // True if its kernels are meant to be faster than library calls: those that
  // are not get switched off.
  virtual bool is_for_speed() const = 0;
  // Null, and *why says why, if it cannot. REQUIRES: Verify() is content, and
  // there are no calls.
  virtual std::shared_ptr<const Kernel> Compile(const ir::Function& function,
                                                std::string* why) = 0;
};

// Kernels that are interpreted: the oracle, run in place of machine code.
std::unique_ptr<Engine> MakeInterpreterEngine();

}  // namespace tjit
