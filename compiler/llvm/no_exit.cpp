// No destructor of this library runs when the process ends.
//
// The worker may be compiling while main() returns, and LLVM's statics, the
// function-local ones among them, would go while it uses them ("pure virtual
// method called"). The library is never unloaded, and what they hold is the
// process's memory: nothing is lost. The linker binds the calls of LLVM's
// archives to this definition, which nobody else sees.
// Tested by: tests/error/backend_test.py
extern "C" [[gnu::visibility("hidden")]] int __cxa_atexit(void (*)(void*),
                                                          void*, void*) {
  return 0;
}
