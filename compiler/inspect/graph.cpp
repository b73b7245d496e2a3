#include "compiler/inspect/graph.h"

#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/ir_text.h"

namespace tjit {
namespace {

using ir::ValueId;

std::string Id(ValueId value) { return absl::StrCat("%", value); }

const ir::Value& ValueOf(const ir::Function& f, ValueId id) {
  return f.values[static_cast<std::size_t>(id)];
}

GraphNodeKind KindOf(ir::Op op) {
  switch (InfoOf(op).family) {
    case ir::Family::kReduce:
    case ir::Family::kRow: return GraphNodeKind::kReduce;
    case ir::Family::kCall: return GraphNodeKind::kCall;
    default: return GraphNodeKind::kPointwise;
  }
}

class GraphBuilder {
 public:
  explicit GraphBuilder(const DumpedFunction& dumped)
      : dumped_(dumped), f_(dumped.function) {}

  Graph Run() {
    graph_.title = absl::StrCat(
        f_.name, dumped_.title.empty() ? "" : ": ", dumped_.title);
    for (ValueId id = 0; id < f_.externals; ++id) {
      maker_[id] = Add(GraphNodeKind::kExternal,
                       {"external " + Id(id), ToText(ValueOf(f_, id))},
                       Id(id));
    }
    for (const ir::Instruction& in : f_.body) AddInstruction(in);
    for (const ir::WriteBack& write : f_.writes) AddWrite(write);
    for (std::size_t i = 0; i < f_.returns.size(); ++i) {
      const std::string what = absl::StrCat("return ", i);
      const int node = Add(GraphNodeKind::kOut, {what}, what);
      graph_.edges.push_back({maker_.at(f_.returns[i]), node, ""});
    }
    return std::move(graph_);
  }

 private:
  int Add(GraphNodeKind kind, std::vector<std::string> lines,
          const std::string& named) {
    GraphNode node;
    node.kind = kind;
    const std::string name = dumped_.NameOf(named);
    if (!name.empty()) lines.push_back(name);
    node.full = absl::StrJoin(lines, " ");
    node.lines = std::move(lines);
    graph_.nodes.push_back(std::move(node));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }

  void AddInstruction(const ir::Instruction& in) {
    std::vector<std::string> lines = {
        in.op == ir::Op::kCall ? in.callee : InfoOf(in.op).name};
    std::vector<std::string> scalars;
    for (const ir::Operand& operand : in.operands) {
      if (!operand.is_tensor()) scalars.push_back(ToText(operand.scalar));
    }
    for (const int dim : in.dims) scalars.push_back(absl::StrCat("dim ", dim));
    if (!scalars.empty()) {
      absl::StrAppend(&lines[0], " (", absl::StrJoin(scalars, ", "), ")");
    }
    for (const ValueId id : in.results) {
      lines.push_back(absl::StrCat(Id(id), ": ", ToText(ValueOf(f_, id))));
    }
    const int node = Add(KindOf(in.op), std::move(lines), "");
    graph_.nodes.back().full = ir::Print(f_, in);
    for (const ir::Operand& operand : in.operands) AddEdge(operand, node);
    for (const ValueId id : in.results) maker_[id] = node;
  }

  void AddWrite(const ir::WriteBack& write) {
    std::string to = absl::StrCat("write ", Id(write.to.value));
    if (write.to.access != ValueOf(f_, write.to.value).layout) {
      to += ToText(write.to.access);
    }
    const int node =
        Add(GraphNodeKind::kOut, {std::move(to)}, Id(write.to.value));
    AddEdge(write.from, node);
  }

  void AddEdge(const ir::Operand& operand, int to) {
    if (!operand.is_tensor()) return;
    const bool as_it_lies =
        operand.access == ValueOf(f_, operand.value).layout;
    graph_.edges.push_back({maker_.at(operand.value), to,
                            as_it_lies ? "" : ToText(operand.access)});
  }

  const DumpedFunction& dumped_;
  const ir::Function& f_;
  std::map<ValueId, int> maker_;
  Graph graph_;
};

// Lines of a function and what is to stand behind each.
class Listing {
 public:
  explicit Listing(const DumpedFunction& dumped)
      : dumped_(dumped), f_(dumped.function) {}

