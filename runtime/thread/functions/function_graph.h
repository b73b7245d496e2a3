// A plan of a function of tjit::jit() as a method of a torch::jit::Module.
//
// What the function takes from outside becomes parameters and buffers, what it
// is passed the method's arguments. A tensor of other sizes and strides over
// the storage of an argument is an aten::as_strided of it.
//
// Threads: any; nothing is shared. The plan has to live meanwhile.
// Tested by: tests/runtime/thread/save_torchscript_test.cpp
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "runtime/thread/functions/function_plan.h"
#include "tjit/torchscript.h"

namespace tjit::runtime {

// An argument of the module's methods.
struct GraphArgument {
  std::string name;
  // Number of the tensor among the plan's arguments, else of the number.
  bool is_tensor = true;
  std::uint32_t index = 0;
  TensorGeometry geometry{};  // of a tensor
  bool is_free = false;     // of a number: it may be another one
};

struct FunctionModule {
  torch::jit::Module module;
  std::vector<GraphArgument> arguments;
};

// The module, with method `ops`. THROWS: c10::Error naming the op or tensor
// that has no form in TorchScript.
FunctionModule MakeFunctionModule(const FunctionPlan& plan,
                                  const TorchscriptOptions& options);

// What save() of the module writes, with files of ours beside it.
std::string BytesOf(const torch::jit::Module& module,
                    const torch::jit::ExtraFilesMap& files);
// THROWS: c10::Error unless what is read from these bytes calls the same ops.
void CheckReadBack(const std::string& bytes, const torch::jit::Module& module);
// THROWS: c10::Error from `who` where that cannot be done.
void WriteBytes(const char* who, const std::string& path,
                const std::string& bytes);

}  // namespace tjit::runtime
