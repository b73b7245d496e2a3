#include "tests/compiler/filetest.h"

#include <cstring>
#include <deque>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/interpreter.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "compiler/loops/form_loops.h"
#include "compiler/loops/verify_loops.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/copy_out.h"
#include "compiler/passes/passes.h"
#include "recorder/trace_parse.h"
#include "recorder/trace_text.h"
#include "recorder/trace_verifier.h"

namespace tjit {
namespace {

constexpr char kMark[] = "; ==== output\n";

std::string Commented(const std::string& text) {
  std::istringstream lines(text);
  std::string line, out;
  while (std::getline(lines, line)) {
    absl::StrAppend(&out, line.empty() ? ";" : "; ", line, "\n");
  }
  return out;
}

std::string Violations(const std::vector<std::string>& violations) {
  return violations.empty() ? "verified" : absl::StrJoin(violations, "\n");
}

std::string NumberText(ir::DType dtype, const char* at) {
  if (InfoOf(dtype).kind == ir::DTypeKind::kFloat) {
    return absl::StrFormat("%.9g", ir::Load<double>(dtype, at));
  }
  return absl::StrCat(ir::Load<std::int64_t>(dtype, at));
}

// Memory for one run, in the layout that the interpreter asks for.
class Run {
 public:
  Run(const ir::Function& f, const std::string& head) : f_(f), head_(head) {}

  std::string Text() {
    for (int i = 0; i < f_.symbols; ++i) {
      std::istringstream words(Line(absl::StrCat("n", i)));
      std::int64_t symbol = 0;
      words >> symbol;
      arguments_.symbols.push_back(symbol);
    }
    for (ir::ValueId id = 0; id < f_.externals; ++id) AddExternal(id);
    for (std::size_t i = 0; i < f_.scalars.size(); ++i) AddScalar(i);
    for (const ir::ValueId id : f_.returns) {
      arguments_.returns.push_back(NewBuffer(id));
    }
    const std::string error = ir::Interpret(f_, arguments_);
    return error.empty() ? Results() : "error: " + error;
  }

 private:
  const ir::Value& ValueOf(ir::ValueId id) const {
    return f_.values[static_cast<std::size_t>(id)];
  }

  // What stands behind "; name = ".
  std::string Line(const std::string& name) const {
    std::istringstream lines(head_);
    std::string line;
    const std::string start = "; " + name + " = ";
    while (std::getline(lines, line)) {
      if (line.rfind(start, 0) == 0) return line.substr(start.size());
    }
    return "";
  }

  ir::Buffer NewBuffer(ir::ValueId id) {
    const std::int64_t n =
        ExtentOf(ValueOf(id)).Evaluate(arguments_.symbols).value_or(0);
    memory_.emplace_back(
        static_cast<std::size_t>(n) * InfoOf(ValueOf(id).dtype).bytes, '\0');
    return {memory_.back().data(), n};
  }

  void AddExternal(ir::ValueId id) {
    const ir::Buffer buffer = NewBuffer(id);
    const ir::DType dtype = ValueOf(id).dtype;
    std::istringstream words(Line(absl::StrCat("%", id)));
    std::string word;
    for (std::int64_t i = 0; i < buffer.elements; ++i) {
      const double value =
          words >> word ? std::strtod(word.c_str(), nullptr) : double(i);
      Store(dtype, value, buffer.data + i * InfoOf(dtype).bytes);
    }
    arguments_.externals.push_back(buffer);
  }

  void AddScalar(std::size_t index) {
    const double number =
        std::strtod(Line(absl::StrCat("$", index)).c_str(), nullptr);
    ScalarValue value;
    if (f_.scalars[index] == ir::ScalarType::kF64) {
      value.type = 7;
      std::memcpy(&value.bits[0], &number, sizeof(number));
    } else {
      value.type = f_.scalars[index] == ir::ScalarType::kI64 ? 4 : 11;
      value.bits[0] =
          static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
    }
    arguments_.scalars.push_back(value);
  }

  void Add(const char* what, ir::ValueId id, const ir::Buffer& buffer) {
    const ir::DType dtype = ValueOf(id).dtype;
    absl::StrAppend(&text_, what, "%", id, ": ", Name(dtype), "[",
                    ToText(ValueOf(id).layout.sizes), "] =");
    for (std::int64_t i = 0; i < buffer.elements; ++i) {
      absl::StrAppend(&text_, " ",
                      NumberText(dtype, buffer.data + i * InfoOf(dtype).bytes));
    }
    text_ += "\n";
  }

  std::string Results() {
    for (ir::ValueId id = 0; id < f_.externals; ++id) {
      for (const ir::WriteBack& write : f_.writes) {
        if (write.to.value != id) continue;
        Add("", id, arguments_.externals[static_cast<std::size_t>(id)]);
        break;
      }
    }
    for (std::size_t i = 0; i < f_.returns.size(); ++i) {
      Add("return ", f_.returns[i], arguments_.returns[i]);
    }
    return text_;
  }

