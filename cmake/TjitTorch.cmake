# Finds libtorch >= 2.13 and defines tjit::torch (torch, torch_cpu, c10).
#
# CMAKE_PREFIX_PATH may name a libtorch folder, the `torch` folder of a Python
# package, or a prefix such as /usr. We link the three libraries by name:
# TorchConfig.cmake would also pull in Caffe2, CUDA and protobuf checks.
# Installed beside tjitConfig.cmake, which includes it too: there
# TJIT_TORCH_HINT is the libtorch that tjit was built with.
#
# Sets TJIT_TORCH_ROOT, _INCLUDE_DIR, _LIB_DIR and _VERSION, TJIT_LIB_torch,
# TJIT_LIB_torch_cpu and TJIT_LIB_c10; or TJIT_TORCH_ERROR, one sentence.
include_guard(GLOBAL)

# A path found earlier counts only while the places to look are the same and
# it is still there: switching libtorch must not need a fresh build folder.
function(tjit_forget_stale_torch)
  set(places "${CMAKE_PREFIX_PATH};$ENV{CMAKE_PREFIX_PATH}")
  if(NOT "${places}" STREQUAL "${TJIT_TORCH_PLACES}"
      OR NOT EXISTS "${TJIT_TORCH_INCLUDE_DIR}/ATen/ATen.h")
    foreach(var TJIT_TORCH_INCLUDE_DIR TJIT_LIB_torch TJIT_LIB_torch_cpu
        TJIT_LIB_c10)
      unset(${var} CACHE)
    endforeach()
  endif()
  set(TJIT_TORCH_PLACES "${places}" CACHE INTERNAL "where libtorch was sought")
endfunction()

# Reads TORCH_VERSION_{MAJOR,MINOR,PATCH}; "" if there is no such header.
function(tjit_read_torch_version include_dir result)
  set(version "")
  foreach(header torch/headeronly/version.h
      torch/csrc/api/include/torch/version.h)
    if(NOT version AND EXISTS ${include_dir}/${header})
      file(READ ${include_dir}/${header} text)
      foreach(part MAJOR MINOR PATCH)
        if(text MATCHES "#define TORCH_VERSION_${part} ([0-9]+)")
          list(APPEND version ${CMAKE_MATCH_1})
        endif()
      endforeach()
    endif()
  endforeach()
  list(JOIN version "." version)
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

# A macro: the variables that it sets are the includer's.
macro(tjit_find_torch)
  set(TJIT_TORCH_ERROR "")
  tjit_forget_stale_torch()
  find_path(TJIT_TORCH_INCLUDE_DIR ATen/ATen.h
    HINTS ${TJIT_TORCH_HINT}
    PATH_SUFFIXES include torch/include
    DOC "libtorch's include folder")
  if(TJIT_TORCH_INCLUDE_DIR)
    get_filename_component(TJIT_TORCH_ROOT ${TJIT_TORCH_INCLUDE_DIR} DIRECTORY)
    foreach(name torch torch_cpu c10)
      find_library(TJIT_LIB_${name} ${name}
        PATHS ${TJIT_TORCH_ROOT}/lib
          ${TJIT_TORCH_ROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE}
        NO_DEFAULT_PATH)
      if(NOT TJIT_LIB_${name} AND NOT TJIT_TORCH_ERROR)
        set(TJIT_TORCH_ERROR "lib${name}.so was not found beside \
${TJIT_TORCH_INCLUDE_DIR}: this libtorch is incomplete.")
      endif()
    endforeach()
    tjit_read_torch_version(${TJIT_TORCH_INCLUDE_DIR} TJIT_TORCH_VERSION)
    if("${TJIT_TORCH_VERSION}" VERSION_LESS 2.13)
      set(TJIT_TORCH_ERROR "libtorch ${TJIT_TORCH_VERSION} in \
${TJIT_TORCH_ROOT} is too old: tjit needs 2.13 or newer.")
    endif()
  else()
    set(TJIT_TORCH_ERROR "libtorch was not found: set CMAKE_PREFIX_PATH to a \
libtorch >= 2.13, for example the folder that `python3 -c 'import torch; \
print(torch.__path__[0])'` prints, or run scripts/quickstart.sh.")
  endif()
endmacro()

tjit_find_torch()
if(NOT TJIT_TORCH_ERROR AND NOT TARGET tjit::torch)
  get_filename_component(TJIT_TORCH_LIB_DIR ${TJIT_LIB_torch_cpu} DIRECTORY)
  # Imported: its headers count as system headers, and the exported tjit::tjit
  # may name it although it is not installed.
  add_library(tjit::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(tjit::torch INTERFACE ${TJIT_TORCH_INCLUDE_DIR}
    ${TJIT_TORCH_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(tjit::torch INTERFACE ${TJIT_LIB_torch}
    ${TJIT_LIB_torch_cpu} ${TJIT_LIB_c10})
endif()
