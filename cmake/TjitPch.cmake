# Precompiled libtorch headers (gcc 12, two cores: a file that includes
# ATen/ATen.h takes 9.1 s without and 1.7 s with; torch/torch.h 17 and 7 s).
#
# tjit_torch_pch(target [API])
#   ATen and the dispatcher; with API the whole C++ API (torch/torch.h), which
#   is worth it only for files that include that.
# A library gets its own. Programs share one per kind: the flags of all our
# programs are the same, and one file takes 18 s (API 32 s) and 0.4 GB.
include_guard(GLOBAL)

set(TJIT_PCH_ATEN <ATen/ATen.h> <ATen/core/dispatch/Dispatcher.h>
  <torch/library.h>)
set(TJIT_PCH_API <torch/torch.h>)

function(tjit_torch_pch target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "API" "" "")
  set(kind ATEN)
  if(arg_API)
    set(kind API)
  endif()
  # Without it ccache would preprocess the whole header again on every miss.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    tjit_pch_owner(${kind} owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${TJIT_PCH_${kind}})
  endif()
endfunction()

# The program that owns the header of `kind` which all programs share. Made at
# the first request, so that a build without tests does not pay for it.
function(tjit_pch_owner kind result)
  string(TOLOWER tjit_pch_${kind} owner)
  set(${result} ${owner} PARENT_SCOPE)
  if(TARGET ${owner})
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/pch/${owner}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
  add_executable(${owner} EXCLUDE_FROM_ALL ${source})
  set_target_properties(${owner} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/pch)
  # What tjit::torch brings, without linking it.
  target_include_directories(${owner} SYSTEM PRIVATE
    $<TARGET_PROPERTY:tjit::torch,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_options(${owner} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_link_libraries(${owner} PRIVATE Threads::Threads)
  tjit_configure(${owner})
  target_precompile_headers(${owner} PRIVATE ${TJIT_PCH_${kind}})
endfunction()
