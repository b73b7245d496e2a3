// Random ops draw as eager does: the same numbers in the same order, from a
// generator whose state is eager's after each step. docs/bit-exact.md lists the
// ops and the types; with TJIT_BLESS=1 the test writes it.
//
// A program draws for all lengths, with ops that are deferred and compiled in
// front of each draw and behind it; some draws go into what a pending op wrote,
// and of some nobody keeps the result. After the trace is hot, one step leaves
// it in the middle.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bits/random_ops.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit::bits {
namespace {

using at::Tensor;

struct Type {
  const char* name;
  at::ScalarType type;
};
constexpr Type kTypes[] = {
    {"f32", at::kFloat},        {"f64", at::kDouble},
    {"bf16", at::kBFloat16},    {"f16", at::kHalf},
    {"c64", at::kComplexFloat}, {"c128", at::kComplexDouble},
    {"u8", at::kByte},          {"int8", at::kChar},
    {"int16", at::kShort},      {"int32", at::kInt},
    {"int64", at::kLong},       {"bool", at::kBool}};

constexpr int kHotStep = 9, kExitStep = 10, kSteps = 13;

std::vector<std::int64_t> LengthsOn(int threads) {
  // Around the 16 from which normal_ takes another way, blocks, and chunks.
  if (threads > 1) return {1, 2, 15, 16, 17, 31, 33, 70, 1025, 32769, 70001};
  std::vector<std::int64_t> lengths(70);
  std::iota(lengths.begin(), lengths.end(), 1);
  lengths.insert(lengths.end(), {255, 1023, 4097});
  return lengths;
}

c10::OperatorHandle HandleOf(const std::string& op) {
  const std::size_t dot = op.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      op.substr(0, dot).c_str(),
      dot == std::string::npos ? "" : op.substr(dot + 1).c_str());
}

std::string BytesOf(const Tensor& t) {
  const Tensor whole = t.contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

std::string GeneratorState() {
  const at::Generator generator =
      at::globalContext().defaultGenerator(at::kCPU);
  return BytesOf(generator.get_state());
}

// The draws of an op for all lengths.
class Draws {
 public:
  Draws(const RandomOp& op, at::ScalarType type,
        const std::vector<std::int64_t>& lengths)
      : handle_(HandleOf(op.op)) {
    for (const std::int64_t n : lengths) {
      Draw draw;
      draw.number = at::arange(n, at::kFloat).mul_(0.25);
      try {
        draw.arguments = op.make({n, type});
        static_cast<void>(ResultsOf(draw, false));
      } catch (const std::exception&) {  // c10::Error, or of a number's type
        continue;
      }
      draws_.push_back(std::move(draw));
    }
  }
  std::size_t size() const { return draws_.size(); }

  // What the program keeps. One that leaves has another op in the middle.
  std::vector<Tensor> Step(bool leaves) const {
    std::vector<Tensor> kept;
    for (std::size_t i = 0; i < draws_.size(); ++i) {
      const Tensor y = draws_[i].number * 1.25 + 0.5;
      std::vector<Tensor> results = ResultsOf(draws_[i], i % 2 == 0);
      const bool is_exit = leaves && i == draws_.size() / 2;
      kept.push_back(is_exit ? y / 3 : y - 0.25);
      if (i % 8 == 7) continue;  // drawn all the same
      const Tensor& r = results[0];
      kept.push_back(r.scalar_type() == at::kBool ? r.logical_not() : r + r);
      if (!r.is_complex()) kept.push_back(kept.back().to(at::kFloat) * 0.5);
      kept.insert(kept.end(), results.begin(), results.end());
    }
    return kept;
  }

 private:
  struct Draw {
    Tensor number;
    torch::jit::Stack arguments;
  };

  // Into its first argument, or a copy of it that is still to be made.
  std::vector<Tensor> ResultsOf(const Draw& draw, bool copies) const {
    torch::jit::Stack stack = draw.arguments;
    const bool writes = handle_.schema().arguments()[0].alias_info() != nullptr;
    if (writes && copies) stack[0] = stack[0].toTensor() * 1;
    const auto& formal = handle_.schema().arguments();
    for (std::size_t i = stack.size(); i < formal.size(); ++i) {
      stack.push_back(formal[i].default_value().value_or(c10::IValue()));
    }
    handle_.callBoxed(stack);
    std::vector<Tensor> results;
    for (const c10::IValue& value : stack) results.push_back(value.toTensor());
    return results;
  }

  const c10::OperatorHandle handle_;
  std::vector<Draw> draws_;
};

struct Seen {
  std::vector<std::vector<std::string>> steps;  // with the generator's state
  std::size_t draws = 0;
  Stats hot, exit;
};

Seen RunDraws(const RandomOp& op, at::ScalarType type, int threads,
              bool is_ours) {
  Seen seen;
  at::manual_seed(7);  // also of what is written to find what eager has
  const Draws draws(op, type, LengthsOn(threads));
  seen.draws = draws.size();
  if (draws.size() == 0) return seen;
  if (is_ours) enable(MachineCodeAtOnce());
  for (int step = 0; step < kSteps; ++step) {
    const Stats before = stats();
    const std::vector<Tensor> kept = draws.Step(step == kExitStep);
    mark_step();
    const Stats last = stats() - before;
    if (step == kHotStep) seen.hot = last;
    if (step == kExitStep) seen.exit = last;
    if (is_ours) sync();
    std::vector<std::string>& bytes = seen.steps.emplace_back();
    for (const Tensor& t : kept) bytes.push_back(BytesOf(t));
    bytes.push_back(GeneratorState());
    if (is_ours) testing::WaitForCompiler();
  }
  if (is_ours) disable();
  clear();
  return seen;
}

// "" or where the first difference is.
std::string Difference(const Seen& eager, const Seen& ours) {
  for (std::size_t s = 0; s < eager.steps.size(); ++s) {
    const auto& a = eager.steps[s];
    const auto& b = ours.steps[s];
    if (a.back() != b.back()) return absl::StrCat("generator after step ", s);
    for (std::size_t i = 0; i + 1 < a.size(); ++i) {
      if (a[i] != b[i]) return absl::StrCat("value ", i, " of step ", s);
    }
  }
  return "";
}

void ExpectEngaged(const Seen& ours, bool reads) {
  const Stats& hot = ours.hot;
  const auto draws = static_cast<std::int64_t>(ours.draws);
  EXPECT_GE(hot.ops_replayed, reads ? draws : 3 * draws) << hot.to_json();
  if (reads) return;
  EXPECT_GT(ours.exit.side_exit_count("op_differs"), 0) << ours.exit.to_json();
  // Nothing is compiled where eager has no vectors of its own.
  if (at::get_cpu_capability() == "DEFAULT") return;
  EXPECT_GE(hot.steps_fused, 2 * draws) << hot.to_json();
}

// False if eager has none.
bool Prove(const RandomOp& op, const Type& type) {
  bool is_there = false;
  const int threads_before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    SCOPED_TRACE(absl::StrCat(op.op, " ", type.name, " on ", threads));
    const Seen eager = RunDraws(op, type.type, threads, false);
    if (eager.draws == 0) continue;
    is_there = true;
    const Seen ours = RunDraws(op, type.type, threads, true);
    EXPECT_EQ(Difference(eager, ours), "");
    ExpectEngaged(ours, op.reads);
  }
  at::set_num_threads(threads_before);
  return is_there;
}

