// What one object of tjit::jit() knows. Each of its calls is a JitCall
// (tjit/jit_call.h).
// Threads: any; what is no atomic number is under `mutex`.
// Tested by: tests/runtime/thread/jit_*_test.cpp
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/explanation.h"
#include "runtime/thread/functions/function_plan.h"
#include "runtime/thread/functions/function_session.h"
#include "support/mutex.h"
#include "tjit/jit.h"

namespace tjit::internal {

struct JitCore : std::enable_shared_from_this<JitCore> {
  explicit JitCore(JitOptions o);
  ~JitCore();
  JitCore(const JitCore&) = delete;
  JitCore& operator=(const JitCore&) = delete;
  ExplainedJit Explain() const;

  JitOptions options;
  bool is_backward = false;  // of a function whose results keep a graph
  std::atomic<const runtime::FunctionPlan*> last{nullptr};
  std::atomic<std::int64_t> calls{0}, replays{0}, recordings{0}, verified{0},
      not_same{0};

  mutable Mutex mutex;
  // What is dropped stays until the object dies: another thread may use it.
  std::vector<std::unique_ptr<const runtime::FunctionPlan>> plans
      ABSL_GUARDED_BY(mutex);
  std::deque<std::shared_ptr<const runtime::FunctionRecord>> records
      ABSL_GUARDED_BY(mutex);
  // By FormOf() a call.
  absl::flat_hash_map<std::uint64_t, int> failures ABSL_GUARDED_BY(mutex);
  int mismatches ABSL_GUARDED_BY(mutex) = 0;
  // Records since the last plan.
  int in_vain ABSL_GUARDED_BY(mutex) = 0;
  // Calls that followed a record and read a number that none reads, since the
  // last plan. Behind the n-th of them n calls are recorded: were it always
  // one, calls whose numbers take turns might never meet a record of their own.
  int other_values ABSL_GUARDED_BY(mutex) = 0;
  int records_due ABSL_GUARDED_BY(mutex) = 0;
  std::string why ABSL_GUARDED_BY(mutex);
};

// A plan that calls replay from now on, in the place of `before` unless that is
// null. `form`: FormOf() the call.
void PublishPlan(JitCore* core, const runtime::FunctionPlan* before,
                 std::uint64_t form,
                 std::unique_ptr<runtime::FunctionPlan> plan);

// A call that runs the function, and what is seen meanwhile.
struct JitSession {
  runtime::ThreadState* state = nullptr;
  runtime::FunctionSession seen;
  const runtime::FunctionPlan* plan = nullptr;  // compared with the call
  std::uint64_t form = 0;                       // FormOf() the call
  bool is_probe = false;         // numbers are others than the record's
  bool is_verified = false;      // not to make it serve more, but to be sure
  std::uint64_t first_node = 0;  // the sequence number of nodes, before it
};

// What stands for the call.
struct JitCall::Found {
  const runtime::FunctionPlan* plan = nullptr;
  bool is_wider = false;  // the plan may come to serve the call, too
  std::shared_ptr<const runtime::FunctionRecord> record;
  bool is_probe = false;  // numbers are others than the record's
  std::uint64_t form = 0;
  bool is_left_alone = false;
  // A replay by this plan read `bits` at its read number `read`, where no plan
  // goes on; null: none did.
  const runtime::FunctionPlan* left = nullptr;
  std::size_t read = 0;
  std::uint64_t bits = 0;
};

}  // namespace tjit::internal
