// How many ops are pending in this process: for programs that cannot link
// libtjit (Python, by ctypes).
#include <tjit/tjit.h>

#include <cstdint>

extern "C" TJIT_API std::int64_t tjit_test_pending() {
  const tjit::Stats now = tjit::stats();
  return now.ops_deferred - now.ops_replayed - now.ops_drained;
}
