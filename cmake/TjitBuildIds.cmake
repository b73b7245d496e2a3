# Writes include/tjit_build_ids.h into the build folder: the version and the
# build-ids of the libtorch that we compile against. tjit reaches into
# libtorch's internals, so the runtime compares them with what is loaded and
# stays inert where they differ. "" means: the library carries no build-id.
include_guard(GLOBAL)

function(tjit_read_build_id library result)
  execute_process(COMMAND ${CMAKE_READELF} -n ${library}
    OUTPUT_VARIABLE notes ERROR_QUIET)
  set(id "")
  if(notes MATCHES "Build ID: ([0-9a-f]+)")
    set(id ${CMAKE_MATCH_1})
  endif()
  set(${result} "${id}" PARENT_SCOPE)
endfunction()

tjit_read_build_id(${TJIT_LIB_torch_cpu} TJIT_TORCH_CPU_BUILD_ID)
tjit_read_build_id(${TJIT_LIB_c10} TJIT_C10_BUILD_ID)
configure_file(${CMAKE_CURRENT_LIST_DIR}/tjit_build_ids.h.in
  ${PROJECT_BINARY_DIR}/include/tjit_build_ids.h @ONLY)

# A changed library asks for a new configure run, which rewrites the header.
file(REAL_PATH ${TJIT_LIB_torch_cpu} tjit_torch_cpu_file)
file(REAL_PATH ${TJIT_LIB_c10} tjit_c10_file)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY
  CMAKE_CONFIGURE_DEPENDS ${tjit_torch_cpu_file} ${tjit_c10_file})
