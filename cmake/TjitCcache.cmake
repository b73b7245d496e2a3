# Uses ccache where it is installed. Precompiled headers need two of its
# checks relaxed (https://ccache.dev/manual: "Precompiled headers"), so the
# launcher sets them; a launcher of the caller's other than ccache is kept.
include_guard(GLOBAL)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER
    OR CMAKE_CXX_COMPILER_LAUNCHER STREQUAL "ccache")
  find_program(TJIT_CCACHE ccache DOC "compiler cache, optional")
  if(TJIT_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${TJIT_CCACHE})
  endif()
endif()
