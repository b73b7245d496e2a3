#include "absl/strings/str_cat.h"
#include "compiler/inspect/graph.h"
#include "compiler/inspect/graph_layout.h"

namespace tjit {
namespace {

constexpr int kLabelHeight = 10, kLabelRows = 3;

constexpr char kStyle[] =
    "<style>\n"
    "text { font: 12px monospace; text-anchor: middle; }\n"
    "rect { stroke: #555; fill: #dcebfa; }\n"
    ".external { fill: #e8e8e8; } .reduce { fill: #fbe3c8; }\n"
    ".call { fill: #f6d5d5; } .out { fill: #d9f0d9; }\n"
    "path { stroke: #888; fill: none; marker-end: url(#tip); }\n"
    ".access { font-size: 10px; fill: #a04000; }\n"
    "</style>\n"
    "<marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
    "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
    "<polygon points=\"0,0 8,4 0,8\" fill=\"#888\"/></marker>\n";

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

const char* ClassOf(GraphNodeKind kind) {
  switch (kind) {
    case GraphNodeKind::kExternal: return "external";
    case GraphNodeKind::kPointwise: return "pointwise";
    case GraphNodeKind::kReduce: return "reduce";
    case GraphNodeKind::kCall: return "call";
    case GraphNodeKind::kOut: return "out";
  }
  return "";
}

// `row`: of its label, so that labels at one box do not cover each other.
void AddEdge(const GraphEdge& edge, const std::vector<GraphPoint>& points,
             int row, std::string* text) {
  absl::StrAppend(text, "<path d=\"M", points[0].x, ",", points[0].y);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const GraphPoint &a = points[i - 1], &b = points[i];
    const int middle = (a.y + b.y) / 2;
    absl::StrAppend(text, " C", a.x, ",", middle, " ", b.x, ",", middle, " ");
    absl::StrAppend(text, b.x, ",", b.y);
  }
  text->append("\"/>\n");
  if (edge.label.empty()) return;
  // Beside the tip.
  const GraphPoint &a = points[points.size() - 2], &b = points.back();
  absl::StrAppend(text, "<text class=\"access\" x=\"", (a.x + 3 * b.x) / 4,
                  "\" y=\"", b.y - 8 - row * kLabelHeight, "\">", Escaped(edge.label), "</text>\n");
}

void AddNode(const GraphNode& node, const GraphBox& box, std::string* text) {
  absl::StrAppend(text, "<g><title>", Escaped(node.full), "</title><rect ");
  absl::StrAppend(text, "class=\"", ClassOf(node.kind), "\" x=\"", box.at.x,
                  "\" y=\"", box.at.y, "\" ");
  absl::StrAppend(text, "width=\"", box.width, "\" height=\"", box.height,
                  "\" rx=\"4\"/>");
  int y = box.at.y + 4;
  for (const std::string& line : node.lines) {
    y += kGraphLineHeight;
    absl::StrAppend(text, "<text x=\"", box.at.x + box.width / 2, "\" y=\"", y,
                    "\">", Escaped(line), "</text>");
  }
  text->append("</g>\n");
}

}  // namespace

std::string ToSvg(const Graph& graph) {
  const GraphLayout layout = LayOut(graph);
  std::string text = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", layout.width,
      "\" height=\"", layout.height, "\">\n");
  absl::StrAppend(&text, "<title>", Escaped(graph.title), "</title>\n", kStyle);
  std::vector<int> rows(graph.nodes.size());
  for (std::size_t i = 0; i < graph.edges.size(); ++i) {
    const GraphEdge& edge = graph.edges[i];
    int& row = rows[static_cast<std::size_t>(edge.to)];
    AddEdge(edge, layout.routes[i], row % kLabelRows, &text);
    if (!edge.label.empty()) ++row;
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    AddNode(graph.nodes[i], layout.boxes[i], &text);
  }
  return text + "</svg>\n";
}

}  // namespace tjit
