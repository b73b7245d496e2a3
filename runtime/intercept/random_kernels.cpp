#include "runtime/intercept/random_kernels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "compiler/functions/mersenne_twister.h"
#include "runtime/bit_exact/normal_numbers.h"
#include "runtime/platform/kernel_stubs.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/thread_context.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

using OptionalGenerator = std::optional<at::Generator>;

// What ran before.
struct Kernels {
  void (*uniform)(at::TensorIteratorBase&, double, double,
                  OptionalGenerator) = nullptr;
  void (*bernoulli)(const at::TensorBase&, double, OptionalGenerator) = nullptr;
  void (*normal)(const at::TensorBase&, double, double,
                 OptionalGenerator) = nullptr;
};
Kernels g_libtorchs;  // set before the stubs are

// The generator's state is copied out and back, 2.5 KiB each, three times; that
// is worth it for so many words.
constexpr std::int64_t kFewestWords = 512;

template <class T>
constexpr std::int64_t kWordsOfUniform = sizeof(T) / 4;
constexpr std::int64_t kWordsOfBernoulli = 2;

// The words of a generator for as long as this lives.
class DrawingFrom {
 public:
  // REQUIRES: the caller has the lock of *generator.
  explicit DrawingFrom(at::CPUGeneratorImpl* generator)
      : generator_(generator),
        engine_(generator->engine()),
        data_(engine_.data()) {
    // `left_` counts the words before the next round, and one more.
    twister_ = {data_.state_.data(), kTwisterWords - (data_.left_ - 1)};
  }
  ~DrawingFrom() {
    data_.left_ = kTwisterWords - twister_.next + 1;
    data_.next_ = static_cast<std::uint32_t>(twister_.next);
    engine_.set_data(data_);
    generator_->set_engine(engine_);
  }
  DrawingFrom(const DrawingFrom&) = delete;
  DrawingFrom& operator=(const DrawingFrom&) = delete;
  MersenneTwister* twister() { return &twister_; }

 private:
  at::CPUGeneratorImpl* const generator_;
  at::mt19937 engine_;
  at::mt19937_data_pod data_;
  MersenneTwister twister_;
};

template <class T>
void Uniform(at::CPUGeneratorImpl* generator, T from, T to, bool is_fused,
             T* data, std::int64_t count) {
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  DrawUniform(DrawingFrom(generator).twister(), {from, to, is_fused}, data,
              count);
}

template <class T>
void Bernoulli(at::CPUGeneratorImpl* generator, double p, T* data,
               std::int64_t count) {
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  DrawBernoulli(DrawingFrom(generator).twister(), p, data, count);
}

// As libtorch: blocks of 16 numbers, and the last 16 once more where some are
// left over.
void Normal(at::CPUGeneratorImpl* generator, double mean, double deviation,
            float* data, std::int64_t count) {
  constexpr std::int64_t kPiece = 1024, kBlock = 16;  // a piece stays in cache
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  DrawingFrom drawing(generator);
  const auto draw = [&](float* to, std::int64_t some) {
    DrawUniform(drawing.twister(), {}, to, some);
    MakeNormal(static_cast<float>(mean), static_cast<float>(deviation), to,
               some / kBlock);
  };
  for (std::int64_t i = 0; i < count; i += kPiece) {
    draw(data + i, std::min(kPiece, count - i));
  }
  if (count % kBlock != 0) draw(data + count - kBlock, kBlock);
}

// Both draw three times; the second time begins in mid-round.
// libtorchs(generator, tensor) and own(generator, data, count).
template <class T, class F, class G>
bool IsSame(F&& libtorchs, G&& own) {
  constexpr std::int64_t kNumbers = 1000;
  constexpr std::uint64_t kSeed = 29;
  const at::Generator first = at::detail::createCPUGenerator(kSeed);
  const at::Generator second = at::detail::createCPUGenerator(kSeed);
  auto* const of_first = first.get<at::CPUGeneratorImpl>();
  auto* const of_second = second.get<at::CPUGeneratorImpl>();
  const auto make = [] {
    return at::detail::empty_cpu({kNumbers},
                                 c10::CppTypeToScalarType<T>::value);
  };
  for (int i = 0; i < 3; ++i) {
    const at::TensorBase a = make(), b = make();
    libtorchs(first, a);
    own(of_second, static_cast<T*>(b.mutable_data_ptr()), kNumbers);
    if (std::memcmp(a.const_data_ptr(), b.const_data_ptr(),
                    kNumbers * sizeof(T)) != 0 ||
        of_second->random() != of_first->random()) {
      return false;
    }
  }
  return true;
}

