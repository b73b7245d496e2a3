// docs/coverage.md: which lowered ops random programs reached in machine code,
// of which types and in which ways, and why not in the others. With
// TJIT_BLESS=1 the test writes it.
//
// Why not is asked: eager, by calling the op in this type and form, and the
// compiler, which says why it refused the steps that were to run so. What both
// would do and no program did is drawn again; what is still missing then needs
// a line of kReasons. A reason for what was reached is wrong.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/str_join.h"
#include "compiler/lower/op_rules.h"
#include "tests/differential/driver.h"
#include "tests/differential/eager_forms.h"
#include "tests/differential/sweep.h"

namespace tjit::differential {
namespace {

struct Type {
  std::string_view name;
  at::ScalarType type;
};
constexpr Type kTypes[] = {{"f32", at::kFloat},     {"f64", at::kDouble},
                           {"bf16", at::kBFloat16}, {"f16", at::kHalf},
                           {"i32", at::kInt},       {"i64", at::kLong},
                           {"bool", at::kBool}};
constexpr Way kWays[] = {kInPlace, kAliasing, kBroadcast, kBackward, kRandom};
constexpr std::uint32_t kAnyForm = kFunctional | kInPlace | kOut;

// Sweeps with other numbers over what is missing, at most so often; over what
// the compiler refused, so often.
constexpr std::uint64_t kRounds = 8;
constexpr std::uint64_t kDoubtfulRounds = 2;

struct Reason {
  std::string_view letter;
  std::string_view text;
  std::string_view ops;    // with spaces between; "*": all
  std::string_view types;  // the same
  std::uint32_t ways;      // 0: all
};
constexpr Reason kNotInEager = {
    "e", "eager has none in this type (in place: none in place)", {}, {}, 0};
constexpr Reason kNoForm = {"n", "the schema has no in-place form", {}, {}, 0};
constexpr Reason kOutForm = {
    "o", "in place it is the `out=` form, which has the kernel", {}, {}, 0};
constexpr Reason kReasons[] = {
    {"e", kNotInEager.text,
     "glu_backward native_batch_norm native_batch_norm_backward "
     "native_group_norm native_group_norm_backward native_layer_norm_backward "
     "nll_loss_forward nll_loss_backward",
     "i32 i64 bool", 0},
    {"w", "what is written is its only tensor, and eager refuses it expanded",
     "zero", "*", kBroadcast},
};

bool Contains(std::string_view words, std::string_view word) {
  if (words == "*") return true;
  const std::string padded = ' ' + std::string(words) + ' ';
  return padded.find(' ' + std::string(word) + ' ') != std::string::npos;
}

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What is asked before anything runs.
class Reasons {
 public:
  Reasons() {
    for (const std::string_view op : lower::LoweredOps()) {
      const std::string row = RowOf(op);
      if (IsComposite(row, kAnyForm)) {
        composites_.insert(row);
      } else if (rows_.insert(row).second) {
        Ask(row);
      }
      if (TemplateOf(op) == kInPlace) in_place_.insert(row);
    }
  }
  const std::set<std::string>& rows() const { return rows_; }
  const std::set<std::string>& composites() const { return composites_; }

  // Why no type has it in place. Null if there is no reason; so below.
  const Reason* ForNoneInPlace(const std::string& row) const {
    if (!in_place_.contains(row)) return &kNoForm;
    return IsComposite(row, kInPlace) ? &kOutForm : nullptr;
  }
  const Reason* For(const std::string& row, std::string_view type,
                    Way way) const {
    if (Has(absent_, row, type)) return &kNotInEager;
    if (way == kInPlace) {
      const Reason* const reason = ForNoneInPlace(row);
      if (reason != nullptr) return reason;
      if (Has(absent_in_place_, row, type)) return &kNotInEager;
    }
    for (const Reason& reason : kReasons) {
      if ((reason.ways == 0 || (reason.ways & way) != 0) &&
          Contains(reason.types, type) && Contains(reason.ops, row)) {
        return &reason;
      }
    }
    return nullptr;
  }

 private:
  using Cells = std::set<std::pair<std::string, std::string_view>>;

  static bool Has(const Cells& cells, const std::string& row,
                  std::string_view type) {
    return cells.contains({row, type});
  }
  void Ask(const std::string& row) {
    for (const Type& type : kTypes) {
      if (HasRows(row, kAnyForm) && !RunsInEager(row, kAnyForm, type.type)) {
        absent_.insert({row, type.name});
      }
      if (HasRows(row, kInPlace) && !RunsInEager(row, kInPlace, type.type)) {
        absent_in_place_.insert({row, type.name});
      }
    }
  }

