#include "compiler/inspect/dump_reader.h"

#include <utility>

#include "compiler/ir/ir_text.h"

namespace tjit {
namespace {

constexpr std::string_view kHeading = "; ==== ";
constexpr std::string_view kName = "; name ";

class Reader {
 public:
  Reader(std::string_view text, std::vector<DumpedFunction>* functions)
      : text_(text), functions_(*functions) {}

  bool Run(std::string* error) {
    bool has_heading = false;
    for (std::string_view line; NextLine(&line);) {
      if (line.starts_with(kHeading)) {
        has_heading = true;
        Begin(std::string(line.substr(kHeading.size())));
      } else if (line.starts_with(kName)) {
        AddName(line.substr(kName.size()));
      } else if (has_heading && line.starts_with("func ")) {
        if (!Function(FunctionText(), error)) return false;
      }
    }
    // Filetests have a heading, too, behind their function.
    if (!functions_.empty()) return true;
    if (!has_heading || IsFunctionFirst()) {
      line_ = 0;
      title_.clear();
      return Function(text_.substr(0, text_.find(kHeading)), error);
    }
    *error = "1:1: a dump without a function: it takes TJIT_DUMP=ir or passes";
    return false;
  }

 private:
  bool NextLine(std::string_view* line) {
    if (at_ >= text_.size()) return false;
    begin_ = at_;
    const std::size_t end = text_.find('\n', at_);
    *line = text_.substr(at_, end - at_);
    at_ = end == std::string_view::npos ? text_.size() : end + 1;
    ++line_;
    return true;
  }

  // Names hold within a group.
  void Begin(std::string title) {
    const std::size_t group = title.find(" group ");
    const std::size_t end = group == std::string::npos
                                ? std::string::npos
                                : title.find(' ', group + 7);
    std::string owner = title.substr(0, end);
    if (owner != owner_) names_.clear();
    owner_ = std::move(owner);
    title_ = std::move(title);
  }

  // "%0 = s3"
  void AddName(std::string_view line) {
    const std::size_t equals = line.find(" = ");
    if (equals == std::string_view::npos) return;
    names_[std::string(line.substr(0, equals))] = line.substr(equals + 3);
  }

  // From the line read last to the first "}" alone in its line.
  std::string_view FunctionText() {
    const std::size_t begin = begin_;
    line_before_ = line_ - 1;
    for (std::string_view line; NextLine(&line);) {
      if (line == "}") break;
    }
    return text_.substr(begin, at_ - begin);
  }

  bool IsFunctionFirst() const {
    const std::size_t func = text_.find("func ");
    return func < text_.find("\n; ==== ");
  }

  bool Function(std::string_view text, std::string* error) {
    DumpedFunction f;
    f.title = title_;
    f.names = names_;
    // Errors name the line in the file.
    const std::string padded =
        std::string(line_ == 0 ? 0 : line_before_, '\n') + std::string(text);
    if (!ir::Parse(padded, &f.function, error)) return false;
    functions_.push_back(std::move(f));
    return true;
  }

  const std::string_view text_;
  std::vector<DumpedFunction>& functions_;
  std::size_t at_ = 0, begin_ = 0;
  std::size_t line_ = 0, line_before_ = 0;
  std::string title_, owner_;
  std::map<std::string, std::string> names_;
};

}  // namespace

std::string DumpedFunction::NameOf(const std::string& what) const {
  const auto found = names.find(what);
  return found == names.end() ? "" : found->second;
}

bool ReadFunctions(std::string_view text,
                   std::vector<DumpedFunction>* functions, std::string* error) {
  functions->clear();
  return Reader(text, functions).Run(error);
}

}  // namespace tjit
