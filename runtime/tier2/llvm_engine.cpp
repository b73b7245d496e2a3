#include "runtime/tier2/llvm_engine.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/abi/kernel_abi.h"
#include "compiler/driver/plain_code.h"
#include "compiler/llvm/loader.h"
#include "compiler/program/loop_chain.h"
#include "runtime/bit_exact/position_dependent.h"
#include "runtime/bit_exact/position_threads.h"
#include "runtime/platform/build_check.h"
#include "runtime/platform/own_memory.h"
#include "runtime/platform/parallel.h"
#include "runtime/report/log.h"
#include "runtime/tier2/worker.h"
#include "support/kept_bytes.h"
#include "support/planted_defect.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// LlvmApi(), whose library has destructors of its own from then on. Of what
// loading has read little is read again.
const TjitLlvmApi* LoadedApi(std::string* why_not) {
  const TjitLlvmApi* const api = LlvmApi(why_not);
  static const bool once = [] {
    Worker::StopFirstAtExit();
    ReleaseLibraryPages();
    return true;
  }();
  static_cast<void>(once);
  return api;
}

constexpr std::size_t kErrorBytes = 512;

static_assert(sizeof(TjitScalar) == sizeof(ScalarValue));

// What tests count. Static thread storage is short where libtjit is loaded
// late.
constinit thread_local std::uint32_t t_turned_back
    __attribute__((tls_model("initial-exec"))) = 0;
constinit thread_local std::uint32_t t_shared
    __attribute__((tls_model("initial-exec"))) = 0;
std::atomic<bool> g_share_all = false;

