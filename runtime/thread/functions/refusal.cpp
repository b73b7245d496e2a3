#include "runtime/thread/functions/refusal.h"

#include <array>

namespace tjit::runtime {
namespace {

struct Row {
  const char* name;
  const char* text;
  const char* remedy;
};
constexpr std::array<Row, static_cast<std::size_t>(Refusal::kCount)> kRows = {{
#define TJIT_REFUSAL(suffix, name, text, remedy) {#name, text, remedy},
#include "runtime/thread/functions/jit_refusals.def"
#undef TJIT_REFUSAL
}};

const Row& RowOf(Refusal refusal) {
  static constexpr Row kUnknown = {"?", "?", "?"};
  const auto i = static_cast<std::size_t>(refusal);
  return i < kRows.size() ? kRows[i] : kUnknown;
}

}  // namespace

const char* RefusalName(Refusal refusal) { return RowOf(refusal).name; }
const char* RefusalText(Refusal refusal) { return RowOf(refusal).text; }
const char* RefusalRemedy(Refusal refusal) { return RowOf(refusal).remedy; }

}  // namespace tjit::runtime
