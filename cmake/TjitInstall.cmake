# What an installed tjit consists of: libtjit.so, libtjit_llvm.so where LLVM was
# found, the command `tjit` with its programs tjit-package and tjit-replay and its
# shim libtjit_preload.so, libtjit_python.so, which the Python package calls, the public headers, the CMake package `tjit` (target tjit::tjit) and a pkg-config file.
include_guard(GLOBAL)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# libtjit replaces functions that libtorch exports (the readers of a tensor's
# bytes), and the loader takes the first definition in link order. Libraries
# stand on the link line in the order in which a program names them, and it
# may name libtorch first; options stand before all of them.
target_link_options(tjit INTERFACE LINKER:--push-state,--no-as-needed
  $<BUILD_INTERFACE:$<TARGET_FILE:tjit>>
  $<INSTALL_INTERFACE:$<TARGET_FILE:tjit::tjit>>
  LINKER:--pop-state)

# Abseil is dozens of small libraries of which a process loads those it needs.
target_link_options(tjit PRIVATE LINKER:--as-needed)

# An installed libtjit finds the libtorch that it was built for.
set_target_properties(tjit PROPERTIES INSTALL_RPATH "${TJIT_TORCH_LIB_DIR}")

set(TJIT_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tjit)
install(TARGETS tjit EXPORT tjitTargets)
# The command finds the shim, the shim libtjit.so, and that libtjit_yaml.so and
# libtjit_llvm.so by where they lie.
install(TARGETS tjit_command tjit_package tjit_replay tjit_preload tjit_yaml tjit_python)
if(TARGET tjit_llvm)
  install(TARGETS tjit_llvm)
endif()
install(DIRECTORY runtime/include/tjit
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
# The tables that public headers include.
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/tjit
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.def)
install(EXPORT tjitTargets NAMESPACE tjit:: DESTINATION ${TJIT_PACKAGE_DIR})

configure_package_config_file(cmake/tjitConfig.cmake.in tjitConfig.cmake
  INSTALL_DESTINATION ${TJIT_PACKAGE_DIR}
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(tjitConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tjitConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/tjitConfigVersion.cmake cmake/TjitTorch.cmake
  DESTINATION ${TJIT_PACKAGE_DIR})

# Paths relative to the file: `cmake --install --prefix` may move it.
file(RELATIVE_PATH TJIT_PC_TO_PREFIX
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(TJIT_PC_TORCH_INCLUDES "")
foreach(dir ${TJIT_TORCH_INCLUDE_DIR}
    ${TJIT_TORCH_INCLUDE_DIR}/torch/csrc/api/include)
  # The compiler's own folder named again would hide the C headers.
  if(NOT dir IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    string(APPEND TJIT_PC_TORCH_INCLUDES " -isystem ${dir}")
  endif()
endforeach()
configure_file(cmake/tjit.pc.in tjit.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tjit.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
