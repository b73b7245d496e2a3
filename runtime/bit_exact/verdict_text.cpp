#include "runtime/bit_exact/verdict_text.h"

#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/functions/row_functions.h"
#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {
namespace {

std::string OfLibrary(const std::string& answer) {
  if (answer == "vml_exact") {
    return "own code with MKL's bits, and MKL's for a few numbers";
  }
  if (answer.starts_with("sqrt_")) {
    return "own code with the steps of MKL's root";
  }
  return absl::StrCat(answer.starts_with("Sleef_") ? "SLEEF's " : "MKL's ",
                      answer, ", exported by libtorch");
}

// FindPositionDependent() has two candidates; of few ops the first is no tile
// of eager's kernel.
std::string OfPositionDependent(std::string_view op, std::string_view dtype,
                                const std::string& answer) {
  const bool is_f32 = dtype == "f32";
  const bool is_first = answer == "first";
  if (op == "gelu" && is_f32) {
    return is_first ? "own formula, oneDNN's" : "own polynomial, oneDNN's";
  }
  if (op == "gelu" && dtype != "f64" && is_first) return "a table of eager's";
  if (op == "gelu_backward" && dtype != "f64" && is_first) {
    return "own formula, oneDNN's";
  }
  if (op == "pow_scalar" && is_f32 && is_first) {
    return "eager's own kernel, tile by tile, and own products";
  }
  if (op == "sigmoid" && is_f32 && is_first) {
    return "own code with the bits of eager's vectors";
  }
  return "eager's own kernel, tile by tile";
}

// "AVX512 7": of which instructions, and the number in their table.
std::string OfRows(const std::string& answer) {
  const std::string set = answer.substr(0, answer.find(' '));
  return absl::StrCat("own rows in eager's order, as of ", set);
}

// "chain, AVX512, b packed": the order, then the instructions.
std::string OfProduct(const std::string& answer) {
  if (!IsNoCandidate(answer)) {
    return absl::StrCat("own code with the library's bits: ", answer);
  }
  const std::size_t because = answer.find(kBecause);
  return absl::StrCat("library call", because == std::string::npos
                                          ? ""
                                          : answer.substr(because));
}

std::string From(const std::vector<std::string>& question,
                 const std::string& answer) {
  if (question[0] == "product") return OfProduct(answer);
  if (IsNoCandidate(answer)) {
    const std::size_t because = answer.find(kBecause);
    return absl::StrCat("library call: no candidate has eager's bits",
                        because == std::string::npos ? ""
                                                     : answer.substr(because));
  }
  if (question[0] == "fast") return absl::StrCat("fast math: ", answer);
  if (question[0] == "math") return OfLibrary(answer);
  if (question[0] == "half") return "a table of eager's";
  if (question[0] == "row") return OfRows(answer);
  return OfPositionDependent(question[1], question[2], answer);
}

const char* TextOf(Axis axis) {
  switch (axis) {
    case Axis::kInner:
      return "";
    case Axis::kOuter:
      return " of columns";
    case Axis::kAll:
      return " of all";
    case Axis::kStrided:
      break;
  }
  return " of slabs";
}

std::string NameOfOp(const std::vector<std::string>& question) {
  if (question[0] == "product") {
    // All but the type and, at the end, the state.
    std::vector<std::string> words = question;
    words.erase(words.begin() + 2);
    words.resize(words.size() - 2);
    return absl::StrJoin(words, " ");
  }
  if (question[0] != "row") return question[1];
  const int number = std::atoi(question[1].c_str());
  if (number < 0 || number >= kAxisOpCount) return question[1];
  const AxisOp& what = kAxisOps[number];
  return absl::StrCat(NameOf(what), TextOf(what.axis));
}

}  // namespace

std::vector<ExplainedFunction> ExplainVerdicts(
    const std::map<std::string, std::string>& verdicts) {
  std::vector<ExplainedFunction> functions;
  for (const auto& [text, answer] : verdicts) {
    const std::vector<std::string> question = absl::StrSplit(text, ' ');
    const std::size_t least = question[0] == "product" ? 5 : 3;
    if (question.size() < least) continue;
    functions.push_back(
        {NameOfOp(question), question[2], From(question, answer)});
  }
  return functions;
}

}  // namespace tjit::runtime
