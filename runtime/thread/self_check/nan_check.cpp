#include "runtime/thread/self_check/nan_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <set>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "recorder/trace_text.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/memory/tensor_names.h"
#include "runtime/thread/self_check/stress_check.h"
#include "support/mutex.h"
#include "support/printed_name.h"

namespace tjit::runtime {
namespace {

// Where elements lie: the tensor's sizes and strides, and the first one.
struct Elements {
  const char* first = nullptr;
  c10::IntArrayRef sizes, strides;
  std::int64_t count = 0;
};

// Calls visit(number of the element in row-major order, element) until it is
// false.
template <class T, class Visit>
void VisitAll(const Elements& e, const Visit& visit) {
  std::array<std::int64_t, kMaxDims> at{};
  const auto dims = static_cast<int>(e.sizes.size());
  const T* p = reinterpret_cast<const T*>(e.first);
  for (std::int64_t number = 0; number < e.count; ++number) {
    if (!visit(number, *p)) return;
    for (int d = dims - 1; d >= 0; --d) {
      p += e.strides[d];
      if (++at[d] < e.sizes[d]) break;
      p -= e.strides[d] * e.sizes[d];
      at[d] = 0;
    }
  }
}

template <class T>
struct Parts {  // of one number
  static constexpr int kCount = 1;
  static double Get(const T& x, int) { return static_cast<double>(x); }
};
template <class T>
struct Parts<c10::complex<T>> {
  static constexpr int kCount = 2;
  static double Get(const c10::complex<T>& x, int part) {
    return part == 0 ? x.real() : x.imag();
  }
};

// Whether an exponent is all ones: that of a NaN or an infinity.
template <class Bits>
bool HasFullExponent(const char* first, std::int64_t count, Bits exponent) {
  const Bits* p = reinterpret_cast<const Bits*>(first);
  Bits found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    found |= static_cast<Bits>((p[i] & exponent) == exponent);
  }
  return found != 0;
}

template <class T>
bool IsAllFinite(const Elements& e, bool is_dense) {
  if (is_dense) {
    if constexpr (std::is_same_v<T, float>) {
      return !HasFullExponent<std::uint32_t>(e.first, e.count, 0x7F800000u);
    } else if constexpr (std::is_same_v<T, double>) {
      return !HasFullExponent<std::uint64_t>(e.first, e.count,
                                             0x7FF0000000000000u);
    } else if constexpr (std::is_same_v<T, c10::complex<float>>) {
      return !HasFullExponent<std::uint32_t>(e.first, 2 * e.count, 0x7F800000u);
    } else if constexpr (std::is_same_v<T, c10::complex<double>>) {
      return !HasFullExponent<std::uint64_t>(e.first, 2 * e.count,
                                             0x7FF0000000000000u);
    } else if constexpr (std::is_same_v<T, c10::BFloat16>) {
      return !HasFullExponent<std::uint16_t>(e.first, e.count, 0x7F80u);
    } else if constexpr (std::is_same_v<T, c10::Half>) {
      return !HasFullExponent<std::uint16_t>(e.first, e.count, 0x7C00u);
    }
  }
  bool is_finite = true;
  VisitAll<T>(e, [&](std::int64_t, const T& x) {
    for (int part = 0; part < Parts<T>::kCount; ++part) {
      is_finite = is_finite && std::isfinite(Parts<T>::Get(x, part));
    }
    return is_finite;
  });
  return is_finite;
}

template <class T>
ValueSummary SummaryOf(const Elements& e) {
  ValueSummary s;
  s.least = std::numeric_limits<double>::infinity();
  s.greatest = -s.least;
  VisitAll<T>(e, [&s](std::int64_t, const T& element) {
    for (int part = 0; part < Parts<T>::kCount; ++part) {
      const double x = Parts<T>::Get(element, part);
      if (std::isnan(x)) {
        ++s.nans;
      } else if (std::isinf(x)) {
        ++s.infinities;
      } else {
        ++s.finite;
        s.zeros += x == 0;
        s.least = std::min(s.least, x);
        s.greatest = std::max(s.greatest, x);
      }
    }
    return true;
  });
  return s;
}

// The first element with a NaN, or with an infinity: its number in row-major
// order.
template <class T>
std::int64_t FirstBad(const Elements& e, bool wants_nan) {
  std::int64_t found = -1;
  VisitAll<T>(e, [&](std::int64_t number, const T& element) {
    for (int part = 0; part < Parts<T>::kCount; ++part) {
      const double x = Parts<T>::Get(element, part);
      if (wants_nan ? std::isnan(x) : std::isinf(x)) found = number;
    }
    return found < 0;
  });
  return found;
}

bool HasNumbers(const c10::TensorImpl* impl) {
  if (impl == nullptr || !IsPlain(impl) || impl->numel() == 0) return false;
  const c10::StorageImpl* storage = StorageOf(impl);
  if (storage == nullptr || storage->device() != c10::kCPU ||
      storage->data() == nullptr) {
    return false;
  }
  switch (c10::typeMetaToScalarType(impl->dtype())) {
    case c10::kFloat:
    case c10::kDouble:
    case c10::kHalf:
    case c10::kBFloat16:
    case c10::kComplexFloat:
    case c10::kComplexDouble:
      return true;
    default:
      return false;
  }
}

// REQUIRES: HasNumbers(impl).
Elements ElementsOf(const c10::TensorImpl* impl) {
  const std::size_t size = impl->dtype().itemsize();
  return {static_cast<const char*>(StorageOf(impl)->data()) +
              static_cast<std::size_t>(impl->storage_offset()) * size,
          impl->sizes(), impl->strides(), impl->numel()};
}

// use(T{}) for the element type. REQUIRES: HasNumbers(impl).
template <class Use>
auto WithType(const c10::TensorImpl* impl, const Use& use) {
  switch (c10::typeMetaToScalarType(impl->dtype())) {
    case c10::kDouble:
      return use(double{});
    case c10::kHalf:
      return use(c10::Half{});
    case c10::kBFloat16:
      return use(c10::BFloat16{});
    case c10::kComplexFloat:
      return use(c10::complex<float>{});
    case c10::kComplexDouble:
      return use(c10::complex<double>{});
    default:
      return use(float{});
  }
}

bool IsAllFinite(const c10::TensorImpl* impl) {
  return WithType(impl, [impl](auto type) {
    return IsAllFinite<decltype(type)>(ElementsOf(impl),
                                       impl->is_non_overlapping_and_dense());
  });
}

ValueSummary SummaryOf(const c10::TensorImpl* impl) {
  if (!HasNumbers(impl)) return {};
  Elements elements = ElementsOf(impl);
  const std::int64_t one = 1;
  if (impl->is_non_overlapping_and_dense()) {  // in any order
    elements.sizes = {&elements.count, 1};
    elements.strides = {&one, 1};
  }
  return WithType(impl, [&elements](auto type) {
    return SummaryOf<decltype(type)>(elements);
  });
}

// Ops in place that do not read what they write over.
bool IsOnlyWritten(const CallFrame& frame, const TensorRef& ref) {
  if (!ref.written) return false;
  static constexpr std::string_view kFilling[] = {
      "aten::copy_",        "aten::fill_.Scalar",     "aten::fill_.Tensor",
      "aten::zero_",        "aten::uniform_",         "aten::normal_",
      "aten::exponential_", "aten::log_normal_",      "aten::cauchy_",
      "aten::geometric_",   "aten::bernoulli_.float", "aten::bernoulli_.Tensor",
  };
  if (std::find(std::begin(kFilling), std::end(kFilling), frame.entry.name) !=
      std::end(kFilling)) {
    return true;
  }
  const std::vector<c10::Argument>& arguments =
      frame.entry.handle.schema().arguments();
  return ref.arg < arguments.size() && arguments[ref.arg].is_out();
}

bool ComputesNothing(const CallFrame& frame) {
  const OpClass kind = frame.entry.op_class;
  return kind == OpClass::kMetadata || kind == OpClass::kResize ||
         kind == OpClass::kEmpty;
}

bool MayBeInfinite(const CallFrame& frame, std::size_t result) {
  return result == 1 && frame.entry.name.starts_with("aten::_ctc_loss");
}

// Of the numbers among the arguments.
ValueSummary ScalarsOf(const CallFrame& frame) {
  ValueSummary s;
  const auto add = [&s](std::uint64_t bits) {
    const double x = std::bit_cast<double>(bits);
    s.nans += std::isnan(x);
    s.infinities += std::isinf(x);
  };
  for (const ScalarValue& v : frame.scalars) {
    const bool is_complex =
        v.type == static_cast<std::uint64_t>(c10::kComplexDouble);
    if (!is_complex && v.type != static_cast<std::uint64_t>(c10::kDouble)) {
      continue;
    }
    add(v.bits[0]);
    if (is_complex) add(v.bits[1]);
  }
  return s;
}

std::string CountOf(std::int64_t n, const char* one, const char* many) {
  return absl::StrCat(", ", n, " ", n == 1 ? one : many);
}

// "f32[4,8]", or "layer1.weight f32[4,8]" where it was named.
std::string TensorText(const c10::TensorImpl* impl) {
  const std::string name = TensorNameOf(impl);
  return absl::StrCat(name.empty() ? "" : PrintedName(name) + " ",
                      ToText(GeometryOf(impl)));
}

// "f32[4,8] in -1 to 3, 2 zeros".
std::string Describe(const c10::TensorImpl* impl, const ValueSummary& s) {
  if (impl == nullptr) return "none";
  if (!IsPlain(impl)) return "another kind of tensor";
  std::string text = TensorText(impl);
  if (s.finite > 0) {
    absl::StrAppend(&text, " in ", s.least, " to ", s.greatest);
  }
  if (s.zeros > 0) absl::StrAppend(&text, CountOf(s.zeros, "zero", "zeros"));
  if (s.infinities > 0) {
    absl::StrAppend(&text, CountOf(s.infinities, "infinity", "infinities"));
  }
  if (s.nans > 0) absl::StrAppend(&text, CountOf(s.nans, "NaN", "NaN"));
  return text;
}

// "[1,0]" of an element by its number in row-major order.
std::string IndexOf(c10::IntArrayRef sizes, std::int64_t number) {
  std::vector<std::int64_t> index(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    index[d] = number % sizes[d];
    number /= sizes[d];
  }
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

}  // namespace

void NanCheck::Before(const CallFrame& frame) {
  ++ops_;
  overwritten_.clear();
  if (ComputesNothing(frame)) return;
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    const TensorRef& ref = frame.tensors[i];
    if (!HasNumbers(ref.impl) || IsOnlyWritten(frame, ref)) continue;
    if (IsWritten(frame, StorageOf(ref.impl))) {
      overwritten_.push_back({i, SummaryOf(ref.impl)});
    }
  }
}

