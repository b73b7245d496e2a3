// Every op that is lowered has eager's bits, in each element type it is lowered
// for, and docs/bit-exact.md says which these are; with TJIT_BLESS=1 the test
// writes it.
//
// An op is called alone, as it is, in place and with out=, for lengths 1 to 70
// and around blocks, tiles and chunks of threads, for tensors that lie
// otherwise, broadcast, overlap or are empty, on one thread and on two.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/lower/op_rules.h"
#include "tests/bits/proof_cases.h"

namespace tjit::bits {
namespace {

using at::Tensor;
using testing::Lay;
using Sizes = std::vector<std::int64_t>;

struct Type {
  const char* name;
  at::ScalarType type;
};
constexpr Type kTypes[] = {{"f32", at::kFloat},     {"f64", at::kDouble},
                           {"bf16", at::kBFloat16}, {"f16", at::kHalf},
                           {"int32", at::kInt},     {"int64", at::kLong},
                           {"bool", at::kBool}};

// A tame sum that was rounded to a half says nothing of its order.
Fill FillOf(at::ScalarType type) {
  return at::isReducedFloatingType(type) ? Fill::kCancelling : Fill::kTame;
}

std::vector<Form> FormsOf(const ProofOp& op, at::ScalarType type) {
  std::vector<Form> forms;
  std::uint64_t seed = 0;
  const Fill usual = op.dims == 0 ? Fill::kSpecial : FillOf(type);
  const auto add = [&](Sizes sizes, Lay lay = Lay::kDense) {
    forms.push_back({std::move(sizes), lay, type, 7 * ++seed, usual});
  };
  if (op.dims == 3) {
    for (const Sizes& sizes : std::vector<Sizes>{{2, 3, 5},
                                                 {3, 16, 7},
                                                 {5, 20, 64},
                                                 {4, 1, 33},
                                                 {1, 40, 70},
                                                 {33, 3, 2},
                                                 {2, 300, 16}}) {
      add(sizes);
      forms.push_back({sizes, Lay::kDense, type, seed, Fill::kSpecial});
    }
    return forms;
  }
  if (op.dims == 2) {
    for (std::int64_t n = 1; n <= 70; n += n < 34 ? 1 : 7) add({3, n});
    for (const Sizes& sizes : std::vector<Sizes>{
             {1, 1}, {33, 5}, {300, 3}, {70, 64}, {5, 1000}, {1, 4097}}) {
      add(sizes);
    }
  } else {
    for (std::int64_t n = 1; n <= 70; ++n) add({n});
    for (const std::int64_t n : {255, 1023, 1025, 4095, 4097, 16385}) add({n});
    add({0});
    add({0, 3});
    for (const std::int64_t n : {70, 4097, 16385}) {
      forms.push_back({{n}, Lay::kDense, type, ++seed, Fill::kAnyBits});
    }
  }
  for (const Lay lay : testing::kLays) {
    add({1, 7}, lay);
    add({7, 33}, lay);
    add({40, 70}, lay);
    forms.push_back({{7, 33}, lay, type, ++seed, Fill::kSpecial});
  }
  return forms;
}

// Around what eager gives to one thread.
std::vector<Form> ChunksOf(const ProofOp& op, at::ScalarType type) {
  constexpr Fill kAnyBits = Fill::kAnyBits;
  const Fill usual = FillOf(type);
  if (op.dims == 3) return {{{20, 30, 70}, Lay::kDense, type, 3, usual}};
  if (op.dims == 2) return {{{600, 70}, Lay::kDense, type, 3, usual}};
  return {{{32767}, Lay::kDense, type, 3},
          {{32769}, Lay::kDense, type, 4, kAnyBits},
          {{70001}, Lay::kDense, type, 5}};
}

// The call with one operand that is smaller, or the same as the first.
void AddRelated(const OpCall& call, Proof* proof) {
  const Tensor first =
      call.arguments[0].isTensor() ? call.arguments[0].toTensor() : Tensor();
  if (!first.defined() || first.dim() != 2 || first.size(0) < 2) return;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    if (!call.arguments[i].isTensor()) continue;
    const Tensor t = call.arguments[i].toTensor();
    if (t.sizes() != first.sizes()) continue;
    const Tensor smaller[] = {t.select(0, 0), t.slice(1, 0, 1),
                              t.select(0, 0).select(0, 0),
                              t.slice(1, 0, 1).expand(t.sizes())};
    for (const Tensor& s : smaller) {
      OpCall other = call;
      other.arguments[i] = s;
      proof->Add(std::move(other));
    }
    if (i == 0 || t.scalar_type() != first.scalar_type()) continue;
    OpCall same = call;
    same.arguments[i] = first;
    proof->Add(std::move(same));
    OpCall overlaps = call;
    overlaps.arguments[0] = first.slice(0, 1);
    overlaps.arguments[i] = first.slice(0, 0, first.size(0) - 1);
    proof->Add(std::move(overlaps));
  }
}

void AddForms(const ProofOp& op, const std::vector<Form>& forms, Proof* proof) {
  const lower::OpRule* const rule = lower::RuleOf(op.op);
  for (const MakeArguments& make : op.makers) {
    for (const Form& form : forms) {
      OpCall call{op.op, {}, false};
      try {
        call.arguments = make(form);
      } catch (const std::exception&) {
        continue;  // no such numbers
      }
      call.is_in_place = rule->in_place == op.op;
      proof->Add(call);
      // Of rows, eager takes smaller operands and reads what lies behind.
      if (op.dims == 0) AddRelated(call, proof);
      const bool is_short = form.sizes.size() >= 2 || form.sizes[0] % 16 == 1;
      if (call.is_in_place || !is_short) continue;
      if (!rule->in_place.empty()) {
        proof->Add({std::string(rule->in_place), call.arguments, true});
      }
      if (!rule->out.empty()) proof->AddOut(std::string(rule->out), call);
    }
  }
}

struct Cell {
  std::int64_t calls = 0;
  double in_code = 0;
};

// By op, then by type.
using Cells = std::map<std::string, std::map<std::string, Cell>>;

Cell Both(const Cell& a, const Cell& b) {
  const auto x = static_cast<double>(a.calls), y = static_cast<double>(b.calls);
  return {a.calls + b.calls, (x * a.in_code + y * b.in_code) / (x + y)};
}

void Prove(const ProofOp& op, const Type& type, Cells* cells) {
  Cell& cell = (*cells)[op.op][type.name];
  for (const int threads : {1, 2}) {
    Proof proof;
    AddForms(op,
             threads == 1 ? FormsOf(op, type.type) : ChunksOf(op, type.type),
             &proof);
    if (proof.empty()) continue;
    const Proven proven = proof.Run(threads);
    EXPECT_EQ(proven.difference, "")
        << op.op << " " << type.name << " on " << threads << " threads";
    if (threads != 1) continue;
    cell = Both(cell, {proven.calls, proven.in_code});
  }
  std::printf("%-40s %-5s %5ld calls, %3.0f %% in code\n", op.op.c_str(),
              type.name, static_cast<long>(cell.calls), 100 * cell.in_code);
}

Cells ProveAll() {
  const char* const only = std::getenv("PROVE");
  Cells cells;
  for (const ProofOp& op : ProofOps()) {
    if (only != nullptr && op.op.find(only) == std::string::npos) continue;
    for (const Type& type : kTypes) Prove(op, type, &cells);
  }
  return cells;
}

std::string TextOf(const Cell& cell) {
  if (cell.calls == 0) return "";
  // Half of the ops are those that negate.
  if (cell.in_code > 0.95) return "code";
  return cell.in_code > 0.55 ? "part" : "call";
}

int CellsInCode(const Cells& cells) {
  int count = 0;
  for (const auto& [op, by_type] : cells) {
    for (const auto& [type, cell] : by_type) count += TextOf(cell) == "code";
  }
  return count;
}

std::string TableOf(const Cells& cells) {
  std::string text = "| op |";
  for (const Type& type : kTypes) absl::StrAppend(&text, " ", type.name, " |");
  text += "\n|---|";
  for (std::size_t i = 0; i < std::size(kTypes); ++i) text += "---|";
  for (const auto& [op, by_type] : cells) {
    absl::StrAppend(&text, "\n| ", op.substr(6), " |");
    for (const Type& type : kTypes) {
      absl::StrAppend(&text, " ", TextOf(by_type.at(type.name)), " |");
    }
  }
  return text + "\n";
}

constexpr char kBegin[] = "<!-- written by tests/bits/bit_exact_test.cpp -->\n";

TEST(BitExactTest, EveryLoweredOpIsProvenAndListed) {
  const Cells cells = ProveAll();
  const std::string table = TableOf(cells);
  if (std::getenv("PROVE") != nullptr) return;
  // Nothing is compiled where eager has no vectors of its own.
  if (at::get_cpu_capability() != "DEFAULT") {
    EXPECT_GT(CellsInCode(cells), 500);
  }
  std::ifstream file(TJIT_BIT_EXACT_DOCUMENT);
  std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << TJIT_BIT_EXACT_DOCUMENT;
  const std::size_t from = begin + std::size(kBegin) - 1;
  const bool blesses = std::getenv("TJIT_BLESS") != nullptr;
  if (blesses) {
    std::ofstream(TJIT_BIT_EXACT_DOCUMENT) << document.substr(0, from) << table;
    return;
  }
  // That of the document's processor.
  if (at::get_cpu_capability() != "AVX512") return;
  EXPECT_EQ(document.substr(from), table) << "TJIT_BLESS=1 writes it";
}

TEST(BitExactTest, EveryLoweredOpHasACase) {
  std::set<std::string, std::less<>> cases;
  for (const ProofOp& op : ProofOps()) {
    const lower::OpRule* const rule = lower::RuleOf(op.op);
    ASSERT_NE(rule, nullptr) << op.op;
    for (const std::string_view name :
         {rule->functional, rule->in_place, rule->out}) {
      cases.emplace(name);
    }
  }
  for (const std::string_view op : lower::LoweredOps()) {
    EXPECT_TRUE(cases.contains(op)) << op;
  }
}

}  // namespace
}  // namespace tjit::bits