#if defined(TJIT_PLANTED_DEFECTS)
std::atomic<std::uint32_t> g_planted_flags = 0;
std::atomic<std::int64_t> g_delay_ns = 0;
std::uint32_t PlantedFlags() {
  return g_planted_flags.load(std::memory_order_relaxed);
}
void Delay() {
  const std::int64_t ns = g_delay_ns.load(std::memory_order_relaxed);
  if (ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}
#else
constexpr std::uint32_t PlantedFlags() { return 0; }
constexpr void Delay() {}
#endif

// What a loop takes for an element, and from it how many are worth a thread:
// such a part takes twice as long as to call the threads together. ATen's own
// threshold, 32,768, is of one op; a loop does the work of dozens.
//
// Measured, in the process that needs it: the first runs go on one thread and
// are timed, the fastest counts.
// Thread: any, several at once: what is lost is a sample.
class LoopSpeed {
 public:
  static constexpr std::int64_t kLeastElements = policy::kLeastSharedElements;

  bool is_known() const {
    return samples_.load(std::memory_order_relaxed) >=
           policy::kLoopSpeedSamples;
  }

  void Record(std::chrono::steady_clock::duration took, std::int64_t elements) {
    const std::chrono::duration<double, std::pico> ps = took;
    const double each = ps.count() / static_cast<double>(elements);
    if (each < ps_.load(std::memory_order_relaxed)) {
      ps_.store(each, std::memory_order_relaxed);
    }
    samples_.fetch_add(1, std::memory_order_relaxed);
  }

  // Elements of a part, of so many; all of them where the loop is too short
  // for anybody to ask what a fork takes, or eager has made no team here.
  // `largest`: elements of an op, the most.
  std::int64_t Grain(std::int64_t elements, std::int64_t largest) const {
    const double each_ns = ps_.load(std::memory_order_relaxed) * 1e-3;
    if (each_ns * static_cast<double>(elements) < policy::kLeastSharedNs)
      return elements;
    const bool eager_shares = largest > at::internal::GRAIN_SIZE;
    if (!eager_shares && !MayShare()) return elements;
    const double worth =
        policy::kForksPerPart * static_cast<double>(ForkNs()) / each_ns;
    return static_cast<std::int64_t>(
        std::clamp(worth, static_cast<double>(kLeastElements), 1e15));
  }

 private:
  std::atomic<int> samples_ = 0;
  std::atomic<double> ps_ = std::numeric_limits<double>::max();
};

class LlvmKernel : public Kernel {
 public:
  LlvmKernel(const TjitLlvmApi* api, const TjitKernel& kernel,
             bool calls_libtorch)
      : api_(api),
        kernel_(kernel),
        calls_libtorch_(calls_libtorch),
        speeds_(static_cast<std::size_t>(kernel.loop_count)) {
    kept_.Set(kernel.code_bytes + kernel.handle_bytes);
  }
  ~LlvmKernel() override { api_->free(kernel_.handle); }
  LlvmKernel(const LlvmKernel&) = delete;
  LlvmKernel& operator=(const LlvmKernel&) = delete;

  bool is_generated() const override { return kernel_.generated_count > 0; }
  bool calls_libtorch() const override { return calls_libtorch_; }

  std::vector<InPlace> in_place() const override {
    std::vector<InPlace> pairs;
    for (std::int32_t i = 0; i < kernel_.in_place_count; ++i) {
      const TjitInPlace& pair = kernel_.in_place[i];
      pairs.push_back({pair.returned, pair.external});
    }
    return pairs;
  }

  bool Shape(KernelShape* shape, std::string* why) const override {
    const auto loops = static_cast<std::size_t>(kernel_.loop_count);
    const auto values = static_cast<std::size_t>(kernel_.scratch_count);
    shape->extents.resize(loops);
    std::vector<std::int64_t> elements(loops), bytes(loops);
    shape->scratch.resize(values);
    shape->numbers.resize(static_cast<std::size_t>(kernel_.number_count));
    shape->blocks.resize(loops);
    const TjitShape out{shape->extents.data(), elements.data(),
                        bytes.data(),          shape->scratch.data(),
                        &shape->scratch_bytes, shape->numbers.data(),
                        shape->blocks.data()};
    char error[kErrorBytes] = "";
    if (api_->shape(kernel_.handle, shape->symbols.data(), &out, error,
                    sizeof(error)) != 0) {
      *why = error;
      return false;
    }
    for (std::size_t i = 0; i < loops; ++i) {
      const std::int64_t row =
          elements[i] / std::max<std::int64_t>(1, shape->extents[i]);
      const bool in_order = kernel_.loops[i].in_order != 0;
      shape->row_elements.push_back(in_order ? 0
                                             : std::max<std::int64_t>(1, row));
    }
    FillChains(bytes, shape);
    return true;
  }

  void Run(char* const* memory, const KernelShape& shape,
           const ScalarValue* scalars) const override {
    Delay();
    const auto run = [&, values = reinterpret_cast<const TjitScalar*>(scalars)](
                         std::size_t i, std::int64_t begin, std::int64_t end) {
      const TjitLoop& loop = kernel_.loops[i];
      loop.run(memory, shape.numbers.data() + loop.first_number, values, begin,
               end);
    };
    const bool goes_back = shape.is_zigzag && Turn();
    t_turned_back += goes_back ? 1U : 0U;
    for (std::size_t i = 0; i < shape.extents.size();) {
      const Chain chain = ChainFrom(shape.blocks, i);
      const std::int64_t piece = shape.pieces[i];
      const auto run_part = [&](std::int64_t begin, std::int64_t end) {
        RunPieces(begin, end, piece, goes_back,
                  [&](std::int64_t b, std::int64_t e) {
                    RunChain(chain, b, e, run);
                  });
      };
      const std::int64_t extent = shape.extents[i];
      const std::int64_t row = shape.row_elements[i];
      const std::int64_t elements = extent * row;
      LoopSpeed& speed = speeds_[i];
      i = chain.last + 1;
      const bool share_all = g_share_all.load(std::memory_order_relaxed);
      const bool may_share =
          elements >= LoopSpeed::kLeastElements || share_all;
      if (!may_share) {
        run_part(0, extent);
        continue;
      }
      // Asked once, not for each tile.
      const int threads = PositionThreads::Current();
      const PositionThreads as_eager(threads);
      if (extent < 2 || row == 0 || threads == 1) {
        run_part(0, extent);
        continue;
      }
      if (!speed.is_known() && !share_all) {
        const auto began = std::chrono::steady_clock::now();
        run_part(0, extent);
        speed.Record(std::chrono::steady_clock::now() - began, elements);
        continue;
      }
      const std::int64_t largest = extent * LargestRow(shape, chain);
      const std::int64_t grain =
          share_all ? 1 : (speed.Grain(elements, largest) + row - 1) / row;
      t_shared += static_cast<std::uint32_t>(ParallelFor(
          0, extent, grain, [&](std::int64_t begin, std::int64_t end) {
            const PositionThreads also_there(threads);
            run_part(begin, end);
          }));
    }
  }

  std::string_view CodeText() const override { return kernel_.dump; }

 private:
  // Columns and whole loops keep their order.
  void FillChains(const std::vector<std::int64_t>& bytes,
                  KernelShape* shape) const {
    shape->pieces.assign(bytes.size(), 0);
    shape->is_zigzag = false;
    for (std::size_t i = 0; i < bytes.size();) {
      const Chain chain = ChainFrom(shape->blocks, i);
      const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(i);
      i = chain.last + 1;
      if (kernel_.loops[chain.first].in_order != 0) continue;  // one alone
      const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(i);
      shape->row_elements[chain.first] = std::accumulate(
          shape->row_elements.begin() +
              static_cast<std::ptrdiff_t>(chain.first),
          shape->row_elements.begin() + static_cast<std::ptrdiff_t>(i),
          std::int64_t{0});
      const std::int64_t rows =
          PieceRows(chain, shape->extents[chain.first],
                    std::accumulate(first, end, std::int64_t{0}));
      shape->pieces[chain.first] = rows;
      shape->is_zigzag |= rows != 0;
    }
  }

  // Elements of a row of the loop that has the most; the first of a chain has
  // the sum of all.
  static std::int64_t LargestRow(const KernelShape& shape, const Chain& chain) {
    std::int64_t first = shape.row_elements[chain.first], most = 0;
    for (std::size_t i = chain.first + 1; i <= chain.last; ++i) {
      first -= shape.row_elements[i];
      most = std::max(most, shape.row_elements[i]);
    }
    return std::max(first, most);
  }

  // Whether this run goes back. Two at a time may both do so.
  bool Turn() const {
    const bool went_back = went_back_.load(std::memory_order_relaxed);
    went_back_.store(!went_back, std::memory_order_relaxed);
    return !went_back;
  }

  const TjitLlvmApi* const api_;
  const TjitKernel kernel_;
  KeptShare kept_{Kept::kCode};
  const bool calls_libtorch_;
  mutable std::atomic<bool> went_back_{false};
  mutable std::vector<LoopSpeed> speeds_;  // by loop; of chains the first's
};

// The cache as libtjit_llvm.so sees it: keys get that library's build-id, so
// that another build of the generator never finds what this one has stored.
class CacheOfLibrary {
 public:
  explicit CacheOfLibrary(const std::atomic<cache::ObjectCache*>* cache)
      : cache_(cache) {}

  // Null if there is none, or nothing tells one build from another.
  const TjitObjectCache* get() {
    current_ = cache_->load();
    if (current_ == nullptr) return nullptr;
    if (build_.empty()) build_ = LoadedBuildId("libtjit_llvm.so");
    return build_.empty() ? nullptr : &callbacks_;
  }

 private:
  std::string KeyOf(const char* key, std::size_t bytes) const {
    return absl::StrCat("libtjit_llvm ", build_, "\n", std::string(key, bytes));
  }

  static std::int32_t Find(void* state, const char* key, std::size_t key_bytes,
                           const char** object, std::size_t* object_bytes) {
    auto* self = static_cast<CacheOfLibrary*>(state);
    if (!self->current_->Find(self->KeyOf(key, key_bytes), &self->found_)) {
      return 0;
    }
    *object = self->found_.data();
    *object_bytes = self->found_.size();
    return 1;
  }

  static void Store(void* state, const char* key, std::size_t key_bytes,
                    const char* object, std::size_t object_bytes) {
    auto* self = static_cast<CacheOfLibrary*>(state);
    self->current_->Store(self->KeyOf(key, key_bytes), {object, object_bytes});
  }

  const std::atomic<cache::ObjectCache*>* const cache_;
  cache::ObjectCache* current_ = nullptr;  // of the kernel being compiled
  const TjitObjectCache callbacks_{this, &Find, &Store};
  std::string build_;
  std::string found_;
};

class LlvmEngine : public Engine {
 public:
  LlvmEngine(const char* name, MathFunctions* functions, std::uint32_t flags,
             const std::atomic<cache::ObjectCache*>* cache)
      : name_(name), functions_(functions), flags_(flags), cache_(cache) {}

  const char* name() const override { return name_; }
  bool is_for_speed() const override { return true; }

  std::string WhyNot(const ir::Function& function) override {
    if (!IsLoaded()) return why_not_;
    for (const ir::Instruction& in : function.body) {
      const ir::OpInfo& op = InfoOf(in.op);
      if (op.family == ir::Family::kPointwise ||
          op.family == ir::Family::kData || AxisOf(function, in)) {
        continue;
      }
      return absl::StrCat(op.name, " is a library call");
    }
    return MissingFunction(function, functions_);
  }

  std::shared_ptr<const Kernel> Compile(const ir::Function& function,
                                        std::string* why) override {
    TjitKernel kernel{};
    const std::vector<TjitMath> math = MathOf(function);
    *why = Call(function, math, 0, &kernel);
    if (!why->empty()) return nullptr;
    // What has no address is code in the loop.
    const bool calls =
        std::any_of(math.begin(), math.end(),
                    [](const TjitMath& m) { return m.address != nullptr; });
    return std::make_shared<LlvmKernel>(api_, kernel, calls);
  }

  // What is wrong Compile() says.
  void Precompile(const ir::Function& function) override {
    TjitKernel none{};
    if (IsLoaded()) {
      Call(function, MathOf(function), kTjitLlvmPlanOnly, &none);
    }
  }

 private:
  // "" or what is wrong.
  std::string Call(const ir::Function& function,
                   const std::vector<TjitMath>& math, std::uint32_t flags,
                   TjitKernel* kernel) {
    TjitLlvmOptions options{};
    options.abi = kTjitLlvmAbi;
    options.flags = flags_ | flags | PlantedFlags() |
                    static_cast<std::uint32_t>(PlantedDefect())
                        << kTjitLlvmDefectShift;
    if (PlainCode()) options.flags |= kTjitLlvmPlain;
    options.math = math.data();
    options.math_count = static_cast<std::int32_t>(math.size());
    options.cache = cache_.get();
    char error[kErrorBytes] = "";
    const bool is_done = api_->compile(TextOf(function).c_str(), &options,
                                       kernel, error, sizeof(error)) == 0;
    return is_done ? "" : error;
  }

  bool IsLoaded() {
    if (api_ != nullptr || !why_not_.empty()) return api_ != nullptr;
    api_ = LoadedApi(&why_not_);
    if (api_ != nullptr && !HasParallel()) {
      LogWarning(
          "TJIT_BACKEND=llvm: libtorch's threads are not of an OpenMP library "
          "with GOMP_parallel; compiled code runs on one thread");
    }
    if (api_ == nullptr) {
      LogWarning("TJIT_BACKEND=llvm: " + why_not_ +
                 "; sequences are replayed by library calls");
    }
    return api_ != nullptr;
  }

  std::vector<TjitMath> MathOf(const ir::Function& function) {
    std::set<const TjitMath*> used;
    for (const ir::Instruction& in : function.body) {
      const TjitMath* math = FunctionFor(function, in, functions_);
      if (math != nullptr) used.insert(math);
    }
    std::vector<TjitMath> math;
    for (const TjitMath* m : used) math.push_back(*m);
    return math;
  }

  const TjitLlvmApi* api_ = nullptr;  // the worker's, as all of this
  std::string why_not_;
  const char* const name_;
  MathFunctions* const functions_;
  const std::uint32_t flags_;
  CacheOfLibrary cache_;
};

}  // namespace

