#include "bench/harness.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <torch/version.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "bench/engagement.h"
#include "bench/memory_use.h"

namespace tjit::bench {
namespace {

constexpr std::int64_t kSettleSteps = 4;
// Parts of the warm-up whose times are kept: peers do equal steps in each.
constexpr int kParts = 16;

struct Flags {
  int threads = 1;
  bool mark_step = false;
  bool enable_disable = false;
  std::string row;
  std::int64_t steps = 0;
  std::int64_t settle_ms = 0;
  std::int64_t warm_up = -1;  // steps; -1: what the row says
  bool memory = false;
  std::string results;  // a file
};

// A row's workload with what its warm-up told.
struct Warm {
  Workload workload;
  std::string bits;
  double warm_up_ms = 0;
  std::array<double, kParts> part_ms = {};
};

// FNV-1a over the bytes of all tensors.
std::string HashBits(const std::vector<at::Tensor>& tensors) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor dense = tensor.detach().contiguous();
    const auto* bytes = static_cast<const unsigned char*>(dense.data_ptr());
    for (std::size_t i = 0; i < dense.nbytes(); ++i) {
      hash = (hash ^ bytes[i]) * 1099511628211ull;
    }
  }
  char text[32];
  std::snprintf(text, sizeof text, "bits=%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}

void WriteBytes(const std::vector<at::Tensor>& tensors,
                const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor dense = tensor.detach().contiguous();
    file.write(static_cast<const char*>(dense.data_ptr()),
               static_cast<std::streamsize>(dense.nbytes()));
  }
  if (file.flush()) return;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  std::exit(1);
}

void RunSteps(const Workload& workload, std::int64_t count,
              const Flags& flags) {
  for (std::int64_t i = 0; i < count; ++i) {
    workload.step();
    if (flags.mark_step || workload.uses_results) MarkStep();
  }
}

// Another workload of the row, until what is compiled in the background is
// there: the one that is measured then has its code from the first steps on.
void Settle(const Row& row, const Flags& flags) {
  const Workload workload = row.make();
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(flags.settle_ms);
  do {
    RunSteps(workload, kSettleSteps, flags);
  } while (std::chrono::steady_clock::now() < end);
}

std::unique_ptr<Warm> WarmUp(const Row& row, const Flags& flags) {
  if (flags.settle_ms != 0 && row.settles) Settle(row, flags);
  auto warm = std::make_unique<Warm>();
  warm->workload = row.make();
  if (flags.enable_disable) Enable();
  const std::int64_t steps =
      flags.warm_up >= 0 ? flags.warm_up : row.warm_up_steps;
  for (int part = 0; part < kParts; ++part) {
    const auto start = std::chrono::steady_clock::now();
    RunSteps(warm->workload,
             steps * (part + 1) / kParts - steps * part / kParts, flags);
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    warm->part_ms[part] = took.count();
    warm->warm_up_ms += took.count();
  }
  // A copy is hashed: the workload's own memory must not become exposed.
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : warm->workload.result()) {
    copies.push_back(tensor.detach().clone());
  }
  warm->bits = HashBits(copies);
  if (!flags.results.empty()) WriteBytes(copies, flags.results);
  if (flags.enable_disable) Disable();
  // Back into the rhythm that the look at the result broke.
  if (row.fixed_steps == 0) RunSteps(warm->workload, kSettleSteps, flags);
  return warm;
}

void Report(benchmark::State& state, const Warm& warm) {
  const auto per_step = [&](std::int64_t n) {
    return static_cast<double>(n) / static_cast<double>(state.iterations());
  };
  const Engagement did = Counted();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["ops"] = per_step(did.ops_seen);
  state.counters["deferred"] =
      did.ops_seen == 0 ? 0.0
                        : static_cast<double>(did.ops_deferred) /
                              static_cast<double>(did.ops_seen);
  state.counters["replayed"] =
      did.ops_seen == 0 ? 0.0
                        : static_cast<double>(did.ops_replayed) /
                              static_cast<double>(did.ops_seen);
  // Of the ops that ran: what nobody needs runs at no tier.
  const std::int64_t ran = did.ops_seen - did.steps_dead;
  state.counters["fused"] = ran == 0 ? 0.0
                                     : static_cast<double>(did.steps_fused) /
                                           static_cast<double>(ran);
  state.counters["dead"] = did.ops_seen == 0
                               ? 0.0
                               : static_cast<double>(did.steps_dead) /
                                     static_cast<double>(did.ops_seen);
  state.counters["drained"] = per_step(did.ops_drained);
  state.counters["segments"] = per_step(did.segments);
  state.counters["flushes"] = per_step(did.flushes);
  state.counters["median_segment"] = static_cast<double>(did.median_segment);
  state.counters["sequences"] = static_cast<double>(did.sequences);
  state.counters["functions"] = per_step(did.function_replays);
  state.counters["warm_up_ms"] = warm.warm_up_ms;
  for (int part = 0; part < kParts; ++part) {
    char name[16];
    std::snprintf(name, sizeof name, "part%02d_ms", part + 1);
    state.counters[name] = warm.part_ms[part];
  }
  state.counters["peak_mb"] = static_cast<double>(usage.ru_maxrss) / 1024.0;
  state.SetLabel(warm.bits);
}

