// Writes a function of tjit::jit() as a package.
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <sstream>

#include "runtime/thread/functions/function_graph.h"
#include "runtime/thread/functions/jit_core.h"
#include "runtime/thread/functions/package_file.h"

namespace tjit::internal {

using runtime::GraphArgument;
using runtime::PackageFile;

namespace {

constexpr char kWho[] = "tjit::save_package";

PackageArgument ArgumentOf(const GraphArgument& a) {
  PackageArgument argument;
  argument.name = a.name;
  argument.is_tensor = a.is_tensor;
  argument.is_free = a.is_free;
  if (a.is_tensor) {
    const TensorGeometry& g = a.geometry;
    argument.dtype = static_cast<at::ScalarType>(g.dtype);
    argument.sizes.assign(g.sizes, g.sizes + g.ndim);
    argument.strides.assign(g.strides, g.strides + g.ndim);
  }
  return argument;
}

// The example in the order of the module's arguments, and what the module gives
// for it: of the file, as the function's state would be written.
void RunExample(PackageFile* file) {
  std::istringstream bytes(runtime::BytesOf(file->module, {}));
  torch::jit::Module module = torch::jit::load(bytes, c10::kCPU);
  const auto tensors = runtime::TensorsOf(module);
  std::vector<std::int64_t> before;
  for (const auto& [name, tensor] : tensors) {
    before.push_back(tensor._version());
  }
  // The module may write into its arguments.
  std::vector<at::Tensor> copies;
  for (const at::Tensor& t : file->example.tensors) {
    copies.push_back(t.clone());
  }
  {
    const runtime::SeededForExample seeded;
    file->example.results = runtime::CallModule(&module, file->info.arguments,
                                                copies, file->example.numbers);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    file->info.tensors[i].is_written =
        tensors[i].second._version() != before[i];
  }
}

void LeaveOut(const PackageOptions& options, PackageFile* file) {
  for (const std::string& name : options.given) {
    const auto at = std::find_if(
        file->info.tensors.begin(), file->info.tensors.end(),
        [&](const PackageState& state) { return state.name == name; });
    TORCH_CHECK(at != file->info.tensors.end(), kWho, ": \"", name,
                "\" is to be given, but the function uses no tensor of that "
                "name; write names of PackageOptions::tensors");
    at->is_given = true;
    at->hash = 0;
    runtime::SetTensor(file->module, name, at::empty({0}, at->dtype));
  }
}

}  // namespace

void JitCall::SavePackage(const std::string& path,
                          const PackageOptions& options) const {
  const runtime::FunctionModule made =
      MakeModule(kWho, {options.tensors, options.arguments});
  PackageFile file;
  file.module = made.module;
  file.info.name = core_->options.name;
  file.info.torch = TORCH_VERSION;
  file.info.structure = options.structure;
  for (const auto& [name, tensor] : runtime::TensorsOf(made.module)) {
    PackageState& state = file.info.tensors.emplace_back();
    static_cast<PackageTensor&>(state) = runtime::FormOf(name, tensor);
    state.hash = runtime::HashOf(tensor);
  }
  const at::NoGradGuard no_grad;
  for (const GraphArgument& a : made.arguments) {
    file.info.arguments.push_back(ArgumentOf(a));
    if (a.is_tensor) {
      file.example.tensors.push_back(tensors_[a.index]->detach().clone());
    } else {
      file.example.numbers.push_back(numbers_[a.index]);
    }
  }
  file.info.has_example = options.keeps_example;
  RunExample(&file);
  LeaveOut(options, &file);
  runtime::WritePackage(kWho, path, file);
}

}  // namespace tjit::internal
