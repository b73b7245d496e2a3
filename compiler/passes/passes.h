// The passes over the IR, in their order, and what runs them.
//
//   fold -> peephole -> split_parts -> cse -> dce -> copy_out -> order_dims ->
//   simplify_access
//
// each take a function and give one that computes the same bits (verified
// before and after). form_loops.h stands behind them and makes loops of what is
// left.
//
// A pass is one function of one header, which says why it stands where it does.
// It is total over verified functions, deterministic, and keeps: the externals,
// the scalars, the symbols, the number of returned values and their memory (a
// type may have fewer dims, in another order), and every bit that Interpret()
// gives, whatever the hooks are (only which NaN it is may change).
// Tested by: tests/compiler/passes/passes_test.cpp (random functions),
// tests/filetests/ir/pass_*.ir
// Source: Cranelift (verifier between passes), style of one pass a file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace tjit {

struct PassInfo {
  const char* name;
  ir::Function (*run)(const ir::Function& function);
  const char* doc;
  // What stands behind the passes relies on it: TJIT_OPT_LIMIT, which leaves
  // passes out, neither counts it nor leaves it out.
  bool is_needed = false;
};

// The pipeline, first pass first.
const std::vector<PassInfo>& Passes();
// Null if there is none of that name.
const PassInfo* PassByName(std::string_view name);

// In debug builds, and with TJIT_VERIFY=1. Loops are verified then, too
// (verify_loops.h).
bool VerifiesPasses();

struct PassOptions {
  bool verify = VerifiesPasses();  // after each pass
  // Sees the function before and behind each pass.
  std::function<void(const PassInfo& pass, const ir::Function& before,
                     const ir::Function& after)>
      observer;
};

// Runs `passes` over *function; with TJIT_OPT_LIMIT=N only the first N of the
// process, and a line on stderr names the last of these. Returns "", or, with
// `verify`, which pass broke which rules; *function is then what went into that
// pass.
// REQUIRES: Verify(*function) is empty.
std::string RunPasses(const std::vector<PassInfo>& passes,
                      ir::Function* function, const PassOptions& options = {});

}  // namespace tjit
