# Finds libtorch >= 2.13 and defines tjit::torch (torch, torch_cpu, c10).
#
# Three use it, so that all of them find the same one: tjit's own
# CMakeLists.txt; scripts/lib.sh, by `cmake -P`; and tjitConfig.cmake, beside
# which it is installed (there TJIT_TORCH_HINT is the libtorch that tjit was
# built with). It looks, in this order, at
#   TJIT_TORCH         a folder, and nothing else is looked at; or `own`: the
#                      .venv of tjit's sources
#   CMAKE_PREFIX_PATH  the variable, then that of the environment
#   TJIT_TORCH_HINT
#   Torch_DIR          where the project around tjit has found libtorch
#   the active Python  of VIRTUAL_ENV, else of CONDA_PREFIX, else python3; then
#                      CONDA_PREFIX itself
#   the system         /usr/local, /usr
#   .venv              of tjit's sources
# A folder is a libtorch, the `torch` folder of a Python package, what holds
# one of these, a prefix such as /usr, or torch.utils.cmake_prefix_path. One
# that is there but will not do ends the search with a question, as whoever
# named it or has it active means it, and tjit serves no other than that which
# it is built for. One of the system is passed over, and a line says so.
# We link the three libraries by name: TorchConfig.cmake would also pull in
# Caffe2, CUDA and protobuf checks.
#
# Sets TJIT_TORCH_ROOT, _FOLDER (what to give as TJIT_TORCH), _WHERE,
# _INCLUDE_DIR, _LIB_DIR and _VERSION, TJIT_LIB_torch, TJIT_LIB_torch_cpu and
# TJIT_LIB_c10; or TJIT_TORCH_ERROR. TJIT_TORCH_NOTES are those passed over.
# Tested by: tests/setup/setup_test.sh, tests/setup/consumer_test.sh

set(TJIT_TORCH_MIN 2.13)
set(TJIT_SYSTEM_PREFIXES /usr/local /usr)
# How the caller spells the choice; scripts/lib.sh has an option for it.
if(NOT TJIT_TORCH_OPTION)
  set(TJIT_TORCH_OPTION -DTJIT_TORCH=)
endif()

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