  std::string Run() {
    FindReaders();
    std::istringstream lines(ir::Print(f_));
    std::vector<std::string> names;
    for (int i = 0; i < f_.symbols; ++i) Name(absl::StrCat("n", i), &names);
    Line(&lines, names);
    for (ValueId id = 0; id < f_.externals; ++id) ValueLine(&lines, {id});
    for (std::size_t i = 0; i < f_.scalars.size(); ++i) {
      const std::string name = dumped_.NameOf(absl::StrCat("$", i));
      Line(&lines, name.empty() ? std::vector<std::string>()
                                : std::vector<std::string>{name});
    }
    for (const ir::Instruction& in : f_.body) ValueLine(&lines, in.results);
    for (std::string rest; std::getline(lines, rest);) {
      absl::StrAppend(&text_, rest, "\n");
    }
    return std::move(text_);
  }

 private:
  void FindReaders() {
    for (const ir::Instruction& in : f_.body) {
      for (const ir::Operand& operand : in.operands) {
        if (!operand.is_tensor()) continue;
        Reader(operand.value,
               in.results.empty() ? "a call" : Id(in.results[0]));
      }
    }
    for (const ir::WriteBack& write : f_.writes) {
      if (!write.from.is_tensor()) continue;
      Reader(write.from.value,
             absl::StrCat("write ", Named(Id(write.to.value))));
    }
    for (std::size_t i = 0; i < f_.returns.size(); ++i) {
      Reader(f_.returns[i], Named(absl::StrCat("return ", i)));
    }
  }

  void Reader(ValueId value, const std::string& who) {
    std::vector<std::string>& readers = readers_[value];
    if (readers.empty() || readers.back() != who) readers.push_back(who);
  }

  // "%0 s3"
  std::string Named(const std::string& what) const {
    const std::string name = dumped_.NameOf(what);
    return name.empty() ? what : absl::StrCat(what, " ", name);
  }

  void Name(const std::string& what, std::vector<std::string>* notes) const {
    const std::string name = dumped_.NameOf(what);
    if (!name.empty()) notes->push_back(absl::StrCat(what, ": ", name));
  }

  void ValueLine(std::istringstream* lines, const std::vector<ValueId>& ids) {
    std::vector<std::string> notes;
    for (const ValueId id : ids) {
      const std::string name = dumped_.NameOf(Id(id));
      if (!name.empty() && f_.IsExternal(id)) notes.push_back(name);
      const auto found = readers_.find(id);
      notes.push_back(found == readers_.end()
                          ? "nobody reads it"
                          : "to " + absl::StrJoin(found->second, ", "));
    }
    Line(lines, notes);
  }

  void Line(std::istringstream* lines, const std::vector<std::string>& notes) {
    std::string line;
    std::getline(*lines, line);
    absl::StrAppend(&text_, line, notes.empty() ? "" : "  ; ",
                    absl::StrJoin(notes, "; "), "\n");
  }

  const DumpedFunction& dumped_;
  const ir::Function& f_;
  std::map<ValueId, std::vector<std::string>> readers_;
  std::string text_;
};

std::string Quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

const char* DotStyle(GraphNodeKind kind) {
  switch (kind) {
    case GraphNodeKind::kExternal: return "fillcolor=\"#e8e8e8\"";
    case GraphNodeKind::kPointwise: return "fillcolor=\"#dcebfa\"";
    case GraphNodeKind::kReduce: return "fillcolor=\"#fbe3c8\"";
    case GraphNodeKind::kCall: return "fillcolor=\"#f6d5d5\"";
    case GraphNodeKind::kOut: return "fillcolor=\"#d9f0d9\"";
  }
  return "";
}

}  // namespace

Graph GraphOf(const DumpedFunction& dumped) {
  return GraphBuilder(dumped).Run();
}

std::string ToListing(const DumpedFunction& dumped) {
  return Listing(dumped).Run();
}

std::string ToDot(const Graph& graph) {
  std::string text = absl::StrCat("digraph \"", Quoted(graph.title), "\" {\n",
                                  "  label=\"", Quoted(graph.title), "\"\n",
                                  "  node [shape=box, style=filled, "
                                  "fontname=monospace]\n");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    absl::StrAppend(&text, "  v", i, " [label=\"");
    for (std::size_t l = 0; l < node.lines.size(); ++l) {
      absl::StrAppend(&text, l == 0 ? "" : "\\n", Quoted(node.lines[l]));
    }
    absl::StrAppend(&text, "\", ", DotStyle(node.kind), "]\n");
  }
  for (const GraphEdge& edge : graph.edges) {
    absl::StrAppend(&text, "  v", edge.from, " -> v", edge.to);
    if (!edge.label.empty()) {
      absl::StrAppend(&text, " [label=\"", Quoted(edge.label), "\"]");
    }
    text += "\n";
  }
  return text + "}\n";
}

}  // namespace tjit
