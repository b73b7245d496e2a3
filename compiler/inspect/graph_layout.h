// Where the boxes and lines of a graph go: layers by depth of dependence.
//
// A node lies one rank below the lowest it reads, an external just above its
// first reader. A line that crosses ranks bends at a point in each of them, so
// that it does not run through boxes. Within a rank the order is that of the
// mean place of what is read, swept down and up a few times.
// Source: Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of
// Hierarchical System Structures", 1981.
// Tested by: tests/compiler/inspect/graph_test.cpp
#pragma once

#include <vector>

#include "compiler/inspect/graph.h"

namespace tjit {

struct GraphPoint {
  int x = 0, y = 0;
};

struct GraphBox {
  GraphPoint at;  // top left
  int width = 0, height = 0;
};

struct GraphLayout {
  std::vector<GraphBox> boxes;                  // by node
  std::vector<std::vector<GraphPoint>> routes;  // by edge, from top to bottom
  int width = 0, height = 0;
};

inline constexpr int kGraphLineHeight = 16;
inline constexpr int kGraphTextWidth = 8;  // of one character

GraphLayout LayOut(const Graph& graph);

}  // namespace tjit
