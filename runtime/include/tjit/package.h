// A function of tjit::jit() as a file that another program loads and calls:
//
//   tjit::save_package("net.tjit", predict,
//                      {.tensors = net->named_parameters().pairs()}, x);
//   ...
//   tjit::Package net = tjit::load_package("net.tjit");
//   at::Tensor y = net({x})[0];
//
// The file is a module of TorchScript (torchscript.h), so Python and
// torch::jit::load() open it, too. Beside the module it has the form of the
// arguments, the example that it was saved with and the bits that it gave, and
// the machine code that `tjit package compile` adds for the machine on which
// it is called. Where that is there, nothing is compiled when it is loaded.
//
// Load files only of whom you would run programs: there is machine code in
// them. What is damaged or cut short is found, what is forged is not.
//
// Threads: any thread may call one Package.
// Tested by: tests/runtime/thread/saved_package_test.cpp,
// tests/acceptance/package_command_test.py
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tjit/export.h"
#include "tjit/torchscript.h"

namespace tjit {

struct PackageOptions {
  // As in TorchscriptOptions.
  std::vector<std::pair<std::string, at::Tensor>> tensors{};
  std::vector<std::string> arguments{};
  // Names out of `tensors` whose content stays out of the file: load_package()
  // has to be given them.
  std::vector<std::string> given{};
  // Keeps the example and what the function gives for it in the file:
  // load_package() makes the function ready with it, `tjit package` checks the
  // bits. Without one the first calls are slower.
  bool keeps_example = true;
  // How arguments and results are put together, in the words of who saves and
  // who loads. tjit hands it on and reads nothing in it.
  std::string structure{};
};

// A tensor by its form: dtype, sizes and strides.
struct PackageTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes, strides;  // strides in elements
};

struct PackageArgument : PackageTensor {
  bool is_tensor = true;  // else a floating number
  bool is_free = false;   // a number that may be another one at each call
};

struct PackageState : PackageTensor {
  bool is_given = false;    // load_package() has to be given it
  bool is_written = false;  // the function writes into it
  std::uint64_t hash = 0;   // XXH3 of its elements in order; 0: is_given
};

struct PackageInfo {
  std::string name;   // JitOptions::name
  std::string torch;  // version of the libtorch that saved it
  std::vector<PackageArgument> arguments;  // in the order of the example
  std::vector<PackageState> tensors;       // that the function has from outside
  bool has_example = false;
  std::string structure;  // as in PackageOptions
  // Bytes of machine code, by compiler and processor.
  std::map<std::string, std::uint64_t> code{};
};

// Writes `function` as it is replayed for `args`, an example, to `path`.
// THROWS: as save_torchscript(); c10::Error for a name in `given` that
// `tensors` or the function does not have.
template <class F, class... Args>
void save_package(const std::string& path, const Jit<F>& function,
                  const PackageOptions& options, const Args&... args) {
  static_assert((!internal::HasHostState<Args> && ...),
                "tjit::save_package: an optimizer has no form in a package; "
                "wrap the function that predicts");
  internal::JitCall call(function.core_.get());
  call.Word(reinterpret_cast<std::uintptr_t>(
      &internal::kTypes<std::invoke_result_t<F&, const Args&...>, Args...>));
  (Fields<Args>::Visit(args, call), ...);
  call.SavePackage(path, options);
}

// What was loaded. Movable. Ownership: has its tensors but for those that
// load_package() was given, whose storages it shares.
class TJIT_API Package {
 public:
  ~Package();
  Package(Package&&) noexcept;
  Package& operator=(Package&&) noexcept;
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  // The results for tensors and numbers in the order of info().arguments, of
  // each kind by itself. They ask for no gradients.
  // THROWS: c10::Error for others than it wants, which it says.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& tensors,
                                     const std::vector<double>& numbers = {});
  const PackageInfo& info() const;
  JitStats stats() const;

  // What it was saved with; empty without an example.
  const std::vector<at::Tensor>& example_tensors() const;
  const std::vector<double>& example_numbers() const;
  // Runs the example as save_package() did, with the tensors as they were, and
  // compares. "" or what differs; results of a function that draws random
  // numbers are drawn from a seed of its own. The tensors and the generator are
  // as before afterwards.
  // THROWS: c10::Error without an example.
  std::string verify();

 private:
  friend TJIT_API Package
  load_package(const std::string&,
               const std::vector<std::pair<std::string, at::Tensor>>&, bool);
  struct Impl;
  explicit Package(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads `path`. `tensors`: those that it has to be given, and others that are
// to be used instead of the file's, by name. `warms_up`: runs the example until
// it is replayed and compiled, which changes neither tensors nor generator.
// THROWS: c10::Error naming the file and what is wrong: it is not there, no
// package, damaged, of a newer tjit, a tensor has another form or is missing.
TJIT_API Package load_package(
    const std::string& path,
    const std::vector<std::pair<std::string, at::Tensor>>& tensors = {},
    bool warms_up = true);

// Without loading its code.
TJIT_API PackageInfo package_info(const std::string& path);

// Adds the machine code and the verdicts that the cache folder of this process
// has to the file, which keeps what it has of other machines. So it is called
// in a process that has only called the package, with a folder of its own
// (`tjit package compile` does). Returns the bytes of code that are new.
// THROWS: c10::Error naming the file or folder and what is wrong.
TJIT_API std::int64_t add_package_code(const std::string& path);

}  // namespace tjit
