"""The measures that keep the house in order, taken of the sources themselves.

Folders: support/ recorder/ compiler/ runtime/ tools/. What is measured:
  cycle     Units that include one another in a circle: at most 2. A unit is
            X.h with X.cpp (or X.def); the name is the first of them.
  methods   Member functions that the body of a class, struct or union declares:
            at most 40. Constructors, the destructor, operators, templates and
            defaulted functions count, each overload by itself; deleted ones,
            friends and what a nested class declares do not.
  function  Lines of a function's definition, from its return type to its
            closing brace: at most 80. A lambda is part of the function around
            it. Tables are exempt: a body that is one switch, one array or one
            list of macros whose rows have one line each.
  header    Lines of a .h file: less than 300.
  entries   Files and folders at the top of runtime/: at most 20.

The parser knows comments, literals, the preprocessor and braces, and no more of
C++: of #if, #elif and #else it reads the first branch, macros it does not expand.

tests/house_exceptions.txt lists what is beyond a measure, one "kind name value"
a line. A value that grew fails, and so does a line that is no longer needed: the
list only gets shorter.

Before it measures, the test plants one offence of each kind and expects each of
them to be found.

Usage: house_test.py PROJECT_FOLDER [--list]
--list prints all that is beyond a measure, in the form of the exceptions.
"""
import bisect
import collections
import pathlib
import re
import sys
import tempfile

FOLDERS = ("support", "recorder", "compiler", "runtime", "tools")
EXCEPTIONS = "tests/house_exceptions.txt"
# kind: the largest value that is in order, and what the value counts.
LIMITS = {
    "cycle": (2, "units include one another"),
    "methods": (40, "methods"),
    "function": (80, "lines of a function"),
    "header": (299, "lines of a header"),
    "entries": (20, "entries at its top"),
}


# --- reading C++ --------------------------------------------------------------