// How eager rounds numbers of a range; nothing if it is not one of ours. In the
// second range some numbers are rounded up to its end.
template <class T>
std::optional<bool> RoundingOf() {
  constexpr T kFar = sizeof(T) == 4 ? T(1e6) : T(1e15);
  constexpr std::pair<T, T> kRanges[] = {{T(-0.3), T(1.9)}, {kFar, kFar + 1}};
  for (const bool is_fused : {false, true}) {
    const bool is_same = std::all_of(
        std::begin(kRanges), std::end(kRanges), [&](const auto& range) {
          return IsSame<T>(
              [&](const at::Generator& generator, const at::TensorBase& to) {
                auto it = at::TensorIterator::borrowing_nullary_op(to);
                g_libtorchs.uniform(it, range.first, range.second, generator);
              },
              [&](at::CPUGeneratorImpl* generator, T* to, std::int64_t count) {
                Uniform(generator, range.first, range.second, is_fused, to,
                        count);
              });
        });
    if (is_same) return is_fused;
  }
  return std::nullopt;
}

template <class T>
bool HasOwnBernoulli() {
  return IsSame<T>(
      [&](const at::Generator& generator, const at::TensorBase& to) {
        g_libtorchs.bernoulli(to, 0.3, generator);
      },
      [&](at::CPUGeneratorImpl* generator, T* to, std::int64_t count) {
        Bernoulli(generator, 0.3, to, count);
      });
}

bool HasOwnNormal() {
  return IsSame<float>(
      [&](const at::Generator& generator, const at::TensorBase& to) {
        g_libtorchs.normal(to, 0.3, 1.7, generator);
      },
      [&](at::CPUGeneratorImpl* generator, float* to, std::int64_t count) {
        Normal(generator, 0.3, 1.7, to, count);
      });
}

// What has eager's bits, by type.
template <class T>
std::optional<bool> g_rounding;
template <class T>
bool g_has_bernoulli = false;
bool g_has_normal = false;

// The state of this thread if it takes part. A kernel runs, so ActiveState()
// says nothing.
ThreadState* StateInKernel() {
  const ThreadContext& c = t_context;
  if (!g_enabled.load(std::memory_order_relaxed) || !g_settings.own_random() ||
      c.off ||
      (!g_process_enabled.load(std::memory_order_relaxed) &&
       c.scoped_on == 0)) {
    return nullptr;
  }
  return c.state == nullptr || c.state->is_paused() ? nullptr : c.state;
}

at::CPUGeneratorImpl* GeneratorOf(const OptionalGenerator& generator) {
  return at::get_generator_or_default<at::CPUGeneratorImpl>(
      generator, at::detail::getDefaultCPUGenerator());
}

// False: libtorch's kernel is to run, which has the checks.
template <class T>
bool TryUniform(const at::TensorIteratorBase& it, double from, double to,
                const OptionalGenerator& generator) {
  const auto first = static_cast<T>(from), last = static_cast<T>(to);
  if (!g_rounding<T> || !(first <= last) ||
      !(last - first <= std::numeric_limits<T>::max()) ||
      it.numel() * kWordsOfUniform<T> < kFewestWords) {
    return false;
  }
  Uniform(GeneratorOf(generator), first, last, *g_rounding<T>,
          static_cast<T*>(it.data_ptr(0)), it.numel());
  return true;
}

