#include "runtime/call/kernel_state.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <xmmintrin.h>

#include <array>
#include <atomic>

#include "recorder/region_table.h"
#include "runtime/call/interpose.h"
#include "runtime/call/kernel_state_words.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/parallel.h"
#include "runtime/platform/thread_context.h"
#include "runtime/platform/torch_compat.h"
#include "support/mutex.h"

namespace tjit::runtime {

constinit thread_local ContextView t_context_view
    __attribute__((tls_model("initial-exec")));
constinit thread_local DirectContext t_direct_context
    __attribute__((tls_model("initial-exec")));

namespace {

struct ContextEntry {
  std::uint64_t included = 0;
  std::uint64_t excluded = 0;
  std::uint8_t autograd = 0;
  std::uint8_t default_dtype = 0;  // decides the dtype of results
  std::uint64_t flags = 0;         // and their strides, see g_global_flags
  RegionId region = kNoRegion;
  bool operator==(const ContextEntry&) const = default;
};

// Append-only: entry i is published by a release store of its bucket.
struct ContextTable {
  static constexpr std::size_t kBuckets = 2 * kMaxContexts;

  std::array<ContextEntry, kMaxContexts> entries;
  // By id: the same state outside of regions.
  std::array<std::uint32_t, kMaxContexts> outside{};
  // Ids by hash; 0: free. A chain goes on in the next bucket.
  std::array<std::atomic<std::uint32_t>, kBuckets> buckets{};
  std::atomic<std::uint32_t> count{1};  // 0 means "not interned"
  Mutex mutex;                          // of who appends
};
ContextTable& Table() {
  static auto* table = new ContextTable;
  return *table;
}

ContextEntry Now(const ContextView& v) {
  return {v.keys->included().raw_repr(),
          v.keys->excluded().raw_repr(),
          ContextView::AutogradBits(*v.autograd),
          g_default_dtype.load(std::memory_order_relaxed),
          g_global_flags.load(std::memory_order_relaxed),
          CurrentRegion()};
}

std::size_t BucketOf(const ContextEntry& e) {
  constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ull;
  const std::uint64_t small = std::uint64_t{e.region} << 32 |
                              std::uint64_t{e.autograd} << 8 | e.default_dtype;
  std::uint64_t hash = e.included * kPrime ^ e.excluded;
  hash = (hash * kPrime ^ e.flags) * kPrime ^ small;
  return (hash * kPrime >> 32) % ContextTable::kBuckets;
}

// Half of the buckets at least are free.
std::uint32_t Find(const ContextTable& table, const ContextEntry& e) {
  for (std::size_t b = BucketOf(e);; b = (b + 1) % ContextTable::kBuckets) {
    const std::uint32_t id = table.buckets[b].load(std::memory_order_acquire);
    if (id == 0 || table.entries[id] == e) return id;
  }
}

void Remember(ContextView* v, const ContextEntry& now, std::uint32_t id) {
  v->last = id;
  v->included = now.included;
  v->excluded = now.excluded;
  v->flags = now.flags;
  v->autograd_bits = now.autograd;
  v->default_dtype = now.default_dtype;
}

std::uint32_t Append(const ContextEntry& entry, std::uint32_t outside) {
  ContextTable& table = Table();
  const MutexLock lock(table.mutex);
  const std::uint32_t known = Find(table, entry);
  if (known != 0) return known;
  const std::uint32_t n = table.count.load(std::memory_order_relaxed);
  const std::uint32_t most = entry.region == kNoRegion
                                 ? kMaxContexts
                                 : kMaxContexts - kMaxContextsOutside;
  if (n >= most) return 0;
  table.entries[n] = entry;
  table.outside[n] = entry.region == kNoRegion ? n : outside;
  table.count.store(n + 1, std::memory_order_release);
  std::size_t b = BucketOf(entry);
  while (table.buckets[b].load(std::memory_order_relaxed) != 0) {
    b = (b + 1) % ContextTable::kBuckets;
  }
  table.buckets[b].store(n, std::memory_order_release);
  return n;
}

std::uint32_t Intern(const ContextEntry& entry) {
  const std::uint32_t id = Find(Table(), entry);
  if (id != 0) return id;
  if (entry.region == kNoRegion) return Append(entry, 0);
  ContextEntry outside = entry;
  outside.region = kNoRegion;
  const std::uint32_t outside_id = Intern(outside);
  if (outside_id == 0) return 0;
  const std::uint32_t inside_id = Append(entry, outside_id);
  return inside_id != 0 ? inside_id : outside_id;
}

// Looks at what is set now. 0, and it knows nothing, without an id.
std::uint32_t Look(ContextView* v, ContextEntry* now) {
  if (v->keys == nullptr) {
    v->keys = &c10::impl::raw_local_dispatch_key_set;
    v->autograd = &c10::AutogradState::get_tls_state();
  }
  *now = Now(*v);
  const std::uint32_t id = Intern(*now);
  v->last = 0;
  if (id != 0) Remember(v, *now, id);
  return id;
}

// True if both stand for one state, whatever the regions.
bool IsSameState(std::uint32_t a, std::uint32_t b) {
  const ContextTable& table = Table();
  return a == b || (a != 0 && table.outside[a] == table.outside[b]);
}

}  // namespace

RegionId RegionOfContext(std::uint32_t context) {
  const ContextTable& table = Table();
  return context < table.count.load(std::memory_order_acquire)
             ? table.entries[context].region
             : kNoRegion;
}

void GoToRegion(RegionId region, RegionIds* from, const RegionIds& to,
                OutsideIds* found) {
  const ContextTable& table = Table();
  ContextView& called = t_context_view;
  DirectContext& direct = t_direct_context;
  // Without an id it is not known what was found last.
  found->called = called.last != 0 ? table.outside[called.last] : 0;
  found->direct = direct.last != 0 ? table.outside[direct.last] : 0;
  if (from != nullptr && called.last != 0) {
    from->called_outside = found->called;
    from->called = called.last;
  }
  if (from != nullptr && direct.last != 0) {
    from->direct_outside = found->direct;
    from->direct = direct.last;
    from->below = direct.below;
  }
  called.region = region;
  called.last = found->called == to.called_outside ? to.called : 0;
  direct.last = found->direct == to.direct_outside ? to.direct : 0;
  direct.below = to.below;
}

[[gnu::noinline]] std::uint32_t ChangedContext() {
  ContextEntry now;
  return Look(&t_context_view, &now);
}

[[gnu::noinline]] void RefreshDirectContext() {
  constexpr std::uint64_t kUsual = BitsOf(c10::default_included_set),
                          kOff = BitsOf(c10::default_excluded_set);
  constexpr std::uint64_t kCpu =
      BitsOf(c10::DispatchKeySet(c10::DispatchKey::CPU));
  constexpr std::uint64_t kBelow =
      BitsOf(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  DirectContext& v = t_direct_context;
  ContextEntry now;
  v.is_plain = Look(&v, &now) != 0 && (now.included & ~kUsual) == 0 &&
               (now.excluded & kOff) == kOff && (now.excluded & kCpu) == 0 &&
               !v.autograd->get_view_replay_enabled();
  v.grad_mode = v.autograd->get_grad_mode();
  v.below = 0;
  if (v.is_plain) {
    now.excluded |= kBelow;
    v.below = Intern(now);
  }
}

std::vector<std::uint64_t> WordsOfContext(std::uint32_t context) {
  const ContextTable& table = Table();
  if (context == 0 || context >= table.count.load(std::memory_order_acquire)) {
    return {};
  }
  const ContextEntry& e = table.entries[context];
  std::vector<std::uint64_t> words = {e.included, e.excluded, e.autograd,
                                      e.default_dtype, e.flags};
  // Another process numbers regions otherwise.
  if (e.region != kNoRegion) {
    words.push_back(RegionTable::Get().HashOf(e.region));
  }
  return words;
}

std::uint32_t ContextOfWords(const std::vector<std::uint64_t>& words) {
  if (words.size() < 5 || words.size() > 6 || words[2] > UINT8_MAX ||
      words[3] > UINT8_MAX) {
    return 0;
  }
  ContextEntry entry{words[0],
                     words[1],
                     static_cast<std::uint8_t>(words[2]),
                     static_cast<std::uint8_t>(words[3]),
                     words[4],
                     kNoRegion};
  if (words.size() == 6) {
    entry.region = RegionTable::Get().OfHash(words[5]);
    if (entry.region == kNoRegion) return 0;
  }
  const std::uint32_t id = Intern(entry);
  return RegionOfContext(id) == entry.region ? id : 0;
}

ContextScope::~ContextScope() {
  if (!saved_.has_value()) return;
  c10::impl::_force_tls_local_dispatch_key_set(saved_->keys);
  c10::AutogradState::set_tls_state(saved_->autograd);
}

void ContextScope::Switch(std::uint32_t id) {
  if (id == current_ || id == 0) return;
  current_ = id;
  if (!saved_.has_value()) {
    if (IsSameState(CurrentContext(), id)) return;
    saved_.emplace(Saved{c10::impl::tls_local_dispatch_key_set(),
                         c10::AutogradState::get_tls_state()});
  }
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

namespace {

// The parts of the word, from bit 0 up, as Now() adds and Apply() takes them.
// Not there: the switches of scaled dot product attention, read before any
// kernel is chosen, and those that only GPU code reads.
constexpr unsigned kMxcsrBits = 10, kThreadBits = 16, kPrecisionBits = 3;
constexpr unsigned kMxcsrShift = 6;  // the control bits are the upper ones

class WordWriter {
 public:
  void Add(std::uint64_t value, unsigned bits) {
    word_ |= (value & ((std::uint64_t{1} << bits) - 1)) << at_;
    at_ += bits;
  }
  std::uint64_t word() const { return word_; }

 private:
  std::uint64_t word_ = 0;
  unsigned at_ = 0;
};

class WordReader {
 public:
  explicit WordReader(std::uint64_t word) : word_(word) {}
  unsigned Next(unsigned bits) {
    const auto v = static_cast<unsigned>(word_ & ((1u << bits) - 1));
    word_ >>= bits;
    return v;
  }

 private:
  std::uint64_t word_;
};

}  // namespace

void RecordGlobalFlags() {
  const KernelScope no_flush;
  const at::Context& c = at::globalContext();
  WordWriter flags;
  flags.Add(c.userEnabledMkldnn(), 1);
  flags.Add(c.deterministicMkldnn(), 1);
  flags.Add(c.userEnabledNNPACK(), 1);
  g_global_flags.store(flags.word(), std::memory_order_relaxed);
}

// get_num_threads() and the setters below are interposed or call interposed
// ones (the first get_num_threads() of a thread sets it): no flush from in
// here.
GlobalContext GlobalContext::Now() {
  static const at::Context& c = at::globalContext();
  WordWriter w;
  w.Add(_mm_getcsr() >> kMxcsrShift, kMxcsrBits);
  {
    const KernelScope no_flush;
    w.Add(static_cast<std::uint64_t>(at::get_num_threads()), kThreadBits);
  }
  const auto add = [&](auto flag) { w.Add(compat::PrivateFlag(c, flag), 1); };
  add(compat::DeterministicAlgorithms());
  add(compat::DeterministicWarnOnly());
  add(compat::UserEnabledMkldnn());
  add(compat::DeterministicMkldnn());
  add(compat::UserEnabledNnpack());
  add(compat::AllowFp16ReductionCpu());
  add(compat::DeterministicFill());
  for (const at::Float32Precision* p : compat::CpuFloat32Precisions()) {
    w.Add(static_cast<std::uint64_t>(*p), kPrecisionBits);
  }
  return {w.word()};
}

bool GlobalContext::HasArithmeticOfNow() const {
  WordReader r(word);
  return r.Next(kMxcsrBits) << kMxcsrShift == Arithmetic();
}

void GlobalContext::Apply() const {
  const KernelScope no_flush;
  at::Context& c = at::globalContext();
  WordReader r(word);
  const auto arithmetic =
      static_cast<unsigned>(r.Next(kMxcsrBits) << kMxcsrShift);
  if (arithmetic != Arithmetic()) ForgetTeam();
  _mm_setcsr((_mm_getcsr() & ~kMxcsrControl) | arithmetic);
  const auto threads = static_cast<int>(r.Next(kThreadBits));
  if (threads != at::get_num_threads()) at::set_num_threads(threads);
  const bool deterministic = r.Next(1) != 0, warn_only = r.Next(1) != 0;
  c.setDeterministicAlgorithms(deterministic, warn_only);
  c.setUserEnabledMkldnn(r.Next(1) != 0);
  c.setDeterministicMkldnn(r.Next(1) != 0);
  c.setUserEnabledNNPACK(r.Next(1) != 0);
  c.setAllowFP16ReductionCPU(r.Next(1) != 0);
  c.setDeterministicFillUninitializedMemory(r.Next(1) != 0);
  // Not by their setter, which warns or throws where eager's own state came
  // about in another order.
  for (at::Float32Precision* p : compat::CpuFloat32Precisions()) {
    *p = static_cast<at::Float32Precision>(r.Next(kPrecisionBits));
  }
}

}  // namespace tjit::runtime
