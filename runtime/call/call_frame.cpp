#include "runtime/call/call_frame.h"

#include <bit>

#include "runtime/library_calls/library_call.h"

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
