// The shim's exported functions: one jump through a slot for each interposed
// function, and the entry of dlopen(). Assembly because whatever the callee's
// arguments are, they pass through untouched, and because dlopen() looks at
// who called it.
#include "runtime/preload/preload.h"

#if !defined(__x86_64__)
#error "The trampolines of the preload shim are written for x86-64."
#endif

// Numbers slots in the order of interposed.def. An unfilled slot leads to
// tjit_shim_resolve, which finds the definition to go on with.
#define TJIT_TRAMPOLINE(symbol)                                               \
  ".globl " #symbol "\n"                                                      \
  ".type " #symbol ", @function\n"                                            \
  ".p2align 4\n" #symbol ":\n"                                                \
  "  endbr64\n"                                                               \
  "  jmp *tjit_shim_slots+8*tjit_shim_index(%rip)\n"                          \
  ".size " #symbol ", . - " #symbol "\n"                                      \
  "1:endbr64\n"                                                               \
  "  pushq $tjit_shim_index\n"                                                \
  "  jmp tjit_shim_resolve\n"                                                 \
  ".pushsection .data.tjit_slots, \"aw\", @progbits\n"                        \
  ".quad 1b\n"                                                                \
  ".popsection\n"                                                             \
  ".set tjit_shim_index, tjit_shim_index + 1\n"

#define TJIT_CONST_POINTER(symbol) TJIT_TRAMPOLINE(symbol)
#define TJIT_TENSOR_MAKER(symbol) TJIT_TRAMPOLINE(symbol)
#define TJIT_BOOL_SETTER(symbol) TJIT_TRAMPOLINE(symbol)
#define TJIT_INTERPOSED_AS_IS(symbol) TJIT_TRAMPOLINE(symbol)

asm(R"(
  .pushsection .data.tjit_slots, "aw", @progbits
  .p2align 3
  .globl tjit_shim_slots
  .hidden tjit_shim_slots
tjit_shim_slots:
  .popsection

  .text
  .set tjit_shim_index, 0
)"
#include "runtime/intercept/interposed.def"
R"(
# On the stack: the index, the return address. Keeps every register that can
# carry an argument.
  .p2align 4
  .type tjit_shim_resolve, @function
tjit_shim_resolve:
  .cfi_startproc
  .cfi_adjust_cfa_offset 8
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %rax
  push %r10
  sub $128, %rsp
  .cfi_adjust_cfa_offset 192
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  mov 192(%rsp), %rdi
  call tjit_shim_target
  mov %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $128, %rsp
  pop %r10
  pop %rax
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  add $8, %rsp
  .cfi_adjust_cfa_offset -200
  jmp *%r11
  .cfi_endproc
  .size tjit_shim_resolve, . - tjit_shim_resolve

# dlopen(name, flags): to libc's own as if we were not there, or to ours.
  .globl dlopen
  .type dlopen, @function
  .p2align 4
dlopen:
  .cfi_startproc
  endbr64
  mov (%rsp), %rdx
  push %rdi
  push %rsi
  sub $8, %rsp
  .cfi_adjust_cfa_offset 24
  call tjit_shim_dlopen_target
  add $8, %rsp
  pop %rsi
  pop %rdi
  .cfi_adjust_cfa_offset -24
  jmp *%rax
  .cfi_endproc
  .size dlopen, . - dlopen
)");
