// The parts of a file of tjit::save_package(): a module of TorchScript, and
// beside it a manifest, an example and machine code.
//
// The manifest is text with a checksum: one line for each argument and tensor,
// fields between tabs. Its checksums of the tensors, of the graph and of the
// example find what libtorch does not, which reads damaged archives.
// Threads: any; nothing is shared.
// Tested by: tests/runtime/thread/saved_package_test.cpp
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/cache/packaged_entries.h"
#include "tjit/package.h"

namespace tjit::runtime {

// With the results for it.
struct PackageExample {
  std::vector<at::Tensor> tensors;
  std::vector<double> numbers;
  std::vector<at::Tensor> results;
};

struct PackageFile {
  PackageInfo info;
  torch::jit::Module module;
  PackageExample example;  // with info.has_example
  cache::Entries code;
};

// "" or what is wrong.
std::string ReadManifest(const std::string& text, PackageInfo* info,
                         std::uint64_t* graph, std::uint64_t* example);
std::string WriteManifest(const PackageInfo& info, std::uint64_t graph,
                          std::uint64_t example);

// THROW: c10::Error from `who`, with the path.
PackageFile ReadPackage(const char* who, const std::string& path);
void WritePackage(const char* who, const std::string& path,
                  const PackageFile& file);

// Of the process (tjit.cpp): machine code of packages is looked for from now
// on.
void UsePackagedCode();
// The folder where it keeps machine code; "": nowhere.
std::string FolderOfCode();

std::uint64_t HashOf(const at::Tensor& tensor);
PackageTensor FormOf(std::string name, const at::Tensor& tensor);
// "Float with sizes [2, 3] and strides [3, 1]"
std::string TextOf(const PackageTensor& form);

// Named tensors of the module, submodules' with dots.
std::vector<std::pair<std::string, at::Tensor>> TensorsOf(
    const torch::jit::Module& module);
void SetTensor(const torch::jit::Module& module, const std::string& name,
               const at::Tensor& tensor);
// Without gradients. The arguments in the order of `arguments`.
std::vector<at::Tensor> CallModule(
    torch::jit::Module* module, const std::vector<PackageArgument>& arguments,
    const std::vector<at::Tensor>& tensors, const std::vector<double>& numbers);

// The default generator begins at a seed of packages while this lives.
class SeededForExample {
 public:
  SeededForExample();
  ~SeededForExample();
  SeededForExample(const SeededForExample&) = delete;
  SeededForExample& operator=(const SeededForExample&) = delete;

 private:
  const at::Tensor before_;
};

}  // namespace tjit::runtime
