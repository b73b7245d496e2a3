#include "runtime/library_calls/fft_plan_cache.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/libtorch_symbol.h"
#include "runtime/platform/parallel.h"

namespace tjit::runtime {
namespace {

// Of MKL's interface.
enum Setting : int {
  kForwardScale = 4,
  kBackwardScale = 5,
  kNumberOfTransforms = 7,
  kConjugateEvenStorage = 10,
  kPlacement = 11,
  kInputStrides = 12,
  kOutputStrides = 13,
  kInputDistance = 14,
  kOutputDistance = 15,
};
enum Value : int {
  kComplex = 32,
  kReal = 33,
  kComplexComplex = 39,
  kNotInPlace = 44,
};

std::atomic<const Dfti*> test_dfti = nullptr;
std::atomic<std::int64_t> runs = 0;  // also the clock of last_run_

const Dfti& Now() {
  const Dfti* const test = test_dfti.load(std::memory_order_relaxed);
  return test != nullptr ? *test : LibtorchDfti();
}

template <class F>
void Find(const char* name, F* function) {
  *function = reinterpret_cast<F>(LibtorchSymbol(name));
}

Dfti FindDfti() {
  Dfti d;
  Find("DftiCreateDescriptor_s_md", &d.create_f32_md);
  Find("DftiCreateDescriptor_d_md", &d.create_f64_md);
  Find("DftiCreateDescriptor_s_1d", &d.create_f32_1d);
  Find("DftiCreateDescriptor_d_1d", &d.create_f64_1d);
  Find("DftiSetValue", &d.set_value);
  Find("DftiCommitDescriptor", &d.commit);
  Find("DftiComputeForward", &d.forward);
  Find("DftiComputeBackward", &d.backward);
  Find("DftiFreeDescriptor", &d.free);
  Find("mkl_get_max_threads", &d.most_threads);
  return d;
}

std::vector<Dfti::Long> WithOffset(const std::vector<std::int64_t>& strides) {
  std::vector<Dfti::Long> all = {0};
  all.insert(all.end(), strides.begin(), strides.end());
  return all;
}

Dfti::Status Create(const Dfti& dfti, const FftPlan& plan, void** descriptor) {
  const std::vector<Dfti::Long> lengths(plan.lengths.begin(),
                                        plan.lengths.end());
  const int domain = plan.is_real ? kReal : kComplex;
  if (lengths.size() == 1) {
    return (plan.is_double ? dfti.create_f64_1d : dfti.create_f32_1d)(
        descriptor, domain, lengths[0]);
  }
  return (plan.is_double ? dfti.create_f64_md : dfti.create_f32_md)(
      descriptor, domain, static_cast<Dfti::Long>(lengths.size()),
      lengths.data());
}

// What libtorch's _plan_mkl_fft sets, in its order. False if MKL refuses.
bool Configure(const Dfti& dfti, const FftPlan& plan, void* descriptor) {
  const auto set = [&](int what, auto value) {
    return dfti.set_value(descriptor, what, value) == 0;
  };
  const auto number = [&](int what, std::int64_t value) {
    return set(what, Dfti::Long{value});
  };
  return set(kPlacement, int{kNotInPlace}) &&
         number(kNumberOfTransforms, plan.batch) &&
         number(kInputDistance, plan.in_distance) &&
         number(kOutputDistance, plan.out_distance) &&
         set(kInputStrides, WithOffset(plan.in_strides).data()) &&
         set(kOutputStrides, WithOffset(plan.out_strides).data()) &&
         (!plan.is_real || set(kConjugateEvenStorage, int{kComplexComplex})) &&
         (!plan.scale ||
          set(plan.is_forward ? kForwardScale : kBackwardScale, *plan.scale)) &&
         dfti.commit(descriptor) == 0;
}

}  // namespace

bool Dfti::IsComplete() const {
  return create_f32_1d != nullptr && create_f64_1d != nullptr &&
         create_f32_md != nullptr && create_f64_md != nullptr &&
         set_value != nullptr && commit != nullptr && forward != nullptr &&
         backward != nullptr && free != nullptr && most_threads != nullptr;
}

const Dfti& LibtorchDfti() {
  static const Dfti dfti = FindDfti();
  return dfti;
}

void TEST_SetDfti(const Dfti* dfti) { test_dfti = dfti; }

bool HasDfti() { return Now().IsComplete(); }

// Those that have a descriptor. Never destroyed: threads may end after the
// static objects.
class KeptFfts {
 public:
  static KeptFfts& Get() {
    static auto& all = *new KeptFfts;
    return all;
  }

