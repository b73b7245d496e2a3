// See coverage.h.
#include "tests/differential/coverage.h"

#include <ATen/Parallel.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <iomanip>
#include <mutex>
#include <sstream>
#include <utility>
#include <vector>

#include "compiler/lower/lower.h"
#include "compiler/lower/op_rules.h"
#include "recorder/op_record.h"
#include "runtime/testing.h"
#include "tests/differential/op_table.h"

namespace tjit::differential {
namespace {

// Whether a step is lowered is asked at each replay, but of one op and type so
// often at most.
constexpr int kRefusals = 16;

struct Seen {
  std::mutex mutex;
  std::uint32_t of_program = 0;
  Coverage coverage;
  std::map<const Covered*, int> refusals;  // of the program
};

Seen& TheSeen() {
  static auto& seen = *new Seen;
  return seen;
}

std::string DtypeName(std::uint8_t dtype) {
  switch (static_cast<c10::ScalarType>(dtype)) {
    case c10::ScalarType::Float:
      return "f32";
    case c10::ScalarType::Double:
      return "f64";
    case c10::ScalarType::BFloat16:
      return "bf16";
    case c10::ScalarType::Half:
      return "f16";
    case c10::ScalarType::Int:
      return "i32";
    case c10::ScalarType::Long:
      return "i64";
    case c10::ScalarType::Byte:
      return "u8";
    case c10::ScalarType::Bool:
      return "bool";
    default:
      return "other";
  }
}

bool IsExpanded(const TensorGeometry& g) {
  for (int d = 0; d < g.ndim; ++d) {
    if (g.strides[d] == 0 && g.sizes[d] > 1) return true;
  }
  return false;
}

bool HasLongRows(const TensorGeometry& g) {
  return g.ndim > 0 && g.sizes[g.ndim - 1] * g.itemsize > (16 << 10);
}

// Is it less than the storage holds?
bool IsPart(const ArgRecord& arg, const std::vector<std::uint64_t>& bytes) {
  const auto slot = static_cast<std::size_t>(arg.slot);
  if (slot >= bytes.size()) return false;
  const auto own = static_cast<std::uint64_t>(arg.geometry->numel());
  return own * arg.geometry->itemsize < bytes[slot];
}

std::uint32_t WaysOf(const StepRecord& step,
                     const std::vector<std::uint64_t>& slot_bytes) {
  std::uint32_t ways = 0;
  const ArgRecord* first = nullptr;
  for (const ArgRecord& arg : step.args) {
    if (arg.slot == kNoSlot) continue;
    if (first == nullptr) {
      first = &arg;
      if (HasLongRows(arg.geometry)) ways |= kLongRows;
    }
    if (IsPart(arg, slot_bytes) && !IsExpanded(arg.geometry)) ways |= kAliasing;
    if (IsExpanded(arg.geometry)) ways |= kBroadcast;
    if (arg.geometry->numel() != first->geometry->numel()) ways |= kBroadcast;
    for (const ArgRecord& other : step.args) {
      if (&other != &arg && other.written && other.slot == arg.slot) {
        ways |= kAliasing;
      }
    }
  }
  return ways;
}

// What it computes in: the first tensor, or what a mask chooses from.
const ArgRecord* TypedArgument(const StepRecord& step) {
  const ArgRecord* typed = nullptr;
  for (const ArgRecord& arg : step.args) {
    if (arg.slot == kNoSlot || arg.geometry->wrapped_number) continue;
    if (DtypeName(arg.geometry->dtype) != "bool") return &arg;
    if (typed == nullptr) typed = &arg;
  }
  return typed;
}

// Without the step and its op.
std::string WhyRefused(std::string_view op, const StepRecord& step) {
  const std::string why = WhyNotLowered({&step, op, at::get_num_threads()});
  if (why.empty()) return std::string(kNoKernel);
  const std::size_t colon = why.rfind(": ");
  return colon == std::string::npos ? why : why.substr(colon + 2);
}

void AddRefusal(std::string_view op, const StepRecord& step, std::uint32_t ways,
                Covered& cell) {
  const std::string why = WhyRefused(op, step);
  for (std::uint32_t way = 1; way <= kLengths; way *= 2) {
    if ((ways & way) != 0) cell.refused[way].insert(why);
  }
}

void Observe(std::string_view op, const StepRecord& step,
             const std::vector<std::uint64_t>& slot_bytes, bool is_compiled) {
  const ArgRecord* const typed = TypedArgument(step);
  if (typed == nullptr) return;
  Seen& seen = TheSeen();
  const std::scoped_lock lock(seen.mutex);
  const std::uint32_t ways =
      TemplateOf(op) | WaysOf(step, slot_bytes) | seen.of_program;
  if (!is_compiled && lower::RuleOf(op) == nullptr) return;
  Covered& cell = seen.coverage[{RowOf(op), DtypeName(typed->geometry->dtype)}];
  if (is_compiled) {
    cell.ways |= ways;
  } else if (++seen.refusals[&cell] <= kRefusals) {
    AddRefusal(op, step, ways, cell);
  }
}

// "aten::", the name, and its overload.
std::pair<std::string_view, std::string_view> Split(std::string_view op) {
  op.remove_prefix(std::min(op.size(), op.find("::") + 2));
  const std::size_t dot = op.find('.');
  if (dot == std::string_view::npos) return {op, {}};
  return {op.substr(0, dot), op.substr(dot + 1)};
}

std::uint32_t WaysOf(const Program& program) {
  std::uint32_t ways = 0;
  for (const Statement& st : program.body) {
    const OpSpec& spec = OpTable()[static_cast<std::size_t>(st.op)];
    if (spec.group == Group::kAutograd &&
        spec.name.substr(0, 8) == "backward") {
      ways |= kBackward;
    }
    if (spec.group == Group::kRandom || spec.random) ways |= kRandom;
    if (spec.group == Group::kLength || st.loop >= 0) ways |= kLengths;
  }
  return ways;
}

}  // namespace

std::string RowOf(std::string_view op) {
  std::string_view name = Split(op).first;
  if (!name.empty() && name.back() == '_') name.remove_suffix(1);
  return std::string(name);
}

std::uint32_t TemplateOf(std::string_view op) {
  const auto [name, overload] = Split(op);
  if (overload == "grad_input" ||
      (overload.size() >= 3 && overload.substr(overload.size() - 3) == "out")) {
    return kOut;
  }
  return !name.empty() && name.back() == '_' ? kInPlace : kFunctional;
}

std::string LettersOf(std::uint32_t ways) {
  std::string letters;
  for (std::size_t i = 0; i < kWayLetters.size(); ++i) {
    if ((ways >> i & 1) != 0) letters += kWayLetters[i];
  }
  return letters;
}

void BeginCoverage(const Program& program) {
  Seen& seen = TheSeen();
  {
    const std::scoped_lock lock(seen.mutex);
    seen.of_program = WaysOf(program);
    seen.coverage.clear();
    seen.refusals.clear();
  }
  testing::SetStepObserver(Observe);
}

Coverage TakeCoverage() {
  testing::SetStepObserver(nullptr);
  Seen& seen = TheSeen();
  const std::scoped_lock lock(seen.mutex);
  return std::exchange(seen.coverage, {});
}

void Merge(Coverage& all, const Coverage& more) {
  for (const auto& [name, cell] : more) {
    Covered& sum = all[name];
    sum.ways |= cell.ways;
    for (const auto& [way, whys] : cell.refused) {
      sum.refused[way].insert(whys.begin(), whys.end());
    }
  }
}

std::string EncodeCoverage(const Coverage& coverage) {
  std::ostringstream text;
  for (const auto& [name, cell] : coverage) {
    text << name.first << ' ' << name.second << ' ' << cell.ways << ' ';
    for (const auto& [way, whys] : cell.refused) {
      for (const std::string& why : whys) {
        text << way << ' ' << std::quoted(why) << ' ';
      }
    }
    text << "0 ";
  }
  return text.str();
}

Coverage DecodeCoverage(const std::string& text) {
  Coverage coverage;
  std::istringstream in(text);
  std::string op, dtype, why;
  for (std::uint32_t ways = 0, way = 0; in >> op >> dtype >> ways;) {
    Covered& cell = coverage[{op, dtype}];
    cell.ways = ways;
    while (in >> way && way != 0 && in >> std::quoted(why)) {
      cell.refused[way].insert(why);
    }
  }
  return coverage;
}

std::string ToString(const Coverage& coverage) {
  std::string text, row;
  for (const auto& [name, cell] : coverage) {
    if (cell.ways == 0) continue;
    if (name.first != row) text += (row.empty() ? "" : "\n") + name.first + ":";
    row = name.first;
    text += " " + name.second + "=" + LettersOf(cell.ways);
  }
  return text + "\n";
}

}  // namespace tjit::differential
