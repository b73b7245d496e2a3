#include "compiler/passes/passes.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/verifier.h"
#include "compiler/passes/copy_out.h"
#include "compiler/passes/cse.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/fold.h"
#include "compiler/passes/order_dims.h"
#include "compiler/passes/peephole.h"
#include "compiler/passes/simplify_access.h"
#include "compiler/passes/split_parts.h"
#include "support/env.h"
#include "support/log.h"

namespace tjit {
namespace {

// False for what TJIT_OPT_LIMIT leaves out. All passes of the process are
// counted, in the order in which they run.
bool IsWithinLimit(const PassInfo& pass, const ir::Function& function) {
  static const long long limit = Environment().opt_limit;
  if (limit < 0) return true;
  static std::atomic<long long> count{0};
  const long long number = count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number == limit) {
    LogLine(LogLevel::kInfo,
            absl::StrCat("tjit: TJIT_OPT_LIMIT=", limit,
                         ": the last pass that runs is ", pass.name,
                         ", on a function of ", function.body.size(),
                         " instructions"));
  }
  return number <= limit;
}

}  // namespace

const std::vector<PassInfo>& Passes() {
  // Never destroyed: the worker may compile while the process exits.
  static const auto& passes = *new std::vector<PassInfo>{
      {"fold", Fold, "computes what is constant, moves constants into scalars"},
      {"peephole", Peephole, "the same bits from less; reads behind copies"},
      {"split_parts", SplitParts, "computes parts where they are read"},
      {"cse", EliminateCommon, "computes equal things once"},
      {"dce", EliminateDead, "drops what nobody reads"},
      {"copy_out", CopyOut, "gives what goes out a value of its own",
       /*is_needed=*/true},
      {"order_dims", OrderDims, "iterates in the order of memory"},
      {"simplify_access", SimplifyAccess, "iterates over fewer dims"},
  };
  return passes;
}

const PassInfo* PassByName(std::string_view name) {
  for (const PassInfo& pass : Passes()) {
    if (name == pass.name) return &pass;
  }
  return nullptr;
}

bool VerifiesPasses() {
#ifdef NDEBUG
  return Environment().verify;
#else
  return true;
#endif
}

std::string RunPasses(const std::vector<PassInfo>& passes,
                      ir::Function* function, const PassOptions& options) {
  for (const PassInfo& pass : passes) {
    if (!pass.is_needed && !IsWithinLimit(pass, *function)) continue;
    ir::Function after = pass.run(*function);
    if (options.verify) {
      const std::vector<std::string> violations = ir::Verify(after);
      if (!violations.empty()) {
        return absl::StrCat("pass ", pass.name, ": ",
                            absl::StrJoin(violations, "; "));
      }
    }
    if (options.observer) options.observer(pass, *function, after);
    *function = std::move(after);
  }
  return "";
}

}  // namespace tjit
