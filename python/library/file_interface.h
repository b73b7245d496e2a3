// libtjit_python.so, functions as files: packages and modules of TorchScript
// (tjit/package.h, tjit/torchscript.h).
//
// They work with objects of Python and the functions of jit_interface.h, by the
// same rules: callers hold the interpreter's lock, which is given back while
// libtjit works, and a null or a -1 comes with a Python error. Threads: any.
// Tested by: tests/python/files_test.py
#pragma once

#include <cstdint>

#include "tjit/export.h"

extern "C" {

// PackageOptions; of modules of TorchScript the first five members.
struct TjitFileOptions {
  int tensor_count;
  const char* const* tensor_names;
  const std::uint64_t* tensors;  // TensorImpls
  int argument_count;
  const char* const* arguments;
  int given_count;
  const char* const* given;
  int keeps_example;
  const char* structure;
};

// What end() got as `form` where the function is replayed for these arguments,
// which are as for tjit_py_jit_begin(). None: the result is one tensor.
TJIT_API void* tjit_py_form_to_save(void* core, const char* packed);
// tjit::save_package(), or tjit::save_torchscript(). 0 or -1.
TJIT_API int tjit_py_save(void* core, const char* packed, const char* path,
                          int is_package, const TjitFileOptions* options);

// tjit::load_package(), with `count` tensors by name. The package, or null.
TJIT_API void* tjit_py_load_package(const char* path, int count,
                                    const char* const* names,
                                    const std::uint64_t* tensors, int warms_up);
// Without the interpreter's lock.
TJIT_API void tjit_py_package_delete(void* package);
// A tuple of None and the results.
TJIT_API void* tjit_py_package_call(void* package, int tensor_count,
                                    const std::uint64_t* tensors,
                                    int number_count, const double* numbers);
// Bytes: PackageInfo's name, its `structure`, then a line for each argument and
// each tensor, with a zero byte between the three. A line has "tensor",
// "number" or "state", the name, and of what kind it is, with tabs between.
TJIT_API void* tjit_py_package_about(void* package);
// As tjit_py_jit_stats(), without the interpreter's lock too.
TJIT_API const char* tjit_py_package_stats(const void* package,
                                           long long* numbers);
// Bytes: empty, or what differs.
TJIT_API void* tjit_py_package_verify(void* package);

}  // extern "C"