  // `fft` has made itself a descriptor.
  void Add(KeptFft* fft, const Dfti& dfti) {
    const absl::MutexLock lock(&mutex_);
    ++made_;
    kept_.push_back(fft);
    length_ += fft->length();
    while (IsFull()) {
      KeptFft* const oldest = Oldest();
      if (oldest == nullptr) return;  // all of them run
      released_ += Release(oldest, dfti) ? 1 : 0;
    }
  }

  void Remove(KeptFft* fft, const Dfti& dfti) {
    const absl::MutexLock lock(&mutex_);
    Release(fft, dfti);
  }

  KeptFftCounts Count() const {
    const absl::MutexLock lock(&mutex_);
    return {runs.load(std::memory_order_relaxed), made_, released_,
            static_cast<std::int64_t>(kept_.size())};
  }

 private:
  bool IsFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<std::int64_t>(kept_.size()) > kMostKeptFfts ||
           length_ > kMostKeptFftLength;
  }

  // Null if all of them run.
  KeptFft* Oldest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    KeptFft* oldest = nullptr;
    for (KeptFft* const fft : kept_) {
      if (fft->descriptor_.load(std::memory_order_relaxed) == nullptr) continue;
      if (oldest == nullptr || fft->last_run_ < oldest->last_run_) oldest = fft;
    }
    return oldest;
  }

  // False if `fft` has none now: it runs, or has given it up.
  bool Release(KeptFft* fft, const Dfti& dfti)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    void* descriptor =
        fft->descriptor_.exchange(nullptr, std::memory_order_acquire);
    if (descriptor == nullptr) return false;
    dfti.free(&descriptor);
    length_ -= fft->length();
    kept_.erase(std::find(kept_.begin(), kept_.end(), fft));
    return true;
  }

  mutable absl::Mutex mutex_;
  std::vector<KeptFft*> kept_ ABSL_GUARDED_BY(mutex_);
  std::int64_t length_ ABSL_GUARDED_BY(mutex_) = 0;  // of all in kept_
  std::int64_t made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t released_ ABSL_GUARDED_BY(mutex_) = 0;
};

KeptFftCounts CountKeptFfts() { return KeptFfts::Get().Count(); }

KeptFft::Setting KeptFft::Setting::Now(const Dfti& dfti) {
  return {dfti.most_threads(), InRegion(), Arithmetic()};
}

std::int64_t KeptFft::length() const {
  return std::accumulate(plan_.lengths.begin(), plan_.lengths.end(),
                         std::int64_t{0});
}

KeptFft::~KeptFft() {
  if (setting_) KeptFfts::Get().Remove(this, runtime::Now());
}

void* KeptFft::Make(const Dfti& dfti, const Setting& now) {
  void* descriptor = nullptr;
  if (Create(dfti, plan_, &descriptor) != 0) return nullptr;
  if (!Configure(dfti, plan_, descriptor)) {
    dfti.free(&descriptor);
    return nullptr;
  }
  setting_ = now;
  KeptFfts::Get().Add(this, dfti);
  return descriptor;
}

bool KeptFft::Run(const void* from, void* to) {
  const Dfti& dfti = runtime::Now();
  const Setting now = Setting::Now(dfti);
  if (setting_ && *setting_ != now) return false;
  void* descriptor = descriptor_.exchange(nullptr, std::memory_order_acquire);
  if (descriptor == nullptr) descriptor = Make(dfti, now);
  if (descriptor == nullptr) return false;
  last_run_.store(runs.fetch_add(1, std::memory_order_relaxed),
                  std::memory_order_relaxed);
  // MKL leaves the operand of a transform to another place as it is.
  const Dfti::Status status = (plan_.is_forward ? dfti.forward : dfti.backward)(
      descriptor, const_cast<void*>(from), to);
  descriptor_.store(descriptor, std::memory_order_release);
  return status == 0;
}

}  // namespace tjit::runtime
