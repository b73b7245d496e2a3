// Random functions verify, round-trip, and give the same bytes however their
// operands are reached.
#include "tests/compiler/ir/ir_random.h"

#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

constexpr std::uint64_t kSeeds = 400;

Hooks TestHooks() {
  Hooks hooks;
  hooks.call = RunTestCall;
  return hooks;
}

std::string BytesOf(const Function& f, std::uint64_t seed) {
  RandomRun run(f, seed);
  const std::string error = Interpret(f, run.arguments, TestHooks());
  EXPECT_EQ(error, "") << Print(f);
  return run.Bytes();
}

TEST(IrRandomTest, FunctionsVerify) {
  std::set<Op> used;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Function f = RandomFunction(seed);
    ASSERT_EQ(absl::StrJoin(Verify(f), "\n"), "") << "seed " << seed << "\n"
                                                  << Print(f);
    for (const Instruction& in : f.body) used.insert(in.op);
  }
  EXPECT_EQ(used.size(), static_cast<std::size_t>(kOpCount));
}

TEST(IrRandomTest, TextComesBackAndRunsTheSame) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Function f = RandomFunction(seed);
    const std::string text = Print(f);
    Function parsed;
    std::string error;
    ASSERT_TRUE(Parse(text, &parsed, &error)) << error << "\n" << text;
    ASSERT_EQ(Print(parsed), text);
    ASSERT_EQ(BytesOf(parsed, seed), BytesOf(f, seed)) << text;
  }
}

// Puts a copy of its own in front of every operand that an op reads.
Function Materialised(const Function& f) {
  Builder b(f.name, f.symbols);
  std::vector<ValueId> now;  // by old value
  for (ValueId id = 0; id < f.externals; ++id) {
    const Value& value = f.values[static_cast<std::size_t>(id)];
    now.push_back(b.External(value.dtype, value.layout.sizes[0]));
  }
  for (const ScalarType type : f.scalars) b.ScalarArgument(type);
  const auto renamed = [&](Operand operand) {
    if (operand.is_tensor()) {
      operand.value = now[static_cast<std::size_t>(operand.value)];
    }
    return operand;
  };
  for (const Instruction& in : f.body) {
    std::vector<Operand> operands;
    for (const Operand& operand : in.operands) {
      operands.push_back(renamed(operand));
      const bool is_base = in.op == Op::kUpdate && operands.size() == 1;
      if (!operand.is_tensor() || operand.written || is_base) continue;
      const DType dtype =
          f.values[static_cast<std::size_t>(operand.value)].dtype;
      operands.back() =
          b.Use(b.EmitAs({dtype, Contiguous(operand.access.sizes)}, Op::kTo,
                         {operands.back()}));
    }
    const Value& type = f.values[static_cast<std::size_t>(in.results[0])];
    if (in.op == Op::kCall) {
      for (const ValueId id : b.Call(in.callee, in.step, {type}, operands)) {
        now.push_back(id);
      }
    } else if (in.op == Op::kFull || in.op == Op::kTo) {
      now.push_back(b.EmitAs(type, in.op, operands));
    } else {
      now.push_back(b.Emit(in.op, operands, in.dims, in.keepdim));
    }
  }
  for (const WriteBack& write : f.writes) {
    b.Write(renamed(write.to), renamed(write.from));
  }
  for (const ValueId id : f.returns) {
    b.Return(now[static_cast<std::size_t>(id)]);
  }
  return b.Finish();
}

TEST(IrRandomTest, CopiesOfOperandsChangeNothing) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Function f = RandomFunction(seed);
    const Function copied = Materialised(f);
    ASSERT_EQ(absl::StrJoin(Verify(copied), "\n"), "") << Print(copied);
    ASSERT_GT(copied.body.size(), f.body.size());
    ASSERT_EQ(BytesOf(copied, seed), BytesOf(f, seed))
        << "seed " << seed << "\n"
        << Print(f);
  }
}

}  // namespace
}  // namespace tjit::ir