LITERALS = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*            # comments
      | /\*.*?\*/
      | \bR"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"   # raw strings
      | "(?:[^"\\\n]|\\.|\\\n)*"          # strings
      | (?<![0-9a-zA-Z_])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'   # characters
    """, re.X | re.S)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)


def blank(text):
    """`text` with spaces for all but its line ends."""
    return re.sub(r"[^\n]", " ", text)


def code_of(text):
    """What is code in `text`: comments, literals, directives and the branches
    behind #elif and #else are blank, each line stays where it is. A literal
    keeps its quotes."""
    def literal(match):
        found = match.group()
        if found.startswith("/"):
            return blank(found)
        return '"' + blank(found[1:-1]) + '"'

    text = LITERALS.sub(literal, text)
    parts, depth, skipped, end = [], 0, None, 0
    for match in DIRECTIVE.finditer(text):
        before = text[end:match.start()]
        parts.append(before if skipped is None else blank(before))
        parts.append(blank(match.group()))
        end = match.end()
        name = match.group(1)
        if name in ("if", "ifdef", "ifndef"):
            depth += 1
        elif name in ("elif", "else") and skipped is None:
            skipped = depth
        elif name == "endif":
            if skipped == depth:
                skipped = None
            depth -= 1
    parts.append(text[end:])
    return "".join(parts)


def without(text, opening, closing):
    """`text` without what stands between the brackets, them included."""
    kept, depth = [], 0
    for i, char in enumerate(text):
        if char == opening:
            depth += 1
        elif char == closing and depth and text[i - 1:i + 1] != "->":
            depth -= 1
        elif not depth:
            kept.append(char)
    return "".join(kept)


# What may stand in front of a name and looks like a call.
DECORATION = re.compile(
    r"\[\[.*?\]\]|\b(?:alignas|decltype|explicit|noexcept|requires"
    r"|__attribute__|[A-Z][A-Z0-9]*_[A-Z0-9_]+)\s*\((?:[^()]|\([^()]*\))*\)",
    re.S)
CLASS = re.compile(
    r"^(?:typedef\s+|static\s+|constexpr\s+|const\s+|inline\s+)*"
    r"(?:class|struct|union)\b\s*((?:[\w:]+\s+)*?)([\w:]*)\s*"
    r"(?:final\s*)?(?::(?!:).*)?$", re.S)
LABEL = re.compile(r"^(?:\s*(?:public|protected|private)\s*:)+")
NO_FUNCTION = re.compile(
    r"^(?:friend|using|typedef|static_assert|enum|namespace|return)\b")


def plain_head(head):
    """The head of a declaration without what only decorates it."""
    head = LABEL.sub("", head.strip()).strip()
    head = DECORATION.sub(" ", head)
    while head.startswith("template"):
        rest = head[len("template"):].lstrip()
        depth = parens = 0
        for i, char in enumerate(rest):
            parens += (char == "(") - (char == ")")
            if not parens:
                depth += (char == "<") - (char == ">" and rest[i - 1] != "-")
                if not depth:
                    break
        head = rest[i + 1:].strip()
    return head


def function_name(head):
    """The name of the function that a plain head declares, else None."""
    if NO_FUNCTION.match(head):
        return None
    found = re.search(r"((?:[\w~]+\s*(?:<[^()]*>)?\s*::\s*)*)operator\s*"
                      r"(\(\s*\)|[^(]+)\s*\(", head)
    if found:
        return found.group(1).replace(" ", "") + "operator" + \
            re.sub(r"\s+", " ", found.group(2)).strip()
    outside = without(head, "<", ">")
    found = re.match(r"[^(=]*?((?:[\w]+\s*::\s*)*~?\w+)\s*\(\s*(?![*&]|\w+::\*)",
                     outside, re.S)
    return re.sub(r"\s", "", found.group(1)) if found else None


class Scope:
    """One pair of braces. kind: namespace, class, function, or other."""

    def __init__(self, kind, name="", line=0, start=0):
        self.kind, self.name, self.line, self.start = kind, name, line, start
        self.methods = 0


def kind_of_brace(head, scope):
    """What an opening brace behind `head` begins: a kind and a name."""
    plain = plain_head(head)
    if re.match(r"^(?:inline\s+)?namespace\b|^extern\s*\"\s*\"$", plain):
        return "namespace", ""
    found = CLASS.match(plain)
    if found:
        return "class", found.group(2)
    if scope.kind == "function":
        return "block", ""
    name = function_name(plain)
    if name is None or re.match(r"^enum\b", plain):
        return "value", ""
    # Behind the parameters of a constructor, `member{...}` is its initialiser.
    outside = without(without(plain, "<", ">"), "(", ")")
    if re.search(r"[^:]:[^:]", outside) and re.search(r"[\w>]\s*$", plain):
        return "value", ""
    return "function", name


def scan(code):
    """Yields ("methods" | "function", name, value, body) of stripped code."""
    root = Scope("namespace")
    stack, head_start, parens = [root], 0, 0
    lines = [0] + [match.end() for match in re.finditer(r"\n", code)]

    def line_of(at):
        return bisect.bisect_right(lines, at)

    def qualified(name):
        outer = [s.name for s in stack if s.kind == "class" and s.name]
        return "::".join(outer + [name])

    saved = []
    for i, char in enumerate(code):
        scope = stack[-1]
        if char == "(":
            parens += 1
        elif char == ")":
            parens -= 1
        elif char == "{":
            if parens or scope.kind == "value":
                kind, name = "value", ""
            else:
                kind, name = kind_of_brace(code[head_start:i], scope)
            if scope.kind in ("function", "block") and kind == "value":
                kind = "block"
            start = head_start
            if kind == "function":
                if scope.kind == "class":
                    scope.methods += 1
                gap = LABEL.match(code[start:i].lstrip())
                start += len(code[start:i]) - len(code[start:i].lstrip())
                if gap:
                    start += gap.end()
                    start += len(code[start:i]) - len(code[start:i].lstrip())
            new = Scope(kind, qualified(name) if kind == "function" else name,
                        line_of(start), i + 1)
            stack.append(new)
            saved.append((head_start, parens))
            head_start, parens = i + 1, 0
        elif char == "}":
            if len(stack) == 1:
                raise ValueError(f"line {line_of(i)}: one brace too many")
            closed = stack.pop()
            outer_head, parens = saved.pop()
            if closed.kind == "function":
                yield ("function", closed.name,
                       line_of(i) - closed.line + 1, code[closed.start:i])
            if closed.kind == "class" and closed.name:
                yield "methods", qualified(closed.name), closed.methods, ""
            # Behind a value or a nested class the declaration goes on.
            head_start = outer_head if closed.kind == "value" else i + 1
        elif char == ";" and not parens:
            if scope.kind == "class":
                head = plain_head(without(code[head_start:i], "{", "}"))
                deleted = re.search(r"=\s*delete\s*$", head)
                if not deleted and function_name(head) is not None:
                    scope.methods += 1
            head_start = i + 1
    if len(stack) > 1:
        raise ValueError(f"line {stack[-1].line}: a brace is not closed")


CASE = r"(?:case\b[^;{}]*|default\s*):"
ROW_OF_SWITCH = re.compile(
    rf"^(?:(?:{CASE}\s*)*[^;{{}}]*;?|{CASE}.*|break;|\}})$")
ROW_OF_TABLE = re.compile(r"^\{.*\},?$|^[\w:.\"'<>()+\-*, ]+,?$")
ROW_OF_MACROS = re.compile(r"^[A-Z][A-Z0-9_]*\(.*\)[,;]?$")


def is_table(body):
    """True for one switch, one array or one list of macros, whose rows have one
    line each, with at most six lines around it."""
    lines = [line.strip() for line in body.split("\n") if line.strip()]
    for opening, row in ((r"^switch \(.*\) \{$", ROW_OF_SWITCH),
                         (r"^[^()]*= ?\{\{?$|^return \{\{?$", ROW_OF_TABLE),
                         (r"^[A-Z][A-Z0-9_]*\(", ROW_OF_MACROS)):
        begin = next((i for i, line in enumerate(lines)
                      if re.match(opening, line)), None)
        if begin is None:
            continue
        end = begin + 1
        while end < len(lines) and row.match(lines[end]):
            end += 1
        if len(lines) - (end - begin) <= 6:
            return True
    return False


# --- measuring ----------------------------------------------------------------

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(tjit/[^>]+)>)',
                     re.M)


def circles(edges):
    """The strongly connected components of a graph (Tarjan), as sets."""
    index, low, on_path, path, found = {}, {}, set(), [], []
    for first in sorted(edges):
        if first in index:
            continue
        work = [(first, iter(sorted(edges[first])))]
        index[first] = low[first] = len(index)
        path.append(first)
        on_path.add(first)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    path.append(other)
                    on_path.add(other)
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on_path:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set()
                    while node not in component:
                        component.add(path.pop())
                    on_path -= component
                    found.append(component)
    return found


def unit_of(path):
    """`path` without its ending: X.h, X.cpp and X.def are one unit."""
    return re.sub(r"\.\w+$", "", path)


def measure(root):
    """{(kind, name): value} of all that has a measure."""
    values = collections.defaultdict(int)
    edges = collections.defaultdict(set)
    files = sorted(path for folder in FOLDERS
                   for path in (root / folder).rglob("*")
                   if path.suffix in (".h", ".cpp", ".def"))
    known = {path.relative_to(root).as_posix() for path in files}
    for path in files:
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        for local, public in INCLUDE.findall(text):
            other = local or "runtime/include/" + public
            if other in known and unit_of(other) != unit_of(name):
                edges[unit_of(name)].add(unit_of(other))
        if path.suffix == ".def":
            continue
        if path.suffix == ".h":
            values["header", name] = text.count("\n")
        try:
            for kind, what, value, body in scan(code_of(text)):
                if kind == "function" and value > LIMITS[kind][0] and \
                        is_table(body):
                    continue
                values[kind, what] = max(values[kind, what], value)
        except ValueError as error:
            raise SystemExit(f"house_test cannot read {name}: {error}")
    for circle in circles(edges):
        values["cycle", min(circle)] = len(circle)
    if (root / "runtime").is_dir():
        values["entries", "runtime/"] = sum(
            1 for path in (root / "runtime").iterdir()
            if path.name != "__pycache__")
    return values


def beyond(values):
    """Those of `values` that are beyond their measure."""
    return {key: value for key, value in values.items()
            if value > LIMITS[key[0]][0]}


def complaints(values, listed):
    """What is wrong, a sentence each, given what the exceptions list."""
    found = []
    over = beyond(values)
    for (kind, name), value in sorted(over.items()):
        most, what = LIMITS[kind]
        allowed = listed.get((kind, name))
        if allowed is None:
            found.append(f"{name}: {value} {what}, at most {most}")
        elif value > allowed:
            found.append(f"{name}: {value} {what}, and {EXCEPTIONS} says "
                         f"{allowed}: it only gets smaller")
    for kind, name in sorted(listed):
        if (kind, name) not in over:
            found.append(f"'{kind} {name}' is in order: take it out of "
                         f"{EXCEPTIONS}")
    return found


def read_exceptions(text):
    listed = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split()
        if len(fields) < 3 or fields[0] not in LIMITS or \
                not fields[-1].isdigit():
            raise SystemExit(f"{EXCEPTIONS}: not 'kind name value': {line}")
        key = fields[0], " ".join(fields[1:-1])
        if key in listed:
            raise SystemExit(f"{EXCEPTIONS}: twice: {line}")
        listed[key] = int(fields[-1])
    return listed


# --- testing itself -----------------------------------------------------------

CLASS_OF_40 = """#pragma once
template <class T, int n = (3 > 2)>
class alignas(64) ABSL_LOCKABLE Large final : public Base<T> {
 public:
  explicit Large(int a) : a_{a}, b_(std::vector<int>{1, 2}) { Call({}); }
  Large(const Large&) = delete;
  Large& operator=(const Large&) = default;
  ~Large();
  bool operator()(int) const { return b_ < 3; }
  explicit operator bool() const;
  [[nodiscard]] std::map<int, std::function<void(int)>> Map(int a = F(1));
  template <class U> auto Get(U u) -> std::vector<U>;
  virtual void Pure() = 0;
  struct Inner { void A(); void B() {} int c = F(3); } inner_;
  friend class Other;
  friend void Swap(Large&, Large&);
  using Function = void (*)(int);
  void (*pointer_)(int) = nullptr;
  std::function<void(int)> function_;
  std::array<int, static_cast<int>(3)> array_{};
  int value_ ABSL_GUARDED_BY(mutex_) = F(2);
  static_assert(sizeof(int) == 4);
  enum class Kind : int { kA, kB };
  // void Commented();
%s
 private:
  int a_;
};
"""


def planted(files):
    """What is beyond its measure in a tree of these files."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return beyond(measure(root))


