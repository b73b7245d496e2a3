// A program for log_test.py that knows nothing of tjit. `logged_program MODE`
// runs a loop of a few ops, prints its result and ends with status 7:
//
//   loop     nothing else         throw   with an op that throws, caught
//   threads  in two threads too   fork    in a forked child as well
//   kill, abort                   ends so after the loop
//   segv                          in the kernel of an op
//   slow                          prints a line, waits for one, runs it again
//   exit                          main ends while a thread is in a kernel
#include <ATen/ops/add.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

constexpr int kSteps = 200;

float Loop() {
  at::Tensor x = at::ones({16}), y = x;
  float sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    y = at::add(x, y, 0.125);
    x = at::tanh(at::add(y, x));
    sum += at::sum(x).item<float>();
  }
  return sum;
}

void InAChild() {
  const pid_t child = fork();
  if (child == 0) {
    Loop();
    std::exit(0);
  }
  waitpid(child, nullptr, 0);
}

// The kernel reads memory that nobody may read.
void Segv() {
  constexpr std::size_t kBytes = 4096;
  void* page =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  at::add(at::from_blob(page, {16}), at::ones({16}));
}

void Throw() {
  try {
    at::mm(at::ones({2, 3}), at::ones({2, 3}));
  } catch (const c10::Error&) {
    std::puts("thrown");
  }
}

// `exit`: the thread stays in the kernel of set_(), which drops memory, until
// every destructor of a static object has run.
std::atomic<bool> in_kernel{false}, all_gone{false}, returned{false};

void WaitFor(const std::atomic<bool>& flag) {
  for (int ms = 0; !flag && ms < 60000; ++ms) usleep(1000);
}

void DropInKernel(void*) {
  in_kernel = true;
  WaitFor(all_gone);
}

void StayInKernel() {
  static float memory[16];
  at::Tensor t = at::from_blob(memory, {16}, DropInKernel);
  at::sum(t);
  t.set_();
  returned = true;
}

// Registered before any library and as nobody's own, so it runs behind their
// destructors.
void AtTheEnd(int, void*) {
  all_gone = true;
  if (in_kernel) WaitFor(returned);
}
void Register() { on_exit(AtTheEnd, nullptr); }
[[gnu::section(".preinit_array"), gnu::used]] void (*const kRegister)() =
    &Register;

void Run(const std::string& mode) {
  if (mode == "exit") {
    std::thread(StayInKernel).detach();
    WaitFor(in_kernel);
  }
  if (mode == "fork") InAChild();
  if (mode == "throw") Throw();
  if (mode == "kill") std::raise(SIGKILL);
  if (mode == "abort") std::abort();
  if (mode == "segv") Segv();
  if (mode == "slow") {
    std::puts("waits");
    std::fflush(stdout);
    std::getchar();
    Loop();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "loop";
  const float result = Loop();
  if (mode == "threads") {
    std::thread first(Loop), second(Loop);
    first.join();
    second.join();
  }
  Run(mode);
  std::printf("%a\n", result);
  return 7;
}
