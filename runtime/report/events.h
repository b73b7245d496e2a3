// Events for the callbacks of the program (tjit::on_event), on their way to the
// thread that calls them.
//
// Whoever has something to tell puts it into a queue, whatever he holds: the
// mutex is a leaf. One thread takes it out and calls. The same thing again
// within a second is counted and told then, so a program that falls back at
// each step is told once a second.
//
// Invariants: (1) No callback runs under a lock. (2) At most kMostEvents wait,
// and kMostRepeated things are counted; what comes beyond is counted as missed.
// (3) Without a callback nothing is built, and what is asked for it is one
// load.
// Threads: any. Fork: a child starts a thread of its own.
// Tested by: tests/runtime/event_test.cpp
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "recorder/trace_node.h"
#include "support/bail.h"
#include "tjit/event.h"

namespace tjit::runtime {

inline constexpr std::size_t kMostEvents = 4096;
inline constexpr std::size_t kMostRepeated = 4096;

extern std::atomic<bool> g_has_event_callbacks;
inline bool TellsEvents() {
  return g_has_event_callbacks.load(std::memory_order_relaxed);
}

// All below do nothing while there is no callback.
void TellEvent(Event event);
void TellPromoted(const std::vector<const TraceNode*>& path, const Trace& trace,
                  const std::string& function);

// What differed when a run left its sequence, for the next TellFellBack() of
// this thread.
void KeepDifference(const Trace& trace, BailReason why, std::string op,
                    std::string expected, std::string actual);
// True if TellFellBack() would say more than that it happened again.
bool IsFirstFallback(std::uint64_t lineage, const Trace& trace, BailReason why);
// A run left `trace` behind `node`.
void TellFellBack(std::uint64_t lineage, const Trace& trace,
                  const TraceNode& node, BailReason why);
// The trace is let pass for long: eager is as fast, or runs left it too often.
void TellGivenUp(std::uint64_t lineage, const Trace& trace, bool is_slower);

// Of the region that steps of that context are in; "" outside of all.
std::string RegionNameOf(std::uint32_t context);

// The exit begins: no callback is called from now on.
void StopEvents();
void LockEventsForFork();
void UnlockEventsAfterFork(bool is_child);

}  // namespace tjit::runtime
