// One op call, flattened: what the wrappers hand to the thread state.
//
// Typed and boxed wrappers fill the same frame, so everything behind them is
// written once. A frame lives on the stack of the wrapper and only points to
// the caller's tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "recorder/op_record.h"
#include "runtime/call/op_entry.h"

namespace tjit::runtime {

// Encoding of an at::Scalar or double argument.
void EncodeScalar(const at::Scalar& s, ScalarValue* v);
at::Scalar DecodeScalar(const ScalarValue& v);

// A growable array with room for N elements in place; elements are plain data.
template <class T, std::uint32_t N>
class FrameArray {
 public:
  FrameArray() = default;
  [[gnu::always_inline]] ~FrameArray() {
    if (capacity_ != N) [[unlikely]]
      Free();
  }
  FrameArray(const FrameArray&) = delete;
  FrameArray& operator=(const FrameArray&) = delete;

  [[gnu::always_inline]] void push_back(const T& v) { Append() = v; }
  // A new element, to be filled where it lies: a value built elsewhere in
  // parts and copied as a whole waits for its parts to reach the cache.
  // Inlined into the wrappers, where the compiler mostly knows the size.
  [[gnu::always_inline]] T& Append() {
    if (size_ == capacity_) [[unlikely]]
      Grow();
    return data_[size_++];
  }
  void clear() { size_ = 0; }
  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::uint32_t i) { return data_[i]; }
  const T& operator[](std::uint32_t i) const { return data_[i]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T* data() const { return data_; }

 private:
  [[gnu::noinline, gnu::cold]] void Grow() {
    T* bigger = new T[capacity_ * 2];
    std::memcpy(bigger, data_, sizeof(T) * size_);
    if (capacity_ != N) delete[] data_;
    data_ = bigger;
    capacity_ *= 2;
  }
  [[gnu::noinline, gnu::cold]] void Free() { delete[] data_; }
  T* data_ = reinterpret_cast<T*>(inline_);
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;                      // N: in place
  alignas(T) unsigned char inline_[N * sizeof(T)];  // not initialised
};

// The fresh results of a deferred call, owned until they are taken.
class FreshResults {
 public:
  [[gnu::always_inline]] ~FreshResults() {
    if (!items_.empty()) clear();
  }

  void Add(at::Tensor t) {
    c10::TensorImpl*& item = items_.Append();
    item = t.unsafeReleaseTensorImpl();
  }
  // Takes the caller's reference over.
  [[gnu::always_inline]] void AddOwned(c10::TensorImpl* impl) {
    items_.push_back(impl);
  }
  std::uint32_t size() const { return items_.size(); }
  // Null where undefined.
  const c10::TensorImpl* operator[](std::uint32_t i) const {
    return items_[i] == Undefined() ? nullptr : items_[i];
  }
  // Result `i`, which is undefined here from now on.
  at::Tensor Release(std::uint32_t i) {
    return at::Tensor(Pointer::reclaim(std::exchange(items_[i], Undefined())));
  }
  // The first one; no other may be left. Stored into a tensor that is there:
  // the constructor that takes a pointer is a call, which looks for null.
  [[gnu::always_inline]] at::Tensor ReleaseOnly() {
    c10::TensorImpl* const impl = items_[0];
    items_.clear();
    at::Tensor taken;
    const_cast<Pointer&>(taken.getIntrusivePtr()) = Pointer::reclaim(impl);
    return taken;
  }
  [[gnu::noinline]] void clear() {
    for (std::uint32_t i = 0; i < items_.size(); ++i) Release(i);
    items_.clear();
  }

