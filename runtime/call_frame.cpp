#include "runtime/call_frame.h"

#include "runtime/library_calls.h"

namespace tjit::runtime {

// Nearly all are doubles or longs: these are not asked what else they may be.
[[gnu::hot, gnu::flatten]] void CallFrame::AddScalar(const at::Scalar& s) {
  if (s.isSymbolic()) [[unlikely]] {
    recordable = false;
    AddNoScalar();
    return;
  }
  if (s.isFloatingPoint()) return AddDouble(s.toDouble());
  if (s.type() == c10::ScalarType::Long) {
    ScalarValue& v = scalars.Append();
    v.type = static_cast<std::uint64_t>(c10::ScalarType::Long);
    v.bits[0] = static_cast<std::uint64_t>(s.toLong());
    v.bits[1] = 0;
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
