#include "runtime/platform/wait_row.h"

#include <iterator>

#include "runtime/report/attach.h"
#include "runtime/report/log_writers.h"

namespace tjit::runtime {
namespace {

const char* Details(WaitFor what) {
  switch (what) {
    case WaitFor::kThread:
      return "for=thread";
    case WaitFor::kOwnState:
      return "for=own_state";
    case WaitFor::kEnable:
      return "for=enable";
    case WaitFor::kThreads:
      return "for=threads";
    case WaitFor::kCode:
      return "for=compiler at=wait_until_compiled";
    case WaitFor::kFork:
      return "for=compiler at=fork";
    case WaitFor::kExit:
      return "for=compiler at=exit";
    case WaitFor::kProfile:
      return "for=profile";
  }
  return "?";
}

}  // namespace

void WaitRow::Begin(WaitFor what, const OwnerLock* lock) {
  if (row_ != nullptr || !InstructionLogOn() || !LogHasBegun() ||
      HasThreadEnded() || IsLockOfLog(lock)) {
    return;
  }
  const std::uint64_t key[] = {static_cast<std::uint64_t>(what)};
  row_ = BeginRow(
      LogEvent::kWait, {key, std::size(key)},
      [what] { return LogStream::Text{"Waited", Details(what)}; }, &log_);
}

void WaitRow::End() { EndRow(row_, log_); }

}  // namespace tjit::runtime
