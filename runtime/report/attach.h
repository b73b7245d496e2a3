// The process's side of `tjit attach`: the page that it shares with the command
// (recorder/attach_page.h), and the word in it that every op looks at.
//
// The page lies over a variable of libtjit's, so that an op pays one load and
// one branch, whether somebody may attach or not. Where the system gives no
// such page the variable is as it was, and nobody can attach.
//
// A thread that sees kAttachAsked takes the request: it starts a log, or ends
// it. Whoever logs an op looks whether the time is over. Nothing else is done
// for the command: no thread, no file, no signal.
// Threads: any. Tested by: tests/runtime/report/attach_test.cpp,
// tests/acceptance/attach_test.py
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "recorder/attach_page.h"

namespace tjit::runtime {

extern constinit AttachPage g_attach_page;

// An instruction log is on, or somebody asks for one.
inline bool LogsOrIsAsked() {
  return g_attach_page.word.load(std::memory_order_relaxed) != 0;
}
inline bool InstructionLogOn() {
  return (g_attach_page.word.load(std::memory_order_relaxed) & kAttachLogs) !=
         0;
}

// Shares the page. Once, before the first op.
void OfferAttach();
// A forked child has a page of its own. `logs`: it goes on with the log that
// its parent has written from the start on.
void OfferAttachInChild(bool logs);

// tjit was switched on, or off, which ends a log that was asked for.
void SetAttachOn(bool is_on);
// The process writes this log from its start on.
void RefuseAttach(const std::string& own_log);
// The process ends.
void EndAttachAtExit();

// Takes a request, if there is one, and ends a log whose time is over. True if
// a log has begun. REQUIRES: this thread is not within a StreamScope.
bool LookAtAttach();

// Around fork().
void LockAttachForFork();
void UnlockAttachAfterFork();

}  // namespace tjit::runtime
