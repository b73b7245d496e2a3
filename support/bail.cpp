#include "support/bail.h"

#include <cstddef>
#include <iterator>

namespace tjit {
namespace {

struct Row {
  const char* name;
  const char* text;
  bool is_expected;
  const char* remedy;
};

constexpr bool expected = true;
constexpr bool unexpected = false;

constexpr Row kBails[] = {
#define TJIT_BAIL(suffix, name, expectedness, text, remedy) \
  {#name, text, expectedness, remedy},
#include "support/bail_reasons.def"
#undef TJIT_BAIL
};

constexpr Row kFlushes[] = {
#define TJIT_FLUSH_REASON(suffix, name, text) {#name, text, true, ""},
#include "support/flush_reasons.def"
#undef TJIT_FLUSH_REASON
};

constexpr Row kBackwards[] = {
#define TJIT_BACKWARD_REASON(suffix, name, text) {#name, text, true, ""},
#include "support/backward_reasons.def"
#undef TJIT_BACKWARD_REASON
};

static_assert(std::size(kBackwards) ==
              static_cast<size_t>(BackwardReason::kCount));
static_assert(std::size(kBails) == static_cast<size_t>(BailReason::kCount));
static_assert(std::size(kFlushes) == static_cast<size_t>(FlushReason::kCount));

constexpr Row kUnknown = {"?", "?", unexpected, "?"};

const Row& RowOf(BailReason reason) {
  const auto i = static_cast<std::size_t>(reason);
  return i < std::size(kBails) ? kBails[i] : kUnknown;
}

const Row& RowOf(FlushReason reason) {
  const auto i = static_cast<std::size_t>(reason);
  return i < std::size(kFlushes) ? kFlushes[i] : kUnknown;
}

const Row& RowOf(BackwardReason reason) {
  const auto i = static_cast<std::size_t>(reason);
  return i < std::size(kBackwards) ? kBackwards[i] : kUnknown;
}

}  // namespace

const char* BailName(BailReason reason) { return RowOf(reason).name; }
const char* BailText(BailReason reason) { return RowOf(reason).text; }
const char* BailRemedy(BailReason reason) { return RowOf(reason).remedy; }
bool IsExpected(BailReason reason) { return RowOf(reason).is_expected; }

const char* FlushName(FlushReason reason) { return RowOf(reason).name; }
const char* FlushText(FlushReason reason) { return RowOf(reason).text; }

const char* BackwardName(BackwardReason reason) { return RowOf(reason).name; }
const char* BackwardText(BackwardReason reason) { return RowOf(reason).text; }

}  // namespace tjit