  std::set<std::string> rows_, composites_, in_place_;
  Cells absent_, absent_in_place_;
};

const Covered& CellOf(const Coverage& coverage, const std::string& row,
                      std::string_view type) {
  static const auto& nothing = *new Covered;
  const auto found = coverage.find({row, std::string(type)});
  return found == coverage.end() ? nothing : found->second;
}

// Did the compiler say why steps cannot run in this way? In doubt of other
// sizes it may say another thing; but what is broadcast has hardly others.
bool IsRefused(const Covered& cell, Way way, bool doubts) {
  const auto found = cell.refused.find(way);
  if (found == cell.refused.end() || (doubts && way != kBroadcast)) {
    return false;
  }
  return std::any_of(found->second.begin(), found->second.end(),
                     [](const std::string& why) { return why != kNoKernel; });
}

// Is there a way in which a cell did not run, without a reason?
bool IsMissing(const Reasons& reasons, const Coverage& coverage,
               const std::string& row, std::string_view type, bool doubts) {
  const Covered& cell = CellOf(coverage, row, type);
  return std::any_of(std::begin(kWays), std::end(kWays), [&](Way way) {
    return (cell.ways & way) == 0 && !IsRefused(cell, way, doubts) &&
           reasons.For(row, type, way) == nullptr;
  });
}

// Sweeps of the first variant, which compute gradients and draw numbers.
void RunSweeps(std::uint64_t round, std::function<bool(std::uint64_t)> wants,
               Coverage* coverage) {
  DriverConfig config;
  config.first = kFirstSweep + round * SweepCount();
  config.last = config.first + SweepCount() / kSweepVariants;
  config.engine = Engine::kLlvm;
  config.covers = true;
  config.wants = std::move(wants);
  const Summary summary = RunSeeds(config);
  std::printf("%s\n", summary.ToString().c_str());
  for (const SeedResult& failure : summary.failures) {
    ADD_FAILURE() << Report(config, failure, /*shrink=*/true);
  }
  Merge(*coverage, summary.coverage);
}

Coverage CoverageOfSweeps(const Reasons& reasons) {
  Coverage coverage;
  RunSweeps(0, {}, &coverage);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    std::vector<std::pair<std::string, std::string_view>> missing;
    for (const std::string& row : reasons.rows()) {
      for (const Type& type : kTypes) {
        if (IsMissing(reasons, coverage, row, type.name,
                      round <= kDoubtfulRounds)) {
          missing.emplace_back(row, type.name);
        }
      }
    }
    if (missing.empty()) break;
    const auto wants = [&](std::uint64_t seed) {
      return std::any_of(missing.begin(), missing.end(), [&](const auto& cell) {
        return IsAbout(seed, cell.first, cell.second);
      });
    };
    RunSweeps(round, wants, &coverage);
  }
  return coverage;
}

class Table {
 public:
  Table(const Reasons& reasons, const Coverage& coverage)
      : reasons_(reasons), coverage_(coverage) {
    std::set<std::string> texts;
    for (const auto& [name, cell] : coverage) {
      for (const auto& [way, whys] : cell.refused) {
        if ((cell.ways & way) == 0) texts.insert(whys.begin(), whys.end());
      }
    }
    for (const std::string& text : texts) {
      const int number = static_cast<int>(numbers_.size()) + 1;
      numbers_[text] = number;
    }
  }

  std::string Text() {
    std::string text = "| op |", rule = "\n|---|";
    for (const Type& type : kTypes) {
      text += ' ' + std::string(type.name) + " |";
      rule += "---|";
    }
    text += rule;
    for (const std::string& row : reasons_.rows()) {
      const Reason* const none = reasons_.ForNoneInPlace(row);
      text += "\n| " + row;
      if (none != nullptr) text += " (i" + std::string(none->letter) + ')';
      text += " |";
      for (const Type& type : kTypes) text += ' ' + Cell(row, type.name) + " |";
    }
    text += "\n\nMade of other ops, which have rows:";
    for (const std::string& row : reasons_.composites()) text += ' ' + row;
    return Legend() + text + ".\n";
  }
  // Reasons that are wrong, and what has none.
  const std::string& errors() const { return errors_; }

