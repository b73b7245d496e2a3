#include "tests/compiler/passes/random_passes.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/interpreter.h"
#include "compiler/ir/ir_text.h"
#include "gtest/gtest.h"
#include "tests/compiler/ir/ir_random.h"

namespace tjit {
namespace {

ir::RandomOptions Options(std::uint64_t seed) {
  ir::RandomOptions options;
  options.instructions = 4 + static_cast<int>(seed % 12);
  options.repeats = 20;
  options.returned = 30;
  options.parts = seed % 2 == 0 ? 80 : 0;
  return options;
}

}  // namespace

std::uint64_t FirstSeed() {
  if (!GTEST_FLAG_GET(shuffle)) return 0;
  return std::uint64_t(testing::UnitTest::GetInstance()->random_seed()) *
         1000000;
}

std::string DifferenceOf(const ir::Function& a, const ir::Function& b,
                         std::uint64_t seed) {
  ir::Hooks hooks;
  hooks.call = ir::RunTestCall;
  ir::RandomRun run_a(a, seed), run_b(b, seed);
  const std::string error_a = ir::Interpret(a, run_a.arguments, hooks);
  const std::string error_b = ir::Interpret(b, run_b.arguments, hooks);
  if (error_a != error_b) return absl::StrCat(error_a, " / ", error_b);
  const std::string bytes_a = run_a.Bytes(), bytes_b = run_b.Bytes();
  if (bytes_a.size() != bytes_b.size()) return "other sizes";
  for (std::size_t i = 0; i < bytes_a.size(); ++i) {
    if (bytes_a[i] != bytes_b[i]) return absl::StrCat("byte ", i);
  }
  return "";
}

int ComparePasses(const std::vector<PassInfo>& passes, int count) {
  PassOptions options;
  options.verify = true;
  int changed = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = FirstSeed() + std::uint64_t(i);
    const ir::Function f = ir::RandomFunction(seed, Options(seed));
    ir::Function after = f;
    const std::string error = RunPasses(passes, &after, options);
    const std::string difference =
        error.empty() ? DifferenceOf(f, after, seed) : error;
    if (!difference.empty()) {
      ADD_FAILURE() << "seed " << seed << ": " << difference << "\n"
                    << Print(f) << "became\n"
                    << Print(after);
      return changed;
    }
    changed += Print(f) != Print(after);
  }
  return changed;
}

}  // namespace tjit
