// A program that does not link libtorch and loads it late, for run_test.py.
//
// late_loader LIBRARY      dlopen(LIBRARY, RTLD_LOCAL), then the loop in it;
//                          a name without a slash is found by our RUNPATH
// late_loader fork-first LIBRARY   the same in a forked child
// late_loader torch LIBRARY        only loads it
// late_loader twice OTHER LIBRARY  loads OTHER when the loop's is loaded
// late_loader dlmopen LIBRARY      into a namespace of its own
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  const std::string_view mode = argc > 2 ? argv[1] : "";
  if (argc < 2) return 1;
  if (mode == "fork-first") {
    const pid_t child = fork();
    if (child != 0) {
      int status = 0;
      waitpid(child, &status, 0);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
  }
  void* library =
      mode == "dlmopen"
          ? dlmopen(LM_ID_NEWLM, argv[argc - 1], RTLD_NOW | RTLD_LOCAL)
          : dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  if (mode == "torch") return 0;
  if (mode == "twice" && dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  auto* run = reinterpret_cast<int (*)()>(dlsym(library, "RunUnmodifiedLoop"));
  return run == nullptr ? 1 : run();
}
