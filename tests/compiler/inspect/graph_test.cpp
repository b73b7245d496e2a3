// Functions as text, DOT and SVG: blessed files under tests/filetests/graph/,
// what a layout must keep to, and the reader of dumps.
#include "compiler/inspect/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/inspect/dump_reader.h"
#include "compiler/inspect/graph_layout.h"
#include "compiler/ir/ir_text.h"
#include "support/env.h"
#include "tests/compiler/ir/ir_random.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kFolder[] = TJIT_FILETESTS "/graph/";

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<DumpedFunction> Functions(const std::string& text) {
  std::vector<DumpedFunction> functions;
  std::string error;
  EXPECT_TRUE(ReadFunctions(text, &functions, &error)) << error;
  return functions;
}

std::string ErrorOf(const std::string& text) {
  std::vector<DumpedFunction> functions;
  std::string error;
  EXPECT_FALSE(ReadFunctions(text, &functions, &error));
  return error;
}

DumpedFunction Step() {
  return Functions(ReadText(std::string(kFolder) + "step.dump")).at(0);
}

void ExpectFile(const std::string& name, const std::string& text) {
  const std::string path = kFolder + name;
  if (Environment().bless) {
    std::ofstream(path) << text;
    return;
  }
  EXPECT_EQ(text, ReadText(path))
      << path << ": run with TJIT_BLESS=1, and look at what changed";
}

TEST(GraphTest, TextNamesValuesAndReaders) {
  ExpectFile("step.txt", ToListing(Step()));
}
TEST(GraphTest, Dot) { ExpectFile("step.dot", ToDot(GraphOf(Step()))); }
TEST(GraphTest, Svg) { ExpectFile("step.svg", ToSvg(GraphOf(Step()))); }

TEST(GraphTest, TextParsesBack) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    DumpedFunction f;
    f.function = ir::RandomFunction(seed);
    ir::Function again;
    std::string error;
    ASSERT_TRUE(ir::Parse(ToListing(f), &again, &error)) << error;
    EXPECT_EQ(ir::Print(again), ir::Print(f.function));
  }
}

bool Overlap(const GraphBox& a, const GraphBox& b) {
  return a.at.x < b.at.x + b.width && b.at.x < a.at.x + a.width &&
         a.at.y < b.at.y + b.height && b.at.y < a.at.y + a.height;
}

TEST(GraphTest, BoxesDoNotOverlapAndEdgesRunDown) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    DumpedFunction f;
    f.function = ir::RandomFunction(seed);
    const Graph graph = GraphOf(f);
    const GraphLayout layout = LayOut(graph);
    ASSERT_EQ(layout.boxes.size(), graph.nodes.size());
    ASSERT_EQ(layout.routes.size(), graph.edges.size());
    for (std::size_t i = 0; i < layout.boxes.size(); ++i) {
      const GraphBox& box = layout.boxes[i];
      EXPECT_TRUE(box.at.x >= 0 && box.at.x + box.width <= layout.width);
      EXPECT_TRUE(box.at.y >= 0 && box.at.y + box.height <= layout.height);
      for (std::size_t k = 0; k < i; ++k) {
        EXPECT_FALSE(Overlap(box, layout.boxes[k])) << i << " " << k;
      }
    }
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      const auto& route = layout.routes[e];
      for (std::size_t p = 1; p < route.size(); ++p) {
        EXPECT_LE(route[p - 1].y, route[p].y);
      }
    }
  }
}

TEST(GraphTest, AnEdgeForEveryOperandThatIsATensor) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    DumpedFunction f;
    f.function = ir::RandomFunction(seed);
    std::size_t edges = f.function.returns.size();
    for (const ir::Instruction& in : f.function.body) {
      for (const ir::Operand& o : in.operands) edges += o.is_tensor() ? 1 : 0;
    }
    for (const ir::WriteBack& w : f.function.writes) {
      edges += w.from.is_tensor() ? 1 : 0;
    }
    EXPECT_THAT(GraphOf(f).edges, SizeIs(edges));
  }
}

TEST(DumpReaderTest, NamesHoldInTheirGroupOnly) {
  const auto functions = Functions(
      "noise\n; ==== segment 1 trace\n  s0: external 4 bytes\n"
      "; ==== segment 1 group 1 lowered\n; name %0 = s0\n"
      "func f() {\n  external %0: f32[1]\n}\nmore noise\n"
      "; ==== segment 1 group 1 pass fold\n(unchanged)\n"
      "; ==== segment 1 group 1 final\nfunc g() {\n  external %0: f32[1]\n}\n"
      "; ==== segment 1 group 12 lowered\nfunc h() {\n}\n");
  ASSERT_THAT(functions, SizeIs(3));
  EXPECT_EQ(functions[0].title, "segment 1 group 1 lowered");
  EXPECT_EQ(functions[0].NameOf("%0"), "s0");
  EXPECT_EQ(functions[1].NameOf("%0"), "s0");
  EXPECT_EQ(functions[2].NameOf("%0"), "");
}

TEST(DumpReaderTest, ErrorsNameTheLineInTheFile) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("1:1: "));
  EXPECT_THAT(ErrorOf("\n\nfunk f() {\n}\n"), HasSubstr("3:1: "));
  EXPECT_THAT(ErrorOf("func f() {\n  %0 = ad f32[1]\n}\n"),
              HasSubstr("2:8: there is no op 'ad'"));
  EXPECT_THAT(ErrorOf("; ==== segment 1 group 1 final\nfunc f() {\n"
                      "  external %0: f33[1]\n}\n"),
              HasSubstr("3:16: there is no dtype 'f33'"));
  EXPECT_THAT(ErrorOf("; ==== segment 1 trace\n  s0: external 4 bytes\n"),
              HasSubstr("a dump without a function"));
  EXPECT_THAT(ErrorOf("; ==== segment 1 group 1 final\nfunc f() {\n"),
              HasSubstr("3:1: "));
}

TEST(DumpReaderTest, FilesOfIrAreRead) {
  const auto functions = Functions(
      "; test parse\nfunc f() {\n  external %0: f32[1]\n}\n"
      "; ==== output\n; func f() {\n; }\n");
  ASSERT_THAT(functions, SizeIs(1));
  EXPECT_EQ(functions[0].title, "");
  EXPECT_EQ(functions[0].function.externals, 1);
}

}  // namespace
}  // namespace tjit
