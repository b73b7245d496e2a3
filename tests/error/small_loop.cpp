// A loop of a few ops for the tests of this folder. It prints the sum of its
// last values and ends with status 7.
//
// small_loop       the loop
// small_loop fork  a forked child runs the loop too, before
// small_loop ten   with tjit on, and the threshold said to be 10
// small_loop slow  the loop a hundred times, with time for other threads
// small_loop regions  the loop, each step in the region "loop/step"
// small_loop asks  the same, and the program says that nothing is excluded
// small_loop exec  the same program started as a child, while this one runs
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <sys/wait.h>
#include <tjit/region.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace {

bool has_regions = false;

float Loop() {
  at::Tensor x = at::ones({16}), y = x;
  for (int i = 0; i < 200; ++i) {
    std::optional<tjit::Region> region;
    if (has_regions) region.emplace("loop/step");
    y = at::add(x, y, 0.125);
    x = at::tanh(at::add(y, x));
    tjit::mark_step();
  }
  return at::sum(x).item<float>();
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "ten") {
    tjit::enable({.hot_threshold = 10});
    mode.clear();
  }
  if (mode == "asks") {
    tjit::set_region_options("loop", {.exclude = false});
    mode = "regions";
  }
  if (mode == "regions") {
    has_regions = true;
    mode.clear();
  }
  // The second time nothing new is to be said.
  if (argc == 1 &&
      (tjit::is_enabled() || std::getenv("TJIT_AUTO_COMPILE") != nullptr)) {
    tjit::enable();
  }
  for (int i = 0; mode == "slow" && i < 100; ++i) {
    Loop();
    usleep(2000);
  }
  if (mode == "slow") mode.clear();
  const float first = Loop();
  if (!mode.empty()) {
    const pid_t child = fork();
    if (child == 0 && mode == "exec") execl(argv[0], argv[0], nullptr);
    if (child == 0) std::exit(Loop() == first ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    const int expected = mode == "exec" ? 7 : 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected) return 1;
  }
  std::printf("%a\n", first);
  return 7;
}
