// libtjit_python.so: the public functions of tjit as C functions, which the
// Python package calls with ctypes. It serves every version of Python.
//
// Each function may be called from any thread and lets no exception out. What
// can fail says so by its result, and tjit_py_error() has the text. Texts that
// are returned belong to the calling thread and hold until its next call of
// any of these functions.
// Tested by: tests/python/package_test.py
#pragma once

#include "tjit/export.h"

extern "C" {

// Raised whenever a function below changes its meaning; the package refuses
// another number than its own.
TJIT_API int tjit_py_interface();
// The version of tjit, "0.1.0".
TJIT_API const char* tjit_py_version();
// Why the last call of this thread that failed did.
TJIT_API const char* tjit_py_error();

// The options of enable(), "name kind" each: the kind is bool, int or str. Null
// behind the last one.
TJIT_API const char* tjit_py_option(int index);
// tjit::enable() with `count` options: names[i] is one of the above, values[i]
// is "0" or "1", a decimal number, or the text. 1: it is on. 0: tjit stays
// inert, which stderr says. -1: an option is refused.
TJIT_API int tjit_py_enable(int count, const char* const* names,
                            const char* const* values);
TJIT_API int tjit_py_disable();
TJIT_API int tjit_py_is_enabled();

// A tjit::AutoCompile of the process, else of the calling thread; null if an
// option is refused. The other one ends it and deletes it: where it is of a
// thread, on that thread.
TJIT_API void* tjit_py_begin_auto_compile(int is_process, int count,
                                          const char* const* names,
                                          const char* const* values);
TJIT_API void tjit_py_end_auto_compile(void* auto_compile);
// A tjit::Pause, likewise; null if memory is lacking.
TJIT_API void* tjit_py_begin_pause();
TJIT_API void tjit_py_end_pause(void* pause);

// A tjit::Reading, likewise.
TJIT_API void* tjit_py_begin_reading();
TJIT_API void tjit_py_end_reading(void* reading);

// A tjit::Region, likewise; null if the name is wrong or memory is lacking.
TJIT_API void* tjit_py_begin_region(const char* name);
TJIT_API void tjit_py_end_region(void* region);
// tjit::set_region_options(). names[i] is a member of RegionOptions, values[i]
// as for enable(); exclude_ops comes once for each op. 0, or -1 if something is
// refused.
TJIT_API int tjit_py_set_region_options(const char* pattern, int count,
                                        const char* const* names,
                                        const char* const* values);
// tjit::region_stats() as JSON; null on an error.
TJIT_API const char* tjit_py_region_stats(const char* name);

// tjit::name() of the tensor that has this TensorImpl. 0, or -1 if the name or
// the tensor is refused.
TJIT_API int tjit_py_name(void* tensor, const char* name);
// tjit::name_of(); null on an error.
TJIT_API const char* tjit_py_name_of(void* tensor);

// tjit::on_event(): `call` gets Event::to_json(). 0 on an error.
TJIT_API unsigned long long tjit_py_on_event(void (*call)(const char* json));
TJIT_API void tjit_py_remove_on_event(unsigned long long id);
// 1: all was told. 0: `milliseconds` have passed.
TJIT_API int tjit_py_wait_for_events(long long milliseconds);

// tjit::set_stance() by name; -1 if there is none of that name.
TJIT_API int tjit_py_set_stance(const char* name);

// 0, or -1 where what is pending cannot run.
TJIT_API int tjit_py_mark_step();
TJIT_API int tjit_py_sync();
TJIT_API int tjit_py_clear();
TJIT_API int tjit_py_reset_memory_peak();
// 0, or -1 if the name is empty.
TJIT_API int tjit_py_mark_opaque(const char* name);
// The number of sequences, or -1.
TJIT_API long long tjit_py_prewarm(const char* file);
TJIT_API long long tjit_py_save_profile(const char* file);
// tjit::write_sequences(). 0, or -1 if `which` or `folder` is refused.
TJIT_API int tjit_py_write_sequences(const char* folder, const char* which);
// 1: there is nothing to compile any more. 0: `milliseconds` have passed.
TJIT_API int tjit_py_wait_until_compiled(long long milliseconds);

// Stats::to_json() and explain(); null on an error.
TJIT_API const char* tjit_py_stats();
TJIT_API const char* tjit_py_explain(int is_verbose);
}
