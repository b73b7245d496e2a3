// libtorch's kernel stubs, callable from outside.
//
// Their argument list depends on the CPU variants that libtorch was built
// with, which only its own build defines; on x86-64 those are AVX-512 and AVX2
// (a libtorch built otherwise fails to link). Include this first.
#pragma once

#if defined(__x86_64__)
#define HAVE_AVX512_CPU_DEFINITION
#define HAVE_AVX2_CPU_DEFINITION
#endif

#include <ATen/native/DispatchStub.h>
