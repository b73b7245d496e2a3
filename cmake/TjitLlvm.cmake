# Finds LLVM: the newest of the versions that were tried, those of
# docs/compatibility.md. -DTJIT_LLVM_CONFIG= names another llvm-config.
# Sets TJIT_LLVM_CONFIG, false where there is none.
include_guard(GLOBAL)

set(TJIT_LLVM_TESTED 22 19)  # scripts/lib.sh reads it, too
list(TRANSFORM TJIT_LLVM_TESTED PREPEND llvm-config- OUTPUT_VARIABLE names)
list(TRANSFORM TJIT_LLVM_TESTED REPLACE "(.+)" "/usr/lib/llvm-\\1/bin"
  OUTPUT_VARIABLE folders)
find_program(TJIT_LLVM_CONFIG NAMES ${names} HINTS ${folders}
  DOC "llvm-config of LLVM")
