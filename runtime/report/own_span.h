// Spans of tjit's own work for those who watch ops: running what is pending,
// preparing it, and where code for it came.
//
// Code is compiled on another thread, in the background. A span there could be
// open when the profile ends, and what its end writes to libtorch's profiler
// has freed by then. So the program's thread shows a short span where it takes
// the code up, whose name says how long compiling took.
//
// Thread: any, about itself.
// Tested by: tests/runtime/thread/observers_test.cpp
#pragma once

#include <ATen/record_function.h>

#include <optional>
#include <string>
#include <vector>

namespace tjit {
struct TraceNode;
}

namespace tjit::runtime {

// "86 ops addmm ... add_". REQUIRES: there are some.
std::string OpsText(const std::vector<TraceNode*>& nodes);

// While it lives observers are off on this thread, though somebody watches, but
// for spans of tjit's own.
class OnlyOwnSpans {
 public:
  OnlyOwnSpans();
  ~OnlyOwnSpans();
  OnlyOwnSpans(const OnlyOwnSpans&) = delete;
  OnlyOwnSpans& operator=(const OnlyOwnSpans&) = delete;

 private:
  const at::DisableRecordFunctionGuard off_;
};

// A span of the scope USER_SCOPE from Begin() on, while it lives.
class OwnSpan {
 public:
  OwnSpan() = default;
  OwnSpan(const OwnSpan&) = delete;
  OwnSpan& operator=(const OwnSpan&) = delete;

  // True if somebody watches, who sees it.
  static bool IsSeen();
  // "tjit: " and `name`. Who asks for inputs gets the shapes of the tensors
  // that `nodes`, steps of one path in order, find and do not make themselves.
  // REQUIRES: IsSeen().
  void Begin(const std::string& name,
             const std::vector<TraceNode*>& nodes = {});

 private:
  std::optional<at::RecordFunction> span_;
};

}  // namespace tjit::runtime