std::string NanCheck::After(const CallFrame& frame, const ResultList& results) {
  if (ComputesNothing(frame)) return {};
  std::vector<const c10::TensorImpl*> bad;
  const auto look = [&bad](const c10::TensorImpl* impl) {
    if (HasNumbers(impl) && !IsAllFinite(impl)) bad.push_back(impl);
  };
  std::size_t position = 0;
  for (const c10::TensorImpl* impl : results.items()) {
    if (!MayBeInfinite(frame, position++)) look(impl);
  }
  // Lists that are written in place are no results.
  for (const TensorRef& ref : frame.tensors) {
    const auto& items = results.items();
    if (ref.written &&
        std::find(items.begin(), items.end(), ref.impl) == items.end()) {
      look(ref.impl);
    }
  }
  if (bad.empty()) return {};

  ValueSummary all = ScalarsOf(frame);
  inputs_ = overwritten_;
  for (std::uint32_t i = 0; i < frame.tensors.size(); ++i) {
    const TensorRef& ref = frame.tensors[i];
    const auto known =
        std::find_if(inputs_.begin(), inputs_.end(),
                     [i](const Input& input) { return input.tensor == i; });
    if (known != inputs_.end() || IsOnlyWritten(frame, ref)) continue;
    inputs_.push_back({i, SummaryOf(ref.impl)});
  }
  std::sort(inputs_.begin(), inputs_.end(),
            [](const Input& a, const Input& b) { return a.tensor < b.tensor; });
  for (const Input& input : inputs_) {
    all.nans += input.values.nans;
    all.infinities += input.values.infinities;
  }
  if (all.nans > 0) return {};
  for (const bool wants_nan : {true, false}) {
    if (!wants_nan && all.infinities > 0) return {};
    for (const c10::TensorImpl* impl : bad) {
      const std::int64_t first = WithType(impl, [&](auto type) {
        return FirstBad<decltype(type)>(ElementsOf(impl), wants_nan);
      });
      if (first < 0) continue;
      const ValueSummary s = SummaryOf(impl);
      made_ = wants_nan ? "NaN" : "infinity";
      return absl::StrCat(
          "made ", made_, ": ", wants_nan ? s.nans : s.infinities, " of the ",
          s.nans + s.infinities + s.finite, " numbers of ", TensorText(impl),
          ", the first at ", IndexOf(impl->sizes(), first), "; ",
          InputsText(frame));
    }
  }
  return {};
}

