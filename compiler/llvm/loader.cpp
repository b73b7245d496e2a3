#include "compiler/llvm/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "support/sibling_library.h"

namespace tjit {
namespace {

// Beside the library that holds this code, or in ../lib of a program that does.
std::string PathOfLibrary() {
  const std::string folder = FolderOfCode(reinterpret_cast<void*>(&LlvmApi));
  const std::string beside = absl::StrCat(folder, "libtjit_llvm.so");
  const std::string in_lib = absl::StrCat(folder, "../lib/libtjit_llvm.so");
  return access(in_lib.c_str(), F_OK) == 0 && access(beside.c_str(), F_OK) != 0
             ? in_lib
             : beside;
}

struct Loaded {
  const TjitLlvmApi* api = nullptr;
  std::string error;
};

}  // namespace

const TjitLlvmApi* LoadLlvmApi(const std::string& path, std::string* error) {
  if (access(path.c_str(), F_OK) != 0) {
    *error = absl::StrCat(
        path,
        " is not there: tjit was built without LLVM (llvm-19-dev), or "
        "the library was not installed");
    return nullptr;
  }
  void* library =
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | kOwnSymbolsFirst);
  if (library == nullptr) {
    *error = dlerror();
    return nullptr;
  }
  const auto get =
      reinterpret_cast<TjitLlvmApiFn>(dlsym(library, "tjit_llvm_api"));
  const TjitLlvmApi* api = get == nullptr ? nullptr : get();
  if (api != nullptr && api->abi == kTjitLlvmAbi) return api;
  *error = absl::StrCat(path, " is of another version of tjit");
  return nullptr;
}

const TjitLlvmApi* LlvmApi(std::string* error) {
  static const Loaded* loaded = [] {
    auto* result = new Loaded;
    result->api = LoadLlvmApi(PathOfLibrary(), &result->error);
    return result;
  }();
  *error = loaded->error;
  return loaded->api;
}

}  // namespace tjit
