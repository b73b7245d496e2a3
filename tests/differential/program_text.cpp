// See program_text.h.
#include "tests/differential/program_text.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "tests/differential/op_table.h"

namespace tjit::differential {
namespace {

using Names = std::vector<std::string_view>;

// In the order of the enumerations.
const Names kScalarKinds = {"const", "linear", "inverse", "decay",
                            "cycle", "step",   "reg",     "drawn"};
const Names kGuardKinds = {"always", "mod", "not_mod", "from", "reg"};
const Names kModes = {"grad", "no_grad", "inference"};
const Names kReadModes = {"clone", "pointer", "const"};
const Names kMarks = {"none", "scope", "end"};
const Names kKeys = {"dst",     "args",  "ints", "scalar",
                     "iscalar", "guard", "mode", "worker", "loop"};

std::string Exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

template <typename List>
void Append(std::ostream& out, std::string_view key, const List& list) {
  if (list.empty()) return;
  out << ' ' << key;
  for (const auto& x : list) out << ' ' << x;
}

template <typename Enum>
std::string_view NameIn(const Names& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

void AppendWords(std::ostream& out, const ScalarExpr& e) {
  out << ' ' << NameIn(kScalarKinds, e.kind) << ' ' << Exact(e.a) << ' '
      << Exact(e.b) << ' ' << e.period;
  for (const double x : e.cycle) out << ' ' << Exact(x);
}

void Append(std::ostream& out, const ScalarExpr& e) {
  out << (e.is_int ? " iscalar" : " scalar");
  AppendWords(out, e);
}

void Append(std::ostream& out, std::string_view part, const Statement& st) {
  out << part << ' ' << OpTable()[static_cast<std::size_t>(st.op)].name;
  Append(out, "dst", st.dst);
  Append(out, "args", st.args);
  Append(out, "ints", st.ints);
  for (const ScalarExpr& e : st.scalars) Append(out, e);
  if (st.guard.kind != Guard::Kind::kAlways) {
    out << " guard " << NameIn(kGuardKinds, st.guard.kind) << ' '
        << st.guard.mod << ' ' << st.guard.rem;
  }
  if (st.mode != Mode::kGrad) out << " mode " << NameIn(kModes, st.mode);
  if (st.worker_every > 0) out << " worker " << st.worker_every;
  if (st.loop >= 0) out << " loop " << st.loop;
  out << '\n';
}

// The words of one line, read one after the other.
class Line {
 public:
  Line(std::string_view text, int number) : number_(number) {
    std::istringstream in{std::string(text.substr(0, text.find('#')))};
    words_.assign(std::istream_iterator<std::string>(in), {});
  }

  bool is_empty() const { return next_ == words_.size(); }
  const std::string& Word() {
    TORCH_CHECK(!is_empty(), "line ", number_, ": a word is missing behind ",
                words_.empty() ? "nothing" : words_.back());
    return words_[next_++];
  }
  // The index of the next word in `names`.
  std::size_t One(const Names& names) {
    const std::string& word = Word();
    const auto found = std::find(names.begin(), names.end(), word);
    TORCH_CHECK(found != names.end(), "line ", number_, ": ", word,
                " is none of ", c10::Join(" ", names));
    return static_cast<std::size_t>(found - names.begin());
  }
  double Double() {
    const std::string& word = Word();
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    TORCH_CHECK(*end == '\0', "line ", number_, ": ", word, " is no number");
    return value;
  }
  template <typename T>
  T Int() {
    const std::string& word = Word();
    char* end = nullptr;
    const long long value = std::strtoll(word.c_str(), &end, 10);
    TORCH_CHECK(*end == '\0', "line ", number_, ": ", word, " is no integer");
    return static_cast<T>(value);
  }
  bool IsNumberNext() const {
    if (is_empty()) return false;
    char* end = nullptr;
    std::strtod(words_[next_].c_str(), &end);
    return *end == '\0';
  }
  template <typename T>
  std::vector<T> Ints() {
    std::vector<T> all;
    while (IsNumberNext()) all.push_back(Int<T>());
    return all;
  }

 private:
  const int number_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

ScalarExpr ParseScalar(Line& line, bool is_int) {
  ScalarExpr e;
  e.is_int = is_int;
  e.kind = static_cast<ScalarExpr::Kind>(line.One(kScalarKinds));
  e.a = line.Double();
  e.b = line.Double();
  e.period = line.Int<std::int64_t>();
  while (line.IsNumberNext()) e.cycle.push_back(line.Double());
  TORCH_CHECK(e.kind != ScalarExpr::Kind::kCycle || !e.cycle.empty(),
              "a scalar of kind cycle needs its values");
  TORCH_CHECK(e.kind != ScalarExpr::Kind::kDrawn || e.b >= 1,
              "a scalar of kind drawn needs values to draw from");
  return e;
}

Guard ParseGuard(Line& line) {
  Guard guard;
  guard.kind = static_cast<Guard::Kind>(line.One(kGuardKinds));
  guard.mod = line.Int<std::int64_t>();
  guard.rem = line.Int<std::int64_t>();
  TORCH_CHECK(guard.mod != 0, "a guard divides by 0");
  return guard;
}

Statement ParseStatement(Line& line) {
  Statement st;
  st.op = OpIndex(line.Word());
  while (!line.is_empty()) {
    const std::string_view key = kKeys[line.One(kKeys)];
    if (key == "dst") st.dst = line.Ints<int>();
    if (key == "args") st.args = line.Ints<int>();
    if (key == "ints") st.ints = line.Ints<std::int64_t>();
    if (key == "scalar" || key == "iscalar") {
      st.scalars.push_back(ParseScalar(line, key == "iscalar"));
    }
    if (key == "guard") st.guard = ParseGuard(line);
    if (key == "mode") st.mode = static_cast<Mode>(line.One(kModes));
    if (key == "worker") st.worker_every = line.Int<std::int64_t>();
    if (key == "loop") st.loop = line.Int<int>();
  }
  return st;
}

void ParseLine(Line& line, Program& program) {
  static const Names kWords = {
      "program", "seed",   "family",        "iterations", "vars",
      "regs",    "scoped", "marks",         "read",       "threads",
      "setup",   "body",   "snapshot_every", "loop"};
  const std::string_view word = kWords[line.One(kWords)];
  if (word == "program") {
    TORCH_CHECK(line.Int<int>() == 1, "the format of programs is 1");
  }
  if (word == "seed") program.seed = line.Int<std::uint64_t>();
  if (word == "family") program.family = line.Int<int>();
  if (word == "iterations") program.iterations = line.Int<int>();
  if (word == "vars") program.num_vars = line.Int<int>();
  if (word == "regs") program.num_regs = line.Int<int>();
  if (word == "scoped") program.scoped = line.Ints<int>();
  if (word == "snapshot_every") program.snapshot_every = line.Int<int>();
  if (word == "marks") {
    const std::string_view where = kMarks[line.One(kMarks)];
    program.mark_step = where != "none";
    program.mark_in_scope = where != "end";
  }
  if (word == "read") {
    program.read_mode = static_cast<ReadMode>(line.One(kReadModes));
  }
  if (word == "threads") {
    program.concurrent = line.Int<int>() == 2;
    program.shared_vars = line.Int<int>();
    program.shared_setup = line.Int<int>();
  }
  if (word == "loop") {
    program.loops.push_back(ParseScalar(line, /*is_int=*/true));
  }
  if (word == "setup") program.setup.push_back(ParseStatement(line));
  if (word == "body") program.body.push_back(ParseStatement(line));
  TORCH_CHECK(line.is_empty(), "too many words behind ", word);
}

void CheckRange(const std::vector<int>& ids, int end, std::string_view what) {
  for (const int id : ids) {
    TORCH_CHECK(id >= 0 && id < end, what, id, " is not below ", end);
  }
}

void Check(const Program& program) {
  CheckRange(program.scoped, program.num_vars, "v");
  for (const auto* part : {&program.setup, &program.body}) {
    for (const Statement& st : *part) {
      CheckRange(st.dst, program.num_vars, "v");
      CheckRange(st.args, program.num_vars, "v");
      TORCH_CHECK(st.loop < std::ssize(program.loops), "there is no loop ",
                  st.loop);
      const OpSpec& spec = OpTable()[static_cast<std::size_t>(st.op)];
      TORCH_CHECK(static_cast<int>(st.dst.size()) == spec.num_dst, spec.name,
                  " binds ", spec.num_dst, " variables");
    }
  }
  TORCH_CHECK(program.iterations > 0, "a program needs iterations");
}

}  // namespace

std::string Format(const Program& program) {
  std::ostringstream out;
  std::istringstream as_code(program.ToString());
  for (std::string line; std::getline(as_code, line);) {
    out << "# " << line << '\n';
  }
  out << "program 1\nseed " << program.seed << "\nfamily " << program.family
      << "\niterations " << program.iterations << "\nvars " << program.num_vars
      << "\nregs " << program.num_regs << '\n';
  out << "scoped";
  for (const int id : program.scoped) out << ' ' << id;
  const int marks = !program.mark_step ? 0 : program.mark_in_scope ? 1 : 2;
  out << "\nmarks " << NameIn(kMarks, marks) << "\nsnapshot_every "
      << program.snapshot_every << "\nread "
      << NameIn(kReadModes, program.read_mode) << '\n';
  if (program.concurrent) {
    out << "threads 2 " << program.shared_vars << ' ' << program.shared_setup
        << '\n';
  }
  for (const ScalarExpr& e : program.loops) {
    out << "loop";
    AppendWords(out, e);
    out << '\n';
  }
  for (const Statement& st : program.setup) Append(out, "setup", st);
  for (const Statement& st : program.body) Append(out, "body", st);
  return out.str();
}

Program ParseProgram(std::string_view text) {
  Program program;
  int number = 0;
  bool has_format = false;
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t end = std::min(text.find('\n', pos), text.size());
    Line line(text.substr(pos, end - pos), ++number);
    pos = end + 1;
    if (line.is_empty()) continue;
    has_format = true;
    try {
      ParseLine(line, program);
    } catch (c10::Error& e) {
      e.add_context("line " + std::to_string(number) + " of a program");
      throw;
    }
  }
  TORCH_CHECK(has_format, "there is no program in this text");
  Check(program);
  return program;
}

Program ReadProgram(const std::string& path) {
  std::ifstream in(path);
  TORCH_CHECK(in.is_open(), "cannot read the program ", path);
  std::ostringstream text;
  text << in.rdbuf();
  return ParseProgram(text.str());
}

}  // namespace tjit::differential