std::string TableOf(const std::map<std::string, std::string>& types) {
  std::string text = "| op | types |\n|---|---|\n";
  for (const auto& [op, names] : types) {
    absl::StrAppend(&text, "| ", op.substr(6), " |", names, " |\n");
  }
  return text;
}

constexpr char kBegin[] = "<!-- written by tests/bits/random_test.cpp -->\n";
constexpr char kEnd[] = "<!-- end of it -->\n";

TEST(RandomTest, DrawsAreEagersAndListed) {
  const char* const only = std::getenv("PROVE");
  std::map<std::string, std::string> types;
  for (const RandomOp& op : RandomOps()) {
    if (only != nullptr && op.op.find(only) == std::string::npos) continue;
    for (const Type& type : kTypes) {
      if (!Prove(op, type)) continue;
      const std::string name = absl::StrCat(" ", type.name);
      std::string& names = types[op.op];
      if (names.find(name) == std::string::npos) names += name;
    }
    EXPECT_FALSE(types[op.op].empty()) << op.op << ": eager has none";
  }
  const std::string table = TableOf(types);
  if (only != nullptr) return;
  std::ifstream file(TJIT_BIT_EXACT_DOCUMENT);
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = document.find(kBegin), end = document.find(kEnd);
  ASSERT_TRUE(begin < end && end != std::string::npos)
      << TJIT_BIT_EXACT_DOCUMENT;
  const std::size_t from = begin + std::size(kBegin) - 1;
  if (std::getenv("TJIT_BLESS") != nullptr) {
    std::ofstream(TJIT_BIT_EXACT_DOCUMENT)
        << document.substr(0, from) << table << document.substr(end);
    return;
  }
  EXPECT_EQ(document.substr(from, end - from), table) << "TJIT_BLESS=1";
}

// A defect that draws where the result is needed, not at the call.
TEST(RandomTest, SeesALateDraw) {
  const RandomOp op = RandomOps().front();
  const Seen eager = RunDraws(op, at::kFloat, 1, false);
  ASSERT_TRUE(testing::SetPlantedDefect("late_random_draw"));
  const Seen ours = RunDraws(op, at::kFloat, 1, true);
  testing::SetPlantedDefect("");
  EXPECT_NE(Difference(eager, ours), "");
}

// Layers made of many ops, and what other devices have.
bool IsLeftOut(const std::string& name) {
  for (const char* const part : {"cudnn", "miopen", "mps", "_fused_", "dot_",
                                 "lstm", "gru", "rnn_relu", "rnn_tanh"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(RandomTest, EveryRandomOpHasACase) {
  using Key = c10::DispatchKey;
  std::set<std::string> cases;
  for (const RandomOp& op : RandomOps()) cases.insert(op.op);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasTag(at::Tag::nondeterministic_seeded)) continue;
    const bool is_there =
        op->hasKernelForDispatchKey(Key::CPU) ||
        op->hasKernelForDispatchKey(Key::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(
            Key::CompositeExplicitAutogradNonFunctional) ||
        op->hasKernelForDispatchKey(Key::CompositeImplicitAutograd);
    const std::string text = c10::toString(name);
    if (!is_there || !text.starts_with("aten::") || IsLeftOut(text)) continue;
    EXPECT_TRUE(cases.contains(text)) << text;
  }
}

}  // namespace
}  // namespace tjit::bits