std::string NanCheck::InputsText(const CallFrame& frame) const {
  std::vector<std::string> texts;
  for (const Input& input : inputs_) {
    texts.push_back(Describe(frame.tensors[input.tensor].impl, input.values));
  }
  for (const ScalarValue& v : frame.scalars) {
    if (v.type != kNoScalar) texts.push_back(PlainText(v));
  }
  return texts.empty() ? "no inputs"
                       : absl::StrCat("from ", absl::StrJoin(texts, "; "));
}

std::string NanCheck::Place() const {
  return steps_ == 0 ? absl::StrCat("op ", ops_)
                     : absl::StrCat("op ", ops_, " of step ", steps_ + 1);
}

bool NanCheck::IsNew(const CallFrame& frame, const std::string& region) const {
  std::string key = absl::StrCat(frame.entry.name, " ", made_, " ", region);
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr || !IsPlain(ref.impl)) continue;
    absl::StrAppend(&key, " ", ToText(GeometryOf(ref.impl)));
  }
  static Mutex mutex;
  static auto* said = new std::set<std::string, std::less<>>;
  constexpr std::size_t kMostSaid = 100;  // sizes may differ for ever
  const MutexLock lock(mutex);
  return said->size() < kMostSaid && said->insert(key).second;
}

}  // namespace tjit::runtime
