# tjit_add_test(name SOURCES... [LIBS lib...] [TORCH_PCH] [SERIAL]
#               [TIMEOUT seconds] [ENV NAME=value...] [LABELS label...])
#
# A GoogleTest program (gtest_main gives it its main) that is one ctest test.
# SERIAL: it measures time or uses every core; nothing runs beside it.
# TORCH_PCH: its sources include much of libtorch; they share one precompiled
# header (cmake/TjitPch.cmake). Sources that include ATen/ATen.h or the C++ API
# do so without being told.
include_guard(GLOBAL)

find_package(GTest REQUIRED)

function(tjit_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH_PCH;SERIAL" "TIMEOUT"
    "SOURCES;LIBS;ENV;LABELS")
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${arg_UNPARSED_ARGUMENTS})
  endif()
  add_executable(${name} ${arg_SOURCES})
  # Tests may include everything, with or without linking libtjit.
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/runtime/include ${PROJECT_BINARY_DIR}/include)
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock
    GTest::gtest_main)
  tjit_configure(${name})
  tjit_torch_pch_of(kind ${arg_SOURCES})
  if(arg_TORCH_PCH OR kind)
    tjit_torch_pch(${name} ${kind})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  tjit_test_properties(${name} ${ARGN})
endfunction()

# tjit_add_script_test(name COMMAND... [SERIAL] [TIMEOUT] [ENV] [LABELS])
# The same for a test that is a script.
function(tjit_add_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT"
    "COMMAND;ENV;LABELS")
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  tjit_test_properties(${name} ${ARGN})
endfunction()

# tjit_add_avx2_test(test_program [FILTER] [TIMEOUT] [ENV] [LABELS])
# The same test as on a processor without AVX-512: eager runs its kernels for
# AVX2, whose vectors are half as long, and compiled code has to have their bits.
# Skipped on such a processor, where the test itself is this one.
function(tjit_add_avx2_test test)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILTER" "ENV")
  string(REGEX REPLACE "_test$" "_avx2_test" name ${test})
  set(filter)
  if(arg_FILTER)
    set(filter --gtest_filter=${arg_FILTER})
  endif()
  tjit_add_script_test(${name}
    COMMAND ${PROJECT_SOURCE_DIR}/tests/where_avx512.sh $<TARGET_FILE:${test}>
      ${filter}
    ENV ${arg_ENV} ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2
    ${arg_UNPARSED_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# What both kinds share: time limit, neighbours, environment, labels.
function(tjit_test_properties name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH_PCH;SERIAL" "TIMEOUT"
    "SOURCES;LIBS;COMMAND;ENV;LABELS")
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(arg_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
  endif()
  # No test reads what another has compiled, or writes to the user's cache. What
  # is measured while it runs changes nothing that it counts. Threads that wait
  # sleep: tests beside each other have more of them than there are cores. Those
  # that run alone wait as users' programs do, unless they say so.
  set(waiting)
  if(NOT arg_SERIAL)
    set(waiting "OMP_WAIT_POLICY=passive;")
  endif()
  set(trials)
  if(TJIT_TESTING)
    set(trials "TJIT_THREAD_TRIALS=0;")
  endif()
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "TJIT_CACHE_DIR=off;XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/user_cache;${waiting}${trials}${arg_ENV}")
  if(arg_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
  endif()
endfunction()
