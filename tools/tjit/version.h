// What this build of tjit is made of.
// Tested by: tests/acceptance/doctor_test.py
#pragma once

#include <string>

namespace tjit::tools {

// What libtjit serves: the libtorch that it was built for.
struct ServedTorch {
  const char* version;
  const char* cpu_build_id;  // of libtorch_cpu.so; "": it has none
  const char* c10_build_id;
};
extern const ServedTorch kServedTorch;

// The version of LLVM; "" in a build without it.
extern const char* const kLlvmVersion;

// Lines, the first is "tjit 0.1.0": commit, libtorch with its build-id, LLVM.
std::string VersionText();

}  // namespace tjit::tools
