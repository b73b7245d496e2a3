// The part of libtjit_python.so that drives tjit::jit() for Python.
//
// A call of a function goes in two steps. tjit_py_jit_begin() replays it and
// returns its results, or returns an object that stands for the call; then
// Python runs the function and ends that call:
//
//   out = begin(core, packed, again)
//   if out is no call: return the results
//   result = function(...)
//   end(out, ...)                 # or abandon(out), where the function threw
//
// Results with a graph for gradients are tensors of libtjit's own, so end()
// returns what is to be returned in their place.
//
// These functions take and give objects of Python, so their callers hold the
// lock of the interpreter (ctypes.PyDLL). They give it back while libtjit
// works: what is pending may take long, and another thread may wait for this
// lock while it holds one of libtjit. There are no headers of Python, as the
// library serves each version: its functions come as addresses. Threads: any,
// with the interpreter's lock. A call ends on the thread on which it began.
// Tested by: tests/python/functions_test.py
#pragma once

#include <cstddef>
#include <cstdint>

#include "tjit/export.h"

extern "C" {

// Functions of Python's stable interface and of libtorch_python, in this order.
// Objects are void*.
struct TjitPython {
  void* (*wrap)(const void* tensor);  // THPVariable_Wrap
  void* (*new_tuple)(std::ptrdiff_t size);
  int (*set_item)(void* tuple, std::ptrdiff_t at, void* stolen);
  void* (*new_capsule)(void* pointer, const char* name, void (*end)(void*));
  void* (*get_capsule)(void* capsule, const char* name);
  void (*set_error)(void* type, const char* text);
  void (*add_reference)(void* object);
  void (*drop_reference)(void* object);
  void* (*release_lock)();
  void (*acquire_lock)(void* state);
  int (*ensure_lock)();
  void (*leave_lock)(int state);
  std::ptrdiff_t (*size_of_tuple)(void* tuple);
  void* (*item_of_tuple)(void* tuple, std::ptrdiff_t at);  // borrowed
  double (*value_of_float)(void* number);
  void* (*new_bytes)(const char* data, std::ptrdiff_t size);
  void* (*dict_of)(void* object, void* context);
  void* (*item_of_dict)(void* dict, void* key);  // borrowed, without errors
  int (*next_of_dict)(void* dict, std::ptrdiff_t* at, void** key, void** value);
  void* (*string)(const char* text);
  void (*clear_error)();
  void* (*call)(void* callable, void* arguments);
  const char* (*text_of)(void* text, std::ptrdiff_t* size);
  void* runtime_error;
  void* index_error;
  void* value_error;
  void* type_error;
  void* not_implemented_error;
  void* none;
  void* true_object;
  void* false_object;
  void* float_type;
  void* tuple_type;
  void* dict_type;
  void* tensor_type;
  void* parameter_type;
  // Where in an object its type lies, and in a tensor its TensorImpl; 0: nobody
  // knows.
  std::size_t type_at;
  std::size_t impl_at;
};
// Before any other function below.
TJIT_API void tjit_py_jit_setup(const TjitPython* python);

// What is known of one function. Null, with a Python error, if an option is out
// of range.
TJIT_API void* tjit_py_jit_new(const char* name, long long verify_every,
                               int follow, int strict, int gradients);
TJIT_API void tjit_py_jit_delete(void* core);
TJIT_API void tjit_py_jit_reset(void* core);
// The six numbers of JitStats, in its order, and why the function is not
// replayed: a text that belongs to the calling thread until its next call of
// this function.
TJIT_API const char* tjit_py_jit_stats(const void* core, long long* numbers);

// One call with the arguments in `packed`, without gaps: two numbers of 32
// bits, n and the size of a text; n letters, "t" for a tensor, "n" for a number
// and "c" for one that an optimizer computes; the text, which has all that has
// to be the same; zeros up to a multiple of eight; n values of eight bytes, the
// address of a TensorImpl or a double. Returns one of: the tensor that a replay
// gave; a tuple of what end() was given as `form` and the tensors; a capsule,
// the call that is to be ended. Or null, with a Python error. `again`: what
// runs the function once more with these arguments, and returns a tuple of the
// tensors in its result, or a text that says why it did not; None: the results
// may have no graph for gradients.
TJIT_API void* tjit_py_jit_begin(void* core, const char* packed, void* again);
// The same for arguments that are a tuple of tensors and floats alone: as with
// the text "i3;tnt", of three. None if they are others. Watched: `more` is the
// end of the text.
TJIT_API void* tjit_py_jit_begin_plain(void* core, void* arguments);
TJIT_API void* tjit_py_jit_begin_watched(void* core, void* arguments,
                                         const char* more, int more_size);
// True if end() wants the results.
TJIT_API int tjit_py_jit_wants(void* call);
// The function may write into these parameters, and give them gradients.
TJIT_API int tjit_py_jit_allow_updates(void* call, int count,
                                       const std::uint64_t* parameters);
// The optimizers did not do what a replay makes of them.
TJIT_API void tjit_py_jit_refuse_state(void* call);
// The numbers in tensors of one number: 0, or -1 where one is none, or cannot
// be read.
TJIT_API int tjit_py_read_steps(int count, const std::uint64_t* tensors,
                                double* numbers);
// Adds one to each of these tensors, which have these numbers. -1, with a
// Python error and the numbers as they were, where one cannot be written.
TJIT_API int tjit_py_add_to_steps(int count, const std::uint64_t* tensors,
                                  const double* numbers);
// The function has returned `count` tensors. kept[i]: somebody in Python holds
// result i beside the caller. `text`: what else it returned. `form`: null if
// the result is one tensor. `is_changed`: an argument is another one than
// before. Returns None, or what begin() would return of a replay, which is to
// be returned then. Null, with a Python error, under `strict`.
TJIT_API void* tjit_py_jit_end(void* call, int is_changed, int count,
                               const std::uint64_t* tensors, const char* kept,
                               const char* text, int text_size, void* form);
// The function threw, or its results are not wanted.
TJIT_API void tjit_py_jit_abandon(void* call);

// The modes of a torch.nn.Module and of all modules in it, as bytes that tell
// them and their order from others; None if it is of another kind inside.
TJIT_API void* tjit_py_modes_of_module(void* module);

// A tjit::NoJit begins here, and ends.
TJIT_API void tjit_py_no_jit();

}  // extern "C"
