// The page of a process that runs under tjit, as `tjit attach` uses it
// (recorder/attach_page.h).
//
//   AttachedProcess process;
//   std::string why = process.Find(pid);
//   if (why.empty()) process.Ask(wanted);
//   while (process.State() == AttachState::kRuns && !process.HasEnded()) ...
//   process.Stop();
//
// The page is found in /proc/PID/fd, so the process is neither stopped nor
// traced. A request that is not taken yet is withdrawn with the object.
// Thread: one. Tested by: tests/acceptance/attach_test.py,
// tests/runtime/report/attach_test.cpp
#pragma once

#include <cstdint>
#include <string>

#include "recorder/attach_page.h"

namespace tjit::tools {

class AttachedProcess {
 public:
  struct Wanted {
    std::string path;  // as the process sees it, from / on
    std::uint64_t length_ms = 0;
    std::uint64_t mb = 0;  // 0: unbounded
  };

  AttachedProcess() = default;
  ~AttachedProcess();
  AttachedProcess(const AttachedProcess&) = delete;
  AttachedProcess& operator=(const AttachedProcess&) = delete;

  // Returns "", or what is wrong and what to do, as a sentence.
  std::string Find(std::uint32_t pid);
  // The path of the log that the process writes by itself, or "".
  std::string OwnLog() const;

  // Asks for a log; what comes of it, State() says. The last request is
  // withdrawn. REQUIRES: Find() has said "", and OwnLog() too.
  void Ask(const Wanted& wanted);
  // False if the process has taken the request meanwhile.
  bool Withdraw();
  // Asks for the end.
  void Stop();

  // Of what was asked for; kNone until the process answers.
  AttachState State() const;
  // What the process says of it.
  std::string Text() const;
  // True if tjit is on in the process.
  bool IsOn() const;
  // The process is gone.
  bool HasEnded() const;

 private:
  // Opens one file of the process. True if it is the page of this process.
  bool Open(const std::string& link);
  std::string WhyNoPage() const;

  std::uint32_t pid_ = 0;
  int folder_ = -1;  // /proc/PID, which stays that of this process
  int file_ = -1;
  AttachPage* page_ = nullptr;
  std::uint32_t token_ = 0;
  std::uint32_t other_version_ = 0;  // of a page that is not this tjit's
};

}  // namespace tjit::tools
