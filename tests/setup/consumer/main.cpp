// Switches tjit on and off, in a program that uses libtorch itself.
#include <ATen/Parallel.h>
#include <tjit/tjit.h>

#include <cstdio>

int main() {
  if (!tjit::enable() || !tjit::is_enabled()) return 1;
  tjit::mark_step();
  std::printf("ops seen: %lld, threads: %d\n",
              static_cast<long long>(tjit::stats().ops_seen),
              at::get_num_threads());
  tjit::disable();
  return tjit::is_enabled() ? 1 : 0;
}