 private:
  using Pointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  static c10::TensorImpl* Undefined() {
    return c10::UndefinedTensorImpl::singleton();
  }
  FrameArray<c10::TensorImpl*, 4> items_;
};

struct TensorRef {
  c10::TensorImpl* impl;    // null: undefined
  std::uint32_t arg;        // schema argument
  bool written;
};

// Type of a scalar argument that was not given (Scalar? = None).
inline constexpr std::uint64_t kNoScalar = ~std::uint64_t{0};

// Who must run the op, and with what result.
enum class Decision : std::uint8_t {
  kDeferred,  // results are in CallFrame::results
  kEager,     // the wrapper runs the kernel, then calls AfterEager()
};

// A number in an at::Scalar: what its first word says of a double and a long,
// and where both lie. kNone, which no scalar has, if this libtorch keeps them
// elsewhere.
struct ScalarLayout {
  static constexpr std::size_t kValueAt = 16;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t double_tag = kNone, long_tag = kNone;
};
extern const ScalarLayout g_scalar_layout;

// What is known of the values that decide whether a call throws
// (value_checks.h).
enum class ValueVerdict : std::uint8_t { kUnknown, kPass, kFail, kNotReady };

struct CallFrame {
  CallFrame(const OpEntry& e, c10::DispatchKeySet k) : entry(e), key_set(k) {}
  // Inlined: most of it is known to be needless then.
  [[gnu::always_inline]] ~CallFrame() = default;

  const OpEntry& entry;
  c10::DispatchKeySet key_set;
  // The state that the call comes from (kernel_state.h), where who calls knows;
  // 0: the thread's.
  std::uint32_t context = 0;
  FrameArray<TensorRef, 12> tensors;
  FrameArray<std::uint64_t, 32> statics;
  FrameArray<ScalarValue, 4> scalars;
  // False: an argument of a kind that cannot be recorded (generator, storage,
  // symbolic size): runs at the call.
  bool recordable = true;
  // Set by OnCall() if AfterEager() wants the boxed arguments.
  bool wants_capture = false;
  // Set by OnCall(): a call in a function of tjit::jit() that may be a draw
  // (draws.h), and no step.
  bool is_draw = false;
  // Set by OnCall(): a worker of a parallel region calls, whose ops are no
  // part of the stream.
  bool in_region = false;
  ValueVerdict values = ValueVerdict::kUnknown;
  // Fresh results of a deferred call, in order; undefined where the schema's
  // result is an alias.
  FreshResults results;

  [[gnu::always_inline]] void AddTensor(const at::TensorBase& t,
                                        std::uint32_t arg) {
    TensorRef& ref = tensors.Append();
    ref.impl = t.defined() ? t.unsafeGetTensorImpl() : nullptr;
    ref.arg = arg;
    ref.written = entry.writes[arg] != 0;
  }
  void AddUndefined(std::uint32_t arg) {
    tensors.push_back({nullptr, arg, false});
  }
  void AddStatic(std::uint64_t word) { statics.push_back(word); }
  // Nearly all are doubles or longs: these are not asked what else they may be.
  [[gnu::always_inline]] void AddScalar(const at::Scalar& s) {
    std::uint32_t tag = 0;
    std::memcpy(&tag, &s, sizeof(tag));
    c10::ScalarType type = c10::ScalarType::Long;
    if (tag != g_scalar_layout.long_tag) {
      if (tag != g_scalar_layout.double_tag) [[unlikely]]
        return AddOtherScalar(s);
      type = c10::ScalarType::Double;
    }
    ScalarValue& v = scalars.Append();
    v.type = static_cast<std::uint64_t>(type);
    std::memcpy(v.bits,
                reinterpret_cast<const char*>(&s) + ScalarLayout::kValueAt,
                sizeof(v.bits[0]));
    v.bits[1] = 0;
  }
  void AddOtherScalar(const at::Scalar& s);
  void AddDouble(double d) {
    ScalarValue& v = scalars.Append();
    v.type = static_cast<std::uint64_t>(c10::ScalarType::Double);
    std::memcpy(v.bits, &d, sizeof(d));
    v.bits[1] = 0;
  }
  void AddNoScalar() { scalars.push_back(ScalarValue{kNoScalar, {0, 0}}); }
  void AddString(std::string_view s);
};

}  // namespace tjit::runtime
