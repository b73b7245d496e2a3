// Packs unboxed arguments, by type, into a CallFrame. Overloads for every
// argument type of aten's schemas; an unknown type fails to compile.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <bit>
#include <optional>
#include <string_view>

#include "runtime/call/call_frame.h"

namespace tjit::runtime {

// Inlined, so that the compiler knows how many arguments are there already.
[[gnu::always_inline]] inline void Pack(CallFrame& f, std::uint32_t i,
                                        const at::Tensor& t) {
  f.AddTensor(t, i);
}
inline void Pack(CallFrame& f, std::uint32_t i,
                 const std::optional<at::Tensor>& t) {
  if (t.has_value()) {
    f.AddTensor(*t, i);
  } else {
    f.AddUndefined(i);
  }
}
inline void Pack(CallFrame& f, std::uint32_t i, at::TensorList list) {
  f.AddStatic(list.size());
  for (const at::Tensor& t : list) f.AddTensor(t, i);
}
inline void Pack(CallFrame& f, std::uint32_t i,
                 const at::ITensorListRef& list) {
  f.AddStatic(list.size());
  for (const at::Tensor& t : list) f.AddTensor(t, i);
}
inline void Pack(CallFrame& f, std::uint32_t i,
                 const c10::List<std::optional<at::Tensor>>& list) {
  f.AddStatic(list.size());
  for (std::size_t k = 0; k < list.size(); ++k) {
    const std::optional<at::Tensor> t = list.get(k);
    Pack(f, i, t);
  }
}
inline void Pack(CallFrame& f, std::uint32_t, const at::Scalar& s) {
  f.AddScalar(s);
}
inline void Pack(CallFrame& f, std::uint32_t,
                 const std::optional<at::Scalar>& s) {
  if (s.has_value()) {
    f.AddScalar(*s);
  } else {
    f.AddNoScalar();
  }
}
inline void Pack(CallFrame& f, std::uint32_t, at::ArrayRef<at::Scalar> list) {
  f.AddStatic(list.size());
  for (const at::Scalar& s : list) f.AddScalar(s);
}
[[gnu::always_inline]] inline void Pack(CallFrame& f, std::uint32_t, double d) {
  f.AddDouble(d);
}
inline void Pack(CallFrame& f, std::uint32_t, std::optional<double> d) {
  if (d.has_value()) {
    f.AddDouble(*d);
  } else {
    f.AddNoScalar();
  }
}
inline void Pack(CallFrame& f, std::uint32_t, at::ArrayRef<double> list) {
  f.AddStatic(list.size());
  for (double d : list) f.AddStatic(std::bit_cast<std::uint64_t>(d));
}
inline void Pack(CallFrame& f, std::uint32_t i,
                 const std::optional<at::ArrayRef<double>>& list) {
  f.AddStatic(list.has_value());
  if (list.has_value()) Pack(f, i, *list);
}
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  [[gnu::always_inline]] inline void Pack(CallFrame& f, std::uint32_t,
                                          T value) {
    f.AddStatic(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
inline void Pack(CallFrame& f, std::uint32_t, std::optional<T> value) {
  f.AddStatic(value.has_value());
  f.AddStatic(value.has_value() ? static_cast<std::uint64_t>(*value) : 0);
}
inline void Pack(CallFrame& f, std::uint32_t, at::Device d) {
  f.AddStatic(static_cast<std::uint64_t>(d.type()) << 8 |
              static_cast<std::uint8_t>(d.index()));
}
inline void Pack(CallFrame& f, std::uint32_t i, std::optional<at::Device> d) {
  f.AddStatic(d.has_value());
  if (d.has_value()) Pack(f, i, *d);
}
inline void Pack(CallFrame& f, std::uint32_t, const c10::SymInt& s) {
  const std::optional<std::int64_t> v = s.maybe_as_int();
  if (!v.has_value()) f.recordable = false;
  f.AddStatic(static_cast<std::uint64_t>(v.value_or(0)));
}
inline void Pack(CallFrame& f, std::uint32_t i,
                 const std::optional<c10::SymInt>& s) {
  f.AddStatic(s.has_value());
  if (s.has_value()) Pack(f, i, *s);
}
inline void Pack(CallFrame& f, std::uint32_t i, c10::SymIntArrayRef list) {
  f.AddStatic(list.size());
  for (const c10::SymInt& s : list) Pack(f, i, s);
}
inline void Pack(CallFrame& f, std::uint32_t, at::IntArrayRef list) {
  f.AddStatic(list.size());
  for (std::int64_t v : list) f.AddStatic(static_cast<std::uint64_t>(v));
}
template <class T>
inline void Pack(CallFrame& f, std::uint32_t i, c10::OptionalArrayRef<T> list) {
  f.AddStatic(list.has_value());
  if (list.has_value()) Pack(f, i, *list);
}
template <std::size_t N>
inline void Pack(CallFrame& f, std::uint32_t, std::array<bool, N> flags) {
  std::uint64_t word = 0;
  for (std::size_t k = 0; k < N; ++k) word |= std::uint64_t{flags[k]} << k;
  f.AddStatic(word);
}
inline void Pack(CallFrame& f, std::uint32_t, std::string_view s) {
  f.AddString(s);
}
inline void Pack(CallFrame& f, std::uint32_t,
                 std::optional<std::string_view> s) {
  f.AddStatic(s.has_value());
  if (s.has_value()) f.AddString(*s);
}
inline void Pack(CallFrame& f, std::uint32_t,
                 const std::optional<at::Generator>& g) {
  if (g.has_value()) f.recordable = false;
}

}  // namespace tjit::runtime
