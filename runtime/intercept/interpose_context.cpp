// Interposed setters of process-global state that CPU kernels read:
// what is pending runs before the change, with the old state.
//
// Note [Numbers of threads]. at::get_num_threads() calls at::set_num_threads()
// the first time that a thread asks, with the number that is in force, and the
// thread may be one of a team that a flush waits for. A number that is said
// again changes nothing that another thread's pending ops could see, so only
// what this thread has pending runs before it.
#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/typeid.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/call/interpose.h"
#include "runtime/platform/parallel.h"
#include "runtime/platform/thread_context.h"
#include "runtime/thread/materialize.h"

namespace tjit::runtime {

std::atomic<std::uint8_t> g_default_dtype{
    static_cast<std::uint8_t>(c10::ScalarType::Float)};

std::atomic<std::uint64_t> g_global_flags{0};

void RecordDefaultDtype() {
  g_default_dtype.store(
      static_cast<std::uint8_t>(c10::get_default_dtype_as_scalartype()),
      std::memory_order_relaxed);
}

}  // namespace tjit::runtime

namespace {

// The number that at::set_num_threads() was told last; 0: none yet.
std::atomic<int> g_said_threads{0};

class Change {
 public:
  Change() {
    if (tjit::runtime::MayHavePending()) {
      tjit::runtime::FlushAllBeforeChange();
    }
  }
  // Not for changes that tjit makes itself, nor inside the getters (the first
  // get_num_threads() of a thread sets it).
  ~Change() {
    if (tjit::runtime::g_enabled.load(std::memory_order_relaxed) &&
        tjit::runtime::t_context.inside == 0) {
      tjit::runtime::RecordGlobalFlags();
    }
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
};

}  // namespace

#define TJIT_BOOL_SETTER(symbol)                               \
  TJIT_INTERPOSED void symbol(at::Context* context, bool on) { \
    const Change change;                                       \
    TJIT_NEXT(symbol)(context, on);                            \
  }
#include "runtime/intercept/interposed.def"

// at::parallel_for asks this before a region begins: a segment that runs
// inside one runs with other threads than eager's, and other bits.
TJIT_INTERPOSED bool _ZN2at18in_parallel_regionEv() {
  const bool is_inside = tjit::runtime::InParallelRegion();
  if (!is_inside) {
    bool& had_region = tjit::runtime::t_context.had_region;
    had_region = had_region || tjit::runtime::ThreadsOfThisThread() > 1;
    if (tjit::runtime::MayHavePending()) {
      tjit::runtime::FlushThisThread(tjit::FlushReason::kContextChange);
    }
  }
  return is_inside;
}

[[gnu::hot]] bool tjit::runtime::InParallelRegion() {
  return TJIT_NEXT(_ZN2at18in_parallel_regionEv)();
}

TJIT_INTERPOSED void _ZN2at15set_num_threadsEi(int threads) {
  namespace runtime = tjit::runtime;
  const bool is_known =
      g_said_threads.exchange(threads, std::memory_order_relaxed) == threads;
  if (runtime::MayHavePending()) {
    if (is_known) {  // Note [Numbers of threads]
      runtime::FlushThisThread(tjit::FlushReason::kContextChange);
    } else {
      runtime::FlushAllBeforeChange();
    }
  }
  TJIT_NEXT(_ZN2at15set_num_threadsEi)(threads);
}

TJIT_INTERPOSED void _ZN3c1017set_default_dtypeEN6caffe28TypeMetaE(
    caffe2::TypeMeta dtype) {
  const Change change;
  TJIT_NEXT(_ZN3c1017set_default_dtypeEN6caffe28TypeMetaE)(dtype);
  tjit::runtime::RecordDefaultDtype();
}

TJIT_INTERPOSED void _ZN2at7Context10setQEngineEN3c107QEngineE(
    at::Context* context, c10::QEngine engine) {
  const Change change;
  TJIT_NEXT(_ZN2at7Context10setQEngineEN3c107QEngineE)(context, engine);
}

// Static, and returns whether the CPU can. Of this thread only: what others
// have pending runs with their arithmetic whoever runs it, and would make this
// thread's team earlier than eager does, with another arithmetic (Note
// [Arithmetic of teams] in parallel.h).
TJIT_INTERPOSED bool _ZN2at7Context16setFlushDenormalEb(bool on) {
  if (tjit::runtime::MayHavePending()) {
    tjit::runtime::FlushThisThread(tjit::FlushReason::kContextChange);
  }
  tjit::runtime::ForgetTeam();
  return TJIT_NEXT(_ZN2at7Context16setFlushDenormalEb)(on);
}

TJIT_INTERPOSED void
_ZN2at7Context19setFloat32PrecisionENS_14Float32BackendENS_9Float32OpENS_16Float32PrecisionE(
    at::Context* context, at::Float32Backend backend, at::Float32Op op,
    at::Float32Precision precision) {
  const Change change;
  TJIT_NEXT(
      _ZN2at7Context19setFloat32PrecisionENS_14Float32BackendENS_9Float32OpENS_16Float32PrecisionE)
  (context, backend, op, precision);
}

TJIT_INTERPOSED void _ZN2at7Context19setSDPPriorityOrderERKSt6vectorIlSaIlEE(
    at::Context* context, const std::vector<std::int64_t>& order) {
  const Change change;
  TJIT_NEXT(_ZN2at7Context19setSDPPriorityOrderERKSt6vectorIlSaIlEE)
  (context, order);
}

TJIT_INTERPOSED void _ZN2at7Context23setBlasPreferredBackendENS_11BlasBackendE(
    at::Context* context, at::BlasBackend backend) {
  const Change change;
  TJIT_NEXT(_ZN2at7Context23setBlasPreferredBackendENS_11BlasBackendE)
  (context, backend);
}

TJIT_INTERPOSED void
_ZN2at7Context25setFloat32MatmulPrecisionERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    at::Context* context, const std::string& precision) {
  const Change change;
  TJIT_NEXT(
      _ZN2at7Context25setFloat32MatmulPrecisionERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
  (context, precision);
}

TJIT_INTERPOSED void
_ZN2at7Context25setLinalgPreferredBackendENS_13LinalgBackendE(
    at::Context* context, at::LinalgBackend backend) {
  const Change change;
  TJIT_NEXT(_ZN2at7Context25setLinalgPreferredBackendENS_13LinalgBackendE)
  (context, backend);
}

TJIT_INTERPOSED void _ZN2at7Context26setDeterministicAlgorithmsEbb(
    at::Context* context, bool on, bool warn_only) {
  const Change change;
  TJIT_NEXT(_ZN2at7Context26setDeterministicAlgorithmsEbb)
  (context, on, warn_only);
}

TJIT_INTERPOSED void
_ZN2at7Context30setCheckSparseTensorInvariantsESt8optionalIbE(
    at::Context* context, std::optional<bool> on) {
  const Change change;
  TJIT_NEXT(_ZN2at7Context30setCheckSparseTensorInvariantsESt8optionalIbE)
  (context, on);
}
