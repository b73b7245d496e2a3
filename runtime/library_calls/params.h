// Reads the arguments of a recorded call as the parameters of a kernel.
//
// Param<T> keeps one argument for a C++ parameter of type T: tensors are
// executor tensors, scalars are refreshed from the run, the rest is constant.
// A parameter type that is not listed fails to compile.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/OptionalArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/library_calls/internal.h"

namespace tjit::runtime {

// Walks the schema arguments of a request, one Param at a time.
struct ArgumentCursor {
  const Request& request;
  std::size_t argument = 0;  // schema argument
  std::size_t tensor = 0;    // flattened tensor argument
  std::size_t scalar = 0;    // scalar argument

  const c10::IValue& NextValue() { return request.call.arguments[argument++]; }
  const at::Tensor& NextTensor() {
    ++argument;
    return request.args[tensor++];
  }
  std::vector<at::Tensor> NextList() {
    const std::size_t count = NextValue().toListRef().size();
    std::vector<at::Tensor> list(
        request.args.begin() + static_cast<std::ptrdiff_t>(tensor),
        request.args.begin() + static_cast<std::ptrdiff_t>(tensor + count));
    tensor += count;
    return list;
  }
  const ScalarValue& NextScalar() {
    ++argument;
    return request.step.scalars[scalar++].value;
  }
};

// A Param that does not change between runs.
struct ConstantParam {
  static constexpr bool kIsScalar = false;
  void Update(const ScalarValue*) {}
};

template <class T>
struct Param;

template <>
struct Param<const at::Tensor&> : ConstantParam {
  explicit Param(ArgumentCursor* c) : value(c->NextTensor()) {}
  const at::Tensor& Get() { return value; }
  at::Tensor value;
};

template <>
struct Param<at::Tensor&> : ConstantParam {
  explicit Param(ArgumentCursor* c) : value(c->NextTensor()) {}
  at::Tensor& Get() { return value; }
  at::Tensor value;
};

template <>
struct Param<at::OptionalTensorRef> : ConstantParam {
  explicit Param(ArgumentCursor* c) : value(c->NextTensor()) {}
  at::OptionalTensorRef Get() {
    return value.defined() ? at::OptionalTensorRef(value)
                           : at::OptionalTensorRef();
  }
  at::Tensor value;
};

template <>
struct Param<const std::optional<at::Tensor>&> : ConstantParam {
  explicit Param(ArgumentCursor* c) {
    const at::Tensor& t = c->NextTensor();
    if (t.defined()) value = t;
  }
  const std::optional<at::Tensor>& Get() { return value; }
  std::optional<at::Tensor> value;
};

template <>
struct Param<const at::ITensorListRef&> : ConstantParam {
  explicit Param(ArgumentCursor* c) : value(c->NextList()), list(value) {}
  Param(const Param& o) : value(o.value), list(value) {}
  const at::ITensorListRef& Get() { return list; }
  std::vector<at::Tensor> value;
  at::ITensorListRef list;
};

template <>
struct Param<const at::Scalar&> {
  static constexpr bool kIsScalar = true;
  explicit Param(ArgumentCursor* c)
      : index(c->scalar), seen(c->NextScalar()), value(DecodeScalar(seen)) {}
  void Update(const ScalarValue* s) {
    if (s[index].SameBits(seen)) return;
    seen = s[index];
    value = DecodeScalar(seen);
  }
  const at::Scalar& Get() { return value; }
  std::size_t index;
  ScalarValue seen;
  at::Scalar value;
};

template <>
struct Param<at::OptionalScalarRef> {
  static constexpr bool kIsScalar = true;
  explicit Param(ArgumentCursor* c) : index(c->scalar) {
    const ScalarValue& v = c->NextScalar();
    is_given = !IsNoScalar(v);
    if (is_given) value = DecodeScalar(v);
  }
  void Update(const ScalarValue* s) {
    if (is_given) value = DecodeScalar(s[index]);
  }
  at::OptionalScalarRef Get() {
    return is_given ? at::OptionalScalarRef(value) : at::OptionalScalarRef();
  }
  std::size_t index;
  bool is_given = false;
  at::Scalar value;
};

template <>
struct Param<double> {
  static constexpr bool kIsScalar = true;
  explicit Param(ArgumentCursor* c)
      : index(c->scalar), value(DecodeScalar(c->NextScalar()).toDouble()) {}
  void Update(const ScalarValue* s) {
    value = DecodeScalar(s[index]).toDouble();
  }
  double Get() { return value; }
  std::size_t index;
  double value;
};

// Optional double and Scalar.
template <class T>
struct OptionalNumber {
  static constexpr bool kIsScalar = true;
  explicit OptionalNumber(ArgumentCursor* c) : index(c->scalar) {
    const ScalarValue& v = c->NextScalar();
    if (!IsNoScalar(v)) Set(v);
  }
  void Update(const ScalarValue* s) {
    if (value.has_value()) Set(s[index]);
  }
  void Set(const ScalarValue& v) {
    if constexpr (std::is_same_v<T, double>) {
      value = DecodeScalar(v).toDouble();
    } else {
      value = DecodeScalar(v);
    }
  }
  const std::optional<T>& Get() { return value; }
  std::size_t index;
  std::optional<T> value;
};
template <>
struct Param<std::optional<double>> : OptionalNumber<double> {
  using OptionalNumber::OptionalNumber;
};
template <>
struct Param<const std::optional<at::Scalar>&> : OptionalNumber<at::Scalar> {
  using OptionalNumber::OptionalNumber;
};

template <class T>
  requires std::is_same_v<T, std::int64_t> || std::is_same_v<T, bool> ||
           std::is_same_v<T, at::ScalarType>
struct Param<T> : ConstantParam {
  explicit Param(ArgumentCursor* c) : value(c->NextValue().to<T>()) {}
  T Get() { return value; }
  T value;
};

template <class T>
  requires std::is_same_v<T, std::int64_t> || std::is_same_v<T, bool> ||
           std::is_same_v<T, at::ScalarType>
struct Param<std::optional<T>> : ConstantParam {
  explicit Param(ArgumentCursor* c)
      : value(c->NextValue().to<std::optional<T>>()) {}
  std::optional<T> Get() { return value; }
  std::optional<T> value;
};

template <>
struct Param<at::IntArrayRef> : ConstantParam {
  explicit Param(ArgumentCursor* c) : value(c->NextValue().toIntVector()) {}
  at::IntArrayRef Get() { return value; }
  std::vector<std::int64_t> value;
};

template <>
struct Param<at::OptionalIntArrayRef> : ConstantParam {
  explicit Param(ArgumentCursor* c) {
    const c10::IValue& v = c->NextValue();
    if (!v.isNone()) value = v.toIntVector();
  }
  at::OptionalIntArrayRef Get() {
    return value ? at::OptionalIntArrayRef(*value) : std::nullopt;
  }
  std::optional<std::vector<std::int64_t>> value;
};

template <>
struct Param<c10::string_view> : ConstantParam {
  explicit Param(ArgumentCursor* c) : value(c->NextValue().toStringRef()) {}
  c10::string_view Get() { return value; }
  std::string value;
};

template <>
struct Param<std::optional<c10::string_view>> : ConstantParam {
  explicit Param(ArgumentCursor* c) {
    const c10::IValue& v = c->NextValue();
    if (!v.isNone()) value = v.toStringRef();
  }
  std::optional<c10::string_view> Get() {
    return value ? std::optional<c10::string_view>(*value) : std::nullopt;
  }
  std::optional<std::string> value;
};

// The parameters of one kernel, in schema order.
template <class... T>
struct ParamPack {
  explicit ParamPack(ArgumentCursor* c) : params{Param<T>(c)...} {}

  static constexpr bool kHasScalar = (Param<T>::kIsScalar || ...);

  void Update(const ScalarValue* scalars) {
    if constexpr (kHasScalar) {
      std::apply([&](auto&... p) { (p.Update(scalars), ...); }, params);
    }
  }
  template <class F>
  decltype(auto) Call(F&& f) {
    return std::apply(
        [&](auto&... p) -> decltype(auto) { return f(p.Get()...); }, params);
  }

  std::tuple<Param<T>...> params;
};

}  // namespace tjit::runtime
