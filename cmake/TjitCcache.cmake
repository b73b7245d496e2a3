# Uses ccache where it is installed. Precompiled headers need some of its
# checks relaxed (https://ccache.dev/manual: "Precompiled headers"), and the
# base folder lets two clones share what they compiled: a second clone builds
# from the cache in seconds. A launcher other than ccache is kept.
include_guard(GLOBAL)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER
    OR CMAKE_CXX_COMPILER_LAUNCHER STREQUAL "ccache")
  find_program(TJIT_CCACHE ccache DOC "compiler cache, optional")
  if(TJIT_CCACHE)
    set(tjit_sloppiness pch_defines,time_macros)
    string(APPEND tjit_sloppiness ,include_file_mtime,include_file_ctime)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_SLOPPINESS=${tjit_sloppiness}
      ${TJIT_CCACHE})
  endif()
endif()
