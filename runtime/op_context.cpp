#include "runtime/op_context.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <xmmintrin.h>

#include <array>
#include <atomic>
#include <mutex>

#include "runtime/materialize.h"

namespace tjit::runtime {
namespace {

// The control bits of MXCSR; the rest are sticky exception flags.
constexpr unsigned kMxcsrControl = 0xFFC0;

struct ContextEntry {
  std::uint64_t included = 0;
  std::uint64_t excluded = 0;
  std::uint8_t autograd = 0;
  bool operator==(const ContextEntry&) const = default;
};

// Append-only: entry i is published by a release store of count > i.
struct ContextTable {
  std::array<ContextEntry, kMaxContexts> entries;
  std::atomic<std::uint32_t> count{1};  // 0 means "not interned"
  std::mutex mutex;
};
ContextTable& Table() {
  static auto* table = new ContextTable;
  return *table;
}

std::uint8_t AutogradBits(const c10::AutogradState& s) {
  return static_cast<std::uint8_t>(
      s.get_grad_mode() | s.get_inference_mode() << 1 |
      s.get_fw_grad_mode() << 2 | s.get_multithreading_enabled() << 3 |
      s.get_view_replay_enabled() << 4);
}

// Where this thread's state lies: libtorch's thread-local objects stay where
// they are, and finding them costs a call each.
struct ThreadView {
  const c10::impl::PODLocalDispatchKeySet* keys = nullptr;
  const c10::AutogradState* autograd = nullptr;
  std::uint32_t last = 0;  // the id found last
};
thread_local ThreadView view __attribute__((tls_model("initial-exec")));

ContextEntry Now(const ThreadView& v) {
  return {v.keys->included().raw_repr(), v.keys->excluded().raw_repr(),
          AutogradBits(*v.autograd)};
}

std::uint32_t Find(const ContextTable& table, const ContextEntry& e) {
  const std::uint32_t n = table.count.load(std::memory_order_acquire);
  for (std::uint32_t i = 1; i < n; ++i) {
    if (table.entries[i] == e) return i;
  }
  return 0;
}

}  // namespace

std::uint32_t CurrentContext() {
  ThreadView& v = view;
  if (v.keys == nullptr) [[unlikely]] {
    v.keys = &c10::impl::raw_local_dispatch_key_set;
    v.autograd = &c10::AutogradState::get_tls_state();
  }
  ContextTable& table = Table();
  const ContextEntry now = Now(v);
  if (v.last != 0 && table.entries[v.last] == now) return v.last;
  std::uint32_t id = Find(table, now);
  if (id == 0) {
    std::lock_guard<std::mutex> lock(table.mutex);
    id = Find(table, now);
    if (id == 0) {
      const std::uint32_t n = table.count.load(std::memory_order_relaxed);
      if (n == kMaxContexts) return 0;
      table.entries[n] = now;
      table.count.store(n + 1, std::memory_order_release);
      id = n;
    }
  }
  v.last = id;
  return id;
}

ContextScope::ContextScope()
    : saved_keys_(c10::impl::tls_local_dispatch_key_set()),
      saved_autograd_(c10::AutogradState::get_tls_state()) {}

ContextScope::~ContextScope() {
  if (current_ == 0) return;
  c10::impl::_force_tls_local_dispatch_key_set(saved_keys_);
  c10::AutogradState::set_tls_state(saved_autograd_);
}

void ContextScope::Switch(std::uint32_t id) {
  if (id == current_ || id == 0) return;
  current_ = id;
  const ContextEntry& e = Table().entries[id];
  c10::impl::PODLocalDispatchKeySet keys{};
  keys.set_included(c10::DispatchKeySet(c10::DispatchKeySet::RAW, e.included));
  keys.set_excluded(c10::DispatchKeySet(c10::DispatchKeySet::RAW, e.excluded));
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  c10::AutogradState& s = c10::AutogradState::get_tls_state();
  s.set_grad_mode((e.autograd & 1) != 0);
  s.set_inference_mode((e.autograd & 2) != 0);
  s.set_fw_grad_mode((e.autograd & 4) != 0);
  s.set_multithreading_enabled((e.autograd & 8) != 0);
  s.set_view_replay_enabled((e.autograd & 16) != 0);
}

// The getters and setters below are interposed or call interposed ones (the
// first get_num_threads() of a thread sets it): no flush from in here.
GlobalContext GlobalContext::Now() {
  const KernelScope no_flush;
  at::Context& c = at::globalContext();
  GlobalContext g;
  g.threads = at::get_num_threads();
  g.mxcsr = _mm_getcsr() & kMxcsrControl;
  g.deterministic = c.deterministicAlgorithms();
  g.deterministic_warn_only = c.deterministicAlgorithmsWarnOnly();
  g.mkldnn = c.userEnabledMkldnn();
  return g;
}

void GlobalContext::Apply() const {
  const KernelScope no_flush;
  const GlobalContext now = Now();
  at::Context& c = at::globalContext();
  if (now.deterministic != deterministic ||
      now.deterministic_warn_only != deterministic_warn_only) {
    c.setDeterministicAlgorithms(deterministic, deterministic_warn_only);
  }
  if (now.mkldnn != mkldnn) c.setUserEnabledMkldnn(mkldnn);
  if (now.threads != threads) at::set_num_threads(threads);
  if (now.mxcsr != mxcsr) _mm_setcsr((_mm_getcsr() & ~kMxcsrControl) | mxcsr);
}

}  // namespace tjit::runtime
