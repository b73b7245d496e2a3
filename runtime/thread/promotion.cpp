#include "runtime/thread/promotion.h"

#include <string>
#include <vector>

#include "runtime/library_calls/call_names.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/report/events.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"

namespace tjit::runtime {
namespace {

// Of its slots that have one, in their order.
std::vector<std::string> NamesIn(const std::vector<const TraceNode*>& path) {
  std::vector<std::string> names(path.empty() ? 0 : path.back()->slot_end());
  for (const TraceNode* node : path) AddSlotNames(*node, &names);
  std::erase(names, "");
  return names;
}

}  // namespace

void OnPromoted(const TraceStore& store, const Trace* trace) {
  const bool wants_names = InstructionLogOn() && HasTensorNames();
  if (!wants_names && !TellsEvents()) return LogHot(store, trace, {});
  const std::vector<const TraceNode*> path = store.PathOf(trace);
  LogHot(store, trace,
         wants_names ? NamesIn(path) : std::vector<std::string>());
  if (!path.empty()) TellPromoted(path, *trace, "");
}

void CountSightings(TraceStore* store, Trace* trace, std::size_t times,
                    std::int64_t threshold) {
  for (std::size_t i = 0; i < times; ++i) {
    const bool is_hot_now = store->CountSighting(trace, threshold);
    if (InstructionLogOn()) LogSighting(*trace, threshold, is_hot_now);
    if (is_hot_now) OnPromoted(*store, trace);
  }
}

}  // namespace tjit::runtime