bool PrepareLlvm() {
  std::string why_not;  // the engine says it
  const TjitLlvmApi* const api = LoadedApi(&why_not);
  if (api == nullptr) return false;
  TjitLlvmOptions options{};
  options.abi = kTjitLlvmAbi;
  TjitKernel kernel{};
  char error[kErrorBytes] = "";
  const char* const smallest =
      "func prepare(n0) {\n  external %0: f32[n0]\n"
      "  %1 = mul f32[n0] %0, %0\n  return %1\n}\n";
  if (api->compile(smallest, &options, &kernel, error, sizeof(error)) != 0) {
    return false;
  }
  api->free(kernel.handle);
  return true;
}

void PrepareInBackground(const Engine* engine, Worker* worker) {
  static std::atomic<bool> is_prepared{false};
  if (is_prepared.load(std::memory_order_relaxed) ||
      !std::string_view(engine->name()).starts_with("llvm") ||
      is_prepared.exchange(true)) {
    return;
  }
  worker->Post([](const std::atomic<bool>& hurry) {
    if (!hurry) PrepareLlvm();
    return true;
  });
}

std::unique_ptr<Engine> MakeLlvmEngine(
    const char* name, MathFunctions* functions, std::uint32_t flags,
    const std::atomic<cache::ObjectCache*>* cache) {
  return std::make_unique<LlvmEngine>(name, functions, flags, cache);
}

std::int64_t RunsTurnedBack() { return t_turned_back; }
std::int64_t LoopsShared() { return t_shared; }
void ShareAllLoops(bool all) { g_share_all.store(all); }

#if defined(TJIT_PLANTED_DEFECTS)
void PlantInCompiler(std::uint32_t flags) { g_planted_flags.store(flags); }
void SetCodeDelay(std::int64_t ns) { g_delay_ns.store(ns); }
#endif

}  // namespace tjit::runtime
