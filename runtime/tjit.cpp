// The public functions of tjit.h, and what happens when the library loads.
#include "tjit/tjit.h"

#include <c10/util/Exception.h>

#include "recorder/env.h"
#include "runtime/kernel_wrap.h"
#include "runtime/log.h"
#include "runtime/materialize.h"
#include "runtime/runtime.h"
#include "runtime/testing.h"
#include "runtime/thread_context.h"

namespace tjit {
namespace {

using runtime::Runtime;

// The caller's options with what the environment says over them.
Options WithEnvironment(Options options) {
  const EnvOptions& env = Environment();
  if (env.has_hot_threshold) options.hot_threshold = env.hot_threshold;
  if (env.has_compile_all) options.compile_all = env.compile_all;
  if (env.has_debug_compile) options.debug_compile = env.debug_compile;
  if (env.has_stats_path) options.stats_path = env.stats_path;
  if (env.has_stress && env.stress_hide) options.stress = Stress::kHide;
  return options;
}

// Says what is wrong with the environment, once, when tjit is first used.
void Complain() {
  static const bool said = [] {
    for (const std::string& text : Environment().complaints) {
      runtime::LogWarning(text);
    }
    return true;
  }();
  static_cast<void>(said);
}

struct AtLoad {
  AtLoad() {
    const EnvOptions& env = Environment();
    if (!env.complaints.empty()) Complain();
    if (!env.planted_defect.empty() &&
        !testing::SetPlantedDefect(env.planted_defect)) {
      runtime::LogWarning("TJIT_PLANTED_DEFECT: unknown defect \"" +
                          env.planted_defect + "\"");
    }
    if (env.auto_compile || (env.has_stress && env.stress_hide)) enable();
  }
  ~AtLoad() {
    runtime::g_enabled.store(false);
    runtime::WriteStatsFile();
  }
};
AtLoad at_load;

}  // namespace

bool enable(const Options& options) {
  Complain();
  return Runtime::Get().Enable(WithEnvironment(options), /*for_thread=*/false);
}

void disable() { Runtime::Get().Disable(); }

bool is_enabled() noexcept {
  return runtime::g_enabled.load(std::memory_order_relaxed) &&
         (runtime::g_process_enabled.load(std::memory_order_relaxed) ||
          runtime::t_context.scoped_on > 0);
}

AutoCompile::AutoCompile(Scope scope, const Options& options)
    : scope_(scope),
      was_on_(runtime::g_process_enabled.load(std::memory_order_relaxed)) {
  Complain();
  const bool for_thread = scope == Scope::kThread;
  if (for_thread) ++runtime::t_context.scoped_on;
  Runtime::Get().Enable(WithEnvironment(options), for_thread);
}

AutoCompile::~AutoCompile() {
  try {
    if (scope_ == Scope::kThread) {
      runtime::FlushThisThread(FlushReason::kSyncCall);
    } else if (!was_on_) {
      disable();
    }
  } catch (const std::exception& e) {
    runtime::LogWarning(
        std::string("the end of tjit::AutoCompile leaves ops pending until "
                    "their results are read: ") +
        e.what());
  }
  if (scope_ == Scope::kThread) --runtime::t_context.scoped_on;
}

void mark_step() {
  if (runtime::ThreadState* state = runtime::ActiveState()) {
    state->OnMarkStep();
  }
}

void sync() { runtime::FlushAllThreads(FlushReason::kSyncCall); }

void clear() { Runtime::Get().Clear(); }

void mark_opaque(std::string_view name) {
  TORCH_CHECK(!name.empty(),
              "tjit::mark_opaque: the name is empty; give \"ns::op.overload\", "
              "\"ns::op\" or \"ns::\"");
  // Traces that defer it are to be forgotten.
  if (runtime::MarkOpaque(name) != 0) clear();
}

Stats stats() { return Runtime::Get().Collect(); }

}  // namespace tjit