void Register(const Row& row, const Flags& flags) {
  // Google Benchmark calls the function several times with growing counts:
  // the warm workload is kept between the calls.
  auto warm = std::make_shared<std::unique_ptr<Warm>>();
  auto* bench = benchmark::RegisterBenchmark(
      row.name.c_str(), [row, flags, warm](benchmark::State& state) {
        if (!*warm) *warm = WarmUp(row, flags);
        const Workload& workload = (*warm)->workload;
        const bool marks = flags.mark_step || workload.uses_results;
        StartCounting();
        for (auto _ : state) {
          workload.step();
          if (marks) MarkStep();
        }
        Report(state, **warm);
      });
  bench->UseRealTime()->Unit(benchmark::kMicrosecond);
  if (row.fixed_steps != 0) bench->Iterations(row.fixed_steps);
}

// Returns false if `arg` is none of ours.
bool ParseFlag(std::string_view arg, Flags& flags) {
  const auto value = [&](std::string_view name) {
    return arg.starts_with(name) ? std::string(arg.substr(name.size())) : "";
  };
  if (const std::string text = value("--threads="); !text.empty()) {
    flags.threads = std::atoi(text.c_str());
  } else if (const std::string name = value("--row="); !name.empty()) {
    flags.row = name;
  } else if (const std::string text = value("--steps="); !text.empty()) {
    flags.steps = std::atoll(text.c_str());
  } else if (const std::string text = value("--settle_ms="); !text.empty()) {
    flags.settle_ms = std::atoll(text.c_str());
  } else if (const std::string text = value("--warm_up="); !text.empty()) {
    flags.warm_up = std::atoll(text.c_str());
  } else if (const std::string path = value("--results="); !path.empty()) {
    flags.results = path;
  } else if (arg == "--mark_step") {
    flags.mark_step = true;
  } else if (arg == "--enable_disable") {
    flags.enable_disable = true;
  } else if (arg == "--jit") {
    WrapFunctions();
  } else if (arg == "--memory") {
    flags.memory = true;
  } else {
    return false;
  }
  return true;
}

// What the steps of a row need, as one line of JSON.
void PrintMemory(const Row& row, const Flags& flags) {
  const std::unique_ptr<Warm> warm = WarmUp(row, flags);
  StartCounting();
  StartPeak();
  const std::int64_t kept = PeakBytes();
  RunSteps(warm->workload, row.fixed_steps != 0 ? row.fixed_steps : flags.steps,
           flags);
  const std::int64_t peak = PeakBytes();
  const Engagement did = Counted();
  const Resident resident = ResidentMemory();
  std::printf(
      "{\"row\": \"%s\", \"label\": \"%s\", \"peak_bytes\": %lld, "
      "\"kept_bytes\": %lld, "
      "\"resident_peak\": %lld, \"resident\": %lld, \"generator\": %lld, "
      "\"code\": %lld, \"ops\": %lld, \"replayed\": %lld, "
      "\"fused\": %lld}\n",
      row.name.c_str(), warm->bits.c_str(), static_cast<long long>(peak),
      static_cast<long long>(kept), static_cast<long long>(resident.peak),
      static_cast<long long>(resident.now),
      static_cast<long long>(resident.generator),
      static_cast<long long>(resident.code),
      static_cast<long long>(did.ops_seen),
      static_cast<long long>(did.ops_replayed),
      static_cast<long long>(did.steps_fused));
}

// Returns the exit status.
int CountSteps(const Flags& flags, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (row.name != flags.row) continue;
    if (flags.memory) {
      PrintMemory(row, flags);
      return 0;
    }
    const std::unique_ptr<Warm> warm = WarmUp(row, flags);
    CountedSteps(warm->workload, flags.steps);
    std::printf("%s %s\n", row.name.c_str(), warm->bits.c_str());
    return 0;
  }
  std::fprintf(stderr, "no row is called \"%s\"\n", flags.row.c_str());
  return 2;
}

}  // namespace

__attribute__((noinline)) void CountedSteps(const Workload& workload,
                                            std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    workload.step();
    if (workload.uses_results) MarkStep();
  }
}

int RunRows(int argc, char** argv, const std::vector<Row>& rows) {
  benchmark::Initialize(&argc, argv);
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (!ParseFlag(argv[i], flags)) {
      std::fprintf(stderr,
                   "%s: unknown flag %s; known: --threads=N --mark_step "
                   "--enable_disable --jit --row=NAME --steps=N "
                   "--settle_ms=N --warm_up=N --memory --results=FILE and "
                   "Google Benchmark's\n",
                   argv[0], argv[i]);
      return 2;
    }
  }
  if (flags.memory) CountMemory();
  at::set_num_threads(flags.threads);
  if (flags.steps > 0) return CountSteps(flags, rows);
  benchmark::AddCustomContext("tjit_linked", IsLinked() ? "yes" : "no");
  benchmark::AddCustomContext("tjit_enabled", IsEnabled() ? "yes" : "no");
  benchmark::AddCustomContext("libtorch", TORCH_VERSION);
  benchmark::AddCustomContext("compiler", __VERSION__);
  for (const Row& row : rows) Register(row, flags);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace tjit::bench
