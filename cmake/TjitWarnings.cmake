# tjit_configure(target): warnings, optimisation, asserts and sanitizers of our
# code.
function(tjit_configure target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter
    -ffp-contract=off $<$<BOOL:${TJIT_WERROR}>:-Werror>)
  if(TJIT_THREAD_SAFETY)
    # libstdc++ uses what it deprecates itself, and functions that stand in the
    # place of libtorch's are extern "C" under its mangled names.
    target_compile_options(${target} PRIVATE -Wthread-safety
      -Werror=thread-safety -Wno-deprecated-declarations
      -Wno-return-type-c-linkage)
  endif()
  target_compile_definitions(${target} PRIVATE
    $<$<CONFIG:Debug>:TJIT_ASSERTS>)
  if(TJIT_SANITIZE)  # a list: $<BOOL:> takes none with a comma
    target_compile_definitions(${target} PRIVATE TJIT_ASSERTS)
    target_compile_options(${target} PRIVATE -fsanitize=${TJIT_SANITIZE}
      -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${TJIT_SANITIZE})
  endif()
endfunction()
