// See engine.h.
#include "tests/differential/engine.h"

#include <algorithm>

#include "runtime/testing.h"
#include "tests/differential/machine.h"
#include "tjit/tjit.h"

namespace tjit::differential {
namespace {

bool IsCompiled(Engine engine) {
  return engine == Engine::kInterpreter || engine == Engine::kLlvm ||
         engine == Engine::kPlain || engine == Engine::kTorchscript ||
         engine == Engine::kSideExit || engine == Engine::kThreads;
}

std::int64_t Share(const RunResult& result, Engine engine) {
  return engine == Engine::kForcedDrain ? result.ops_drained
                                        : result.ops_replayed;
}

}  // namespace

const std::vector<std::string_view>& EngineNames() {
  static const std::vector<std::string_view> names = {
      "eager",       "tier1", "interpreter", "llvm",    "plain",
      "torchscript", "drain", "exit",        "threads", "jit"};
  return names;
}

bool ParseEngine(std::string_view name, Engine& engine) {
  const auto& names = EngineNames();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return false;
  engine = static_cast<Engine>(found - names.begin());
  return true;
}

// Leaves every second iteration, at one op more each time.
class Exits {
 public:
  // REQUIRES: called before iteration 0, 1, ... of those with exits.
  void Before(std::int64_t iteration, RunResult* result) {
    const std::int64_t drained = stats().ops_drained;
    const bool is_left = iteration % 2 == 1;
    if (is_left && drained > drained_) ++result->exits;
    drained_ = drained;
    testing::SetForcedDrainAt(is_left ? -1 : iteration / 2);
  }

 private:
  std::int64_t drained_ = 0;
};

RunResult RunIn(Engine engine, const Program& program, std::int64_t drain_at,
                std::int64_t exits_from, int threads) {
  RunResult result;
  if (engine == Engine::kEager) {
    result.log = RunProgram(program, threads);
    return result;
  }
  Options options;
  options.hot_threshold = 2;
  const bool is_compiled = IsCompiled(engine);
  // By default what runs for a millisecond is compiled: on a busy machine.
  if (!is_compiled) options.backend = Backend::kReplay;
  if (engine == Engine::kInterpreter) options.backend = Backend::kInterpreter;
  if (engine == Engine::kTorchscript) options.backend = Backend::kTorchscript;
  if (engine == Engine::kLlvm || engine == Engine::kPlain ||
      engine == Engine::kSideExit || engine == Engine::kThreads) {
    options.backend = Backend::kLlvm;
    options.compile_all = true;  // does not wait until it pays
  }
  testing::SetPlainCode(engine == Engine::kPlain);
  testing::ShareAllLoops(engine == Engine::kThreads);
  const std::int64_t shared = testing::LoopsShared();
  if (!enable(options)) return result;
  clear();
  testing::SetForcedDrainAt(engine == Engine::kForcedDrain ? drain_at : -1);
  testing::TryStepsAtOnce(true);
  Stats before;
  Stats hot;
  Exits exits;
  const std::int64_t hot_end =
      exits_from >= 0 ? exits_from : program.iterations;
  result.log = RunProgram(
      program, threads,
      [&](std::int64_t it) {
        if (is_compiled) testing::WaitForCompiler();
        if (it == hot_end - kHotIterations) before = stats();
        if (it == hot_end) hot = stats() - before;
        if (exits_from >= 0 && it >= exits_from) {
          exits.Before(it - exits_from, &result);
        }
      },
      {}, engine == Engine::kJit);
  testing::SetForcedDrainAt(-1);
  testing::TryStepsAtOnce(false);
  disable();
  // What is still pending has run in no engine yet.
  result.ops_seen = hot.ops_eager + hot.ops_replayed + hot.ops_drained;
  result.stats_json = hot.to_json();
  result.ops_replayed = hot.ops_replayed;
  result.ops_drained = hot.ops_drained;
  result.ops_fused = hot.steps_fused;
  result.functions = hot.jit_replays;
  result.shared = testing::LoopsShared() - shared;
  return result;
}

// Each op of an iteration of `program`, which has so many, is left once.
void CompareExits(const Program& program, std::int64_t ops, Verdict* verdict) {
  Program longer = program;
  longer.iterations += static_cast<int>(2 * ops + 1);
  const RunResult eager = RunIn(Engine::kEager, longer);
  const RunResult tested =
      RunIn(Engine::kSideExit, longer, -1, program.iterations);
  ++verdict->runs;
  verdict->difference = FirstDifference(eager.log, tested.log, Nans::kAreEqual);
  if (ops == 0) return;
  verdict->share = std::min(verdict->share, static_cast<double>(tested.exits) /
                                                static_cast<double>(ops));
}

Verdict Compare(Engine engine, const Program& whole, int max_drains) {
  Verdict verdict;
  const Program program =
      engine == Engine::kJit ? WithoutHostStatements(whole) : whole;
  const int threads = engine == Engine::kThreads ? 2 : 1;
  const RunResult eager = RunIn(Engine::kEager, program, -1, -1, threads);
  std::int64_t shared = 0;
  auto run = [&](std::int64_t drain_at) {
    const RunResult tested = RunIn(engine, program, drain_at, -1, threads);
    shared += tested.shared;
    ++verdict.runs;
    verdict.ops = tested.ops_seen;
    verdict.stats_json = tested.stats_json;
    double share = tested.ops_seen == 0
                       ? 0
                       : static_cast<double>(Share(tested, engine)) /
                             static_cast<double>(tested.ops_seen);
    if (engine == Engine::kJit) {
      share = static_cast<double>(tested.functions) / kHotIterations;
    }
    verdict.share = std::max(verdict.share, share);
    if (tested.ops_seen != 0) {
      verdict.fused_share = static_cast<double>(tested.ops_fused) /
                            static_cast<double>(tested.ops_seen);
    }
    std::string difference =
        FirstDifference(eager.log, tested.log,
                        IsCompiled(engine) ? Nans::kAreEqual : Nans::kByBits);
    if (difference.empty()) return true;
    if (drain_at >= 0) {
      difference = "drained at op " + std::to_string(drain_at) + ": " +
                   difference;
    }
    verdict.difference = difference;
    return false;
  };
  if (engine == Engine::kSideExit) {
    if (run(-1)) CompareExits(program, verdict.ops / kHotIterations, &verdict);
  } else if (engine != Engine::kForcedDrain) {
    run(-1);
  } else if (run(0)) {
    std::int64_t ops = verdict.ops / kHotIterations;
    std::int64_t step = std::max<std::int64_t>(1, ops / max_drains);
    for (std::int64_t k = ops; k > 0 && run(k); k -= step) {
    }
  }
  verdict.is_counted =
      verdict.share >= kCountedShare &&
      (!IsCompiled(engine) || verdict.fused_share >= kFusedShare) &&
      (threads == 1 || shared > 0);
  return verdict;
}

}  // namespace tjit::differential
