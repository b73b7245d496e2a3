#include "runtime/report/stance.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "runtime/platform/settings.h"
#include "runtime/report/log.h"
#include "runtime/report/strict.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

// Lines on stderr.
constexpr std::size_t kMostSaid = 100;

// True the first time that `what` is refused of the sequence.
bool IsNew(std::string_view what, OpId first, std::uint64_t sequence) {
  static Mutex mutex;
  static auto* said =
      new std::set<std::pair<std::string_view, std::pair<OpId, std::uint64_t>>>;
  const MutexLock lock(mutex);
  if (said->size() >= kMostSaid) return false;
  return said->insert({what, {first, sequence}}).second;
}

// `what` is a literal. `function`: the name of the one of tjit::jit(), else "".
void Refuse(Counters* counters, std::string_view what, OpId first,
            std::uint64_t sequence, const std::string& function = "") {
  const Stance stance = g_settings.stance();
  const bool fails = stance == Stance::kFailOnRecompile;
  if (!fails && !IsNew(what, first, sequence)) return;
  const std::string which =
      function.empty() ? " that begins with " + std::string(OpName(first))
                       : ", \"" + function + "\"";
  std::string text =
      absl::StrCat(std::string(what), which, ", as the stance is ",
                   fails ? "fail_on_recompile" : "eager_on_recompile",
                   ". Let the program run through it before "
                   "tjit::set_stance(), or set Stance::kDefault for it.");
  if (fails) {
    KeepFailure(counters, "tjit: " + text);
  } else {
    LogWarning(text);
  }
}

}  // namespace

void RefuseRecording(Counters* counters, OpId first, std::uint64_t sequence) {
  counters->recordings_refused.Add();
  Refuse(counters, "a sequence is not recorded or promoted", first, sequence);
}

void RefuseFunction(Counters* counters, const std::string& name,
                    std::uint64_t form) {
  counters->recordings_refused.Add();
  Refuse(counters, "a function of tjit::jit() is not recorded", kNoOp,
         absl::HashOf(name, form), name);
}

void RefuseCompile(Counters* counters, OpId first, std::uint64_t sequence) {
  counters->compiles_refused.Add();
  Refuse(counters, "a replayed sequence is not compiled", first, sequence);
}

}  // namespace tjit::runtime
