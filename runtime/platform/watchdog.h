// Ends a test that waits for ever, and says who waits for whom.
//
// How: what may wait (a flush, a thread that wants another's state) is noted in
// a table while it lasts; with TJIT_WATCHDOG=SECONDS a thread looks at the table
// and, where something has lasted longer, prints all states and the stack of
// every thread, and aborts. Never in users' runs: without TJIT_PLANTED_DEFECTS
// all of it is empty. The child of a fork() is not watched.
//
// Threads: the table's slots are taken and given back with one atomic exchange.
// Tested by: tests/runtime/platform/waiting_test.cpp, hand_over_test.cpp, which
// run under it
#pragma once

#include <cstdint>
#include <string>

namespace tjit::runtime {

#if defined(TJIT_PLANTED_DEFECTS)

// Something that must end, on this thread. `what`: a literal.
class Watched {
 public:
  explicit Watched(const char* what);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  int slot_ = -1;
};

// From now on what lasts longer than `seconds` ends the process. `describe`
// says what states there are; it must wait for no lock. Once.
void StartWatchdog(std::int64_t seconds, std::string (*describe)());

#else

class Watched {
 public:
  explicit Watched(const char*) {}
};
inline void StartWatchdog(std::int64_t, std::string (*)()) {}

#endif

}  // namespace tjit::runtime
