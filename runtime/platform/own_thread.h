// For threads that tjit starts in the program's process.
// Tested by: tests/runtime/tier2/worker_jobs_test.cpp,
// tests/runtime/event_test.cpp
#pragma once

#include <pthread.h>
#include <signal.h>

namespace tjit::runtime {

// While it lives, threads that are started block what the program has handlers
// for, but not what the kernel sends for the thread's own doing.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
      sigdelset(&all, own);
    }
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace tjit::runtime
