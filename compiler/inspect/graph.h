// A function as a graph, for people: as text with names, DOT and SVG.
//
// Nodes are externals, instructions, write-backs and returned values; an edge
// goes from a value to who reads it, with the access if it is not as it lies.
// The SVG is laid out here (graph_layout.h); DOT leaves that to Graphviz.
// The same function gives the same text.
// Tested by: tests/compiler/inspect/graph_test.cpp,
// tests/acceptance/dump_test.py
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/inspect/dump_reader.h"

namespace tjit {

enum class GraphNodeKind : std::uint8_t {
  kExternal,
  kPointwise,  // and everything else that is no reduction and no call
  kReduce,     // reduce and row ops
  kCall,
  kOut,  // write-backs, returned values
};

struct GraphNode {
  GraphNodeKind kind = GraphNodeKind::kPointwise;
  std::vector<std::string> lines;  // what the box says
  std::string full;                // the whole instruction
};

struct GraphEdge {
  int from = 0, to = 0;
  std::string label;
};

struct Graph {
  std::string title;
  std::vector<GraphNode> nodes;  // each behind those it reads
  std::vector<GraphEdge> edges;
};

Graph GraphOf(const DumpedFunction& dumped);

// The function, with names and readers as comments: parses back.
std::string ToListing(const DumpedFunction& dumped);
std::string ToDot(const Graph& graph);
std::string ToSvg(const Graph& graph);

}  // namespace tjit