# The first of the folders that has `file`; "" if none has.
function(tjit_first_with file result)
  set(${result} "" PARENT_SCOPE)
  foreach(folder IN LISTS ARGN)
    if(EXISTS ${folder}/${file})
      set(${result} ${folder} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Libraries that the loader does not find for `library`: "" or a list in words.
function(tjit_missing_libraries library result)
  set(${result} "" PARENT_SCOPE)
  execute_process(COMMAND ldd ${library} OUTPUT_VARIABLE text ERROR_QUIET
    RESULT_VARIABLE status)
  if(status EQUAL 0)
    string(REGEX MATCHALL "[^ \t\n]+ => not found" missing "${text}")
    list(TRANSFORM missing REPLACE " => not found" "")
    list(JOIN missing ", " missing)
    set(${result} "${missing}" PARENT_SCOPE)
  endif()
endfunction()

# Looks at one folder. Sets found_include and found_lib, and found_problem: ""
# or why the libtorch there will not do, as a sentence without its subject's
# place. All are "" where there is no libtorch.
macro(tjit_look_at_torch folder)
  set(found_problem "")
  set(found_version "")
  set(includes ${folder}/include ${folder}/torch/include)
  set(libs "")
  set(package "")
  if("${folder}" MATCHES "/share/cmake/?$")
    list(APPEND includes ${folder}/../../include)
  elseif(EXISTS ${folder}/__init__.py AND EXISTS ${folder}/version.py)
    # A Python package. Conda and Debian keep headers, or libraries too, in the
    # prefix around lib/python3/site-packages/torch.
    set(package ${folder})
    list(APPEND includes ${folder}/../../../../include)
    set(libs ${folder}/lib ${folder}/../../../../lib)
  endif()
  tjit_first_with(ATen/ATen.h found_include ${includes})
  if(found_include)
    get_filename_component(found_include ${found_include} ABSOLUTE)
    get_filename_component(found_root ${found_include} DIRECTORY)
    file(GLOB multiarch ${found_root}/lib/*-linux-gnu)
    tjit_read_torch_version(${found_include} found_version)
    tjit_first_with(libtorch_cpu.so found_lib ${found_root}/lib
      ${found_root}/lib64 ${multiarch} ${libs})
    if("${found_version}" VERSION_LESS TJIT_TORCH_MIN)
      set(found_problem "is too old: tjit needs ${TJIT_TORCH_MIN} or newer")
    elseif(NOT found_lib)
      set(found_problem "has headers but no libtorch_cpu.so")
    else()
      get_filename_component(found_lib ${found_lib} ABSOLUTE)
      foreach(name torch c10)
        if(NOT EXISTS ${found_lib}/lib${name}.so)
          set(found_problem "is incomplete: it has no lib${name}.so")
        endif()
      endforeach()
      # The machine that an ELF file is for; 62 is x86-64.
      file(READ ${found_lib}/libtorch_cpu.so head LIMIT 20 HEX)
      if(head MATCHES "^7f454c46" AND NOT head MATCHES "3e00$")
        set(found_problem "is built for another machine than x86-64")
      endif()
      tjit_missing_libraries(${found_lib}/libtorch_cpu.so missing)
      if(missing)
        set(found_problem
          "is incomplete: its libtorch_cpu.so needs ${missing}, not found")
      endif()
    endif()
  elseif(package)
    set(found_problem "has no C++ headers (include/ATen)")
  endif()
endmacro()

# The folders of torch packages that the active Python environment has.
function(tjit_active_torches result)
  set(found "")
  set(python python3)
  foreach(prefix "$ENV{CONDA_PREFIX}" "$ENV{VIRTUAL_ENV}")
    if(prefix AND EXISTS ${prefix}/bin/python3)
      set(python ${prefix}/bin/python3)
    endif()
  endforeach()
  # Not imported: that takes seconds. A folder `torch` in the working folder is
  # no package.
  execute_process(OUTPUT_VARIABLE folder ERROR_QUIET RESULT_VARIABLE status
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND ${python} -c "import sys
sys.path = [p for p in sys.path if p]
import importlib.util
spec = importlib.util.find_spec('torch')
if spec and spec.origin: print(spec.submodule_search_locations[0])")
  if(status EQUAL 0 AND folder)
    list(APPEND found ${folder})
  endif()
  foreach(prefix "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}")
    if(prefix)
      file(GLOB packages ${prefix}/lib/python*/site-packages/torch)
      list(APPEND found ${packages})
    endif()
  endforeach()
  if(NOT "$ENV{CONDA_PREFIX}" STREQUAL "")
    list(APPEND found $ENV{CONDA_PREFIX})
  endif()
  list(REMOVE_DUPLICATES found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# What to choose from where the search stops.
function(tjit_torch_question where result)
  if(where STREQUAL "the active Python")
    string(CONCAT first "this Python's, brought up to date: `python3 -m pip "
      "install --upgrade torch` (or conda's own command), then this again")
  else()
    string(CONCAT first "that of ${where}, brought up to date or taken away: "
      "then this again")
  endif()
  set(own "")
  if(NOT TJIT_TORCH_HINT)
    string(CONCAT own ", or ${TJIT_TORCH_OPTION}own for the one of tjit's own "
      ".venv, which scripts/quickstart.sh fetches. Programs of any other "
      "libtorch then run without tjit")
  endif()
  string(CONCAT text "Which libtorch shall it be?\n"
    "  - ${first}\n"
    "  - another one: ${TJIT_TORCH_OPTION}PATH of a libtorch >= "
    "${TJIT_TORCH_MIN}${own}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Looks at the folders of one place in turn; the first that will do is taken.
# `done` is then true, and so it is where the search has to stop.
macro(tjit_try_torch place)
  set(where "${place}")
  set(place_problem "")
  foreach(candidate ${ARGN})
    if(NOT done)
      get_filename_component(candidate ${candidate} ABSOLUTE)
      tjit_look_at_torch(${candidate})
      if(found_problem)
        string(JOIN " " found_name libtorch ${found_version})
        string(CONCAT found_problem "${found_name} of ${where} (${candidate}) "
          "${found_problem}.")
        list(APPEND TJIT_TORCH_NOTES "${found_problem}")
        if(NOT place_problem)
          set(place_problem "${found_problem}")
        endif()
      elseif(found_include)
        set(done TRUE)
        set(place_problem "")
        set(TJIT_TORCH_FOLDER ${candidate})
        set(TJIT_TORCH_WHERE "${where}")
        set(TJIT_TORCH_ROOT ${found_root})
        set(TJIT_TORCH_INCLUDE_DIR ${found_include})
        set(TJIT_TORCH_LIB_DIR ${found_lib})
        set(TJIT_TORCH_VERSION ${found_version})
      endif()
    endif()
  endforeach()
  # tjitConfig.cmake knows which one it wants.
  if(place_problem AND NOT TJIT_TORCH_HINT AND NOT where STREQUAL "the system")
    tjit_torch_question("${where}" question)
    set(TJIT_TORCH_ERROR "${place_problem} ${question}")
    set(done TRUE)
  endif()
endmacro()

# tjit_search_torch(): the order that stands above.
macro(tjit_search_torch)
  set(done FALSE)
  set(own_torch "")
  get_filename_component(own_venv ${CMAKE_CURRENT_LIST_DIR}/../.venv ABSOLUTE)
  file(GLOB own_torch ${own_venv}/lib/python*/site-packages/torch)
  if(TJIT_TORCH STREQUAL "own")
    tjit_try_torch(.venv ${own_torch})
    if(NOT done)
      set(TJIT_TORCH_ERROR "libtorch was not found in ${own_venv}: \
`scripts/quickstart.sh --torch=own` fetches one.")
      set(done TRUE)
    endif()
  elseif(TJIT_TORCH)
    get_filename_component(tjit_folder ${TJIT_TORCH} ABSOLUTE)
    tjit_try_torch(TJIT_TORCH ${tjit_folder})
    if(NOT done)
      set(TJIT_TORCH_ERROR "${TJIT_TORCH_OPTION}${TJIT_TORCH}: no libtorch \
lies there (no include/ATen/ATen.h).")
      set(done TRUE)
    endif()
  endif()
  if(NOT done)
    string(REPLACE ":" ";" env_prefixes "$ENV{CMAKE_PREFIX_PATH}")
    tjit_try_torch(CMAKE_PREFIX_PATH ${CMAKE_PREFIX_PATH} ${env_prefixes})
  endif()
  if(NOT done)
    tjit_try_torch("this tjit" ${TJIT_TORCH_HINT})
  endif()
  if(NOT done AND Torch_DIR)
    tjit_try_torch(Torch_DIR ${Torch_DIR}/../../..)
  endif()
  if(NOT done)
    tjit_active_torches(active)
    tjit_try_torch("the active Python" ${active})
  endif()
  if(NOT done)
    tjit_try_torch("the system" ${TJIT_SYSTEM_PREFIXES})
  endif()
  if(NOT done)
    tjit_try_torch(.venv ${own_torch})
  endif()
  if(NOT done)
    set(nowhere TRUE)
    set(TJIT_TORCH_ERROR "libtorch was not found: set CMAKE_PREFIX_PATH to a \
libtorch >= ${TJIT_TORCH_MIN}, for example the folder that `python3 -c 'import \
torch; print(torch.__path__[0])'` prints, or run scripts/quickstart.sh.")
  endif()
endmacro()

# Gives the caller what a search has set.
macro(tjit_give_torch)
  foreach(name ERROR NOTES ROOT FOLDER WHERE INCLUDE_DIR LIB_DIR VERSION)
    set(TJIT_TORCH_${name} "${TJIT_TORCH_${name}}" PARENT_SCOPE)
  endforeach()
endmacro()

# What was found earlier counts while the places to look are the same and it is
# still there: switching libtorch must not need a fresh build folder, and a
# build that configures itself again, in a terminal where no Python environment
# is active, must not switch.
function(tjit_find_torch)
  set(TJIT_TORCH_ERROR "")
  set(TJIT_TORCH_NOTES "")
  set(done FALSE)
  set(places "${TJIT_TORCH};${CMAKE_PREFIX_PATH};$ENV{CMAKE_PREFIX_PATH}")
  string(APPEND places ";${TJIT_TORCH_HINT};${Torch_DIR}")
  set(active "$ENV{VIRTUAL_ENV};$ENV{CONDA_PREFIX}")
  if(active STREQUAL ";")
    set(active "${TJIT_TORCH_ACTIVE}")
  endif()
  if(TJIT_TORCH_KEPT AND places STREQUAL "${TJIT_TORCH_PLACES}" AND
      active STREQUAL "${TJIT_TORCH_ACTIVE}")
    tjit_look_at_torch(${TJIT_TORCH_KEPT})
    if(found_include AND NOT found_problem)
      tjit_try_torch("${TJIT_TORCH_KEPT_WHERE}" ${TJIT_TORCH_KEPT})
    endif()
  endif()
  if(NOT done)
    tjit_search_torch()
  endif()
  tjit_give_torch()
  if(TJIT_TORCH_ERROR)
    return()
  endif()
  foreach(name torch torch_cpu c10)
    set(TJIT_LIB_${name} ${TJIT_TORCH_LIB_DIR}/lib${name}.so PARENT_SCOPE)
  endforeach()
  set(help "libtorch, as it was found")
  set(TJIT_TORCH_PLACES "${places}" CACHE INTERNAL "${help}")
  set(TJIT_TORCH_ACTIVE "${active}" CACHE INTERNAL "${help}")
  set(TJIT_TORCH_KEPT "${TJIT_TORCH_FOLDER}" CACHE INTERNAL "${help}")
  set(TJIT_TORCH_KEPT_WHERE "${TJIT_TORCH_WHERE}" CACHE INTERNAL "${help}")
endfunction()

# cmake -P: lines on stdout, `note ...` and `found ...` for people, `folder ...`
# or `error ...` (the rest of the text) as the last; neither where there is no
# libtorch at all.
function(tjit_print_torch)
  set(TJIT_TORCH_NOTES "")
  set(lines "")
  tjit_search_torch()
  if(NOT TJIT_TORCH_ERROR)
    foreach(note IN LISTS TJIT_TORCH_NOTES)
      string(APPEND lines "note ${note}\n")
    endforeach()
    string(APPEND lines "found libtorch ${TJIT_TORCH_VERSION} of "
      "${TJIT_TORCH_WHERE}: ${TJIT_TORCH_ROOT}\nfolder ${TJIT_TORCH_FOLDER}")
  elseif(NOT nowhere)
    set(lines "error ${TJIT_TORCH_ERROR}")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${lines}")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  tjit_print_torch()
  return()
endif()

tjit_find_torch()
if(NOT TJIT_TORCH_ERROR AND NOT TARGET tjit::torch)
  # Imported: its headers count as system headers, and the exported tjit::tjit
  # may name it although it is not installed.
  add_library(tjit::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(tjit::torch INTERFACE ${TJIT_TORCH_INCLUDE_DIR}
    ${TJIT_TORCH_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(tjit::torch INTERFACE ${TJIT_LIB_torch}
    ${TJIT_LIB_torch_cpu} ${TJIT_LIB_c10})
endif()
