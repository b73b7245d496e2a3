// libtorch's kernel stubs, callable from outside.
//
// Their argument list depends on the CPU variants that libtorch was built
// with, which only its own build defines; on x86-64 those are AVX-512 and AVX2
// (against a libtorch built otherwise we do not link). Therefore no file may
// include ATen/native headers with stubs but through this one.
#pragma once

#if defined(__x86_64__)
#define HAVE_AVX512_CPU_DEFINITION
#define HAVE_AVX2_CPU_DEFINITION
#endif

#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Copy.h>
#include <ATen/native/Fill.h>
#include <ATen/native/IndexKernel.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/Pow.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/native/layer_norm.h>