  const ir::Function& f_;
  const std::string& head_;
  ir::RunArguments arguments_;
  std::deque<std::string> memory_;
  std::string text_;
};

// The line "; dropped = s1 s3": slots that nobody reads afterwards.
bool IsDropped(const std::string& head, std::size_t slot) {
  const std::string start = "; dropped =";
  const std::size_t at = head.find(start);
  if (at == std::string::npos) return false;
  std::istringstream words(
      head.substr(at + start.size(), head.find('\n', at) - at - start.size()));
  std::string word;
  while (words >> word) {
    if (word == absl::StrCat("s", slot)) return true;
  }
  return false;
}

// All steps as one group: where its arguments come from, and the function.
std::string LowerTrace(const ParsedTrace& trace, const std::string& head) {
  std::vector<GroupStep> steps;
  for (const StepRecord& step : trace.steps) {
    steps.push_back({&step, OpName(step.op)});
  }
  std::vector<GroupSlot> slots;
  for (std::size_t s = 0; s < trace.slots.size(); ++s) {
    slots.push_back({static_cast<std::int32_t>(s), trace.slots[s].bytes,
                     trace.slots[s].born_step >= 0, !IsDropped(head, s)});
  }
  Lowered lowered;
  std::string reason;
  if (!Lower(steps, slots, &lowered, &reason)) return "refused: " + reason;
  std::string text;
  for (std::size_t i = 0; i < lowered.symbols.size(); ++i) {
    const SizeSource& s = lowered.symbols[i];
    absl::StrAppend(&text, "n", i, ": %", s.step, " arg ", s.arg, " dim ",
                    s.dim, "\n");
  }
  for (std::size_t i = 0; i < lowered.scalars.size(); ++i) {
    absl::StrAppend(&text, "$", i, ": %", lowered.scalars[i].step, " scalar ",
                    lowered.scalars[i].index, "\n");
  }
  text += "externals:";
  for (const std::int32_t s : lowered.external_slots) {
    absl::StrAppend(&text, " s", s);
  }
  text += "\nreturns:";
  for (const std::int32_t s : lowered.return_slots) {
    absl::StrAppend(&text, " s", s);
  }
  const std::vector<std::string> violations = Verify(lowered.function);
  return absl::StrCat(text, "\n", Print(lowered.function),
                      absl::StrJoin(violations, "\n"));
}

std::string RunTrace(const FileTest& test) {
  ParsedTrace trace;
  std::string error;
  if (!ParseTrace(test.head, &trace, &error)) return error;
  if (test.action == "parse") return ToText(trace);
  if (test.action == "verify") {
    return Violations(VerifyPath(trace.records(), trace.slots));
  }
  if (test.action == "lower") return LowerTrace(trace, test.head);
  return "there is no test '" + test.action + "' of a trace";
}

// The function behind the passes that the first line names, or all of them.
std::string RunPassesOf(const FileTest& test, const ir::Function& function) {
  std::vector<PassInfo> passes;
  for (const std::string& name : test.arguments) {
    if (PassByName(name) == nullptr) return "there is no pass '" + name + "'";
    passes.push_back(*PassByName(name));
  }
  if (passes.empty()) passes = Passes();
  PassOptions options;
  options.verify = true;
  ir::Function after = function;
  const std::string error = RunPasses(passes, &after, options);
  if (!error.empty()) return error;
  const std::string text = Print(after);
  return text == Print(function) ? "(unchanged)" : text;
}

// The loops of the function, as it is but for copies of what goes out.
std::string LoopsOf(const ir::Function& function) {
  const ir::Function ready = CopyOut(function);
  LoopPlan plan;
  const std::string why_not = FormLoops(ready, &plan);
  if (!why_not.empty()) return why_not;
  const std::vector<std::string> violations = VerifyLoops(ready, plan);
  return violations.empty() ? Print(ready, plan) : Violations(violations);
}

std::string RunFunction(const FileTest& test) {
  ir::Function function;
  std::string error;
  if (!ir::Parse(test.head, &function, &error)) return error;
  if (test.action == "parse") return Print(function);
  const std::vector<std::string> violations = Verify(function);
  if (test.action == "verify" || !violations.empty()) {
    return Violations(violations);
  }
  if (test.action == "run") return Run(function, test.head).Text();
  if (test.action == "pass") return RunPassesOf(test, function);
  if (test.action == "loops") return LoopsOf(function);
  return "there is no test '" + test.action + "' of a function";
}

}  // namespace

FileTest SplitFileTest(const std::string& text) {
  FileTest test;
  const std::size_t mark = text.find(kMark);
  test.head = text.substr(0, mark);
  if (mark != std::string::npos) {
    test.output = text.substr(mark + std::strlen(kMark));
  }
  std::istringstream words(text);
  std::string semicolon, word;
  words >> semicolon >> word >> test.action;
  std::getline(words, word);
  words = std::istringstream(word);
  while (words >> word) test.arguments.push_back(word);
  return test;
}

std::string RunFileTest(const FileTest& test, bool is_trace) {
  return Commented(is_trace ? RunTrace(test) : RunFunction(test));
}

std::string JoinFileTest(const FileTest& test, const std::string& output) {
  return test.head + kMark + output;
}

}  // namespace tjit
