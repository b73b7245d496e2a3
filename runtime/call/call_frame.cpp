#include "runtime/call/call_frame.h"

#include <bit>

namespace tjit::runtime {

namespace {

std::uint64_t WordAt(const at::Scalar& s, std::size_t byte) {
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const char*>(&s) + byte, sizeof(word));
  return word;
}

std::uint32_t TagOf(const at::Scalar& s) {
  return static_cast<std::uint32_t>(WordAt(s, 0));
}

ScalarLayout FindLayout() {
  const at::Scalar a_double(-0.75), a_long(std::int64_t{-4711}), a_bool(true);
  const bool as_expected =
      sizeof(at::Scalar) >= ScalarLayout::kValueAt + sizeof(std::uint64_t) &&
      WordAt(a_double, ScalarLayout::kValueAt) ==
          std::bit_cast<std::uint64_t>(-0.75) &&
      WordAt(a_long, ScalarLayout::kValueAt) ==
          static_cast<std::uint64_t>(-4711) &&
      TagOf(a_double) == TagOf(at::Scalar(1e300)) &&
      TagOf(a_long) == TagOf(at::Scalar(std::int64_t{1} << 60)) &&
      TagOf(a_double) != TagOf(a_long) && TagOf(a_bool) != TagOf(a_long) &&
      TagOf(a_bool) != TagOf(a_double);
  if (!as_expected) return {};
  return {TagOf(a_double), TagOf(a_long)};
}

}  // namespace

// Before other initializers of this library: zeros would be taken for tags.
[[gnu::init_priority(101)]] const ScalarLayout g_scalar_layout = FindLayout();

[[gnu::hot]] void EncodeScalar(const at::Scalar& s, ScalarValue* v) {
  const c10::ScalarType type = s.type();
  v->type = static_cast<std::uint64_t>(type);
  v->bits[1] = 0;
  if (type == c10::ScalarType::Double) {
    const double d = s.toDouble();
    std::memcpy(v->bits, &d, sizeof(d));
  } else if (s.isComplex()) {
    const c10::complex<double> z = s.toComplexDouble();
    const double parts[2] = {z.real(), z.imag()};
    std::memcpy(v->bits, parts, sizeof(parts));
  } else if (s.isBoolean()) {
    v->bits[0] = s.toBool() ? 1 : 0;
  } else {
    v->bits[0] = static_cast<std::uint64_t>(s.toLong());
  }
}

at::Scalar DecodeScalar(const ScalarValue& v) {
  double parts[2];
  std::memcpy(parts, v.bits, sizeof(parts));
  switch (static_cast<c10::ScalarType>(v.type)) {
    case c10::ScalarType::Double:
      return at::Scalar(parts[0]);
    case c10::ScalarType::Long:
      return at::Scalar(static_cast<std::int64_t>(v.bits[0]));
    case c10::ScalarType::Bool:
      return at::Scalar(v.bits[0] != 0);
    case c10::ScalarType::ComplexDouble:
      return at::Scalar(c10::complex<double>(parts[0], parts[1]));
    default:
      TORCH_INTERNAL_ASSERT(false, "no scalar of type ", v.type);
  }
}

void CallFrame::AddOtherScalar(const at::Scalar& s) {
  if (s.isSymbolic()) {
    recordable = false;
    AddNoScalar();
    return;
  }
  EncodeScalar(s, &scalars.Append());
}

void CallFrame::AddString(std::string_view s) {
  statics.push_back(s.size());
  for (std::size_t i = 0; i < s.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, s.data() + i, std::min(sizeof(word), s.size() - i));
    statics.push_back(word);
  }
}

}  // namespace tjit::runtime
