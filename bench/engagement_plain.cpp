// The eager peer: a program that tjit is no part of.
#include "bench/engagement.h"

namespace tjit::bench {

bool IsLinked() { return false; }
bool IsEnabled() { return false; }
void StartCounting() {}
Engagement Counted() { return {}; }
void Enable() {}
void Disable() {}
void MarkStep() {}
void Sync() {}

}  // namespace tjit::bench
