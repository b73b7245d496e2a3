# Finds libtorch >= 2.13 and defines tjit::torch (torch, torch_cpu, c10).
#
# CMAKE_PREFIX_PATH may name a libtorch folder, the `torch` folder of a Python
# package, or a prefix with share/cmake/Torch. We link the three libraries by
# name: TorchConfig.cmake would also pull in Caffe2, CUDA and protobuf checks.
find_path(TJIT_TORCH_INCLUDE_DIR ATen/ATen.h
  PATH_SUFFIXES include torch/include
  DOC "libtorch's include folder")
if(NOT TJIT_TORCH_INCLUDE_DIR)
  message(FATAL_ERROR
    "libtorch was not found. Set CMAKE_PREFIX_PATH to a libtorch >= 2.13, for "
    "example the folder that `python3 -c 'import torch; "
    "print(torch.__path__[0])'` prints, or run scripts/quickstart.sh.")
endif()
get_filename_component(TJIT_TORCH_ROOT ${TJIT_TORCH_INCLUDE_DIR} DIRECTORY)
foreach(name torch torch_cpu c10)
  find_library(TJIT_LIB_${name} ${name} HINTS ${TJIT_TORCH_ROOT}/lib
    PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE})
  if(NOT TJIT_LIB_${name})
    message(FATAL_ERROR "lib${name}.so was not found beside "
      "${TJIT_TORCH_INCLUDE_DIR}: this libtorch is incomplete.")
  endif()
endforeach()

foreach(part MAJOR MINOR PATCH)
  set(TJIT_TORCH_${part} "")
endforeach()
set(version_file ${TJIT_TORCH_INCLUDE_DIR}/torch/headeronly/version.h)
if(NOT EXISTS ${version_file})
  set(version_file
    ${TJIT_TORCH_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h)
endif()
file(STRINGS ${version_file} lines REGEX
  "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
foreach(line ${lines})
  string(REGEX MATCH "TORCH_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)" _ ${line})
  set(TJIT_TORCH_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()
set(TJIT_TORCH_VERSION
  ${TJIT_TORCH_MAJOR}.${TJIT_TORCH_MINOR}.${TJIT_TORCH_PATCH})
if(TJIT_TORCH_VERSION VERSION_LESS 2.13)
  message(FATAL_ERROR "libtorch ${TJIT_TORCH_VERSION} in ${TJIT_TORCH_ROOT} is "
    "too old: tjit needs 2.13 or newer.")
endif()
message(STATUS "libtorch ${TJIT_TORCH_VERSION} in ${TJIT_TORCH_ROOT}")

add_library(tjit_torch INTERFACE)
add_library(tjit::torch ALIAS tjit_torch)
target_include_directories(tjit_torch SYSTEM INTERFACE
  ${TJIT_TORCH_INCLUDE_DIR}
  ${TJIT_TORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_link_options(tjit_torch INTERFACE -Wl,--no-as-needed)
target_link_libraries(tjit_torch INTERFACE
  ${TJIT_LIB_torch} ${TJIT_LIB_torch_cpu} ${TJIT_LIB_c10})
