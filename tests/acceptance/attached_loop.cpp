// A program for attach_test.py that knows nothing of tjit: it does what the
// lines of its stdin say, and prints a line for each.
//
//   attached_loop THREADS
//
//   N         N steps on each thread; the first and the last of them on the
//             main thread, while the others rest
//   fork      the child goes on with the lines, until "end"
//   close     closes all descriptors but the first three
//   off       tjit::disable(), of the libtjit.so that is loaded
//
// At the end it prints the bits of what its threads computed; status 7.
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

// 5 ops a step; the constructor has one.
class Loop {
 public:
  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      y_ = at::add(x_, y_, 0.125);
      x_ = at::tanh(at::add(y_, x_));
      sum_ += at::sum(x_).item<float>();
    }
  }
  float sum() const { return sum_; }

 private:
  at::Tensor x_ = at::ones({16}), y_ = x_;
  float sum_ = 0;
};

void Run(std::vector<Loop>* loops, int steps) {
  loops->front().Steps(1);
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < loops->size(); ++i) {
    threads.emplace_back([loop = &(*loops)[i], steps] { loop->Steps(steps); });
  }
  loops->front().Steps(steps - 2);
  for (std::thread& thread : threads) thread.join();
  loops->front().Steps(1);
}

// Not by stdio, which would read lines that are the child's.
bool ReadLine(std::string* line) {
  line->clear();
  char c = 0;
  while (read(0, &c, 1) == 1) {
    if (c == '\n') return true;
    *line += c;
  }
  return false;
}

void Say(const std::string& text) {
  std::puts(text.c_str());
  std::fflush(stdout);
}

bool TurnTjitOff() {
  void* const library = dlopen("libtjit.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  void* const function = dlsym(library, "_ZN4tjit7disableEv");
  if (function == nullptr) return false;
  reinterpret_cast<void (*)()>(function)();
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Loop> loops(
      argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 1);
  std::string line;
  while (ReadLine(&line) && line != "end") {
    if (line == "fork") {
      if (const pid_t child = fork(); child != 0) {
        waitpid(child, nullptr, 0);
        Say("back");
        continue;
      }
      Say("child " + std::to_string(getpid()));
    } else if (line == "close") {
      for (int fd = 3; fd < 1024; ++fd) close(fd);
      Say("closed");
    } else if (line == "off") {
      Say(TurnTjitOff() ? "off" : dlerror());
    } else {
      Run(&loops, std::atoi(line.c_str()));
      Say("ran");
    }
  }
  for (const Loop& loop : loops) std::printf("%a\n", loop.sum());
  return 7;
}
