// How libtjit finds and loads the libraries that lie beside it.
// Thread: any. Tested by: tests/error/config_test.py,
// tests/error/backend_test.py
#pragma once

#include <dlfcn.h>

#include <string>
#include <string_view>

namespace tjit {

// For dlopen(): what such a library brings goes before what the process has
// under the same names.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kOwnSymbolsFirst = 0;  // sanitizers cannot be bypassed
#else
inline constexpr int kOwnSymbolsFirst = RTLD_DEEPBIND;
#endif

// The folder, with its slash, of the library or program that holds `code`;
// empty if that is not known.
inline std::string FolderOfCode(const void* code) {
  Dl_info info;
  if (dladdr(code, &info) == 0) return "";
  const std::string_view self = info.dli_fname;
  return std::string(self.substr(0, self.rfind('/') + 1));
}

}  // namespace tjit