def class_of(methods):
    # 8 of them stand in CLASS_OF_40.
    more = [f"  void F{i}();" for i in range(methods - 8)]
    return CLASS_OF_40 % "\n".join(more)


def function_of(lines, row="  Call();"):
    rows = [row] * (lines - 2)
    return "int Long(int a) {\n" + "\n".join(rows) + "\n}\n"


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"house_test does not see {what}: {got}, not {wanted}")


def test_itself():
    expect("a cycle", planted({
        "support/a.h": '#include "recorder/b.h"\n',
        "support/a.cpp": '#include "support/a.h"\n',
        "recorder/b.cpp": '#  include "tools/c.h"\n',
        "recorder/b.h": "",
        "tools/c.h": '#include "support/a.h"\n'}),
        {("cycle", "recorder/b"): 3})
    expect("two units", planted({
        "support/a.h": '#include "support/b.h"\n',
        "support/b.cpp": '#include "support/a.h"\n', "support/b.h": ""}), {})
    expect("41 methods", planted({"support/a.h": class_of(41)}),
           {("methods", "Large"): 41})
    expect("40 methods", planted({"support/a.h": class_of(40)}), {})
    expect("81 lines", planted({
        "tools/a.cpp": "namespace {\n" + function_of(81) + "}\n"}),
        {("function", "Long"): 81})
    expect("80 lines", planted({
        "tools/a.cpp": "namespace {\n// Text: {\n" + function_of(80) + "}\n"}),
        {})
    expect("a method of 90 lines", planted({
        "tools/a.cpp": "template <class T>\nT A<T>::Long(int a) const\n"
        "    : a_{1} {\n" + "\n" * 86 + "}\n"}),
        {("function", "A::Long"): 89 + 1})
    expect("a lambda", planted({
        "tools/a.cpp": function_of(90, "  Go([](int a) { return A{a}; });")}),
        {("function", "Long"): 90})
    expect("a constructor", planted({
        "tools/a.cpp": "A::A(int a)\n    : a_{a},\n      b_{a} {\n"
        + "  Go('{', \"}\", R\"(}\"})\");\n" * 80 + "}\n"}),
        {("function", "A::A"): 84})
    expect("a switch", planted({
        "tools/a.cpp": "int A(int a) {\n  switch (a) {\n"
        + "    case F(1): return 2;\n" * 90 + "  }\n  return 0;\n}\n"}), {})
    expect("a table", planted({
        "tools/a.cpp": "int A(int a) {\n  static const int kRows[] = {\n"
        + "    {1, F(2), {}},\n" * 90 + "  };\n  return kRows[a];\n}\n"}), {})
    expect("a list", planted({
        "tools/a.cpp": "int A(int a) {\n" + "  ROW(1)\n" * 90 + "}\n"}), {})
    expect("a header", planted({"compiler/a.h": "\n" * 300}),
           {("header", "compiler/a.h"): 300})
    expect("299 lines", planted({"compiler/a.h": "\n" * 299,
                                 "compiler/a.def": "\n" * 999}), {})
    expect("21 entries", planted({f"runtime/{i}/a.h": "" for i in range(21)}),
           {("entries", "runtime/"): 21})
    expect("branches", planted({
        "tools/a.cpp": "#if A\nvoid F() {\n#else\nvoid G() {\n#endif\n}\n"}), {})
    values = {("methods", "Large"): 50, ("header", "a.h"): 20}
    expect("what is listed", complaints(values, {("methods", "Large"): 50}), [])
    expect("what is not", len(complaints(values, {})), 1)
    expect("what grew", len(complaints(values, {("methods", "Large"): 49})), 1)
    expect("what is in order", len(complaints(
        values, {("methods", "Large"): 50, ("header", "a.h"): 300})), 1)


def main():
    root = pathlib.Path(sys.argv[1])
    test_itself()
    values = measure(root)
    if "--list" in sys.argv:
        for (kind, name), value in sorted(beyond(values).items()):
            print(kind, name, value)
        return 0
    kinds = collections.Counter(kind for kind, _ in values)
    if min(kinds["function"] / 1000, kinds["methods"] / 100,
           kinds["header"] / 100, kinds["cycle"] / 100) < 1:
        raise SystemExit(f"house_test saw too little in {root}: {dict(kinds)}")
    listed = read_exceptions((root / EXCEPTIONS).read_text())
    found = complaints(values, listed)
    print("\n".join(found) if found else
          f"the house is in order but for {len(listed)} exceptions: "
          f"{kinds['function']} functions, {kinds['methods']} classes, "
          f"{kinds['header']} headers")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