 private:
  // Letters and numbers of reasons, 9 in front of 10.
  struct ByLength {
    bool operator()(const std::string& a, const std::string& b) const {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
  };
  using Whys = std::set<std::string, ByLength>;
  // Ways, by letter, and reasons.
  using Missing = std::vector<std::pair<std::string, Whys>>;

  std::string Cell(const std::string& row, std::string_view type) {
    const Covered& cell = CellOf(coverage_, row, type);
    Missing missing;
    for (const Way way : kWays) {
      const Reason* const reason = reasons_.For(row, type, way);
      const std::string letter = LettersOf(way);
      const std::string where = row + ' ' + std::string(type) + ' ' + letter;
      if ((cell.ways & way) != 0) {
        if (reason == nullptr) continue;
        errors_ += where + ": ran, though " + std::string(reason->text) + '\n';
        continue;
      }
      const Whys whys = Why(cell, way, reason);
      if (whys.empty()) errors_ += where + ": never, without a reason\n";
      const bool is_told =  // behind the name of the op
          way == kInPlace && reasons_.ForNoneInPlace(row) != nullptr;
      if (!is_told) missing.emplace_back(letter, whys);
    }
    return cell.ways == 0 ? TextOfNone(missing)
                          : LettersOf(cell.ways) + TextOf(missing);
  }

  // " (i2 ab7)"
  static std::string TextOf(const Missing& missing) {
    std::string text, last;
    for (const auto& [letter, whys] : missing) {
      const std::string why = absl::StrJoin(whys, ",");
      if (!text.empty() && why == last) {
        text.insert(text.size() - why.size(), letter);
        continue;
      }
      text += (text.empty() ? " (" : " ") + letter + why;
      last = why;
    }
    return text.empty() ? text : text + ')';
  }

  // Where nothing ran: reasons alone.
  static std::string TextOfNone(const Missing& missing) {
    Whys whys;
    for (const auto& [letter, mine] : missing) {
      whys.insert(mine.begin(), mine.end());
    }
    return '(' + absl::StrJoin(whys, ",") + ')';
  }

  Whys Why(const Covered& cell, Way way, const Reason* reason) const {
    if (reason != nullptr) return {std::string(reason->letter)};
    Whys numbers;
    const auto found = cell.refused.find(way);
    if (found == cell.refused.end()) return numbers;
    for (const std::string& why : found->second) {
      numbers.insert(std::to_string(numbers_.at(why)));
    }
    return numbers;
  }

  std::string Legend() const {
    std::string text;
    for (const Reason& reason : {kNotInEager, kNoForm, kOutForm}) {
      AddTo(reason, &text);
    }
    for (const Reason& reason : kReasons) AddTo(reason, &text);
    text +=
        "\nThe compiler left each such step to eager's kernel, since it\n\n";
    for (const auto& [why, number] : numbers_) {
      text += std::to_string(number) + ". " + why + '\n';
    }
    return text + '\n';
  }
  static void AddTo(const Reason& reason, std::string* text) {
    const std::string line = "- **" + std::string(reason.letter) +
                             "**: " + std::string(reason.text) + '\n';
    if (text->find(line) == std::string::npos) *text += line;
  }

  const Reasons& reasons_;
  const Coverage& coverage_;
  std::map<std::string, int> numbers_;  // of what the compiler said
  std::string errors_;
};

constexpr char kBegin[] =
    "<!-- written by tests/differential/coverage_table_test.cpp -->\n";

TEST(CoverageTableTest, WhatIsNotReachedHasAReason) {
  const Reasons reasons;
  const Coverage coverage = CoverageOfSweeps(reasons);
  Table table(reasons, coverage);
  const std::string text = table.Text();
  const std::string document = ReadFile(TJIT_COVERAGE_DOCUMENT);
  const std::size_t begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << TJIT_COVERAGE_DOCUMENT;
  const std::size_t from = begin + std::size(kBegin) - 1;
  EXPECT_EQ(table.errors(), "");
  if (std::getenv("TJIT_BLESS") != nullptr) {
    std::ofstream(TJIT_COVERAGE_DOCUMENT) << document.substr(0, from) << text;
    return;
  }
  // That of the document's processor.
  if (at::get_cpu_capability() != "AVX512") return;
  EXPECT_EQ(document.substr(from), text) << "TJIT_BLESS=1 writes it";
}

}  // namespace
}  // namespace tjit::differential
