# Precompiled libtorch headers (gcc 12, two cores: a file that includes
# ATen/ATen.h takes 9.1 s without and 1.7 s with; torch/torch.h 17 and 7 s).
#
# tjit_torch_pch(target [API])
#   ATen and the dispatcher; with API the whole C++ API (torch/torch.h), which
#   is worth it only for files that include that.
# tjit_torch_pch_of(variable source...)
#   Sets the variable to API or ATEN, by what the sources include, or to "".
# Targets share: our flags are the same everywhere except that gcc compiles
# libraries with -fPIC and programs with -fPIE, so there are at most two
# headers of each kind (18 s, API 32 s, and 0.4 GB each), made on request.
include_guard(GLOBAL)

set(TJIT_PCH_ATEN <ATen/ATen.h> <ATen/core/dispatch/Dispatcher.h>
  <torch/library.h>)
set(TJIT_PCH_API <torch/torch.h>)

function(tjit_torch_pch target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "API;ATEN" "" "")
  set(kind ATEN)
  if(arg_API)
    set(kind API)
  endif()
  get_target_property(type ${target} TYPE)
  tjit_pch_owner(${kind} ${type} owner)
  target_precompile_headers(${target} REUSE_FROM ${owner})
  tjit_pch_options(${target})
endfunction()

function(tjit_torch_pch_of result)
  set(kind "")
  foreach(source ${ARGN})
    file(STRINGS ${source} includes REGEX "^#include <")
    if(includes MATCHES "<torch/(torch|nn|optim|script)\\.h>")
      set(kind API)
    elseif(NOT kind AND includes MATCHES "<ATen/ATen\\.h>")
      set(kind ATEN)
    endif()
  endforeach()
  set(${result} ${kind} PARENT_SCOPE)
endfunction()

# Without this ccache would preprocess all of libtorch again on every miss.
function(tjit_pch_options target)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

# The target that compiles the header of `kind` for targets of `type`.
function(tjit_pch_owner kind type result)
  if(type STREQUAL "EXECUTABLE")
    set(form program)
  else()
    set(form library)
  endif()
  string(TOLOWER tjit_pch_${kind}_${form} owner)
  set(${result} ${owner} PARENT_SCOPE)
  if(TARGET ${owner})
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/pch/${owner}.cpp)
  if(form STREQUAL "program")
    file(CONFIGURE OUTPUT ${source} CONTENT "int main() { return 0; }\n")
    add_executable(${owner} EXCLUDE_FROM_ALL ${source})
    set_target_properties(${owner} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/pch)
  else()
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${source})
  endif()
  # What tjit::torch brings, without linking it.
  target_include_directories(${owner} SYSTEM PRIVATE
    $<TARGET_PROPERTY:tjit::torch,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(${owner} PRIVATE Threads::Threads)
  tjit_configure(${owner})
  tjit_pch_options(${owner})
  target_precompile_headers(${owner} PRIVATE ${TJIT_PCH_${kind}})
endfunction()
