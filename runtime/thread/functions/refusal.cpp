#include "runtime/thread/functions/refusal.h"

#include <array>

#include "absl/strings/str_cat.h"

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

std::string DescribeRefusal(Refusal refusal, OpId op) {
  const Row& row = RowOf(refusal);
  const std::string about =
      op == kNoOp ? "" : absl::StrCat(" (", std::string(OpName(op)), ")");
  return absl::StrCat(row.name, ": ", row.text, about, "; ", row.remedy);
}

}  // namespace tjit::runtime