void OwnUniform(at::TensorIteratorBase& it, double from, double to,
                OptionalGenerator generator) {
  ThreadState* const state = StateInKernel();
  bool is_done = false;
  if (state != nullptr && it.is_contiguous()) {
    if (it.dtype() == at::kFloat) {
      is_done = TryUniform<float>(it, from, to, generator);
    } else if (it.dtype() == at::kDouble) {
      is_done = TryUniform<double>(it, from, to, generator);
    }
  }
  if (is_done) return state->CountOwnDraw();
  g_libtorchs.uniform(it, from, to, std::move(generator));
}

template <class T>
bool TryBernoulli(const at::TensorBase& self, double p,
                  const OptionalGenerator& generator) {
  if (!g_has_bernoulli<T> || !(p >= 0 && p <= 1) ||
      !self.is_non_overlapping_and_dense() ||
      self.numel() * kWordsOfBernoulli < kFewestWords) {
    return false;
  }
  Bernoulli(GeneratorOf(generator), p, static_cast<T*>(self.mutable_data_ptr()),
            self.numel());
  return true;
}

void OwnBernoulli(const at::TensorBase& self, double p,
                  OptionalGenerator generator) {
  ThreadState* const state = StateInKernel();
  bool is_done = false;
  if (state != nullptr) {
    switch (self.scalar_type()) {
      case at::kFloat:
        is_done = TryBernoulli<float>(self, p, generator);
        break;
      case at::kDouble:
        is_done = TryBernoulli<double>(self, p, generator);
        break;
      case at::kBool:
        is_done = TryBernoulli<bool>(self, p, generator);
        break;
      default:
        break;
    }
  }
  if (is_done) return state->CountOwnDraw();
  g_libtorchs.bernoulli(self, p, std::move(generator));
}

void OwnNormal(const at::TensorBase& self, double mean, double deviation,
               OptionalGenerator generator) {
  ThreadState* const state = StateInKernel();
  if (state == nullptr || !g_has_normal || self.scalar_type() != at::kFloat ||
      !self.is_contiguous() || self.numel() < kFewestWords) {
    return g_libtorchs.normal(self, mean, deviation, std::move(generator));
  }
  Normal(GeneratorOf(generator), mean, deviation,
         static_cast<float*>(self.mutable_data_ptr()), self.numel());
  state->CountOwnDraw();
}

// A stub keeps the kernel that libtorch has chosen for this processor as the
// first member of its only member, which is private.
template <class Stub>
at::native::DispatchStubImpl* ImplOf(Stub* stub) {
  static_assert(std::is_standard_layout_v<Stub> &&
                sizeof(Stub) == sizeof(at::native::DispatchStubImpl));
  return reinterpret_cast<at::native::DispatchStubImpl*>(stub);
}

template <class Stub, class Kernel>
void FindChosen(Stub* stub, Kernel* libtorchs) {
  *libtorchs = reinterpret_cast<Kernel>(ImplOf(stub)->get_call_ptr(
      at::kCPU, reinterpret_cast<void*>(Stub::DEFAULT),
      reinterpret_cast<void*>(Stub::AVX512),
      reinterpret_cast<void*>(Stub::AVX2)));
}

template <class Stub, class Kernel>
void Replace(Stub* stub, Kernel own) {
  ImplOf(stub)->cpu_dispatch_ptr.store(reinterpret_cast<void*>(own));
}

}  // namespace

void ReplaceRandomKernels() {
  if (!HasMersenneTwister()) return;
  FindChosen(&at::native::uniform_stub, &g_libtorchs.uniform);
  FindChosen(&at::native::bernoulli_scalar_stub, &g_libtorchs.bernoulli);
  FindChosen(&at::native::normal_stub, &g_libtorchs.normal);
  g_rounding<float> = RoundingOf<float>();
  g_rounding<double> = RoundingOf<double>();
  g_has_bernoulli<float> = HasOwnBernoulli<float>();
  g_has_bernoulli<double> = HasOwnBernoulli<double>();
  g_has_bernoulli<bool> = HasOwnBernoulli<bool>();
  g_has_normal = HasOwnNormal();
  Replace(&at::native::uniform_stub, &OwnUniform);
  Replace(&at::native::bernoulli_scalar_stub, &OwnBernoulli);
  Replace(&at::native::normal_stub, &OwnNormal);
}

}  // namespace tjit::runtime
