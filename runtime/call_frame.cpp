#include "runtime/call_frame.h"

#include "runtime/library_calls.h"

namespace tjit::runtime {

[[gnu::hot]] void CallFrame::AddScalar(const at::Scalar& s) {
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
